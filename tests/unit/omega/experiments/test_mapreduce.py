"""What sizing policies bring MapReduce jobs, on sums of a cell: the order of the paper's figures 15 and 16."""

import pytest

from omega.cellstate.model import MachineSpec
from omega.experiments.mapreduce import PolicyResult, evaluate
from omega.workload.presets import Size, draw
from omega.workload.workload import Workload

DAYS = 0.08


@pytest.fixture(scope="module")
def workload() -> Workload:
    return draw("C", 0, DAYS, size=Size(machines=3_000))


@pytest.fixture(scope="module")
def cells(workload: Workload) -> dict[float, dict[str, PolicyResult]]:
    """By how full the cell is, and by policy."""
    return {
        fill: {outcome.policy: outcome for outcome in evaluate(workload, 0, DAYS, fill, step=60.0)}
        for fill in (0.5, 1.3)
    }


def test_as_asked_is_what_others_are_compared_with(cells: dict[float, dict[str, PolicyResult]]) -> None:
    asked = cells[0.5]["as-asked"]
    assert len(asked.speedups) > 100
    assert asked.speedups == pytest.approx(1.0)
    assert asked.benefit == 0.0


def test_max_parallelism_brings_what_was_fitted(cells: dict[float, dict[str, PolicyResult]]) -> None:
    found = cells[0.5]["max-parallelism"]
    assert 0.5 <= found.benefit <= 0.7
    assert 2.5 <= found.quantile(0.8) <= 4.0


def test_relative_size_is_never_better_and_bounded(cells: dict[float, dict[str, PolicyResult]]) -> None:
    for policies in cells.values():
        relative, most = policies["relative-size"], policies["max-parallelism"]
        # Jobs that end within the run count, and a few more end under the faster policy: within 1 %.
        assert all(relative.quantile(share) <= 1.01 * most.quantile(share) for share in (0.5, 0.8, 0.95))
        assert relative.speedups.max() <= 4.0 + 1e-9


def test_a_global_cap_does_as_well_where_there_is_room_and_nothing_where_there_is_none(
    cells: dict[float, dict[str, PolicyResult]],
) -> None:
    assert cells[0.5]["global-cap"].quantile(0.8) == pytest.approx(cells[0.5]["max-parallelism"].quantile(0.8), rel=0.1)
    assert cells[1.3]["global-cap"].benefit < 0.05


def test_utilisation_varies_most_under_max_parallelism(cells: dict[float, dict[str, PolicyResult]]) -> None:
    deviation = {name: float(outcome.use[:, 0].std()) for name, outcome in cells[0.5].items()}
    assert deviation["max-parallelism"] > deviation["as-asked"]
    assert deviation["max-parallelism"] >= deviation["relative-size"]


def test_nothing_arrives() -> None:
    found = list(evaluate(Workload([MachineSpec("m0", (1, 1))], [], [], ""), 0, 0.001))
    assert [outcome.as_json()["jobs"] for outcome in found] == [0, 0, 0, 0]
    assert found[0].as_json()["speedup_p80"] == 1.0
