"""Jobs of pools that are chosen in one step are those that are chosen one by one (rule 32, docs/pool-rules.md)."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work
from omega.testing import snapshot as empty_cell, work
from omega.testing.scenes import for_all

CELL = (400, 600)
NAMES = tuple(f"p{number}" for number in range(9))
Chosen = list[tuple[str, list[int] | None]]


class OneByOne(CellPools):
    """As the pools of the cell, but each job is chosen by itself."""

    def ample(self) -> None:
        """Leave every job to be asked for."""


class Asked(NamedTuple):
    """A job: its groups, pool and user, precedence, when it may be tried (seconds), whether it is a gang."""

    groups: tuple[tuple[tuple[int, int], int], ...]
    whose: tuple[str, str]
    precedence: int
    not_before: float
    gang: bool


@st.composite
def jobs(draw: st.DrawFn) -> Asked:
    need = draw(st.sampled_from([(1, 2), (3, 1), (0, 5)]))
    groups = tuple((need, draw(st.integers(1, 9))) for _ in range(draw(st.sampled_from([1, 1, 1, 2]))))
    whose = draw(st.sampled_from([*NAMES, ""])), draw(st.sampled_from(["ann", "bob"]))
    return Asked(groups, whose, draw(st.integers(0, 1)), draw(st.sampled_from([0.0] * 3 + [2.0])), draw(st.booleans()))


def made(asked: Sequence[Asked]) -> list[Work]:
    found = []
    for order, (groups, (pool, user), precedence, not_before, gang) in enumerate(asked):
        each = work(*groups, name=f"j{order}", order=order, pool=pool, user=user, precedence=precedence, gang=gang)
        each.not_before = not_before
        found.append(each)
    return found


def cell(held: Sequence[int], wanted: Sequence[int], shares: Sequence[float]) -> Snapshot:
    """Return a cell whose pools hold, want and are due so much."""
    found = empty_cell(CELL)
    found.pools, none = Pools(tuple(Pool(name) for name in NAMES)), (0.0, 0.0)
    for name, has, wants in zip(NAMES, held, wanted, strict=True):
        found.usage.state((name, "ann"), (has, has), (wants, wants))
    rows = {
        name: PoolShare(
            name=name, parent="<Root>", tree="default", weight=1.0, fair_share=(share, share), demand=(share, 1.0),
            usage=none, guarantee=none, integral=none, limits=none, promised=(share / 2, 0.0) if share > 0.2 else none,
            estimated=none, satisfaction=0.0,
        )
        for name, share in zip(NAMES, shares, strict=True) if share
    }  # fmt: skip
    found.epoch = Epoch(number=1, version=1, pools_version=1, at_ms=0, by="t", totals={"default": CELL}, pools=rows)
    return found


def chosen(queue: Queue, snapshot: Snapshot, works: Sequence[Work], most: int) -> list[Chosen]:
    """Choose several times, and have everything placed that was admitted."""
    for each in works:
        queue.ready.add(each)
    rounds = []
    for step in range(4):
        queue.observe(snapshot, float(step))
        found = queue.choose(float(step), most)
        rounds.append([(each.id, each.admitted) for each in found])
        for each in found:
            for group, count in enumerate(each.admitted or each.left):
                amounts = tuple(amount * count for amount in each.need(group))
                snapshot.usage.take(each.user, each.pool, amounts, (each.id, group))
        snapshot.usage.forget_promises()
        rounds.append([(leaf, list(snapshot.usage.of_leaf(leaf))) for leaf in snapshot.usage.leaves()])
    return rounds


@settings(for_all, max_examples=50)
@given(data=st.data())
def test_several_jobs_are_chosen_as_one_by_one(data: st.DataObject) -> None:
    size = len(NAMES)
    held = data.draw(st.lists(st.integers(0, 30), min_size=size, max_size=size))
    most_wanted = data.draw(st.sampled_from([50, 250, 350]))
    wanted = data.draw(st.lists(st.sampled_from([0, 20, most_wanted]), min_size=size, max_size=size))
    shares = data.draw(st.lists(st.sampled_from([0.0, 0.05, 0.1, 0.3]), min_size=size, max_size=size))
    asked, most = data.draw(st.lists(jobs(), min_size=12, max_size=40)), data.draw(st.integers(1, 12))
    bound = data.draw(st.none() | st.tuples(st.floats(0, 2), st.just(0.0), st.just(0)))
    found = []
    for ordering in (CellPools(), OneByOne()):
        queue = Queue(ordering)
        queue.bound = lambda: bound
        found.append(chosen(queue, cell(held, wanted, shares), made(asked), most))
    assert found[0] == found[1]


def test_jobs_of_many_pools_are_chosen_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, snapshot = Queue(CellPools()), cell([0] * 9, [9] * 9, [0.1] * 9)
    for number in range(27):
        queue.ready.add(work(((1, 2), 1), name=f"j{number}", order=number, pool=NAMES[number % 9]))
    queue.observe(snapshot, 0.0)
    monkeypatch.setattr(queue.ready, "pop", lambda *_: pytest.fail("a job was chosen by itself"))
    assert [each.id for each in queue.choose(0.0, 18)] == [f"j{number}" for number in range(18)]
    assert [snapshot.usage.of_leaf(name) for name in NAMES] == [(2, 4)] * 9
