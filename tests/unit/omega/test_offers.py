"""When a two-level allocator offers what is free."""

import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.packing import packed
from omega.simulation.simulated_store import MemoryStore
from omega.simulation.two_level import Offers, TwoLevel
from omega.simulation.world import World
from omega.workload.workload import DIMENSIONS


@pytest.mark.parametrize(("cpu", "offered"), [(99_999, False), (100_000, True), (100_001, True), (0, False)])
def test_an_offer_has_at_least_the_least_cpu(cpu: int, offered: bool) -> None:
    simulated_store = MemoryStore("c", DIMENSIONS)
    simulated_store.join([MachineSpec("m0", (1, 1))])
    allocator = TwoLevel(World(simulated_store, 1, completed=False, numbered=False), Offers(least_cpu=100_000))
    allocator.pool = packed((cpu, 7))
    assert allocator._enough() is offered
