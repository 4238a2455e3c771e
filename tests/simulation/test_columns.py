"""Tasks with durations of their own, residents on given machines, events and dimensions of workloads."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import omega
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Job, JobSpec, Limits, MachineSpec, Run, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import ClaimColumns, Outcome, Placed, Transaction, Verdict
from omega.simulation import Result, Settings, Simulation
from omega.simulation.records import RUNNING, Recorder, TaskRecords
from omega.simulation.world import apart, together
from omega.workload.workload import Arrival, JobEvent, LimitEvent, MachineEvent, Workload

SECOND = 1_000_000
MACHINES = [MachineSpec(f"m{i}", (4_000, 8_192)) for i in range(4)]
ONE = (1_000, 1_024)


def job(name: str, at: float, seconds: list[float], need: tuple[int, ...] = ONE, **more: Any) -> Arrival:
    """A job of one group: a task for each duration; schedulers are told another one."""
    spec = JobSpec(
        name, name, more.pop("kind", "batch"), (TaskGroup(need, len(seconds), 5_000, more.pop("group", {})),)
    )
    return Arrival(at, replace(spec, **more), (np.array([round(each * SECOND) for each in seconds]),))


def resident(name: str, seconds: list[float], machines: list[int], **more: Any) -> Arrival:
    return replace(job(name, 0.0, seconds, **more), machines=(np.array(machines, dtype=np.int32),))


def workload(residents: list[Arrival], arrivals: list[Arrival], **more: Any) -> Workload:
    return Workload(more.pop("machines", MACHINES), residents, arrivals, "made by hand", **more)


def run(work: Workload, until: float = 100.0, **more: Any) -> tuple[Result, TaskRecords]:
    settings = Settings(days=until / 86_400, **more.pop("settings", {}))
    result = Simulation(work, settings, records=True, **more).run()
    assert result.records is not None
    return result, result.records


def spans(records: TaskRecords, name: str) -> list[float]:
    """How long the tasks of a job ran, in order of task; those that still run are left out."""
    place = [each.job.id for each in records.jobs].index(name)
    rows = np.flatnonzero((records.job == place) & (records.how == EndKind.FINISHED))
    rows = rows[np.argsort(records.task[rows], kind="stable")]
    return [float(span) / SECOND for span in records.ended[rows] - records.started[rows]]


MIXED = workload(
    [resident("old", [3, 50, 7], [0, 0, 1]), resident("partly", [9, 2, 9], [2, -1, 2])],
    [
        job("one", 1.0, [2.5]),
        job("some", 2.0, [1, 4, 4, 0.000_001]),
        job("apart", 3.0, [5, 6], group={"different_machines": True}),
        job("late", 30.0, [200, 1], kind="service"),
        replace(job("plain", 31.0, [5, 5, 5]), durations=()),
    ],
)


def test_each_task_runs_as_long_as_the_workload_says() -> None:
    result, records = run(MIXED)
    assert spans(records, "old") == [3, 50, 7]
    assert spans(records, "partly") == [9, 9, 2]
    assert spans(records, "one") == [2.5]
    assert spans(records, "some") == [1, 4, 4, 0.000_001]
    assert spans(records, "late") == [1]
    assert spans(records, "plain") == [5, 5, 5]
    assert (records.how == RUNNING).sum() == 1
    busy = sum(
        int(min(end if end >= 0 else 100 * SECOND, 100 * SECOND) - start) * 1_000
        for start, end in zip(records.started, records.ended, strict=True)
    )
    assert result.utilisation["cpu"] == pytest.approx(busy / (16_000 * 100 * SECOND))
    assert result.residents_placed == 5
    assert result.kinds["batch"].jobs_submitted == 5, "a resident with a task that waits is one of them"
    assert result.kinds["batch"].tasks_scheduled == 11
    apart = np.flatnonzero(records.job == 4)
    assert len(set(records.machine[apart].tolist())) == 2


def test_residents_stay_where_they_stood() -> None:
    _, records = run(MIXED)
    there = np.flatnonzero((records.started == 0) & (records.job < 2))
    where = dict(
        zip(
            zip(records.job[there].tolist(), records.task[there].tolist(), strict=True),
            records.machine[there].tolist(),
            strict=True,
        )
    )
    assert where == {(0, 0): 0, (0, 1): 0, (0, 2): 1, (1, 0): 2, (1, 1): 2}


@pytest.mark.server
@pytest.mark.parametrize("preemption", [False, True])
def test_the_store_and_the_twin_agree(cell: RedisCell, preemption: bool) -> None:
    own = [omega.Scheduler("batch", preemption=omega.PrecedencePreemption())] if preemption else None
    crowded = replace(MIXED, residents=[*MIXED.residents, resident("crowd", [20.0] * 9, [3] * 9)])
    (twin, ours), (store, theirs) = (run(crowded, own=own, cell=each) for each in (None, cell))
    assert replace(twin, records=None) == replace(store, records=None)
    for name in ("job", "group", "task", "machine", "started", "ended", "how"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name


def test_a_machine_with_too_much_is_closed_until_enough_left() -> None:
    crowd = resident("crowd", [10, 10, 20, 20, 30, 30], [0] * 6)
    only = workload([crowd], [job("next", 1.0, [1.0, 1.0])], machines=MACHINES[:1])
    _, records = run(only)
    mine = records.job == 1
    assert (records.started[mine] >= 20 * SECOND).all()
    assert (records.started[mine] < 21 * SECOND).all()
    assert (records.machine == 0).all()


@pytest.mark.parametrize(
    ("machines", "message"),
    [([0, 9, 1], "want a machine below 4"), ([0, 1], "each of its 3 tasks")],
)
def test_residents_need_machines_that_exist(machines: list[int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(workload([resident("bad", [1.0, 1.0, 1.0], machines)], []))


def test_one_event_ends_all_tasks_of_an_instant() -> None:
    many = [float(i % 3 + 1) for i in range(12)]
    few, each = (
        run(workload([], [job("a", 0.0, seconds)]))[0].events for seconds in (many, [i + 1.0 for i in range(12)])
    )
    assert each - few == 9


def test_an_end_frees_room_for_a_start_of_the_same_instant() -> None:
    """Two jobs fill one slot one after the other; at no instant do both run."""
    slot = [MachineSpec("m", ONE)]
    settings = {"t_job_batch": 0.0, "t_task": 0.0}
    _, records = run(workload([], [job("a", 0.0, [10.0]), job("b", 10.0, [10.0])], machines=slot), settings=settings)
    assert records.started.tolist() == [0, 10 * SECOND]
    assert records.ended.tolist() == [10 * SECOND, 20 * SECOND]


def test_tasks_of_no_length_start_and_end() -> None:
    _, records = run(workload([], [job("a", 0.0, [0.0, 0.0]), job("b", 0.0, [5.0]), job("c", 9.0, [0.0])]))
    assert (records.how == EndKind.FINISHED).all()
    assert spans(records, "a") == [0, 0]
    assert spans(records, "c") == [0]


def test_a_machine_that_goes_loses_its_tasks_and_comes_back() -> None:
    events = [MachineEvent(5.0, MACHINES[0], up=False), MachineEvent(20.0, MACHINES[0])]
    work = workload(
        [resident("old", [30, 30], [0, 0])], [job("new", 25.0, [1.0] * 4)], machines=MACHINES[:1], events=events
    )
    _, records = run(work)
    old = np.flatnonzero(records.job == 0)
    assert records.how[old].tolist() == [EndKind.LOST] * 2 + [EndKind.FINISHED] * 2
    assert records.ended[old[:2]].tolist() == [5 * SECOND] * 2
    assert (records.started[old[2:]] >= 20 * SECOND).all(), "it waits until the machine is back"
    assert spans(records, "old") == [30, 30]
    assert spans(records, "new") == [1.0] * 4


def test_machines_join_and_shrink() -> None:
    large = MachineSpec("m9", (8_000, 8_192))
    events = [MachineEvent(10.0, large), MachineEvent(30.0, replace(large, capacity=(500, 512)))]
    big = job("big", 1.0, [5.0], (7_000, 1_024))
    again = job("again", 40.0, [5.0], (7_000, 1_024))
    _, records = run(workload([], [big, again], events=events))
    assert records.machine.tolist() == [4]
    assert 10 * SECOND <= records.started[0] < 11 * SECOND
    assert records.first_attempt.tolist()[1] >= 40 * SECOND, "it was tried, and fitted nowhere"


def test_people_hold_release_and_stop_jobs() -> None:
    events = [
        JobEvent(2.0, "a", "hold"),
        JobEvent(30.0, "a", "release"),
        JobEvent(12.0, "b", "stop"),
        JobEvent(90.0, "b", "stop"),
    ]
    events.sort(key=lambda each: each.at_seconds)
    full = resident("full", [10.0] * 4, [0, 0, 0, 0])
    a, b = job("a", 1.0, [3.0]), job("b", 11.0, [50.0])
    _, records = run(workload([full], [a, b], machines=MACHINES[:1], events=events))
    assert records.started[records.job == 1].tolist()[0] >= 30 * SECOND
    assert records.how[records.job == 2].tolist() == [EndKind.STOPPED]
    assert records.ended[records.job == 2].tolist() == [12 * SECOND]


def test_limits_of_a_kind_begin_at_their_time() -> None:
    events = [LimitEvent(5.0, "batch", Limits((2_000, None)))]
    _, records = run(workload([], [job("a", 6.0, [10.0] * 4)], events=events))
    at = np.sort(records.started)
    assert (at[:2] < 8 * SECOND).all()
    assert (at[2:] >= 16 * SECOND).all()


def test_any_dimensions() -> None:
    machines = [MachineSpec(f"g{i}", (4_000, 8_192, 2)) for i in range(2)]
    gpus = [job(f"j{i}", 1.0, [10.0], (1_000, 1_024, 1)) for i in range(5)]
    result, records = run(workload([], gpus, machines=machines, dimensions=Dimensions(("cpu", "memory", "gpu"))))
    assert set(result.utilisation) == {"cpu", "memory", "gpu"}
    assert (np.sort(records.started)[:4] < 3 * SECOND).all()
    assert np.sort(records.started)[4] >= 11 * SECOND


def test_a_function_of_the_machine_gives_the_durations() -> None:
    def seconds(each: Job, group: int, task: int, machine: int) -> float:
        return (10.0 if machine == 0 else 1.0) + task

    _, records = run(workload([], [job("a", 1.0, [50.0] * 12)]), seconds=seconds)
    slow = records.machine == 0
    assert ((records.ended - records.started) == (np.where(slow, 10, 1) + records.task) * SECOND).all()


@pytest.mark.parametrize("number", [1, 3])
def test_several_service_schedulers(number: int) -> None:
    jobs = [job(f"s{i}", 1.0 + i / 10, [1.0], kind="service") for i in range(30)]
    result, _ = run(workload([], jobs), settings={"service_schedulers": number, "t_job_service": 1.0})
    assert [name for name in result.schedulers if name.startswith("service/")] == [
        f"service/{i}" for i in range(number)
    ]
    assert result.kinds["service"].jobs_scheduled == 30


def test_an_outcome_of_single_claims_is_that_of_the_claims_they_were_made_of() -> None:
    placed, full = (1, Verdict.PLACED), (0, Verdict.FULL)
    asked = Transaction("j", ClaimColumns([4, 5, 6], [2, 3, 1], seen=[7, 8, 9]))
    singles = apart(asked, [2, 3, 1]).claims
    assert [(claim.machine, claim.count, claim.seen) for claim in singles] == [
        (4, 1, 7), (4, 1, 7), (5, 1, 8), (5, 1, 8), (5, 1, 8), (6, 1, 9),
    ]  # fmt: skip
    outcome = together(Outcome((placed, placed, placed, full, full, placed)), [2, 3, 1])
    assert outcome.claims == ((2, Verdict.PLACED), (1, Verdict.FULL), (1, Verdict.PLACED))
    assert outcome.conflicted
    assert not outcome.accepted


def test_the_end_of_a_task_that_lost_its_place_before_does_not_count() -> None:
    recorder, arrival = Recorder(), job("a", 0.0, [9.0])
    at = Job(id="a", name="a", kind="batch", order=1, groups=[])
    recorder.started(at, Placed([3], [0], None, 0), [0], 0)
    recorder.lost([Run(3, "a", 0, 0, "0")], EndKind.EVICTED, 5)
    recorder.ended([TaskEnd(0, 3, EndKind.FINISHED, "0")], 9)
    records = recorder.records([], [arrival])
    assert (records.ended.tolist(), records.how.tolist()) == ([5], [EndKind.EVICTED])
