"""The audit checks evictions between pools on the snapshot that they were decided on, not only at their commit."""

import pytest

from omega.cellstate.audit import Report, verify
from omega.cellstate.audit.decisions import Decisions
from omega.cellstate.fairness import Assertion, Floor, Threshold
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Basis, Claim, Mode, Position, Transaction, Verdict
from tests.contract.conftest import AnyCell, Make, Member, Stand

DUE = 4.0
"""The share of each pool."""


class Ground:
    """A machine with sixteen slots; jobs of pools a and b; the scheduler that evicts, and another one."""

    def __init__(self, stand: Stand) -> None:
        self.cell: AnyCell = stand.cell
        self.cell.register_executor("e0", "n", 600_000, 0)
        self.cell.join("e0", [MachineSpec("m0", (16, 0))], 0)
        self.member, self.other = Member(self.cell), Member(stand.other(), "batch/1")
        self.submit("a", "a", 9)
        self.submit("b", "b", 12)

    def submit(self, name: str, pool: str, tasks: int, need: int = 1, gang: Gang = Gang.NO) -> None:
        group = TaskGroup((need, 0), tasks)
        self.cell.submit([JobSpec(name, name, "batch", (group,), gang=gang, spec={"pool": pool})], 0, "ada")

    def version(self) -> int:
        return self.cell.counters()["version"]

    def placement(self, job: str) -> int:
        return min(run.placement for run in self.cell.runs([0]) if run.job == job)

    def evict(self, since: int, count: int = 1, job: str = "a", victim: str = "b") -> Verdict:
        """Start tasks of a job in the place of those of another, decided on a version; returns the verdict."""
        claim = Claim(0, 0, count, seen=0, evict=((self.placement(victim), 9),))
        assertion = Assertion(Threshold(("a",), (DUE, 0.0)), (Threshold(("b",), (DUE, 0.0)),))
        return self.commit(since, Transaction(job, (claim,), assertion=assertion))

    def commit(self, since: int, transaction: Transaction) -> Verdict:
        self.member.number += 1
        membership, number = self.member.membership, self.member.number
        reply = self.cell.commit(CommitRequest(membership, number, [transaction], Position(), 0, basis=Basis(since, 0)))
        return reply.outcomes[0].claims[0][1]

    def fill(self, but: int = 0) -> None:
        """Take what is free, but for some slots, for a pool that is not concerned."""
        (machine,) = self.cell.machines()
        free = machine.capacity[0] - machine.allocated[0] - but
        self.submit("rest", "c", free)
        assert self.other.place("rest", (0, free)).accepted

    def report(self) -> Report:
        report = verify(self.cell)
        assert all("on version" in each.what for each in report.violations), report.violations
        return report


@pytest.fixture
def ground(make: Make) -> Ground:
    return Ground(make())


def test_legal_on_both(ground: Ground) -> None:
    ground.other.place("b", (0, 8))
    ground.fill()
    assert ground.evict(ground.version(), 4) is Verdict.PLACED
    report = ground.report()
    assert report.ok
    assert report.evictions == {"sets": 1, "checked": 1}


def test_the_victims_were_within_their_share(ground: Ground) -> None:
    ground.other.place("b", (0, 4))
    since = ground.version()
    ground.other.place("b", (0, 2))
    ground.fill()
    assert ground.evict(since) is Verdict.PLACED, "legal at the commit"
    (found,) = ground.report().violations
    assert (found.invariant, found.where) == (5, "job a")
    assert "the pool of a victim ended a unit or more below its share" in found.what
    assert f"on version {since}" in found.what


def test_own_work_in_flight_was_on_the_copy(ground: Ground) -> None:
    ground.other.place("b", (0, 4))
    since = ground.version()
    ground.member.place("b", (0, 2))
    ground.fill()
    assert ground.evict(since) is Verdict.PLACED
    assert ground.report().ok


def test_own_work_in_flight_that_was_refused_was_on_the_copy(ground: Ground) -> None:
    ground.other.place("b", (0, 4))
    since = ground.version()
    ground.other.place("b", (0, 2))
    ground.fill()
    assert ground.member.place("b", (0, 2)).claims == ((0, Verdict.FULL),)
    assert ground.evict(since) is Verdict.PLACED
    assert ground.report().ok


def test_the_evictor_was_not_below_its_share(ground: Ground) -> None:
    ground.other.place("b", (0, 8))
    ground.other.place("a", (0, 4))
    since = ground.version()
    assert ground.cell.end([TaskEnd(0, ground.placement("a"), EndKind.FINISHED, "0")], 0, "e0") == [1]
    ground.fill()
    assert ground.evict(since) is Verdict.PLACED
    (found,) = ground.report().violations
    assert "its pool did not stand below its share" in found.what


@pytest.mark.parametrize("need", [2, 3])
def test_the_larger_ratio_did_not_become_smaller(ground: Ground, need: int) -> None:
    ground.submit("wide", "a", 1, need=need)
    ground.other.place("b", (0, 5))
    ground.other.place("a", (0, 3))
    since = ground.version()
    ground.other.place("b", (0, 2))
    ground.fill(but=need - 1)
    assert ground.evict(since, job="wide") is Verdict.PLACED, "from 7/4 to 6/4 at most"
    (found,) = ground.report().violations
    assert "did not become smaller" in found.what


@pytest.mark.parametrize("gang", [False, True])
def test_a_gang_is_one_set(ground: Ground, gang: bool) -> None:
    """Claim by claim the third would start at the share; a gang may pass it as a whole."""
    ground.submit("g", "a", 3, need=2, gang=Gang.YES if gang else Gang.NO)
    ground.other.place("b", (0, 11))
    ground.fill()
    claims = (Claim(0, 0, 1, seen=0, evict=((ground.placement("b"), 2),)),) * 3
    assertion = Assertion(Threshold(("a",), (DUE, 0.0)), (Threshold(("b",), (DUE, 0.0)),))
    mode = Mode.GANG if gang else Mode.INCREMENTAL
    assert ground.commit(ground.version(), Transaction("g", claims, mode, assertion=assertion)) is Verdict.PLACED
    assert sum(run.job == "g" for run in ground.cell.runs([0])) == (3 if gang else 2)
    report = ground.report()
    assert report.ok
    assert report.evictions == {"sets": 1, "checked": 1}


def test_each_task_of_a_claim_is_a_set_with_its_victims(ground: Ground) -> None:
    """Together they would be illegal: the evictor ends at 5/4, where the first victim's pool was before."""
    for name, pool, tasks in (("b2", "b", 2), ("d2", "d", 4), ("a2", "a", 2)):
        ground.submit(name, pool, tasks, need=2)
    for name, tasks in (("a", 1), ("b", 1), ("b2", 2), ("d2", 4)):
        assert ground.other.place(name, (0, tasks)).accepted
    ground.fill()
    victims = ((ground.placement("b2"), 1), (ground.placement("d2"), 1))
    due = (DUE, 0.0)
    assertion = Assertion(Threshold(("a",), due), (Threshold(("b",), due), Threshold(("d",), due)))
    claim = Claim(0, 0, 2, seen=0, evict=victims)
    assert ground.commit(ground.version(), Transaction("a2", (claim,), assertion=assertion)) is Verdict.PLACED
    assert ground.report().ok


def test_a_strict_gang_goes_as_one_unit(ground: Ground) -> None:
    """All five tasks go for one: the pool ends four below its share, less than the unit."""
    ground.submit("s", "b", 5, gang=Gang.STRICT)
    assert ground.other.place("s", (0, 5), mode=Mode.GANG).accepted
    ground.fill()
    assert ground.evict(ground.version(), victim="s") is Verdict.PLACED
    report = ground.report()
    assert report.ok
    assert report.evictions == {"sets": 1, "checked": 1}


def test_what_cannot_be_checked_is_counted(ground: Ground) -> None:
    ground.other.place("b", (0, 8))
    ground.fill()
    assert ground.evict(ground.version() + 1) is Verdict.PLACED, "decided on a version that the store lost"
    assert ground.report().evictions == {"sets": 1, "checked": 0}


def test_sets_of_jobs_that_are_not_kept_are_left_out(ground: Ground) -> None:
    ground.other.place("b", (0, 8))
    ground.fill()
    ground.evict(ground.version())
    copies = Decisions(1)
    for fact in ground.cell.facts():
        copies.enter(fact)
    jobs = {job.id: job for job in ground.cell.jobs()}
    assert (list(copies.check(jobs)), copies.checked) == ([], 1)
    for name in ("a", "b"):
        assert (list(copies.check({other: job for other, job in jobs.items() if other != name})), copies.checked) == (
            [],
            0,
        )


def test_floors_of_jobs_are_checked_at_the_commit_alone(ground: Ground) -> None:
    ground.other.place("b", (0, 8))
    ground.fill()
    assertion = Assertion(Threshold((), (DUE, 0.0), job="a"), (), 9, (Floor("b", (4.0, 0.0)),))
    claim = Claim(0, 0, 1, seen=0, evict=((ground.placement("b"), 1),))
    assert ground.commit(ground.version(), Transaction("a", (claim,), assertion=assertion)) is Verdict.PLACED
    report = ground.report()
    assert report.ok
    assert report.evictions == {"sets": 0, "checked": 0}
