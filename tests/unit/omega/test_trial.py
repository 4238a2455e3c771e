"""`omega.simulate`: a scheduler of somebody's own, beside those that come with Omega."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

import omega
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.workload import Arrival


def workload(jobs: int = 40) -> omega.Workload:
    """Jobs of two tasks, one a second, every eighth for service."""
    kinds = ("service", *["batch"] * 7)
    arrivals = [
        Arrival(float(i), JobSpec(f"j{i}", f"j{i}", kinds[i % 8], (TaskGroup((1000, 1024), 2, 60_000),)))
        for i in range(jobs)
    ]
    return omega.Workload([MachineSpec(f"m{i}", (8000, 8192)) for i in range(20)], [], arrivals, "a few jobs")


@dataclass(frozen=True)
class Mine(omega.Placement):
    """First fit that remembers who was placed."""

    seen: list[str]

    def place(self, work: omega.Work, snapshot: omega.Snapshot, rng: Random) -> Sequence[omega.Claim]:
        """See Placement.place."""
        self.seen.append(work.job.kind)
        return omega.FirstFit().place(work, snapshot, rng)


def test_a_kind_of_its_own_takes_a_share_of_the_jobs() -> None:
    trial = omega.simulate(omega.Scheduler("cold"), workload(), days=0.01)
    kinds = trial.result.kinds
    assert list(kinds) == ["batch", "service", "cold"]
    assert kinds["service"].jobs_submitted == 5
    assert kinds["batch"].jobs_submitted + kinds["cold"].jobs_submitted == 35
    assert 8 < kinds["cold"].jobs_submitted < 27
    assert kinds["cold"].jobs_scheduled == kinds["cold"].jobs_submitted
    assert kinds["cold"].tasks_scheduled == 2 * kinds["cold"].jobs_submitted
    assert kinds["cold"].busyness.median > 0, "without times of its own it takes the paper's"
    assert trial.as_json()["cold"]["jobs_scheduled"] == kinds["cold"].jobs_scheduled


@pytest.mark.parametrize(("share", "takes", "jobs"), [(1.0, "batch", 35), (1.0, "service", 5)])
def test_all_jobs_of_a_kind(share: float, takes: str, jobs: int) -> None:
    trial = omega.simulate(omega.Scheduler("cold"), workload(), days=0.01, share=share, takes=takes)
    assert trial.result.kinds["cold"].jobs_scheduled == jobs
    assert trial.result.kinds[takes].jobs_submitted == 0


def test_one_of_the_kind_batch_decides_in_place_of_it() -> None:
    listening = omega.Figures()
    scheduler = omega.Scheduler("batch", t_job=0.5, instruments=[listening])
    trial = omega.simulate(scheduler, workload(), days=0.01)
    assert list(trial.result.kinds) == ["batch", "service"]
    assert trial.result.kinds["batch"].busyness.median == pytest.approx(35 * 0.5 / 864, rel=0.01)
    assert listening.jobs == 35, "who listens to the scheduler hears of the trial"
    assert len(scheduler.queue.ready) == 0, "the scheduler itself did nothing"


@pytest.mark.parametrize("detection", list(omega.Detection))
def test_its_detection_is_its_own(detection: omega.Detection) -> None:
    """Coarse detection needs the machines' numbers, which the copies of others do without."""
    trial = omega.simulate(omega.Scheduler("cold", detection=detection), workload(), days=0.01, share=1.0)
    cold = trial.result.kinds["cold"]
    assert (cold.jobs_scheduled, cold.conflict_fraction.median) == (35, 0.0)


def test_the_same_seed_gives_the_same_trial() -> None:
    first, again, other = (omega.simulate(omega.Scheduler("cold"), workload(), days=0.01, seed=n) for n in (1, 1, 2))
    assert first.result.digest == again.result.digest != other.result.digest


def test_the_table_shows_itself() -> None:
    trial = omega.simulate(omega.Scheduler("cold"), workload(), days=0.01)
    heading, *rows = trial.table().splitlines()
    assert heading.split()[:3] == ["kind", "jobs", "scheduled"]
    assert [row.split()[0] for row in rows] == ["batch", "service", "cold"]
    assert len({len(row) for row in (heading, *rows)}) == 1
    assert repr(trial.table()) == str(trial.table())
    assert str(trial.table()) in repr(trial)


def test_a_cell_of_the_paper_in_small() -> None:
    trial = omega.simulate(omega.Scheduler("cold"), cluster="C", days=0.002, machines=200)
    assert trial.workload.startswith("C (measured)")
    assert trial.result.kinds["cold"].jobs_submitted > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"share": 0.0}, "a share of 0; want more than 0, at most 1"),
        ({"takes": "nope"}, "takes 'nope'; there are jobs of batch, service"),
        ({"days": -1.0}, "-1 days"),
        ({"cluster": "Z"}, "workload 'Z': no such preset"),
    ],
)
def test_what_makes_no_sense(options: dict[str, object], said: str) -> None:
    with pytest.raises(omega.BadInput, match=said):
        omega.simulate(omega.Scheduler("cold"), **({"cluster": workload(), "days": 0.01} | options))  # type: ignore[arg-type]


def alone(*kinds: str) -> omega.Workload:
    """Jobs of these kinds, one a second in turn."""
    arrivals = [
        Arrival(float(i), JobSpec(f"j{i}", f"j{i}", kinds[i % len(kinds)], (TaskGroup((1000, 1024), 2, 60_000),)))
        for i in range(40)
    ]
    return omega.Workload([MachineSpec(f"m{i}", (8000, 8192)) for i in range(20)], [], arrivals, "a few jobs")


@pytest.mark.parametrize("architecture", ["shared-state", "partitioned", "two-level"])
def test_several_of_ones_own_work_in_every_architecture(architecture: str) -> None:
    both = [omega.Scheduler("cold"), omega.Scheduler("warm", ordering=omega.Fifo())]
    trial = omega.simulate(both, alone("batch", "cold", "warm", "service"), days=0.01, architecture=architecture)
    found = {kind: figures.jobs_scheduled for kind, figures in trial.result.kinds.items()}
    assert found == {"batch": 10, "service": 10, "cold": 10, "warm": 10}


def test_several_share_what_they_take() -> None:
    trial = omega.simulate([omega.Scheduler("cold"), omega.Scheduler("warm")], workload(400), days=0.02, share=1)
    found = {kind: figures.jobs_submitted for kind, figures in trial.result.kinds.items()}
    assert (found["batch"], found["cold"] + found["warm"]) == (0, 350)
    assert abs(found["cold"] - found["warm"]) < 120


def test_one_of_ones_own_can_be_the_monolithic_one() -> None:
    seen: list[str] = []
    trial = omega.simulate(
        omega.Scheduler("cold", placement=Mine(seen)), workload(), days=0.01, architecture="monolithic-multi"
    )
    assert sum(figures.jobs_scheduled for figures in trial.result.kinds.values()) == 40


def test_schedulers_that_an_architecture_cannot_take_are_refused() -> None:
    two = [omega.Scheduler("cold"), omega.Scheduler("warm")]
    with pytest.raises(omega.BadInput, match="monolithic-single has one for all jobs"):
        omega.simulate(two, workload(), days=0.01, architecture="monolithic-single")
    evicting = omega.Scheduler("cold", preemption=omega.PrecedencePreemption())
    with pytest.raises(omega.BadInput, match="sees only offers"):
        omega.simulate(evicting, workload(), days=0.01, architecture="two-level")


@pytest.mark.parametrize("architecture", ["shared-state", "partitioned", "two-level"])
def test_several_schedulers_of_one_kind_share_its_jobs(architecture: str) -> None:
    own = [omega.Scheduler("batch"), omega.Scheduler("batch", placement=omega.BestFit())]
    result = omega.simulate(own, workload(), days=0.01, share=1, architecture=architecture).result
    jobs = {name: each["jobs_scheduled"] for name, each in result.schedulers.items()}
    assert set(jobs) == {"batch/0", "batch/1", "service/0"}
    assert jobs["batch/0"] > 0 < jobs["batch/1"]
    assert sum(jobs.values()) == 40
