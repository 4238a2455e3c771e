"""The paper's cells: C as measured, A and B at another pace, all about 60 % full and steady."""

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.workload.presets import FILL, PRESETS, Size, draw, pace, preset
from omega.workload.quantiles import quantiles
from omega.workload.workload import Workload
from tests.unit.omega.workload.loads import demand, offered_load

SMALL = Size(machines=600)


def fill(workload: Workload) -> float:
    capacity = np.array(workload.capacity, dtype=float)
    return float(demand(workload.residents).peak(capacity).max())


def held_by_arrivals(name: str) -> float:
    return float(np.mean([max(offered_load(draw(name, seed, 0.1, size=SMALL))) for seed in range(3)]))


@pytest.mark.parametrize("name", PRESETS)
def test_the_cell_begins_as_full_as_said(name: str) -> None:
    workload = draw(name, 3, 0.01, size=SMALL)
    assert len(workload.machines) == SMALL.machines
    assert FILL - 0.01 < fill(workload) <= FILL
    ends = [arrival.job.groups[0].duration_ms for arrival in workload.residents]
    assert min(ends) < 0.01 * 86_400_000 < max(ends)  # some end within the run, most outlive it
    assert sum(end > 86_400_000 for end in ends) > len(ends) / 2


def test_only_c_is_measured() -> None:
    assert PRESETS["C"].label == "C (measured)"
    assert PRESETS["C"].pace == 1
    for name, saturates_at in (("A", 2.5), ("B", 6.0)):
        assert preset(name).saturates_at == saturates_at
        assert "calibrated" in draw(name, 0, 0.001, size=SMALL).about


def test_the_pace_leaves_a_scheduler_no_time_at_saturation() -> None:
    per_job = 0.1 + 0.005 * quantiles("batch_tasks_per_job").mean
    for saturates_at in (2.5, 6.0):
        gap = quantiles("batch_interarrival_seconds").mean / pace(saturates_at)
        assert saturates_at * per_job / gap == pytest.approx(1.0)


def test_pace_moves_arrivals_and_not_what_they_hold() -> None:
    calm, busy = (draw(name, 5, 0.05, size=SMALL) for name in "CB")
    ratio = len(busy.arrivals) / len(calm.arrivals)
    assert PRESETS["B"].pace * 0.8 < ratio < PRESETS["B"].pace * 1.25
    assert 0.03 < held_by_arrivals("C") < 0.15
    assert held_by_arrivals("B") == pytest.approx(held_by_arrivals("C") / 2, abs=0.03)


def test_rate_multiplies_batch_jobs_alone() -> None:
    once, thrice = (draw("B", 1, 0.05, rate=rate, size=SMALL) for rate in (1.0, 3.0))
    counts = [
        {kind: sum(arrival.job.kind == kind for arrival in each.arrivals) for kind in ("batch", "service")}
        for each in (once, thrice)
    ]
    assert counts[0]["service"] == counts[1]["service"]
    assert counts[1]["batch"] == pytest.approx(3 * counts[0]["batch"], rel=0.15)
    assert [arrival.job.id for arrival in once.residents] == [arrival.job.id for arrival in thrice.residents]


def test_same_seed_same_workload() -> None:
    assert draw("A", 4, 0.01, size=SMALL) == draw("A", 4, 0.01, size=SMALL)
    assert draw("A", 4, 0.01, size=SMALL).residents != draw("A", 5, 0.01, size=SMALL).residents


def test_there_is_no_other_preset() -> None:
    with pytest.raises(BadInput, match="known: A, B, C"):
        draw("D", 0, 1.0)
