"""Worked examples of fair shares, and what users of other systems suffered from, as files (pool_scenarios): simulated.

tests/chaos/test_pool_scenarios.py runs the same files on live cells.
"""

from pathlib import Path

import pytest

from omega import pools
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MachineSpec
from omega.schedulers.constrained import Constrained
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Settings, Simulation
from omega.workload.workload import Workload
from tests.simulation.pool_scenario import FILES, MILLI, Scenario, Seen

TOLERANCE = 1e-4
"""Files have shares with four digits."""


def prepared(scenario: Scenario, schedulers: int = 1, *, records: bool = False) -> Simulation:
    """A simulation of the scenario with its changes."""
    machines = [
        MachineSpec(name, (round(of["cpu"] * MILLI), of.get("memory", 0)), of.get("attributes", {}))
        for name, of in scenario.fields["machines"].items()
    ]
    workload = Workload(machines, [], scenario.arrivals(), scenario.name, scenario.cell_pools())
    settings = Settings(days=scenario.fields.get("until", 1) / 86_400, batch_schedulers=schedulers)
    own = Scheduler("batch", CellPools(), Constrained(FirstFit()), FairSharePreemption(), jobs_per_call=8, t_job=0.003)
    simulation = Simulation(workload, settings, own=own, records=records)
    world, cell = simulation.world, simulation.store.cell

    def change(at: float) -> None:
        version = cell.pools.get().version
        simulation.clock.pools = world.pools = cell.pools.set(scenario.cell_pools(at), version, 0, "ada")
        for changed in scenario.changes:
            for job, count in changed.get("resize", {}).items() if changed["at"] == at else ():
                cell.jobs.resize(job, {0: count}, 0, "ada")

    for changed in scenario.changes:
        world.engine.at(round(changed["at"] * 1e6), change, changed["at"])
    return simulation


def play(scenario: Scenario, schedulers: int) -> dict[float, Seen]:
    """The cell at the times of the expectations."""
    simulation, seen = prepared(scenario, schedulers), dict[float, Seen]()
    world, cell, engine = simulation.world, simulation.store.cell, simulation.world.engine

    def look(at: float) -> None:
        running = {job.id: sum(group.placed for group in job.groups) for job in cell.jobs.all()}
        epoch = world.epoch
        assert epoch is not None
        shares = {name: share.fair_share for name, share in epoch.pools.items()} | dict(epoch.jobs)
        volumes = {name: share.volume for name, share in epoch.pools.items()}
        seen[at] = Seen(running, sum(world.evicted.values()), shares, volumes)

    for expected in scenario.expect:
        engine.at(round(expected["at"] * 1e6), look, expected["at"])
    simulation.run()
    return seen


@pytest.mark.parametrize("schedulers", [1, pytest.param(4, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, schedulers: int) -> None:
    scenario = Scenario(path)
    if scenario.refused is not None:
        with pytest.raises(BadInput, match=scenario.refused):
            play(scenario, schedulers)
        return
    if scenario.live_only:
        return
    seen = play(scenario, schedulers)
    for expected in scenario.expect:
        scenario.check(expected, seen[expected["at"]], seen)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shares_are_those_of_the_calculator(path: Path) -> None:
    scenario = Scenario(path)
    for expected in scenario.expect:
        if "shares" not in expected or expected.get("computed") is False:
            continue
        found = pools.computed(*pools.from_document(scenario.tree(expected["at"])))["elements"]
        for name, share in expected["shares"].items():
            got = found[name if name in found else f"job {name}"]["fair_share"]
            assert {each: got[each] for each in share} == pytest.approx(share, abs=TOLERANCE), name
