"""Each sizing policy on cases worked out by hand, and what the phase model predicts for them."""

from pathlib import Path

import pytest

from omega.schedulers.policies import Sizing
from omega.schedulers.sizing import AsAsked, GlobalCap, MaxParallelism, Phase, Profile, RelativeSize, Totals
from tests.contract.table import Case, read

CASES = read(Path(__file__).with_name("cases.txt"))
POLICIES: dict[str, Sizing] = {
    "as-asked": AsAsked(),
    "max": MaxParallelism(),
    "relative": RelativeSize(),
    "cap": GlobalCap(),
}
NEED = (500, 1024)


def phase(text: str) -> Phase:
    activities, _, seconds = text.partition("x")
    return Phase(int(activities), None if seconds == "?" else float(seconds))


def profile(case: Case) -> Profile:
    return Profile(int(case["asked"]), (phase(case["maps"]), phase(case["reduces"])), NEED, int(case["has"]))


def totals(case: Case) -> Totals:
    """So many workers' worth of processors; of memory there is plenty."""
    cells, used = int(case["cells"]), int(case["used"])
    return Totals((cells * 500, cells * 100_000), (used * 500, used * 1024))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_workers(case: Case) -> None:
    sizes = {name: policy.size(profile(case), totals(case)) for name, policy in POLICIES.items()}
    assert sizes == {name: int(case[name]) for name in POLICIES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_predicted_seconds(case: Case) -> None:
    job = profile(case)
    for workers, column in ((job.asked, "first"), (int(case["max"]), "last")):
        expected = None if case[column] == "?" else pytest.approx(float(case[column]), abs=0.0005)
        assert job.seconds(workers) == expected


def test_the_scarcer_resource_decides() -> None:
    assert Totals((1_000, 64), (0, 0)).room((100, 16)) == 4
    assert Totals((1_000, 64), (0, 48)).room((100, 16)) == 1


def test_a_resource_no_worker_takes_does_not_count() -> None:
    assert Totals((1_000, 0), (0, 0)).room((100, 0)) == 10


def test_of_a_machine_gone_the_tasks_still_count() -> None:
    assert Totals((100,), (150,)).room((10,)) == -5


def test_other_parameters() -> None:
    job = Profile(5, (Phase(100, 10.0), Phase(0, 5.0)), (1,))
    assert RelativeSize(times=2).size(job, Totals((1_000,), (0,))) == 10
    assert GlobalCap(percent=80).size(job, Totals((1_000,), (750,))) == 50
