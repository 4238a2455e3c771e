"""Machines of pool trees: what each tree has, which jobs run there, and formulas that overlap or leave machines out."""

from random import Random

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.resources import Dimensions
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.schedulers.constrained import Constrained
from omega.schedulers.constraints.fetching import wanted
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import Placement
from omega.schedulers.pool_machines import check_machines, fetch_attributes, totals_of
from tests.unit.schedulers.drive import group, work

TREES = PoolTree(), PoolTree("gpu", "gpu == 'yes'")
POOLS = Pools((Pool("cpu only"), Pool("g", tree="gpu")), TREES, 1)


def seen(pools: Pools = POOLS) -> Snapshot:
    cell = MemoryCell()
    cell.executors.register("e", "n", 60_000, 0)
    cell.machines.join(
        "e", [MachineSpec(f"m{i}", (4, 8), {"gpu": "yes"} if i % 2 else {"zone": "z"}) for i in range(4)], 0
    )
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    snapshot.pools = pools
    fetch_attributes(pools, snapshot, cell)
    return snapshot


@pytest.mark.parametrize("placement", [Constrained(FirstFit()), ServicePlacement()])
@pytest.mark.parametrize(("pool", "machines"), [("g", {1, 3}), ("cpu only", {0, 2}), ("", {0, 2})])
def test_a_job_runs_on_machines_of_its_pools_tree(placement: Placement, pool: str, machines: set[int]) -> None:
    found = work("j", group((1, 1), 20), spec={"pool": pool, "user": "ada"} if pool else {})
    claims = placement.place(found, seen(), Random(1))
    assert {claim.machine for claim in claims} == machines
    assert sum(claim.count for claim in claims) == 8


def test_without_formulas_a_job_runs_anywhere_and_no_attribute_is_read() -> None:
    whole = seen(Pools((Pool("g"),)))
    assert not whole.attributes.used
    assert len({claim.machine for claim in Constrained().place(work("j", group((1, 1), 16)), whole, Random(1))}) == 4
    assert totals_of(whole.pools, whole, ("cpu", "memory")) == {"default": (16, 32)}


def test_slots_count_where_all_machines_state_theirs() -> None:
    """A machine that states none is not bounded, so neither is its tree: slots have no total there, and no share."""
    names = Dimensions(("cpu", "user_slots"))
    cell = MemoryCell(dimensions=names)
    cell.executors.register("e", "n", 60_000, 0)
    for i, slots in enumerate(({"user_slots": 2}, {"user_slots": 6}, {"user_slots": 1}, {})):
        capacity = names.parse_capacity({"cpu": 4} | slots)
        cell.machines.join("e", [MachineSpec(f"m{i}", capacity, {"gpu": "yes"} if i < 2 else {})], 0)
    snapshot = ArraySnapshot(2)
    snapshot.apply(cell.schedulers.sync(Position()))
    fetch_attributes(POOLS, snapshot, cell)
    assert totals_of(POOLS, snapshot, names.names) == {"default": (8_000, 0), "gpu": (8_000, 8)}
    cell.machines.set_state(3, MachineState.DRAINED, 1, "ada")
    snapshot.apply(cell.schedulers.sync(Position()))
    assert totals_of(POOLS, snapshot, names.names) == {"default": (4_000, 1), "gpu": (8_000, 8)}


def test_attributes_are_fetched_where_trees_have_formulas() -> None:
    snapshot = ArraySnapshot(2)
    assert wanted([work("j")], snapshot) is None
    snapshot.pools = POOLS
    asked = wanted([work("j")], snapshot)
    assert asked is not None
    assert asked.attributes


def test_each_machine_is_in_one_tree() -> None:
    snapshot = seen()
    check_machines(POOLS, snapshot)
    assert totals_of(POOLS, snapshot, ("cpu", "memory")) == {"default": (8, 16), "gpu": (8, 16)}
    twice = Pools((Pool("p"),), (PoolTree("a", "has gpu"), PoolTree("b", "gpu == 'yes' or has zone")))
    with pytest.raises(BadInput, match="pool trees a, b: each selects machine m1 and 1 more"):
        check_machines(twice, snapshot)
    assert totals_of(twice, snapshot, ("cpu", "memory"))["a"] == (8, 16), "what two trees select later is in the first"
    nowhere = Pools((Pool("p"),), (PoolTree("a", "has gpu"), PoolTree("b", "has rack")))
    with pytest.raises(BadInput, match="none selects machine m0 and 1 more"):
        check_machines(nowhere, snapshot)
    assert totals_of(nowhere, snapshot, ("cpu", "memory"))["b"] == (0, 0), "what none selects later is in none"
