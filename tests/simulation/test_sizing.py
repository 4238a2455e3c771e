"""A scheduler that sizes jobs works in the simulator as it does live: shards are taken, surplus comes and goes."""

import numpy as np
import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.verify import verify
from omega.experiments.mapreduce import POLICIES, evaluate
from omega.experiments.mapreduce_loop import looped, speedups
from omega.schedulers.placement.first_fit import RandomFit
from omega.schedulers.policies import Sizing
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sizing import PLAN, AsAsked, MaxParallelism, Phase, RelativeSize
from omega.simulation import Settings, Simulation
from omega.simulation.changing import ChangingWorld
from omega.workload.mapreduce import MapReduceJob, submitted
from omega.workload.presets import Size, draw
from omega.workload.workload import Arrival, Workload
from tests.simulation.test_preempting import full as filled, job

MACHINES = 12
JOBS = [
    MapReduceJob(1.0, 4, (Phase(32, 10.0), Phase(8, 5.0)), (1_000, 1_000)),
    MapReduceJob(40.0, 2, (Phase(3, 20.0), Phase(3, 20.0)), (1_000, 1_000)),
]
"""As asked the first takes 8 rounds of maps and 2 of reduces, the second 2 and 2."""


def cell_of(*others: Arrival) -> Workload:
    """An empty cell of 48 tasks of one cpu."""
    arrivals = sorted([*submitted(JOBS), *others], key=lambda arrival: arrival.at_seconds)
    return Workload(filled().machines, [], arrivals, "an empty cell")


def simulated(policy: Sizing, workload: Workload, seconds: float = 400.0, cell: RedisCell | None = None) -> Simulation:
    own = Scheduler(PLAN, placement=RandomFit(), sizing=policy, jobs_per_call=1, t_job=0.1)
    return Simulation(workload, Settings(days=seconds / 86_400), own=own, cell=cell)


def took(policy: Sizing, workload: Workload) -> dict[str, float]:
    simulation = simulated(policy, workload)
    simulation.run()
    assert isinstance(simulation.world, ChangingWorld)
    return simulation.world.worker_pools.seconds()


def test_as_asked_jobs_take_the_rounds_their_shards_take() -> None:
    found = took(AsAsked(), cell_of())
    assert found["mapreduce-0"] == pytest.approx(8 * 10 + 2 * 5 + 0.1, abs=0.01)
    assert found["mapreduce-1"] == pytest.approx(2 * 20 + 2 * 20 + 0.1, abs=0.01)


def test_more_workers_bring_what_the_policy_lets_them() -> None:
    asked, most, four = (took(policy, cell_of()) for policy in (AsAsked(), MaxParallelism(), RelativeSize()))
    assert most["mapreduce-0"] < four["mapreduce-0"] < asked["mapreduce-0"]
    # 32 maps at once, or 16 twice; a second at most until the scheduler looks, and what it thinks.
    assert 15.0 < most["mapreduce-0"] < 18.0
    assert 25.0 < four["mapreduce-0"] < 28.0


def test_surplus_goes_when_others_wait_for_its_room() -> None:
    """Twelve whole machines are wanted while the surplus runs on them."""
    others = job("wide", "batch", 6.0, MACHINES - 2, 4_000, 1_000.0, 0)
    alone = simulated(MaxParallelism(), cell_of()).run()
    beside = simulated(MaxParallelism(), cell_of(others)).run()
    assert beside.kinds["batch"].jobs_scheduled == 1
    assert beside.kinds[PLAN].jobs_scheduled == alone.kinds[PLAN].jobs_scheduled == 2
    slower, quicker = (took(MaxParallelism(), cell_of(*each))["mapreduce-0"] for each in ((others,), ()))
    assert slower > quicker + 5


@pytest.mark.server
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_real_store_gives_the_run_of_the_twin(cell: RedisCell, policy: Sizing) -> None:
    others = job("wide", "batch", 6.0, MACHINES - 2, 4_000, 50.0, 0)
    twin, store = (simulated(policy, cell_of(others), 200.0, on).run() for on in (None, cell))
    assert store == twin
    assert twin.kinds[PLAN].jobs_scheduled == 2
    assert verify(cell).ok


def test_the_quick_model_agrees_with_the_loop() -> None:
    """The model lets jobs never wait and decides in no time: that shows, as jobs are short here."""
    days, names = 0.008, ("as-asked", "max-parallelism", "global-cap")
    workload = draw("C", 0, days, size=Size(machines=1_000))
    quick = {outcome.policy: outcome.speedups for outcome in evaluate(workload, 0, days)}
    seconds = {name: found for name, found, _ in looped(workload, 0, days, names)}
    loop = {name: speedups(seconds[name], seconds["as-asked"]) for name in names}
    for name in names:
        assert abs(len(quick[name]) - len(loop[name])) <= 2
        benefit = [float((each > 1.01).mean()) for each in (quick[name], loop[name])]
        assert benefit[1] == pytest.approx(benefit[0], abs=0.15)
        p80 = [float(np.quantile(each[name], 0.8)) for each in (quick, loop)]
        assert 0.6 * p80[0] < p80[1] < 1.2 * p80[0]
