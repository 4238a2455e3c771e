"""A primary that lives and is cut off from its replicas and most Sentinels: both sides accept work, one of them wins.

On the old side are the primary, a Sentinel, a scheduler, an agent and a client, on the new side the others. See
docs/failover.md for what holds and what does not.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.durability import Durability
from omega.cellstate.errors import Refused
from omega.cellstate.model import JobSpec
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.live.agent.process_tree import processes
from omega.live.processes.supervisor import ProcessSupervisor
from tests.chaos.book import Book
from tests.chaos.partition import Partition, partition
from tests.chaos.witnesses import Acknowledged, Submissions
from tests.integration.stage import check, made_cell, started_processes, until
from tests.server_groups import until as until_answered

pytestmark = [pytest.mark.server, pytest.mark.chaos]
CELL = "default"
LEASE_MS = 1_500
AGENT_LEASE_SECONDS = 4 * LEASE_MS / 1000
LONG_SECONDS = 25.0
LAG_SECONDS, SLOW_SECONDS = 1, 3.0
"""The server's limit to the lag of its replicas, and what a busy machine may take longer."""
HEARD_SECONDS = 2.0
"""Time in which clients leave a server after their Sentinel names another: one second, and another if it is busy."""


@dataclass
class Sides:
    """Two sides of a divided store, each with a client that submits all the time."""

    net: Partition
    cell: RedisCell
    book: Book
    processes: list[ProcessSupervisor]
    old: Submissions
    new: Submissions
    long: JobSpec
    """A task that runs on the agent of the old side when the network is divided."""
    held: JobSpec
    """A job that is released on both sides afterwards."""
    times: dict[str, float] = field(default_factory=dict)
    """Times of the monotonic clock by what happened."""

    def divide(self) -> None:
        """Divide the network, and return when the new side has a primary."""
        self.net.divide()
        self._at("divided")
        self.net.promoted()
        self._at("promoted")

    def heal(self) -> None:
        """Heal the network, and return when all servers agree and both clients go on."""
        self._at("healed")
        self.net.heal()
        until_answered(lambda: self.net.named_by(self.net.sentinels[-1]) is not self.net.primary, 60)
        self._at("heard")
        until_answered(self.net.agreed, 60)
        self._at("agreed")
        for each in (self.old, self.new):
            until(lambda: each.acknowledged[-1].at > self.times["agreed"] + HEARD_SECONDS, "it goes on")  # noqa: B023
            each.close()

    def _at(self, what: str) -> None:
        self.times[what] = time.monotonic()

    def between(self, since: str, to: str = "healed") -> list[Acknowledged]:
        """Return what the old side acknowledged meanwhile."""
        return [each for each in self.old.acknowledged if self.times[since] < each.at < self.times[to]]

    def lost(self) -> list[Acknowledged]:
        """Return what was acknowledged to the clients and is missing."""
        known = [*self.old.acknowledged, *self.new.acknowledged]
        found = self.cell.jobs.by_id([each.job for each in known])
        return [each for each in known if each.job not in found]

    def end(self) -> set[str]:
        """Submit lost jobs again, wait for all, check everything; return the tasks whose executions overlapped."""
        jobs = [*self.old.jobs, *self.new.jobs, self.long, self.held]
        with Client(self.net.new_url, CELL, user="ada") as client:
            client.submit(*self.old.jobs, *self.new.jobs)
            with suppress(Refused):  # it was released before, and has ended
                client.release(self.held.id)
        ids = [job.id for job in jobs]

        def over() -> bool:
            found = self.cell.jobs.by_id(ids)
            return all(each in found and not found[each].unplaced + found[each].placed for each in ids)

        until(over, "all jobs end")
        assert [each.dead() for each in self.processes] == [{}, {}]
        lives = {member for member, (_, alive, _) in self.cell.schedulers.members().items() if alive}
        assert lives == {"batch/0", "batch/1"}
        check(self.cell)
        account = self.book.compare(self.cell, jobs)
        assert (account.doubled, account.invented, account.lost) == ((), (), ())
        return {each.partition(".")[0] for each in account.overlaps}

    def may_overlap(self) -> set[str]:
        """Return the jobs that the old side had when the network was divided."""
        known = (*self.old.acknowledged, *self.new.acknowledged)
        return {self.long.id, self.held.id, *(each.job for each in known if each.at < self.times["promoted"])}

    def told(self, name: str) -> None:
        """Print the times and losses."""
        lost, since = self.lost(), self.times["divided"]
        at = ", ".join(f"{what} {when - since:.1f} s" for what, when in self.times.items())
        both = len(self.between("promoted"))
        sys.stdout.write(
            f"\n{name}: {at}; {len(self.between('divided'))} submissions acknowledged by the old side, {both} of them "
            f"beside the new one; lost {len(lost)}; {self.cell.cuts()}\n"
        )


@contextmanager
def sides(place: Path, *options: str, durability: Durability | None = None) -> Iterator[Sides]:
    """Run both sides on an undivided store, and return when all work."""
    book = Book.new(place / "book")
    long, held = book.job("long", 1, LONG_SECONDS), book.job("held", 1, 4.0)
    with (
        partition(*options) as net,
        made_cell(net.new_url, CELL, keep_jobs=100_000, durability=durability) as cell,
        started_processes(cell, net.old_url, place / "old", "batch/0", "agent/a", lease_ms=LEASE_MS) as old,
    ):
        with Client(net.new_url, CELL, user="ada") as client:
            client.submit(long)
            until(lambda: book.page("long", 0).starts, "the long task runs on the old side, where the only agent is")
            client.submit(held, hold=True)
        with started_processes(cell, net.new_url, place / "new", "batch/1", "agent/b", lease_ms=LEASE_MS) as new:
            clients = [
                Submissions(url, CELL, book, Random(name), 0.3, name)
                for url, name in ((net.old_url, "old"), (net.new_url, "new"))
            ]
            try:
                for each in clients:
                    each.start()
                until(lambda: all(len(each.acknowledged) > 5 for each in clients), "both submit")
                yield Sides(net, cell, book, [old, new], clients[0], clients[1], long, held)
            finally:
                for each in clients:
                    each.stop()


def release(url: str, job: JobSpec) -> None:
    """Release a held job on one side."""
    with Client(url, CELL, user="ada") as client:
        client.release(job.id)


def first_runs(book: Book, job: JobSpec) -> bool:
    """Return whether the process of the first execution of a task lives."""
    return int((book.directory / f"{job.id}.0").read_text().split()[2]) in processes()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))


def test_both_sides_accept_work_and_that_of_the_old_one_is_lost(tmp_path: Path) -> None:
    """Also executions overlap, as the page says: of a task that both sides place, and of one whose agent is cut off."""
    with sides(tmp_path) as at:
        at.divide()
        for url in (at.net.old_url, at.net.new_url):
            release(url, at.held)
        until(lambda: len(at.book.page("held", 0).starts) == 2, "both sides run it")
        until(lambda: len(at.book.page("long", 0).starts) == 2, "the new side runs it after the lease of its agent")
        assert first_runs(at.book, at.long)
        at.heal()
        both, lost = at.between("promoted"), at.lost()
        at.told("default")
        assert len(both) > 5
        assert {each.job for each in both} <= {each.job for each in lost}
        assert all(at.times["divided"] - 1 < each.at < at.times["heard"] + HEARD_SECONDS for each in lost)
        cut = at.cell.cuts().last
        assert cut is not None
        assert at.cell.cuts().lost >= len({each.job for each in lost})
        assert at.end() <= at.may_overlap()


def test_with_confirming_replicas_the_old_side_acknowledges_nothing(tmp_path: Path) -> None:
    with sides(tmp_path, durability=Durability(1, 500)) as at:
        at.divide()
        until(lambda: any("0 of 1 replicas" in each for each in at.old.errors), "the old side is short")
        since = len(at.new.acknowledged)
        until(lambda: len(at.new.acknowledged) > since + 10, "the new side works")
        at.heal()
        at.told("replicas=1")
        assert at.between("promoted") == []
        assert at.lost() == []
        assert at.end() <= at.may_overlap()


def test_with_min_replicas_to_write_the_old_side_refuses_and_ends_its_tasks(tmp_path: Path) -> None:
    with sides(tmp_path, "min-replicas-to-write 1", f"min-replicas-max-lag {LAG_SECONDS}") as at:
        at.divide()
        until(lambda: at.old.errors, "the old side refuses")
        assert "refuses writes because too few replicas follow it; see its min-replicas-to-write" in at.old.errors[0]
        until(lambda: not first_runs(at.book, at.long), "its agent ends the task with its lease")
        ended = time.monotonic() - at.times["divided"]
        assert ended < LAG_SECONDS + 1 + 0.9 * AGENT_LEASE_SECONDS + SLOW_SECONDS
        for url in (at.net.old_url, f"redis://127.0.0.1:{at.net.primary.port}"):
            status, error = submitted(url, tmp_path)
            assert (status, error.count("\n")) == (1, 1)
            assert "refuses writes because too few replicas follow it; see its min-replicas-to-write" in error
        at.heal()
        at.told(f"min-replicas-to-write 1, task of the old side ended after {ended:.1f} s")
        assert all(each.at < at.times["divided"] + LAG_SECONDS + 1 + SLOW_SECONDS for each in at.lost())
        status, error = submitted(f"redis://127.0.0.1:{at.net.primary.port}", tmp_path)
        assert (status, error.count("\n")) == (1, 1)
        assert "is a read-only replica; give the URL of its primary" in error
        assert at.end() <= at.may_overlap() - {"held"}


def submitted(url: str, place: Path) -> tuple[int, str]:
    """Submit a job with the program; return its exit status and error."""
    file = place / "job.json"
    file.write_text(json.dumps({"name": "late", "tasks": [{"resources": {"cpu": 1}, "duration": "1s"}]}))
    words = [sys.executable, "-m", "omega.cli.main", "--cell", CELL, "job", "submit", str(file)]
    environment = {**os.environ, "OMEGA_STORE": url}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr
