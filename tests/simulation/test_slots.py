"""The simulated slot cluster: levels, times, heartbeats, pools, and its digest."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.comparisons.hadoop import FewestRunning, HadoopFair, HadoopFifo
from omega.schedulers.policies import Ordering, Placement
from omega.schedulers.work import Work
from omega.simulation.slot_delay import delayed
from omega.simulation.slot_jobs import SlotJobSpec
from omega.simulation.slots import SlotCluster, SlotSimulation

SMALL = SlotCluster(machines=4, racks=2, map_slots=1, reduce_slots=1, heartbeat=1.0, penalty=3.0)


def job(name: str, blocks: list[list[int]], seconds: float = 10.0, **more: object) -> SlotJobSpec:
    return SlotJobSpec(name, blocks, [seconds] * len(blocks), **more)  # type: ignore[arg-type]


def test_a_map_takes_its_own_block_first_then_one_of_its_rack_then_any() -> None:
    run = SlotSimulation(SMALL, [job("a", [[0], [0], [0], [0]])]).run()  # racks {0, 2} and {1, 3}
    assert run.jobs["a"].levels == [1, 1, 2]
    assert 30.0 <= run.ended <= 31.0, "maps without their block take three times as long, after a heartbeat"
    local = SlotSimulation(SMALL, [job("a", [[0], [1], [2], [3]])]).run()
    assert local.jobs["a"].levels == [4, 0, 0]
    assert 10.0 <= local.ended <= 11.0


def test_a_freed_slot_is_offered_at_the_next_heartbeat() -> None:
    slow = SlotCluster(machines=1, racks=1, map_slots=1, heartbeat=8.0)
    run = SlotSimulation(slow, [job("a", [[0]] * 3)]).run()
    first = run.ended - 16.0 - 16.0 - 10.0
    assert 0.0 <= first <= 8.0, "each map of 10 s holds the slot for two heartbeats"


def test_reduces_start_after_some_maps_and_end_after_the_last() -> None:
    run = SlotSimulation(SMALL, [job("a", [[i] for i in range(4)], reduces=(5.0, 5.0))]).run()
    assert 15.0 <= run.ended <= 16.0 + 2.0
    assert run.launched == 6


def test_pools_share_the_slots_by_weight_and_jobs_by_priority() -> None:
    pools = Pools((Pool("heavy", weight=3.0), Pool("light")))
    cluster = SlotCluster(machines=20, map_slots=2, reduce_slots=0, heartbeat=1.0, penalty=1.0, pools=pools)
    each = [SlotJobSpec(name, [[i % 20] for i in range(300)], [5.0] * 300, pool=name) for name in ("light", "heavy")]
    jobs = SlotSimulation(cluster, each, ordering=HadoopFair())
    jobs.engine.run(40_000_000)
    held = {name: jobs.snapshot.usage.of_pool(name)[0] for name in ("light", "heavy")}
    assert held == {"heavy": 30, "light": 10}
    done = SlotSimulation(
        cluster, [job("late", [[0]] * 200), job("soon", [[0]] * 200, precedence=4)], ordering=HadoopFifo()
    )
    done.run()
    assert (done.jobs["soon"].ended or 0) < (done.jobs["late"].ended or 0)


def test_the_same_seed_gives_the_same_digest_and_another_one_another() -> None:
    blocks = SMALL.blocks(12, 2, Random("blocks"))
    digests = [
        SlotSimulation(SMALL, [job("a", blocks), job("b", blocks)], ordering=FewestRunning(), seed=seed).run().digest
        for seed in (1, 1, 2)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_every_task_ends_once_and_all_slots_are_free_again() -> None:
    blocks = SMALL.blocks(9, 2, Random("blocks"))
    run = SlotSimulation(SMALL, [job("a", blocks), job("b", blocks, reduces=(2.0, 2.0, 2.0), at=4.0)]).run()
    assert run.launched == 21
    assert [[int(each) for each in room] for room in run.snapshot.room] == [[1] * 4, [1] * 4]
    assert run.snapshot.usage.by_account() == {}
    assert all(sum(each.levels) == 9 and each.work.ended[0] == 9 for each in run.jobs.values())


class Searching(Placement):
    """Places as the placement that it wraps, which the simulation does not know then."""

    def __init__(self, inner: Placement) -> None:
        self.inner = inner

    @override
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return self.inner.place(work, snapshot, rng)


@pytest.mark.parametrize("skips", [None, (4, 8)])
@pytest.mark.parametrize("ordering", [HadoopFair, FewestRunning, HadoopFifo])
def test_a_slot_that_is_offered_goes_to_the_job_that_a_search_of_its_machine_finds(
    ordering: type[Ordering], skips: tuple[int, ...] | None
) -> None:
    pools = Pools((Pool("p0", weight=2.0), Pool("p1", guarantee={"map_slots": 6})))
    cluster = replace(SMALL, machines=12, waits=(3.0, 2.0), pools=pools)
    rng = Random("offers")
    each = [
        SlotJobSpec(f"j{i}", cluster.blocks(9, 2, rng), [rng.uniform(2, 9) for _ in range(9)], at=1.5 * i,
                    reduces=[1.0, 2.0], pool=f"p{i % 3}", precedence=i % 2)
        for i in range(5)
    ]  # fmt: skip
    known = SlotSimulation(cluster, each, ordering=ordering(), placement=delayed(skips, again=1.0)).run()
    found = SlotSimulation(
        cluster, each, ordering=ordering(), placement=lambda jobs: Searching(delayed(skips, again=1.0)(jobs))
    ).run()
    assert known.digest == found.digest
    assert [job.offers for job in known.jobs.values()] == [job.offers for job in found.jobs.values()]
    assert sum(job.offers for job in known.jobs.values()) > 5 * 9, "some offers were refused"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SlotCluster(machines=0),
        lambda: SlotCluster(penalty=0.5),
        lambda: SlotCluster(waits=(-1.0,)),
        lambda: job("a", []),
        lambda: job("a", [[0]], seconds=0.0),
        lambda: job("a", [[0]], reduces=[-1.0]),
        lambda: SlotSimulation(SMALL, [job("a", [[7]])]),
        lambda: SlotSimulation(SMALL, [job("a", [[0]]), job("a", [[0]])]),
    ],
)
def test_bad_input_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput):
        wrong()  # type: ignore[operator]


def test_out_of_band_heartbeats_offer_a_slot_as_soon_as_a_task_ends() -> None:
    slow = SlotCluster(machines=1, racks=1, map_slots=1, heartbeat=8.0, out_of_band=True)
    assert SlotSimulation(slow, [job("a", [[0]] * 3)]).run().ended <= 30.0 + 8.0


def test_the_next_job_is_submitted_when_an_active_one_has_ended() -> None:
    each = [job(f"j{i}", [[0], [1], [2], [3]]) for i in range(4)]
    run = SlotSimulation(SMALL, each, active=1).run()
    ends = [run.jobs[f"j{i}"].ended or 0.0 for i in range(4)]
    assert all(10.0 <= later - before <= 12.0 for before, later in pairwise([0.0, *ends]))
