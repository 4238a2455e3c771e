"""A cell under load: four schedulers, three agents with recorded tasks, and two witnesses that use it all the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from omega.cellstate.model import Job
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.live.processes.supervisor import ProcessSupervisor
from omega.schedulers.sharing import LEASE_MS
from tests.chaos.book import Account, Book
from tests.chaos.witnesses import Commits, Submissions
from tests.integration.stage import check, made_cell, serve, started_processes
from tests.server_groups import until

CELL = "default"
MEMBERS = (*(f"batch/{number}" for number in range(4)), *(f"agent/{name}" for name in "abc"))
SETTLED = 60.0
"""Maximum wait in seconds for what takes a few on an idle machine."""


@dataclass
class Load:
    """The cell at work. `url` is that of its store."""

    url: str
    cell: RedisCell
    processes: ProcessSupervisor
    book: Book
    client: Submissions
    commits: Commits

    def work(self, commits: int = 100) -> None:
        """Return when both witnesses had so many more commits, and some submissions, acknowledged."""
        placed, sent = len(self.commits.placed), len(self.client.acknowledged)
        until(lambda: len(self.commits.placed) > placed + commits and len(self.client.acknowledged) > sent + 3, SETTLED)

    def end(self) -> Account:
        """End the load, submit everything again, as the owners of jobs do, and compare the book with the log."""
        self.client.close()
        self.commits.close()
        with Client(self.url, CELL, user="ada") as client:
            client.submit(*self.client.jobs)
        until(lambda: not self._unfinished(), SETTLED)
        assert self.processes.dead() == {}, {each: self.processes.last_words(each) for each in self.processes.dead()}
        check(self.cell)
        return self.book.compare(self.cell, self.client.jobs)

    def _unfinished(self) -> list[str]:
        names = [each.id for each in self.client.jobs]
        jobs = self.cell.jobs.by_id(names)
        return [name for name in names if not _ended(jobs.get(name))]

    def repeated(self) -> int:
        """Return how many tasks ran to their end more than once."""
        pages = [self.book.page(job.id, task) for job in self.client.jobs for task in range(job.total)]
        return sum(len(page.ends) > 1 for page in pages)


def _ended(job: Job | None) -> bool:
    return job is not None and not job.unplaced + job.placed


@contextmanager
def loaded(url: str, place: Path, seed: str, **settings: Any) -> Iterator[Load]:
    """Run the load on a store; `settings` are those of the cell."""
    book = Book.new(place / "book")
    with (
        made_cell(url, CELL, 1, keep_jobs=200_000, **settings) as cell,
        started_processes(cell, url, place / "logs", *MEMBERS, lease_ms=LEASE_MS) as processes,
    ):
        serve(cell)
        client = Submissions(url, CELL, book, Random(f"{seed}/submissions"))
        load = Load(url, cell, processes, book, client, Commits(url, CELL, 0))
        try:
            client.start()
            load.commits.start()
            yield load
        finally:
            client.stop()
            load.commits.stop()
