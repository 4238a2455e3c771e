"""``omega bench instructions``: instructions that the server executes for a job, counted with callgrind.

Wall-clock figures of a shared computer vary by half; the number of instructions varies by a few per mille. A job of ten
tasks is received by a scheduler, placed, received by its executor and ended. Not counted: its submission, and the start
of the server. The server runs with the C library's allocator, whose instructions are part of the figure.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.computer import computer
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, chunks
from benchmarks.store import Store, own_server, server_directory
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import BadInput, StoreError
from omega.cellstate.model import BUCKETS, Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Claim, Intake, Mode, Position, Transaction
from omega.schedulers.queue.intake import LEAST_AT_HAND

CAPACITY, NEED = (64_000, 262_144), (10, 32)
TASKS = 10
LEASE_MS = 24 * 3600 * 1000
RESIDENTS_PER_MACHINE = 0.6


class JobForm(NamedTuple):
    """How the jobs of a measurement are placed: jobs per call, machines per job, gang."""

    per_call: int
    machines: int
    gang: bool
    share: float
    """Of the number of jobs that is measured: forms that cost more take fewer."""


FORMS = {
    "packed": JobForm(32, 1, gang=False, share=1.0),
    "spread": JobForm(32, 10, gang=False, share=0.5),
    "one per call": JobForm(1, 1, gang=False, share=0.5),
    "gangs": JobForm(32, 1, gang=True, share=1.0),
}
"""``spread``: a task on each of ten machines; elsewhere all ten tasks share a machine."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Forms to measure; machines of the cell; jobs counted of each form, ended in one call."""

    forms: Sequence[str] = tuple(FORMS)
    machines: int = 1_000
    jobs: int = 320


def measure(settings: Settings) -> Document:
    """Measure each form on the same server. Raises BadInput for an unknown form, StoreError without valgrind."""
    if unknown := set(settings.forms) - set(FORMS):
        raise BadInput(f"form {', '.join(sorted(unknown))}: there is {', '.join(FORMS)}")
    if not countable():
        raise StoreError("valgrind is not on PATH; install it to count instructions")
    about = computer()
    with counted_server() as (store, counter):
        work = Work(store, settings)
        rows = []
        for name in settings.forms:
            figures = work.count(FORMS[name], counter)
            rows.append({"form": name, **figures})
            progress(f"instructions: {name}: {figures['per_job']:,} a job")
        return {
            "forms": rows,
            "store": store.describe(),
            "computer": about,
            "chosen": {"machines": settings.machines, "jobs": settings.jobs, "tasks_per_job": TASKS},
        }


def countable() -> bool:
    """Whether valgrind is installed."""
    return all(shutil.which(name) for name in ("valgrind", "callgrind_control"))


class Work:
    """A cell with machines, residents and a scheduler; the jobs that are counted."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.cell, self.settings = store.make_cell(), settings
        self.cell.executors.register(BENCH_EXECUTOR, "bench", LEASE_MS, now_ms())
        names = [MachineSpec(f"m{i}", CAPACITY) for i in range(settings.machines)]
        for part in chunks(names, 1_000):
            self.cell.machines.join(BENCH_EXECUTOR, part, now_ms())
        self.membership: Membership = self.cell.schedulers.register("bench/0", "bench", LEASE_MS, now_ms())
        self.position, self.number, self.next_machine, self.jobs = (
            self.cell.schedulers.sync(Position()).position,
            0,
            0,
            0,
        )
        self.after = self.at_hand = 0
        residents = int(settings.machines * RESIDENTS_PER_MACHINE)
        self.place(FORMS["packed"], self.submit(FORMS["packed"], residents))

    def count(self, form: JobForm, counter: "Counter") -> dict[str, int]:
        """Return instructions per job: all, and those of placing (receipt of its tasks included) and ending it."""
        jobs = max(form.per_call, int(self.settings.jobs * form.share))
        self.end(self.place(form, self.submit(form, form.per_call)))  # scripts and lists are there afterwards
        names = self.submit(form, jobs)
        counter.start()
        endings = self.place(form, names)
        placing = counter.stop()
        counter.start()
        self.end(endings)
        ending = counter.stop()
        return {
            "per_job": round((placing + ending) / jobs),
            "place": round(placing / jobs),
            "end": round(ending / jobs),
            "jobs": jobs,
        }

    def submit(self, form: JobForm, jobs: int) -> list[str]:
        """Submit jobs; returns their names."""
        names = [f"{self.jobs + i:x}" for i in range(jobs)]
        self.jobs += jobs
        group, gang = (TaskGroup(NEED, TASKS, 60_000),), Gang.YES if form.gang else Gang.NO
        for part in chunks(names, 1_000):
            specs = [JobSpec(name, f"bench-{name}", "bench", group, gang=gang) for name in part]
            self.cell.jobs.submit(specs, now_ms(), "bench")
        return names

    def place(self, form: JobForm, names: Sequence[str]) -> list[TaskEnd]:
        """Place jobs and receive their tasks; returns the endings of these. Raises StoreError for a rejected claim."""
        mode = Mode.GANG if form.gang else Mode.INCREMENTAL
        count, endings = TASKS // form.machines, list[TaskEnd]()
        for part in chunks(names, form.per_call):
            transactions = []
            for name in part:
                places = [(self.next_machine + i) % self.settings.machines for i in range(form.machines)]
                self.next_machine += form.machines
                transactions.append(Transaction(name, tuple(Claim(place, 0, count) for place in places), mode))
            self.number += 1
            intake = self._intake(form.per_call)
            request = CommitRequest(
                self.membership, self.number, transactions, self.position, now_ms(), intake=intake, executors=(1,)
            )
            reply = self.cell.schedulers.commit(request)
            self.position, self.at_hand = reply.position, max(0, self.at_hand + len(reply.jobs) - len(part))
            self.after = max((job.arrival for job in reply.jobs), default=self.after)
            if not all(outcome.accepted for outcome in reply.outcomes):
                raise StoreError("a claim of the measured cell was rejected; is it a cell of its own?")
            for message in self.cell.executors.receive(1):
                words = message.split(" ")
                endings.append(TaskEnd(int(words[2]), int(words[1]), EndKind.FINISHED))
        return endings

    def _intake(self, per_call: int) -> Intake | None:
        """Ask for jobs as a scheduler does: when few are at hand, for as many as four calls take, and at least 32."""
        most = max(4 * per_call, 4 * LEAST_AT_HAND)
        if self.at_hand > most // 2:
            return None
        return Intake("bench", (Ask(1, self.after, most - self.at_hand),), most, "1" * BUCKETS)

    def end(self, endings: Sequence[TaskEnd]) -> None:
        """End tasks. Raises StoreError when none ended."""
        if sum(self.cell.executors.end(endings, now_ms(), BENCH_EXECUTOR)) == 0:
            raise StoreError("no task of the measured cell ended")


class Counter:
    """Counts instructions of a server under callgrind."""

    def __init__(self, pid: int, out: Path) -> None:
        self._pid, self._out, self._dumps = pid, out, 0

    def start(self) -> None:
        """Begin at zero."""
        self._control("--instr=on")
        self._control("--zero")

    def stop(self) -> int:
        """Return the instructions since `start`."""
        self._control("--dump")
        self._control("--instr=off")
        self._dumps += 1
        text = self._out.with_name(f"{self._out.name}.{self._dumps}").read_text("utf-8", errors="replace")
        found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        if found is None:
            raise StoreError("callgrind wrote no total")
        return int(found[1])

    def _control(self, order: str) -> None:
        done = subprocess.run(
            ["callgrind_control", order, str(self._pid)], check=False, capture_output=True, encoding="utf-8"
        )
        if done.returncode or "OK" not in done.stdout:
            raise StoreError(f"callgrind_control {order}: {(done.stderr or done.stdout).strip() or 'no answer'}")


@contextmanager
def counted_server() -> Iterator[tuple[Store, Counter]]:
    """Run a server under callgrind, without persistence and with the C library's allocator."""
    directory = server_directory()
    out = directory / "callgrind.out"
    under = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    with own_server(directory, under=under) as url:
        store = Store(url, "bench", own=True, directory=directory)
        yield store, Counter(store.pids()["server"], out)


if __name__ == "__main__":
    launch(Settings, measure)
