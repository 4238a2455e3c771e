"""Distributions from tables: interpolation, means, draws; and the tables that are shipped."""

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.workload.quantiles import Pairs, Quantiles, machine_classes, pairs, precedences, quantiles, table_rows
from omega.workload.workload import array_stream

KINDS = ("batch", "service")
MEASURED = ("tasks_per_job", "interarrival_seconds", "task_seconds")


def table(*rows: tuple[float, float]) -> Quantiles:
    probabilities, values = zip(*rows, strict=True)
    return Quantiles(np.array(probabilities, dtype=float), np.array(values, dtype=float))


def test_values_between_rows_are_interpolated() -> None:
    found = table((0, 1), (0.5, 3), (1, 13))
    assert [found.quantile(p) for p in (0, 0.25, 0.5, 0.75, 1)] == [1, 2, 3, 8, 13]
    assert found.mean == pytest.approx(0.5 * 2 + 0.5 * 8)


@pytest.mark.parametrize("even", [False, True])
def test_draws_follow_the_table(even: bool) -> None:
    found = table((0, 1), (0.5, 3), (1, 13))
    drawn = found.sample(array_stream(1, "draws"), 20_000, even=even)
    assert drawn.min() >= 1
    assert drawn.max() <= 13
    assert drawn.mean() == pytest.approx(found.mean, rel=0.02)
    assert np.median(drawn) == pytest.approx(3, rel=0.05)


def test_even_draws_have_the_mean_of_a_heavy_tail_whatever_the_seed() -> None:
    found = quantiles("batch_tasks_per_job")
    even = [found.sample(array_stream(seed, "sizes"), 500, even=True).mean() for seed in range(10)]
    loose = [found.sample(array_stream(seed, "sizes"), 500).mean() for seed in range(10)]
    assert np.std(even) < np.std(loose) / 3
    assert even == pytest.approx([found.mean] * 10, rel=0.1)
    # One draw from each stratum, in random order.
    drawn = table((0, 0), (1, 1)).sample(array_stream(3, "strata"), 100, even=True)
    assert sorted((drawn * 100).astype(int).tolist()) == list(range(100))
    assert drawn.tolist() != sorted(drawn.tolist())


def test_no_draws_are_an_empty_array() -> None:
    assert table((0, 0), (1, 1)).sample(array_stream(0, "none"), 0, even=True).shape == (0,)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 1)],
        [(0.1, 1), (1, 2)],
        [(0, 1), (0.9, 2)],
        [(0, 1), (0.5, 2), (0.5, 3), (1, 4)],
        [(0, 2), (1, 1)],
        [(0, 1), (1, float("nan"))],
    ],
)
def test_no_table_of_quantiles(rows: list[tuple[float, float]]) -> None:
    with pytest.raises(BadInput, match="quantile table"):
        table(*rows)


def joint(*rows: tuple[float, float, float]) -> Pairs:
    cpu, memory, weights = (np.array(column) for column in zip(*rows, strict=True))
    return Pairs(cpu, memory, weights)


def test_pairs_are_drawn_together_by_weight() -> None:
    found = joint((0.1, 0.9, 3.0), (0.5, 0.2, 1.0))
    drawn = found.sample(array_stream(1, "pairs"), 10_000)
    assert {tuple(row) for row in drawn.tolist()} == {(0.1, 0.9), (0.5, 0.2)}
    assert (drawn[:, 0] == 0.1).mean() == pytest.approx(0.75, abs=0.02)
    assert found.mean == pytest.approx((0.2, 0.725))
    assert found.median == (0.1, 0.9)


def test_pairs_within_machines() -> None:
    found = joint((0.1, 0.9, 1.0), (0.5, 0.2, 1.0), (0.6, 0.9, 2.0))
    assert found.within([(1.0, 0.5), (0.2, 1.0)]).mean == pytest.approx((0.3, 0.55))
    with pytest.raises(BadInput, match="no request of the table fits any machine"):
        found.within([(0.05, 1.0)])


def test_no_table_of_pairs() -> None:
    with pytest.raises(BadInput, match="at least one pair"):
        joint((0.1, 0.1, 0.0))
    with pytest.raises(BadInput, match="not negative"):
        joint((0.1, 0.1, 1.0), (0.1, 0.2, -0.5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MEASURED)
def test_shipped_quantiles(kind: str, name: str) -> None:
    found = quantiles(f"{kind}_{name}")
    assert len(found.values) >= 100
    assert found.values[0] >= (1 if name == "tasks_per_job" else 0)


def test_shipped_means_are_those_measured() -> None:
    # What the trace's files gave, before it was cut into quantiles (tables/README.md).
    assert quantiles("batch_tasks_per_job").mean == pytest.approx(29.39, rel=0.03)
    assert quantiles("batch_interarrival_seconds").mean == pytest.approx(4.645, rel=0.01)
    assert quantiles("service_interarrival_seconds").mean == pytest.approx(58.27, rel=0.01)
    assert pairs("batch_requests").mean == pytest.approx((0.02996, 0.02377), rel=0.01)
    assert pairs("service_requests").mean == pytest.approx((0.06784, 0.04510), rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_pairs_and_precedences(kind: str) -> None:
    weights = [float(row["weight"]) for row in table_rows(f"{kind}_requests")]
    assert len(weights) == 200
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    found = pairs(f"{kind}_requests")
    assert 0 <= found.cpu.min() <= found.cpu.max() <= 1
    assert 0 <= found.memory.min() <= found.memory.max() <= 1
    values, shares = precedences(f"{kind}_precedence")
    assert shares.sum() == pytest.approx(1, abs=1e-3)
    assert set(values.tolist()) <= (set(range(9, 12)) if kind == "service" else set(range(12)))


def test_shipped_machine_classes() -> None:
    classes = machine_classes()
    assert sum(machine.share for machine in classes) == pytest.approx(1, abs=1e-4)
    assert sum(machine.share * machine.cpu for machine in classes) == pytest.approx(6603.25 / 12_477, rel=1e-4)
    assert {machine.platform for machine in classes} == {"A", "B", "C"}
    assert max(machine.cpu for machine in classes) == 1
