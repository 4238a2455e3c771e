"""Pool trees divide the machines, in the store and in its twin: no task runs on a machine of another tree."""

from collections.abc import Callable

import pytest

from omega.cellstate.backup import read_backup, restore
from omega.cellstate.model import Gang, JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Mode, Transaction, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, RedisStand

TREES = (PoolTree(), PoolTree("gpu", "gpu == 'yes'"))
POOLS = Pools((Pool("web"), Pool("train", tree="gpu")), TREES)
TREE = ((0, Verdict.TREE),)


def machines(cell: AnyCell, *gpu: str) -> list[int]:
    cell.executors.register("e0", "n", 600_000, 0)
    return cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8), {"gpu": word}) for i, word in enumerate(gpu)], 0)


def put(cell: AnyCell, pools: Pools) -> Pools:
    return cell.pools.set(pools, cell.pools.get().version, 0, "ada")


def submit(cell: AnyCell, name: str, pool: str, count: int = 4, gang: Gang = Gang.NO) -> None:
    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 2), count),), 0, gang, {"pool": pool})], 0, "ada")


def tasks(cell: AnyCell, machine: int) -> list[tuple[str, str, bool]]:
    return [(run.job, run.tasks, run.leaving) for run in cell.machines.runs([machine])]


def test_tasks_leave_machines_of_other_trees_when_trees_are_set(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    submit(cell, "w", "web")
    submit(cell, "t", "train")
    for job in ("w", "t"):
        assert member.place(job, (0, 1), (1, 1)).accepted
    put(cell, POOLS)
    assert tasks(cell, 0) == [("t", "0", False), ("w", "0", True)]
    assert tasks(cell, 1) == [("w", "1", False), ("t", "1", True)]
    evicted = [fact.event for fact in cell.log.facts() if fact.event[0] == "evicted"]
    assert [(words[3], words[-1]) for words in evicted] == [("w", "tree"), ("t", "tree")]
    assert member.place("w", (0, 1)).claims == TREE
    assert member.place("w", (1, 3)).accepted
    assert member.place("t", (0, 1)).accepted


def test_a_strict_gang_leaves_as_a_whole(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    submit(cell, "t", "train", 2, Gang.STRICT)
    assert member.place("t", (0, 1), (1, 1), mode=Mode.GANG).accepted
    put(cell, POOLS)
    assert tasks(cell, 0) == [("t", "0", True)]
    assert tasks(cell, 1) == [("t", "1", True)]


def test_attributes_move_a_machine_to_another_tree(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    put(cell, POOLS)
    submit(cell, "w", "web")
    assert member.place("w", (1, 2)).accepted
    cell.machines.set_attributes(1, {"rack": "r1"}, 1, "ada")
    assert tasks(cell, 1) == [("w", "0-1", False)], "it is in the same tree"
    cell.machines.set_attributes(1, {"gpu": "yes"}, 1, "ada")
    assert tasks(cell, 1) == [("w", "0-1", True)]
    assert member.place("w", (1, 1)).claims == TREE
    cell.machines.set_attributes(0, {"gpu": None}, 1, "ada")
    assert member.place("w", (0, 1)).accepted


def test_a_machine_that_comes_back_with_other_attributes_is_in_another_tree(cell: AnyCell, member: Member) -> None:
    machines(cell, "no")
    put(cell, POOLS)
    submit(cell, "w", "web")
    assert member.place("w", (0, 2)).accepted
    machines(cell, "yes")
    assert tasks(cell, 0) == [("w", "0-1", True)]
    assert member.place("w", (0, 1)).claims == TREE
    cell.machines.set_state(0, MachineState.GONE, 2, "ada")
    machines(cell, "no")
    assert member.place("w", (0, 1)).accepted


def test_machines_that_join_are_in_their_tree_at_once(cell: AnyCell, member: Member) -> None:
    machines(cell, "no")
    put(cell, POOLS)
    machines(cell, "no", "yes", "no")
    submit(cell, "w", "web")
    assert member.place("w", (1, 1), (2, 1)).claims == ((0, Verdict.TREE), (1, Verdict.PLACED))


def test_jobs_of_a_pool_that_moves_to_another_tree_leave(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    put(cell, POOLS)
    submit(cell, "w", "web")
    assert member.place("w", (1, 2)).accepted
    before = cell.counters()["version"]
    after = put(cell, Pools((Pool("web"), Pool("train", tree="gpu"), Pool("other", tree="gpu")), TREES))
    assert after.version == cell.counters()["version"] == before + 1, "no job is in the new pool"
    put(cell, Pools((Pool("web", tree="gpu"), Pool("train", tree="gpu")), TREES))
    assert tasks(cell, 1) == [("w", "0-1", True)]
    assert member.place("w", (0, 1)).accepted


def test_jobs_of_an_ephemeral_pool_leave_when_it_is_set_in_another_tree(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    put(cell, POOLS)
    cell.jobs.submit([JobSpec("own", "own", "batch", (TaskGroup((1, 2), 2),), spec={"user": "eve"})], 0, "eve")
    assert member.place("own", (1, 1)).accepted
    put(cell, Pools((*POOLS.pools, Pool("eve", tree="gpu")), TREES))
    assert tasks(cell, 1) == [("own", "0", True)]


def test_a_cell_with_one_tree_again_has_no_trees_of_machines(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    put(cell, POOLS)
    submit(cell, "w", "web")
    put(cell, Pools((Pool("web"), Pool("train")), (PoolTree(),)))
    assert member.place("w", (0, 1), (1, 1)).accepted
    put(cell, POOLS)
    assert tasks(cell, 0) == [("w", "0", True)]


def test_no_machine_takes_tasks_between_a_change_and_its_assignment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = make()
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin assigns machines in the call that changes them")
    cell, heir = stand.cell, stand.other()
    machines(cell, "yes", "no")
    submit(cell, "w", "web")
    submit(cell, "t", "train")
    member = Member(cell)
    with monkeypatch.context() as died:
        died.setattr(cell.pools, "assign_trees", lambda *_: 0)
        put(cell, POOLS)
    assert member.place("w", (1, 1)).claims == TREE
    assert member.place("t", (0, 1)).claims == TREE
    assert heir.pools.assign_trees(1, "batch/0") == 0
    assert member.place("w", (1, 1)).accepted
    with monkeypatch.context() as died:
        died.setattr(cell.pools, "assign_trees", lambda *_: 0)
        cell.machines.set_attributes(1, {"gpu": "yes"}, 1, "ada")
    assert member.place("w", (1, 1)).claims == TREE
    assert tasks(cell, 1) == [("w", "0", False)]
    assert heir.pools.assign_trees(1, "batch/0") == 1
    assert tasks(cell, 1) == [("w", "0", True)]
    assert heir.pools.assign_trees(1, "batch/0") == 0


def test_a_tree_chosen_by_other_pools_or_attributes_is_not_assigned(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = make()
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin has one client")
    cell, other = stand.cell, stand.other()
    machines(cell, "no")
    put(cell, POOLS)
    swapped = Pools(POOLS.pools, (PoolTree(), PoolTree("gpu", "gpu == 'no'")))
    run = cell.run
    changes: list[Callable[[], object]] = [lambda: put(other, swapped), lambda: machines(other, "yes")]

    def overtaken(name: str, *args: object, **options: object) -> object:
        if name == "assign_trees" and changes:
            changes.pop(0)()
        return run(name, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(cell, "run", overtaken)
    cell.machines.set_attributes(0, {"rack": "r1"}, 1, "ada")
    assert cell.client.hget(stand.key("trees"), 0) == b"1", "in the tree of gpu == 'no', not by the formula read first"
    cell.machines.set_attributes(0, {"rack": "r2"}, 1, "ada")
    assert cell.client.hget(stand.key("trees"), 0) == b"0", "joined with gpu=yes meanwhile"
    assert not changes


def test_a_call_of_two_pools_goes_to_two_trees(cell: AnyCell, member: Member) -> None:
    machines(cell, "yes", "no")
    put(cell, POOLS)
    submit(cell, "w", "web")
    submit(cell, "t", "train")
    claims = [(Claim(0, 0, 1), Claim(1, 0, 1)), (Claim(0, 0, 2),)]
    transactions = (Transaction("t", claims[1]), Transaction("w", claims[0]))
    reply = cell.schedulers.commit(CommitRequest(member.membership, 1, transactions, member.position, 0))
    assert [each.claims for each in reply.outcomes] == [
        ((2, Verdict.PLACED),),
        ((0, Verdict.TREE), (1, Verdict.PLACED)),
    ]


def test_a_restored_cell_has_its_trees(make: Make) -> None:
    stand = make()
    if not isinstance(stand, RedisStand):
        pytest.skip("the twin has no backups")
    cell = stand.cell
    machines(cell, "yes", "no")
    put(cell, POOLS)
    backup = read_backup(cell, 1)
    restored = restore(cell.client, backup, f"{cell.name}-again", 2, "ada")
    assert isinstance(restored, RedisCell)
    assert verify(restored).ok
    submit(restored, "w", "web")
    machines(restored, "yes", "no")
    assert Member(restored).place("w", (0, 1), (1, 1)).claims == ((0, Verdict.TREE), (1, Verdict.PLACED))
    restored.delete()
