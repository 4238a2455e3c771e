"""The same figures as the authors' simulator on the same day of jobs, under its rules.

One seed of some rows here; all of them with ten seeds in the long form (`pytest -m chaos tests/simulation`) and
in ``omega bench sim``.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.agreement import case, compare, day, figures_of, measure_row, rows, settings_of
from omega.cellstate.errors import BadInput
from omega.simulation import Simulation

ROWS = list(rows())
SEEDS = range(10)


def name_of(row: Mapping[str, Any]) -> str:
    return f"{row['arch']} {row['transaction_mode'] or ''} {row['t_job_service']:g}".replace("  ", " ")


SHORT = ("omega incremental 10",)


@pytest.mark.usefixtures("shared_directory")
@pytest.mark.parametrize("row", [row for row in ROWS if name_of(row) in SHORT], ids=name_of)
@pytest.mark.chaos
def test_one_seed_is_one_of_theirs(row: Mapping[str, Any]) -> None:
    """A single run scatters as a single one of theirs; four standard deviations of ten rows of figures."""
    figures = compare(row, [Simulation(day(), settings_of(row, 1)).run()])
    assert len(figures) >= 11
    for figure in figures:
        assert abs(figure.ours - figure.reference) <= figure.tolerance * 4 / 3, figure


@pytest.mark.usefixtures("shared_directory")
@pytest.mark.chaos
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_ten_seeds_agree_with_ten_of_theirs(row: Mapping[str, Any]) -> None:
    assert [figure for figure in measure_row(row, SEEDS, day()) if not figure.agrees] == []


@pytest.mark.usefixtures("shared_directory")
def test_a_tolerance_is_the_most_of_three() -> None:
    row = {
        name: {"mean": mean, "sd": sd}
        for name, mean, sd in (
            ("jobs_fully_scheduled_batch", 10_000, 0.0),
            ("wasted_busyness_batch", 0.0, 0.0),
            ("busyness_batch", 1.0, 0.1),
        )
    }
    result = Simulation(day(), settings_of(ROWS[0], 0)).run()
    found = {figure.name: figure for figure in compare(row, [result])}
    tolerances = [found[name].tolerance for name in row]
    assert tolerances == pytest.approx([100.0, 1e-5, 0.3])
    assert not found["busyness_batch"].agrees
    assert found["wasted_busyness_batch"].agrees


@pytest.mark.usefixtures("shared_directory")
def test_waits_and_utilisation_have_their_names() -> None:
    found = figures_of(Simulation(day(), settings_of(ROWS[0], 0)).run())
    assert {"mean_wait_first_s_service", "p90_wait_first_s_batch", "busyness", "avg_mem_util"} <= set(found)


def test_results_of_another_form_are_refused() -> None:
    with pytest.raises(BadInput, match=r"tiny\.csv: not of the form"):
        list(rows(case("tiny.csv")))
    with pytest.raises(BadInput, match="cannot be read"):
        list(rows(case("nothing.json")))
