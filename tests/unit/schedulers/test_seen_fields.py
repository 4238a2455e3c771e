"""What makes jobs alike: the tables of the schema, and what policies declare that they read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from omega.cellstate.model import Gang, GroupStatus, Job, JobSpec, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.cellstate.schema import CHANGING, FIXED, GROUP, GROUP_SPEC, SPEC, Field, Seen
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.jobfile.reader import JobFile, load
from omega.schedulers import work as works
from omega.schedulers.constrained import Constrained
from omega.schedulers.constraints.demands import FIELDS
from omega.schedulers.job_fields import JobField
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import NoPreemption, Ordering, Placement, read_by
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.presets import batch, mapreduce, service
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import NOTHING, Work
from tests.unit.schedulers.drive import group, work
from tests.unit.schedulers.rig import Rig

ONE = group((1, 1), 2)


class Strange:
    """A placement that declares nothing: jobs of the environment BLOCKED fit nowhere."""

    inner = FirstFit()

    def __init__(self) -> None:
        self.tried: list[str] = []

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        self.tried.append(work.id)
        if work.job.spec.get("environment", {}).get("BLOCKED"):
            return []
        return self.inner.place(work, snapshot, rng)


class Declaring(Strange):
    """The same, and says what it reads."""

    reads = ("environment",)

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return super().place(work, snapshot, rng)


def job(name: str, **spec: Any) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((100, 100), 1),), spec=spec)


@pytest.mark.parametrize("policy", [Strange, Declaring])
def test_a_job_does_not_wait_behind_one_that_differs_in_what_the_placement_reads(policy: type[Strange]) -> None:
    found = policy()
    rig = Rig((1_000, 1_000), scheduler=Scheduler("batch", placement=found))
    rig.submit(job("a", environment={"BLOCKED": "1"}))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 1)
    rig.submit(job("b", environment={"BLOCKED": "1"}), job("c", environment={"BLOCKED": ""}))
    rig.until_placed("c")
    assert found.tried == ["a", "c"], "b is like a"


def test_jobs_that_differ_only_in_what_nobody_reads_cost_one_attempt_together() -> None:
    tried: list[str] = []

    @dataclass(frozen=True)
    class Counting(FirstFit):
        reads = ()

        def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
            tried.append(work.id)
            return super().place(work, snapshot, rng)

    rig = Rig((50, 50), scheduler=Scheduler("batch", placement=Counting(), jobs_per_call=32))
    others = [
        {"after": [{"job": f"x{i}", "outcome": "ok"}], "verified": True, "submitted_in": f"/{i}"} for i in range(90)
    ]
    rig.submit(*(job(f"j{i}", **other, simulate=bool(i % 2)) for i, other in enumerate(others)))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 90)
    assert tried == ["j0"]


# Both defaults


def test_a_new_field_of_a_record_makes_jobs_differ_for_every_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [work("a"), work("b")]
    before[1].job.submitter = "bob"
    assert before[0].shape() == before[1].shape()
    table = tuple(Field(each.name, each.form, each.meaning) if each.name == "submitter" else each for each in FIXED)
    monkeypatch.setattr(works, "FIXED", table)
    works.seen_by.cache_clear()
    try:
        assert before[0].shape() != before[1].shape()
    finally:
        monkeypatch.undo()
        works.seen_by.cache_clear()


def test_a_new_field_of_the_specification_makes_jobs_differ_for_every_policy() -> None:
    for reads in (NOTHING, None):
        assert work("a", spec={"ticket": 1}).shape(reads) != work("b", spec={"ticket": 2}).shape(reads)
        said = [work("a", spec={"groups": [{"ticket": n}]}).shape(reads) for n in (1, 2)]
        assert said[0] != said[1]


FIELDS_OF_JOBS = [(each.name, "job") for each in SPEC if each.name != "groups"]
FIELDS_OF_JOBS += [(each.name, "group") for each in GROUP_SPEC if each.name not in FIELDS]


@pytest.mark.parametrize(("name", "of"), FIELDS_OF_JOBS)
def test_a_policy_that_declares_nothing_may_read_every_field(name: str, of: str) -> None:
    specs: list[dict[str, Any]] = [{name: value} for value in ("x", "y")]
    if of == "group":
        specs = [{"groups": [each]} for each in specs]
    one, other = (work("a", spec=each) for each in specs)
    assert one.shape(None) != other.shape(None)
    assert one.shape(frozenset({name})) != other.shape(frozenset({name}))
    table = {each.name: each for each in (SPEC if of == "job" else GROUP_SPEC)}
    assert (one.shape() != other.shape()) == (table[name].seen is Seen.ALL)


def test_a_policy_that_declares_nothing_may_read_the_record() -> None:
    usual, job = work("a", ONE).shape(None), work("a", ONE).job
    for other in (
        replace(job, kind="x"), replace(job, precedence=3), replace(job, gang=Gang.YES), replace(job, commands=True),
        replace(job, submitter="bob"), replace(job, groups=[replace(ONE, duration_ms=7)]),
        replace(job, groups=[replace(ONE, failed=1, total=3)]), replace(job, groups=[replace(ONE, budget=3)]),
    ):  # fmt: skip
        assert Work.of(other).shape(None) != usual


def test_name_and_time_of_submission_count_for_those_who_declare_them_alone() -> None:
    one, other = work("a"), work("b")
    other.job.submitted_ms = 7
    for reads in (NOTHING, None, frozenset({"environment"})):
        assert one.shape(reads) == other.shape(reads)
    for name in ("name", "submitted"):
        assert one.shape(frozenset({name})) != other.shape(frozenset({name}))


def test_fields_of_policies_count_one_by_one() -> None:
    one, other = (work("a", spec={"policy": {"deadline": 5, "colour": colour}}) for colour in ("red", "blue"))
    assert one.shape() == other.shape() == one.shape(frozenset({"environment"}))
    assert one.shape(frozenset({"deadline"})) == other.shape(frozenset({"deadline"})) != one.shape()
    for reads in (None, frozenset({"colour"}), frozenset({"policy"})):
        assert one.shape(reads) != other.shape(reads)


def test_a_share_of_a_job_in_a_domain_depends_on_the_number_of_its_tasks() -> None:
    spread = {"groups": [{"spread": [{"domain": "rack", "share": 0.5}]}]}
    shapes = [work("a", group((1, 1), count), spec=spread).shape() for count in (2, 2, 50)]
    assert shapes[0] == shapes[1] != shapes[2]


# Declarations


def test_own_policies_declare_what_they_read() -> None:
    assert [read_by(each.ordering, each.placement, each.preemption) for each in (batch(), service(), mapreduce())] == [
        NOTHING
    ] * 3
    assert read_by(CellPools(), Constrained(ServicePlacement()), FairSharePreemption()) == NOTHING


@dataclass
class Wrapper:
    """Reads one field, and leaves the rest to another."""

    inner: Placement = field(default_factory=FirstFit)
    reads = ("name",)

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return self.inner.place(work, snapshot, rng)


class Bounding(Ordering):
    def most(self, work: Work) -> int | None:
        return len(work.job.name)


class Ranking(Ordering):
    def key(self, work: Work) -> float:
        return float(len(work.job.name))


class Subclass(FirstFit):
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return [] if work.job.spec.get("environment") else super().place(work, snapshot, rng)


def test_a_policy_with_fields_of_its_own_reads_them() -> None:
    class Timely(Strange):
        reads = ()
        job_fields = (JobField("deadline", "duration", "when it should end"),)

    assert read_by(Timely()) == frozenset({"policy"})


def test_wrappers_read_what_they_wrap_reads_too() -> None:
    assert read_by(Wrapper(), NoPreemption()) == frozenset({"name"})
    assert read_by(Wrapper(Declaring())) == frozenset({"name", "environment"})
    assert read_by(Wrapper(Strange())) is None
    assert read_by(Wrapper(Wrapper(Strange()))) is None


def test_a_subclass_with_code_of_its_own_declares_for_itself() -> None:
    assert read_by(Subclass()) is None


def test_an_ordering_counts_only_where_it_bounds_tasks() -> None:
    assert read_by(Ranking(), FirstFit()) == NOTHING
    assert read_by(Bounding(), FirstFit()) is None


# The tables


def test_every_field_that_all_policies_see_is_an_attribute() -> None:
    for table, of in (((*CHANGING, *FIXED), Job), (GROUP, GroupStatus)):
        for each in table:
            if each.seen is Seen.ALL:
                assert each.name in of.__annotations__, each.name


def test_every_field_that_job_files_store_is_in_a_table() -> None:
    text = """
    name: all
    user: ada
    pool: lab
    expected_duration: 3s
    environment: {A: b}
    directory: /tmp
    after: [first]
    update: {max_down: 2}
    simulate: true
    on_abandon: keep
    policy: {x: 1}
    annotations: {a: b}
    tasks:
      - {name: t, array: 0-3, resources: {cpu: 1}, command: ["true"], duration: 3s, constraints: [has a],
         spread: [rack], different_machines: true, near: x, apart_from: y, locality: {machines: [m1]},
         restart: {attempts: 2}, time_limit: 3s, grace: 2s, keep_output: 64Ki, runner: podman, image: alpine}
    """
    (found,) = load([JobFile("f", text)], Dimensions(), lambda: "id", lambda name: name)
    assert found.spec.keys() <= {each.name for each in SPEC}
    assert {"environment", "update", "on_abandon"} <= found.spec.keys()
    assert found.groups[0].spec.keys() <= {each.name for each in GROUP_SPEC}
    assert {"locality", "restart", "keep_output"} <= found.groups[0].spec.keys()
    assert {*FIELDS} <= {each.name for each in GROUP_SPEC if each.seen is Seen.ALL}
