"""The groups of blocked jobs in the policy's order, and room divided among them without a bound for each."""

from random import Random

import numpy as np
import pytest

from omega.cellstate.model import MachineState
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position
from omega.schedulers.comparisons.hadoop import HadoopFair
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.policies import NoPreemption
from omega.schedulers.queue.queue import Queue
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.shapes import FEW, GroupTable
from omega.testing import snapshot, work


@pytest.mark.parametrize("size", [2, FEW, FEW + 1, 3 * FEW])
def test_the_first_two_of_any_number_of_groups(size: int) -> None:
    rng, table = Random(size), GroupTable()
    places = [(float(rng.randint(0, 2)), tie) for tie in rng.sample(range(99), size)]
    for number, within in enumerate(places):
        each = work(((1 + number,), 1), name=f"j{number}")
        table.put(((), each.shape()), each, within)
    table.rerank(Ranks(Fifo()))
    first, second = sorted(range(size), key=places.__getitem__)[:2]
    line, rival = table.first_two(np.arange(size))
    assert (places[line], rival) == (places[first], (0.0, *places[second]))


def test_room_is_given_turn_by_turn_by_a_policy_that_follows_use_and_bounds_no_job() -> None:
    copy, queue = snapshot((100,)), Queue(HadoopFair())
    copy.pools, copy.resources = Pools((Pool("a"), Pool("b"))), ("cpu",)
    for pool in "ab":
        copy.usage.change((pool, ""), (0,), (80,))
        queue.block(work(((10,), 8), name=pool, pool=pool))
    queue.observe(copy, 1.0)
    copy.apply(Reply(Position(2, "t"), full=False, rows=np.array([[0, 2, MachineState.UP, 0, 180, 100]])))
    queue.requeue(copy, NoPreemption(), Random(1), 1.0)
    assert {found.id: found.admitted for found in queue.choose(1.0, 9)} == {"a": [4], "b": [4]}
