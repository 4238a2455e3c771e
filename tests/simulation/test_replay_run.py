"""Replays of small workloads: what the engine records agrees with its own figures, twin and store agree."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Detection, Mode
from omega.replay.paper_mode import FORMS, compare, compared, figures
from omega.replay.run import Replay, replay, run_lightweight, without_failures
from omega.replay.schedulers import Changes, schedulers_of
from omega.replay.tables import tasks_table
from omega.schedulers.presets import batch, mapreduce, service
from omega.simulation import Settings
from omega.workload.workload import Arrival, JobEvent, MachineEvent, Workload, WorkloadEvent

HOUR = Settings(days=1 / 24, service_schedulers=2, batch_schedulers=2)


def _workload(seed: int = 0, events: bool = True) -> Workload:
    """An hour of 12 machines: residents in place, of which some wait; two kinds; machines go, come back, join."""
    rng = Random(seed)
    machines = [MachineSpec(f"m{i}", (4000, 8000)) for i in range(12)]

    def job(name: str, kind: str, precedence: int) -> JobSpec:
        groups = tuple(
            TaskGroup((500 * rng.randint(1, 4), 500 * rng.randint(1, 4)), rng.randint(1, 5), rng.randint(1, 900) * 1000)
            for _ in range(rng.randint(1, 2))
        )
        return JobSpec(name, name, kind, groups, precedence, spec={"user": rng.choice(("ada", "bob"))})

    def timed(at: float, made: JobSpec) -> Arrival:
        durations = tuple(
            np.array([rng.randint(0, 1200) * 1_000_000 for _ in range(group.count)]) for group in made.groups
        )
        return Arrival(at, made, durations)

    residents = []
    for i in range(6):
        each = timed(0.0, job(f"r{i}", "service", 9))
        where = tuple(
            np.sort(np.array([rng.choice((0, 1, 2, -1)) for _ in range(group.count)], np.int32))[::-1].copy()
            for group in each.job.groups
        )
        residents.append(replace(each, machines=where))
    arrivals = [
        timed(float(at), job(f"a{i}", *rng.choice((("batch", 0), ("batch", 0), ("service", 9)))))
        for i, at in enumerate(sorted(rng.randint(1, 3500) for _ in range(60)))
    ]
    changes: list[WorkloadEvent] = [
        MachineEvent(600.0, machines[0], up=False), MachineEvent(900.0, MachineSpec("late", (4000, 4000))),
        MachineEvent(1200.0, MachineSpec("m0", (6000, 8000))), MachineEvent(1500.0, machines[3], up=False),
        JobEvent(2000.0, arrivals[0].job.id, "stop"),
    ]  # fmt: skip
    return Workload(machines, residents, arrivals, "made", events=changes if events else ())


def _replayed(workload: Workload, settings: Settings = HOUR, cell: RedisCell | None = None) -> Replay:
    return replay(workload, settings, schedulers_of([], settings, Changes()), cell=cell)


def test_metrics_agree_with_the_figures_of_the_run() -> None:
    replayed = _replayed(_workload())
    jobs, kinds = replayed.metrics()["jobs"], replayed.result.kinds
    # The figures of the run include the service jobs that wait at the beginning, the metrics do not.
    waited = sum(any((where < 0).any() for where in each.machines) for each in replayed.columns.workload.residents)
    assert waited > 0
    assert jobs["batch"]["jobs"] == kinds["batch"].jobs_submitted
    assert jobs["service"]["jobs"] == kinds["service"].jobs_submitted - waited
    assert jobs["batch"]["first_attempt_s"]["mean"] == pytest.approx(kinds["batch"].wait_mean, abs=1e-5)
    assert replayed.residents()["waiting"] > 0
    assert sum(kinds[kind].tasks_evicted for kind in kinds) == int(replayed.columns.jobs.evicted.sum())
    assert int(replayed.columns.jobs.evicted.sum()) > 0
    assert int(replayed.columns.jobs.lost.sum()) > 0
    assert replayed.over_commit()["machines"] == len({row for row in (0, 1, 2) if _resident_load(_workload(), row)})


def _resident_load(workload: Workload, machine: int) -> bool:
    """Whether residents request more of a machine than it has."""
    held = np.zeros(2)
    for each in workload.residents:
        for group, where in zip(each.job.groups, each.machines, strict=True):
            held += np.array(group.need) * int((where == machine).sum())
    return bool((held > np.array(workload.machines[machine].capacity)).any())


def test_utilisation_of_a_run_without_events_is_that_of_the_run() -> None:
    workload = _workload(events=False)
    replayed = _replayed(workload)
    assert replayed.utilisation.mean() == pytest.approx(replayed.result.utilisation)


def test_machines_of_records_are_named_after_they_came_back() -> None:
    replayed = _replayed(_workload(seed=3))
    table = tasks_table(replayed.columns)
    late = [start for start, name in zip(table["started_s"], table["machine"], strict=True) if name == "late"]
    gone = [
        start
        for start, name in zip(table["started_s"], table["machine"], strict=True)
        if name == "m0" and 600 < start < 1200
    ]
    again = [
        start
        for start, name in zip(table["started_s"], table["machine"], strict=True)
        if name == "m0" and start >= 1200
    ]
    never = [
        start for start, name in zip(table["started_s"], table["machine"], strict=True) if name == "m3" and start > 1500
    ]
    assert late
    assert min(late) >= 900
    assert gone == never == []
    assert again


def test_twin_and_store_agree(cell: RedisCell) -> None:
    workload = _workload(seed=1)
    on_twin, on_store = _replayed(workload), _replayed(workload, cell=cell)
    assert on_store.result.digest == on_twin.result.digest
    for name in ("job", "group", "task", "machine", "started", "ended", "how"):
        assert np.array_equal(getattr(on_store.columns.records, name), getattr(on_twin.columns.records, name))


def test_the_presets_decide_unless_others_of_their_kind_are_given() -> None:
    settings = Settings(t_job_service=2.0)
    chosen = schedulers_of([mapreduce(), batch("7"), batch("8")], settings, Changes())
    assert [each.kind for each in chosen] == ["mapreduce", "batch", "batch", "service"]
    assert type(chosen[3].placement) is type(service().placement)
    assert (chosen[3].t_job, chosen[1].t_job) == (2.0, 0.1)
    assert {each.jobs_per_call for each in chosen} == {1}


def test_changes_of_all_schedulers() -> None:
    changes = Changes(detection=Detection.COARSE, commit=Mode.GANG, preemption=False)
    chosen = schedulers_of([], Settings(), changes)
    assert {each.detection for each in chosen} == {Detection.COARSE}
    assert {each.mode for each in chosen} == {Mode.GANG}
    assert not any(each.preemption.evicts for each in chosen)
    assert any(each.preemption.evicts for each in schedulers_of([], Settings(), Changes()))


def test_without_failures_no_machine_goes() -> None:
    workload, gone = without_failures(_workload())
    assert gone == 2
    assert [event.machine.name for event in workload.events if isinstance(event, MachineEvent)] == ["late", "m0"]
    assert int(_replayed(workload).columns.jobs.lost.sum()) == 0


def test_a_run_differs_in_nothing_from_itself() -> None:
    replayed = _replayed(_workload())
    rows = compared([figures(replayed), figures(replayed)])
    assert {row.name for row in rows} == {
        "wait mean", "bounded slowdown mean", "busyness", "conflict fraction", "cpu utilisation", "memory utilisation",
    }  # fmt: skip
    assert all(row.little == [True, True] for row in rows)


def test_failures_and_preemption_are_compared() -> None:
    workload = _workload()

    runs = dict[str, Replay]()

    def run(name: str, failures: bool, preemption: bool) -> Replay:
        chosen = schedulers_of([], HOUR, Changes(preemption=preemption))
        runs[name] = replay(workload if failures else without_failures(workload)[0], HOUR, chosen)
        return runs[name]

    rows, kept = compare(run, "no failures")
    assert kept is runs["no failures"]
    assert {name: int(each.columns.jobs.lost.sum()) > 0 for name, each in runs.items()} == {
        name: failures for name, (failures, _) in FORMS.items()
    }
    assert {name: int(each.columns.jobs.evicted.sum()) > 0 for name, each in runs.items()} == {
        name: evicts for name, (_, evicts) in FORMS.items()
    }
    assert not all(all(row.little) for row in rows)


def test_the_lightweight_simulator_runs_the_same_kinds() -> None:
    light = run_lightweight(_workload(), HOUR)
    assert {kind for kind, of in light.kinds.items() if of.jobs_submitted > 5} == {"batch", "service"}
    assert light.kinds["batch"].tasks_evicted == 0
