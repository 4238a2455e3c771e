"""Tasks are evicted where a pool or a machine holds too much, if the pools say so: the least important, no more."""

from functools import partial

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, PreemptionSettings
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Mode, Position
from omega.limits import evict, excess_of_pool, jobs_of_pool
from omega.schedulers.process.excess import OVER_SECONDS, Excess
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_epochs import next_epoch
from tests.contract.test_pools import put

EVICTS = PreemptionSettings(evict_over_limit=True, evict_over_capacity=True)


def submit(
    cell: AnyCell, name: str, pool: str, tasks: int, precedence: int = 0, gang: Gang = Gang.NO, least: int = 0
) -> None:
    group = TaskGroup((1, 1), tasks)
    cell.jobs.submit(
        [JobSpec(name, name, "batch", (group,), precedence, gang, {"pool": pool}, gang_min=least)], 0, "ada"
    )


def seen(cell: AnyCell) -> ArraySnapshot:
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    snapshot.pools, snapshot.epoch = cell.pools.get(), next_epoch(cell, 1_000)
    return snapshot


def relieved(cell: AnyCell, excess: Excess | None = None, now: float = 1.0) -> int:
    return (excess or Excess()).relieve(cell, seen(cell), now, "batch/0")


def running(cell: AnyCell, *jobs: str) -> list[int]:
    found = [cell.jobs.get(job) for job in jobs]
    return [sum(group.placed for group in job.groups) for job in found if job is not None]


def lowered(cell: AnyCell, member: Member, preemption: PreemptionSettings, **limits: int) -> None:
    """Three jobs of pool p run two tasks each, one of q does as well; then p gets limits."""
    put(cell, Pool("p"), Pool("q"))
    for name, pool, precedence in (("high", "p", 9), ("old", "p", 1), ("new", "p", 1), ("other", "q", 0)):
        submit(cell, name, pool, 2, precedence)
        assert member.place(name, (0 if name in ("high", "old") else 1, 2)).accepted
    put(cell, Pool("p", limits=limits, preemption=preemption), Pool("q"))


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"tasks": 4}, [2, 2, 0, 2]),
        ({"tasks": 3}, [2, 1, 0, 2]),
        ({"cpu": 5}, [2, 2, 1, 2]),
        ({"cpu": 5, "memory": 1}, [1, 0, 0, 2]),
        ({"jobs": 1}, [2, 0, 0, 2]),
        ({"jobs": 2, "tasks": 3}, [2, 1, 0, 2]),
        ({"tasks": 6}, [2, 2, 2, 2]),
        ({"tasks": 0}, [0, 0, 0, 2]),
    ],
)
def test_a_limit_below_the_use(cell: AnyCell, member: Member, limits: dict[str, int], left: list[int]) -> None:
    lowered(cell, member, EVICTS, **limits)
    relieved(cell)
    assert running(cell, "high", "old", "new", "other") == left
    version = cell.counters()["version"]
    assert relieved(cell) == 0
    assert cell.counters()["version"] == version


def test_the_excess_stays_unless_the_pool_says_otherwise(cell: AnyCell, member: Member) -> None:
    lowered(cell, member, PreemptionSettings(), tasks=1)
    assert relieved(cell) == 0
    assert running(cell, "high", "old", "new") == [2, 2, 2]


@pytest.mark.parametrize("limits", [{"tasks": 3}, {"cpu": 5, "memory": 1}, {"jobs": 1}, {"jobs": 2, "tasks": 3}])
def test_an_operator_and_a_scheduler_evict_the_same_tasks(
    cell: AnyCell, member: Member, limits: dict[str, int]
) -> None:
    """Of a pool that does not evict by itself, by the command that lowers its limits; also jobs of a user's pool."""
    put(cell, Pool("p"), Pool("q"))
    group = TaskGroup((1, 1), 2)
    for name, extra, precedence in (("high", {"pool": "p"}, 9), ("old", {"user": "p"}, 1), ("new", {"pool": "p"}, 1)):
        cell.jobs.submit([JobSpec(name, name, "batch", (group,), precedence, spec=extra)], 0, "ada")
        assert member.place(name, (0 if name != "new" else 1, 2)).accepted
    put(cell, Pool("p", limits=limits), Pool("q"))
    asked = partial(excess_of_pool, cell, "p")
    before = [job for job in (cell.jobs.get(name) for name in ("high", "old", "new")) if job is not None]
    assert [jobs_of_pool(cell.pools.get(), "p")(job) for job in before] == [True, True, True]
    by_command, _ = evict(cell, asked, jobs_of_pool(cell.pools.get(), "p"), lambda: 2, "ada")
    assert not asked()
    left = running(cell, "high", "old", "new")
    expected = {"tasks": [2, 1, 0], "cpu": [1, 0, 0], "jobs": [2, 0, 0]}[next(iter(limits))]
    assert left == (expected if limits != {"jobs": 2, "tasks": 3} else [2, 1, 0])
    assert by_command == 6 - sum(left)


def test_the_reason_is_in_the_log(cell: AnyCell, member: Member) -> None:
    lowered(cell, member, EVICTS, tasks=5)
    assert relieved(cell) == 1
    facts = [fact.event for fact in cell.log.facts() if fact.event[0] == "evicted"]
    assert [(words[3], words[-1]) for words in facts] == [("new", "limit")]


def test_limits_of_a_parent_and_of_its_pool(cell: AnyCell, member: Member) -> None:
    """What the sub-pool gives up counts for its parent; a strict gang goes as a whole."""
    pools = Pool("top"), Pool("a", "top"), Pool("b", "top")
    put(cell, *pools)
    submit(cell, "x", "a", 4)
    submit(cell, "g", "b", 3, gang=Gang.STRICT)
    assert member.place("x", (0, 4)).accepted
    assert member.place("g", (1, 3), mode=Mode.GANG).accepted
    put(
        cell,
        Pool("top", limits={"tasks": 4}, preemption=EVICTS),
        Pool("a", "top", limits={"tasks": 3}),
        Pool("b", "top"),
    )
    assert relieved(cell) == 4
    assert running(cell, "x", "g") == [3, 0]


def test_a_machine_over_its_capacity(cell: AnyCell, member: Member) -> None:
    lowered(cell, member, EVICTS)
    cell.machines.join("e0", [MachineSpec("m0", (3, 9))], 1)  # it comes back smaller
    excess = Excess()
    assert relieved(cell, excess, 1.0) == 0, "it may be for a moment"
    assert relieved(cell, excess, 0.9 + OVER_SECONDS) == 0
    assert relieved(cell, excess, 1.0 + OVER_SECONDS) == 1
    assert running(cell, "high", "old", "new", "other") == [2, 1, 2, 2]
    assert relieved(cell, excess, 2.0 + OVER_SECONDS) == 0


def test_a_gang_that_grew_keeps_its_tasks(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("p", preemption=PreemptionSettings(gang_timeout=60.0)))
    submit(cell, "g", "p", 3, gang=Gang.YES)
    assert member.place("g", (0, 3), mode=Mode.GANG).accepted
    excess = Excess()
    assert relieved(cell, excess, 500.0) == 0
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "2")], 1, "ada")
    assert relieved(cell, excess, 501.0) == 0, "whole again, with two tasks"
    cell.jobs.resize("g", {0: 5}, 2, "ada")
    assert relieved(cell, excess, 502.0) == relieved(cell, excess, 900.0) == 0
    assert running(cell, "g") == [2]


def test_the_rest_of_a_gang_below_its_minimum_goes_unless_it_is_repaired_in_time(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("p", preemption=PreemptionSettings(gang_timeout=60.0)))
    submit(cell, "g", "p", 6, gang=Gang.YES, least=3)
    assert member.place("g", (0, 4), mode=Mode.GANG).accepted
    excess = Excess()
    assert relieved(cell, excess, 500.0) == 0
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "3", "over")], 1, "ada")
    assert relieved(cell, excess, 501.0) == relieved(cell, excess, 700.0) == 0, "it still has three"
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "2", "over")], 1, "ada")
    assert relieved(cell, excess, 710.0) == relieved(cell, excess, 769.0) == 0
    assert relieved(cell, excess, 770.0) == 2
    assert running(cell, "g") == [0]


def test_the_rest_of_a_gang_that_lost_tasks_goes_unless_it_is_repaired_in_time(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("p", preemption=PreemptionSettings(gang_timeout=60.0)))
    submit(cell, "g", "p", 4, gang=Gang.YES)
    submit(cell, "single", "p", 2)
    assert member.place("g", (0, 4), mode=Mode.GANG).accepted
    assert member.place("single", (1, 1)).accepted
    excess = Excess()
    assert relieved(cell, excess, 500.0) == 0, "it is whole"
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "3", "over")], 1, "ada")
    assert relieved(cell, excess, 501.0) == 0
    assert member.place("g", (2, 1), mode=Mode.GANG).accepted
    assert relieved(cell, excess, 550.0) == 0
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "2", "over")], 1, "ada")
    assert relieved(cell, excess, 570.0) == 0, "it was repaired meanwhile"
    assert relieved(cell, excess, 629.0) == 0
    assert relieved(cell, excess, 630.0) == 3
    assert running(cell, "g", "single") == [0, 1]
