"""A recording becomes a workload: residents where they stood, durations measured or censored, events."""

from pathlib import Path

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.recording.file import Writer
from omega.recording.recorder import Recorder
from omega.traces import Trace, read_trace
from omega.workload.workload import JobEvent, MachineEvent

SECOND = 1_000_000


class Told:
    """A cell whose clock the test sets, and its recording."""

    def __init__(self, path: Path) -> None:
        self.cell, self.path, self.number = MemoryCell(), path, 0
        self.cell.executors.register("simulated", "n", 1, 0)
        self.cell.machines.join(
            "simulated", [MachineSpec(f"m{i}", (1000, 1000), {"rack": f"r{i}"}) for i in range(3)], 0
        )
        self.member = self.cell.schedulers.register("batch/0", "n", 1, 0)
        self.file = path.open("wb")
        self.recorder = Recorder(self.cell, Writer(self.file))

    def at(self, seconds: float) -> int:
        self.recorder.step() if self.recorder.progress.version else None
        self.cell.now_ms = round(seconds * 1000)
        return self.cell.now_ms

    def submit(self, job: str, tasks: int, seconds: float, *, lasting: float = 0, held: bool = False) -> None:
        group = TaskGroup((100, 10), tasks, round(1000 * lasting))
        self.cell.jobs.submit([JobSpec(job, job, "batch", (group,))], self.at(seconds), "ada", held=held)

    def place(self, job: str, machine: int, count: int, seconds: float) -> int:
        self.number += 1
        transaction = Transaction(job, (Claim(machine, 0, count),))
        self.cell.schedulers.commit(
            CommitRequest(self.member, self.number, [transaction], Position(), self.at(seconds))
        )
        return self.cell.placements

    def end(
        self, placement: int, machine: int, seconds: float, how: EndKind = EndKind.FINISHED, tasks: str = "*"
    ) -> None:
        self.cell.executors.end([TaskEnd(machine, placement, how, tasks)], self.at(seconds), "simulated")

    def trace(self, seconds: float) -> Trace:
        self.at(seconds)
        self.recorder.end("time")
        self.file.close()
        return read_trace(self.path)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "a.rec.gz")


def counts(trace: Trace) -> dict[str, int]:
    return {defect.rule: defect.count for defect in trace.defects}


def test_residents_stand_where_they_stood(told: Told) -> None:
    told.submit("a", 4, 0)
    first, second = told.place("a", 0, 1, 1), told.place("a", 2, 2, 1)
    told.at(10)
    told.recorder.begin()
    told.end(first, 0, 13)
    told.end(second, 2, 16)
    trace = told.trace(20)
    (resident,) = trace.workload.residents
    assert resident.machines[0].tolist() == [0, 2, 2, -1]
    assert resident.durations[0].tolist()[:3] == [3 * SECOND, 6 * SECOND, 6 * SECOND]
    assert trace.seconds == 10
    assert counts(trace)["never-ran"] == 1
    assert [machine.attributes for machine in trace.workload.machines] == [{"rack": f"r{i}"} for i in range(3)]


def test_durations_are_of_the_last_run_and_else_censored(told: Told) -> None:
    told.recorder.begin()
    told.submit("a", 4, 1, lasting=4)
    lost, ran = told.place("a", 0, 1, 2), told.place("a", 1, 1, 2)
    told.place("a", 2, 1, 2)
    told.end(lost, 0, 5, EndKind.EVICTED)
    again = told.place("a", 1, 1, 6)
    told.end(ran, 1, 10)
    told.place("a", 0, 1, 12)
    told.end(again, 1, 14)
    trace = told.trace(15)
    (arrival,) = trace.workload.arrivals
    assert arrival.at_seconds == 1
    assert counts(trace) == {"censored-stated": 1, "censored-open": 1}
    assert trace.facts["stated_ratio"] == 2, "8 s of 4 s stated, twice"
    assert [lasts // SECOND for lasts in arrival.durations[0].tolist()] == [8, 8, 13 + 15, 8]


def test_jobs_that_were_held_arrive_when_they_were_released(told: Told) -> None:
    told.recorder.begin()
    told.submit("a", 1, 1, held=True)
    told.submit("b", 1, 2, held=True)
    told.submit("c", 1, 3)
    told.cell.jobs.release("a", told.at(5), "ada")
    told.cell.jobs.hold("c", told.at(6), "ada")
    told.cell.jobs.stop("c", told.at(7), "ada")
    trace = told.trace(9)
    assert [(each.job.id, each.at_seconds) for each in trace.workload.arrivals] == [("c", 3), ("a", 5)]
    assert list(trace.workload.events) == [JobEvent(6, "c", "hold"), JobEvent(7, "c", "stop")]
    assert (counts(trace)["waited"], counts(trace)["never-released"]) == (2, 1)


def test_machines_come_and_go(told: Told) -> None:
    told.recorder.begin()
    told.cell.machines.set_state(1, MachineState.DOWN, told.at(2), "ada")
    told.cell.machines.join("simulated", [MachineSpec("m9", (5, 5))], told.at(3))
    told.cell.machines.set_state(1, MachineState.UP, told.at(4), "ada")
    told.cell.machines.set_capacity(0, (500, None), told.at(5), "ada")
    events = [each for each in told.trace(9).workload.events if isinstance(each, MachineEvent)]
    assert [(each.at_seconds, each.machine.name, each.machine.capacity, each.up) for each in events] == [
        (2, "m1", (1000, 1000), False), (3, "m9", (5, 5), True), (4, "m1", (1000, 1000), True),
        (5, "m0", (500, 1000), True),
    ]  # fmt: skip
