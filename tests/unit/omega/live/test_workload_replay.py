"""A workload brought to a cell: everything is submitted when it is due, residents first, and then awaited."""

from collections.abc import Callable

import fakeredis
import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live import workload_replay as module
from omega.live.workload_replay import ReplayProgress, WorkloadReplay
from omega.workload import Arrival, Workload
from tests.unit.schedulers.rig import LEASE_MS, Clock


def arrival(name: str, at: float = 0.0, tasks: int = 1) -> Arrival:
    return Arrival(at, JobSpec(name, name, "batch", (TaskGroup((1, 1), tasks),)))


class Stage:
    """A cell whose one scheduler works in the pauses, unless it is away."""

    def __init__(self, residents: list[Arrival], arrivals: list[Arrival], speed: float = 1.0) -> None:
        self.clock, self.away = Clock(), False
        self.cell = RedisCell.create(fakeredis.FakeRedis(server=fakeredis.FakeServer()), "c")
        machines = [MachineSpec(f"m{i}", (1_000, 1_000)) for i in range(2)]
        workload = Workload(machines, residents, arrivals, "made up")
        self.replay = WorkloadReplay(self.cell, workload, self.clock.now, self.pause, speed)
        self.cell.executors.register("simulated", "n", LEASE_MS, 0)
        self.replay.join("simulated")
        self.member: Membership = self.cell.schedulers.register("batch/0", "n", LEASE_MS, 0)
        self.placed = self.commits = 0
        self.seen: list[ReplayProgress] = []
        self.during: Callable[[], object] = lambda: None

    def pause(self, seconds: float) -> None:
        self.clock.pause(seconds)
        self.during()
        jobs = [] if self.away else [job for job in self.cell.jobs.all() if job.pending]
        if jobs:
            self.commits += 1
            transactions = [Transaction(job.id, (Claim(0, 0, job.unplaced),)) for job in jobs]
            reply = self.cell.schedulers.commit(CommitRequest(self.member, self.commits, transactions, Position(), 0))
            self.placed += sum(outcome.placed for outcome in reply.outcomes)
        figures = {"tasks": self.placed, "conflicts": 1, "accepted": max(1, self.placed)}
        self.cell.schedulers.renew(self.member, LEASE_MS, figures)

    def play(self) -> list[ReplayProgress]:
        self.seen = list(self.replay.run())
        return self.seen

    def submitted(self) -> dict[str, float]:
        """When each job was submitted, in seconds since the beginning."""
        return {job.id: job.submitted_ms / 1000 - 1000.0 for job in self.cell.jobs.all()}


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_jobs_are_submitted_when_they_are_due_by_the_speed(speed: float) -> None:
    times = [0.0, 0.4, 2.0, 2.0, 6.0]
    stage = Stage([], [arrival(f"j{i}", at) for i, at in enumerate(times)], speed)
    stage.play()
    for name, at in stage.submitted().items():
        late = at - times[int(name[1:])] / speed
        assert -0.001 <= late <= 0.101, (name, late)


def test_residents_are_placed_before_the_first_arrival_counts() -> None:
    stage = Stage([arrival("r0", tasks=5), arrival("r1")], [arrival("j", 1.0)])
    started = list[float]()
    stage.during = lambda: started.append(stage.clock.seconds)
    seen = stage.play()
    assert [progress.phase for progress in seen][:2] == ["residents", "residents"]
    assert max(stage.submitted()[name] for name in ("r0", "r1")) == 0.0
    assert stage.submitted()["j"] >= 1.1, "its second counts from when the residents were placed"


def test_progress_counts_everything() -> None:
    stage = Stage([arrival("r", tasks=5)], [arrival("a", tasks=2), arrival("b", 3.0, tasks=4)])
    seen = stage.play()
    assert {progress.all_tasks for progress in seen} == {11}
    last = seen[-1]
    assert (last.phase, last.jobs, last.tasks, last.placed, last.pending) == ("placing", 3, 11, 11, 0)
    assert last.conflict_fraction == pytest.approx(1 / 11)
    assert last.seconds == pytest.approx(stage.clock.seconds - 1000.0)
    assert [p.placed for p in seen] == sorted(p.placed for p in seen)


def test_it_ends_when_all_is_placed_and_not_before() -> None:
    stage = Stage([], [arrival("a", tasks=3)])
    stage.away = True

    def come() -> None:
        stage.away = stage.clock.seconds < 1020.0

    stage.during = come
    stage.play()
    assert stage.seen[-1].pending == 0
    assert 1020.0 <= stage.clock.seconds < 1021.0


def test_it_gives_up_waiting_in_the_end() -> None:
    stage = Stage([], [arrival("a", tasks=3)])
    stage.away = True
    stage.play()
    assert stage.seen[-1].pending == 1
    assert stage.seen[-1].conflict_fraction == 1.0
    assert stage.clock.seconds - 1000.0 == pytest.approx(module.MOST_SECONDS_PLACING, abs=0.3)


def test_many_jobs_due_at_once_are_submitted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUBMIT_CHUNK", 3)
    stage = Stage([arrival(f"r{i}") for i in range(7)], [arrival(f"j{i}") for i in range(8)])
    seen = stage.play()
    assert [p.jobs for p in seen if p.phase == "residents"][:3] == [3, 6, 7]
    assert [p.jobs for p in seen if p.phase == "arriving"] == [10, 13, 15]
    assert len(stage.submitted()) == 15


def test_a_cell_without_figures_yet_has_placed_nothing() -> None:
    stage = Stage([], [arrival("a")])
    first = next(stage.replay.run())
    assert (first.phase, first.placed, first.conflict_fraction, first.pending) == ("arriving", 0, 0.0, 1)
