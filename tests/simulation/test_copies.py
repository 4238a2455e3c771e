"""Copies of slow tasks in simulated time: what they gain with stragglers, and what they cost without."""

import pytest

from omega.schedulers.speculation import Speculation
from omega.simulation.copies import CopiesResult, CopiesSimulation, SlowTasks

SMALL = {"jobs": 30, "tasks": 20, "machines": 40, "every": 30.0}


def both(**words: object) -> tuple[CopiesResult, CopiesResult]:
    load = SlowTasks(**{**SMALL, **words})  # type: ignore[arg-type]
    return CopiesSimulation(load, None).run(), CopiesSimulation(load, Speculation()).run()


def test_with_stragglers_the_slowest_jobs_take_less_than_half() -> None:
    without, with_copies = both(stragglers=0.02)
    assert with_copies.copies > 0
    assert with_copies.quantile(0.99) < without.quantile(0.99) / 2
    assert with_copies.machine_seconds < without.machine_seconds, "outrun stragglers give back their time"


@pytest.mark.parametrize(("variation", "most"), [(0.3, 0.01), (1.0, 0.25)])
def test_without_stragglers_copies_cost_little(variation: float, most: float) -> None:
    load = SlowTasks(stragglers=0.0, variation=variation, **SMALL)  # type: ignore[arg-type]
    assert CopiesSimulation(load, Speculation()).run().cost <= most


def test_a_seed_gives_the_same_result() -> None:
    load = SlowTasks(jobs=5, machines=10, stragglers=0.1)
    assert CopiesSimulation(load, Speculation()).run() == CopiesSimulation(load, Speculation()).run()
