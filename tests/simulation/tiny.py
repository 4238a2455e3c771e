"""Two hours of a cell of 100 machines (benchmarks/cases/tiny.csv), simulated in a tenth of a second."""

from typing import Any

from benchmarks.agreement import CAPACITY, case
from omega.cellstate.redis import RedisCell
from omega.simulation import Result, Settings, Simulation
from omega.workload.reference import read_reference

HOURS_2 = 7_200 / 86_400
TINY = read_reference(case("tiny.csv"), 100, CAPACITY)


def simulated(cell: RedisCell | None = None, **settings: Any) -> Result:
    """A run of the two hours."""
    return Simulation(TINY, Settings(**{"days": HOURS_2, **settings}), cell=cell).run()
