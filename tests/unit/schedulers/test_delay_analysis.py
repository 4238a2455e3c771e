"""The formulas of delay scheduling, by their values in the paper and by drawing slots."""

from random import Random

import pytest

from omega.cellstate.errors import BadInput
from omega.schedulers.comparisons.delay_analysis import job_locality, predicted_locality, skips_needed, wait_share


def test_the_values_of_the_paper() -> None:
    assert predicted_locality(0.1, 10) == pytest.approx(0.651, abs=0.001)
    assert predicted_locality(0.1, 40) == pytest.approx(0.985, abs=0.001)
    assert skips_needed(0.95, 20, 10_000, 3) == pytest.approx(0.231 * 10_000, rel=0.002)
    assert wait_share(231, 1_000, 8) == pytest.approx(0.029, abs=0.0005)


@pytest.mark.parametrize(("left", "expected"), [(1, 0.73), (2, 0.93), (10, 1.0)])
def test_locality_by_the_tasks_left_with_620_machines(left: int, expected: float) -> None:
    share = 1 - (1 - 3 / 620) ** left
    assert predicted_locality(share, 270) == pytest.approx(expected, abs=0.005)
    assert job_locality(10, 620, 3, skips=270) == pytest.approx(0.96, abs=0.005)


@pytest.mark.parametrize("locality", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize(("tasks", "machines", "replicas"), [(3, 50, 3), (20, 100, 3), (200, 1_000, 1)])
def test_the_skips_suffice_for_the_locality(locality: float, tasks: int, machines: int, replicas: int) -> None:
    skips = skips_needed(locality, tasks, machines, replicas)
    assert job_locality(tasks, machines, replicas, skips=skips) >= locality - 0.005


def test_it_agrees_with_slots_drawn_at_random() -> None:
    tasks, machines, replicas, skips, jobs = 8, 40, 3, 12, 400
    rng, local = Random(1), 0
    for _ in range(jobs):
        data = [set(rng.sample(range(machines), replicas)) for _ in range(tasks)]
        while data:
            offers = (rng.randrange(machines) for _ in range(skips))
            found = next((task for offer in offers for task in data if offer in task), None)
            local += found is not None
            data.remove(data[0] if found is None else found)
    assert local / (jobs * tasks) == pytest.approx(job_locality(tasks, machines, replicas, skips=skips), abs=0.02)


@pytest.mark.parametrize(
    ("locality", "tasks", "machines", "replicas"),
    [(1.0, 20, 100, 3), (0.0, 20, 100, 3), (0.9, 0, 100, 3), (0.9, 1, 2, 3)],
)
def test_what_makes_no_sense_is_refused(locality: float, tasks: int, machines: int, replicas: int) -> None:
    with pytest.raises(BadInput, match="not allowed"):
        skips_needed(locality, tasks, machines, replicas)
