"""The same seed gives the same run, whoever keeps the cell."""

from typing import Any

import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Detection, Mode
from omega.cellstate.verify import verify
from omega.simulation import ARCHITECTURES, Simulation
from omega.simulation.settings import Settings
from omega.workload.presets import Size, draw
from omega.workload.workload import Workload
from tests.simulation.tiny import HOURS_2, TINY, simulated
from tests.tiers import one_of

BUSY: dict[str, Any] = {"t_job_service": 30.0, "t_job_batch": 2.0}
"""Decision times with which schedulers interfere and queues form."""
WAYS: list[dict[str, Any]] = [
    {"architecture": name, "reference_rules": rules} for name in ARCHITECTURES for rules in (False, True)
]
WAYS += [
    {"batch_schedulers": 3, "detection": detection, "commit": commit, "release_moves_number": moves}
    for detection, commit, moves in (
        (Detection.COARSE, Mode.INCREMENTAL, True),
        (Detection.COARSE, Mode.GANG, False),
        (Detection.FINE, Mode.GANG, True),
        (Detection.FINE, Mode.INCREMENTAL, True),
    )
]
WAYS += [
    {"batch_schedulers": 2, "placement": "first-fit"},
    {"batch_schedulers": 2, "placement": "best-fit", "detection": Detection.COARSE},
]

EARLY = Workload(TINY.machines, TINY.residents, [each for each in TINY.arrivals if each.at_seconds < 900], TINY.about)


def name_of(way: dict[str, Any]) -> str:
    return "-".join(str(getattr(value, "name", value)).lower() for value in way.values())


@pytest.mark.chaos
@pytest.mark.server
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_larger_cell_on_a_real_store(cell: RedisCell, architecture: str) -> None:
    """A thousand machines, two thousand jobs of some 50,000 tasks; with the paper's rules and decision times."""
    workload = draw("C", 1, 0.1, size=Size(1_000))
    settings = Settings(architecture=architecture, days=0.1, seed=1, t_job_service=5.0)
    twin, store = Simulation(workload, settings).run(), Simulation(workload, settings, cell=cell).run()
    assert len(workload.arrivals) > 1_900
    assert store == twin
    assert verify(cell).ok
    placed = cell.log.facts(most=100_000, kinds={"place"})
    assert all(fact.basis is not None and 0 <= fact.basis.since < fact.version for fact in placed)
    began = [fact.basis.began_ms for fact in placed if fact.basis and fact.basis.began_ms <= fact.at_ms]
    assert len(began) == len(placed), "in simulated time, an attempt begins before its commit"
    assert max(began) > 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_seed_gives_the_same_run(architecture: str) -> None:
    first, second = (simulated(architecture=architecture, seed=3, **BUSY) for _ in range(2))
    assert first == second
    assert first.digest != simulated(architecture=architecture, seed=4, **BUSY).digest


def test_a_run_leaves_no_trace_on_its_workload() -> None:
    """Sweeps simulate one workload many times."""
    before = repr(TINY.arrivals[:50])
    simulated(**BUSY)
    assert repr(TINY.arrivals[:50]) == before


@pytest.mark.server
@pytest.mark.parametrize("way", one_of(3, WAYS), ids=name_of)
def test_a_real_store_gives_the_run_of_the_twin(cell: RedisCell, way: dict[str, Any]) -> None:
    """Quarter of an hour; every verdict and every end goes into the digest."""
    settings = Settings(days=HOURS_2 / 8, seed=5, **BUSY, **way)
    twin, store = Simulation(EARLY, settings).run(), Simulation(EARLY, settings, cell=cell).run()
    assert twin.kinds["batch"].tasks_scheduled > 200
    assert store == twin
    assert verify(cell).ok
    placed = cell.log.facts(most=100_000, kinds={"place"})
    assert all(fact.basis is not None and 0 <= fact.basis.since < fact.version for fact in placed)
    began = [fact.basis.began_ms for fact in placed if fact.basis and fact.basis.began_ms <= fact.at_ms]
    assert len(began) == len(placed), "in simulated time, an attempt begins before its commit"
    assert max(began) > 0
