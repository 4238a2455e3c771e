"""Each start goes to the least satisfied pool: the queue's choices against a search through all jobs for each."""

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings, strategies as st

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.schedulers.fairshare.standings import EpochShares
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work
from omega.testing.scenes import work
from tests.unit.schedulers.drive import rows

NEEDS = ((1, 0), (2, 1), (0, 3))
TOTALS = (100, 100)
ROOM = (1_000_000, 1_000_000)
"""Of the machines: for all pending tasks, so nothing bounds a job (docs/shares-of-jobs.md)."""
POOLS = 7
EDGE = 1e-9

ROUNDS = 12


def epoch_of(number: int, parts: Sequence[Sequence[float]]) -> Epoch:
    """Every second of the pools wants no more than its fair share."""
    none, found = (0.0, 0.0), dict[str, PoolShare]()
    for i, (cpu, memory, more_cpu, more_memory) in enumerate(parts):
        found[f"p{i}"] = PoolShare(
            name=f"p{i}", parent="<Root>", tree="default", weight=1.0,
            fair_share=(cpu, memory), demand=(cpu + more_cpu, memory + more_memory),
            usage=none, guarantee=none, integral=none, limits=none, promised=none, estimated=none, satisfaction=0.0,
        )  # fmt: skip
    return Epoch(number=number, version=1, pools_version=1, at_ms=0, by="ada", totals={"default": TOTALS}, pools=found)


def satisfaction(epoch: Epoch, pool: str, held: Sequence[int], need: Sequence[int]) -> float:
    """Usage ÷ fair share as docs/pool-rules.md defines it, over the resources that the job needs."""
    share = epoch.pools.get(pool)
    if share is None:
        return 1.0 if any(held) else 0.0
    at = [d for d, amount in enumerate(need) if amount]
    fair = [float(f"{part * total:.9g}") for part, total in zip(share.fair_share, TOTALS, strict=True)]
    wants = [part * total for part, total in zip(share.demand, TOTALS, strict=True)]
    ratios = {d: held[d] / fair[d] for d in at if fair[d] > 0}
    if not ratios:
        return 1e9 + sum(held[d] for d in at)
    if max(ratios.values()) > 1 + EDGE:
        return max(ratios.values())
    open_ = [ratio for d, ratio in ratios.items() if fair[d] < wants[d] * (1 - EDGE)]
    return max(open_) if open_ else min(ratios.values())


class ByEpoch(CellPools):
    """The ordering by the shares of the epoch, whatever the jobs want by now."""

    def _in_force(self, snapshot: Snapshot, now: float) -> EpochShares | None:
        return self._standings.shares(snapshot)


class World:
    """A queue, and what it should choose: all jobs, and what every pool holds by a count of its own."""

    def __init__(self, parts: Sequence[Sequence[float]]) -> None:
        self.copy = ArraySnapshot(2)
        self.copy.apply(Reply(Position(1, "t"), full=True, rows=rows([ROOM])))
        self.copy.resources = ("cpu", "memory")
        self.copy.pools = Pools(tuple(Pool(f"p{i}") for i in range(POOLS)))
        self.number, self.parts = 0, parts
        self.queue = Queue(ByEpoch())
        self.jobs: dict[str, Work] = {}
        self.stored = {f"p{i}": [0, 0] for i in range(POOLS + 1)}
        self.taken: list[tuple[str, tuple[int, ...]]] = []
        self.new_epoch(0)

    def new_epoch(self, turn: int) -> None:
        self.number += 1
        turn %= POOLS
        self.copy.epoch = epoch_of(self.number, [*self.parts[turn:], *self.parts[:turn]])

    def add(self, pool: int, size: int, tasks: int, precedence: int) -> None:
        name = f"j{len(self.jobs)}"
        self.jobs[name] = work(
            (NEEDS[size], tasks), name=name, order=len(self.jobs), pool=f"p{pool}", precedence=precedence
        )
        self.queue.ready.add(self.jobs[name])

    def use(self, pool: int, cpu: int, memory: int) -> None:
        held = self.stored[f"p{pool}"]
        more = max(-held[0], cpu), max(-held[1], memory)
        self.stored[f"p{pool}"] = [has + amount for has, amount in zip(held, more, strict=True)]
        self.copy.usage.change((f"p{pool}", ""), more, (0, 0))

    def held(self) -> dict[str, list[int]]:
        found = {pool: list(amounts) for pool, amounts in self.stored.items()}
        for pool, amounts in self.taken:
            found[pool] = [has + amount for has, amount in zip(found[pool], amounts, strict=True)]
        return found

    def choose(self, most: int, placed: int) -> None:
        """Choose, and take up to `placed` of the chosen jobs; the others go back to the queue."""
        epoch, held, expected = self.copy.epoch, self.held(), list[str]()
        assert epoch is not None
        queued = [each for name, each in self.jobs.items() if self.queue.ready.get(name)]
        for _ in range(min(most, len(queued))):
            best = min(
                queued,
                key=lambda each: (
                    satisfaction(epoch, each.pool, held[each.pool], each.need(0)),
                    -each.job.precedence,
                    each.job.order,
                ),
            )
            queued.remove(best)
            expected.append(best.id)
            for d, amount in enumerate(best.need(0)):
                held[best.pool][d] += amount * best.left[0]
        self.queue.observe(self.copy, 0.0)
        chosen = self.queue.choose(0.0, most)
        assert [each.id for each in chosen] == expected
        for i, each in enumerate(chosen):
            if i < placed:
                tasks = max(1, each.left[0] - i % 2)  # of some jobs, one task found no machine
                amounts = tuple(amount * tasks for amount in each.need(0))
                self.copy.usage.take("", each.pool, amounts, (each.id, 0))
                self.taken.append((each.pool, amounts))
        self.copy.usage.forget_promises()
        for each in chosen[placed:]:
            self.queue.ready.add(each)

    def settle(self) -> None:
        """The store drops what was taken: its rejections show as use that is gone."""
        self.taken.clear()
        self.copy.usage.settle()

    def happen(self, rng: Random) -> None:
        """Something that may happen between two decisions."""
        what = rng.choice(["add", "add", "add", "use", "use", "discard", "epoch", "settle"])
        if what == "add":
            self.add(rng.randrange(POOLS + 1), rng.randrange(3), rng.randint(1, 3), rng.randrange(2))
        elif what == "use":
            self.use(rng.randrange(POOLS + 1), rng.randint(-3, 6), rng.randint(-3, 6))
        elif what == "discard":
            self.queue.discard(rng.choice(list(self.jobs)))
        elif what == "epoch" and rng.random() < 0.3:
            self.new_epoch(rng.randrange(POOLS))
        elif what == "settle":
            self.settle()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_queue_chooses_as_a_search_through_all_jobs_would(seed: int) -> None:
    rng = Random(seed)
    world = World([[rng.choice((0.0, 0.05, 0.1, 0.25)) for _ in range(4)] for _ in range(POOLS)])
    for _ in range(30):
        world.add(rng.randrange(POOLS + 1), rng.randrange(3), rng.randint(1, 3), rng.randrange(2))
    for _ in range(ROUNDS):
        for _ in range(rng.randrange(4)):
            world.happen(rng)
        world.choose(rng.randint(1, 5), rng.randrange(6))
