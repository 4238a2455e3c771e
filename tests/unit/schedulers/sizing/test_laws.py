"""What every sizing policy holds to, whatever the job and the cell."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from omega.schedulers.policies import Sizing
from omega.schedulers.sizing import AsAsked, GlobalCap, MaxParallelism, Phase, Profile, RelativeSize, Totals

ALL: list[Sizing] = [AsAsked(), MaxParallelism(), RelativeSize(), GlobalCap()]
CLEVER = ALL[1:]
phases = st.builds(Phase, st.integers(0, 60), st.floats(0.125, 64))
needs = st.tuples(st.integers(1, 4), st.integers(0, 4))
profiles = st.builds(Profile, st.integers(1, 70), st.tuples(phases, phases), needs, st.integers(0, 70))
cells = st.tuples(st.integers(0, 400), st.integers(0, 400)).flatmap(
    lambda capacity: st.builds(Totals, st.just(capacity), st.tuples(*(st.integers(0, most) for most in capacity)))
)


def seconds(profile: Profile, workers: int) -> float:
    predicted = profile.seconds(workers)
    assert predicted is not None
    return predicted


@given(profile=profiles)
def test_more_workers_never_take_longer(profile: Profile) -> None:
    times = [seconds(profile, workers) for workers in range(1, 80)]
    assert all(later <= before * (1 + 1e-12) for before, later in pairwise(times))


@given(profile=profiles, most=st.integers(1, 80))
def test_the_useful_number_is_the_first_of_the_best(profile: Profile, most: int) -> None:
    useful = profile.useful()
    assert useful is not None
    times = [seconds(profile, workers) for workers in range(1, most + 1)]
    best = next(i for i, time in enumerate(times, 1) if time <= min(times) * (1 + 1e-12))
    assert best == max(1, min(useful, most))


@pytest.mark.parametrize("policy", ALL, ids=str)
@given(profile=profiles, totals=cells)
def test_never_longer_than_as_asked(policy: Sizing, profile: Profile, totals: Totals) -> None:
    assert seconds(profile, policy.size(profile, totals)) <= seconds(profile, profile.asked) * (1 + 1e-12)


@pytest.mark.parametrize("policy", CLEVER, ids=str)
@given(profile=profiles, totals=cells)
def test_no_worker_that_does_not_shorten_the_job(policy: Sizing, profile: Profile, totals: Totals) -> None:
    size = policy.size(profile, totals)
    assert size == 1 or seconds(profile, size) < seconds(profile, size - 1)


@pytest.mark.parametrize("policy", CLEVER, ids=str)
@given(profile=profiles, totals=cells, more=st.integers(0, 100))
def test_more_idle_never_means_fewer_workers(policy: Sizing, profile: Profile, totals: Totals, more: int) -> None:
    larger = Totals(tuple(amount + more for amount in totals.capacity), totals.allocated)
    assert policy.size(profile, larger) >= policy.size(profile, totals)


@pytest.mark.parametrize("policy", CLEVER, ids=str)
@given(profile=profiles, totals=cells)
def test_what_goes_beyond_the_asked_is_idle(policy: Sizing, profile: Profile, totals: Totals) -> None:
    size = policy.size(profile, totals)
    assert size <= max(profile.asked, profile.has + totals.room(profile.need))


@given(profile=profiles, totals=cells, times=st.integers(1, 8))
def test_relative_size_is_bounded(profile: Profile, totals: Totals, times: int) -> None:
    assert RelativeSize(times).size(profile, totals) <= times * profile.asked


@given(profile=profiles, totals=cells)
def test_max_parallelism_gives_the_most(profile: Profile, totals: Totals) -> None:
    most = MaxParallelism().size(profile, totals)
    assert all(policy.size(profile, totals) <= most for policy in CLEVER)


@given(profile=profiles, totals=cells)
def test_the_cap_is_kept(profile: Profile, totals: Totals) -> None:
    """With the workers given, no resource they need is used beyond the target, unless they were asked for."""
    size = GlobalCap(60).size(profile, totals)
    if size > profile.asked:
        grown = [used + (size - profile.has) * need for used, need in zip(totals.allocated, profile.need, strict=True)]
        amounts = zip(grown, totals.capacity, profile.need, strict=True)
        assert all(used * 100 <= capacity * 60 for used, capacity, need in amounts if need)


@pytest.mark.parametrize("policy", CLEVER, ids=str)
@given(profile=profiles, totals=cells)
def test_without_a_measurement_nobody_knows_better(policy: Sizing, profile: Profile, totals: Totals) -> None:
    unknown = Profile(profile.asked, [Phase(phase.activities) for phase in profile.phases], profile.need, profile.has)
    assert policy.size(unknown, totals) == profile.asked
