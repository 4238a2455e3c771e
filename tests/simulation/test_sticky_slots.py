"""The sticky-slots experiment: its expectations hold, and can fail."""

from dataclasses import replace

import pytest

from omega.experiments.sticky_slots import CLUSTER, bound, sticky

SMALL = replace(CLUSTER, machines=40)
"""With as many maps per slot as the cluster of the paper has."""


def test_five_jobs_keep_their_locality_and_delay_makes_it_complete() -> None:
    found = sticky(5, seed=0, maps=144, cluster=SMALL)
    assert found.without > 0.80
    assert found.with_delay >= 0.99


def test_with_many_jobs_slots_stick_and_delay_frees_them() -> None:
    found = sticky(20, seed=0, maps=72, cluster=SMALL)
    assert found.without < bound(20) + 0.10
    assert found.with_delay >= 0.95
    assert found.gain > 1.2


def test_expectations_can_fail() -> None:
    found = sticky(5, seed=0, maps=36, cluster=replace(SMALL, machines=10))
    worse = replace(found, without=0.5, with_delay=0.9, seconds_without=found.seconds_with)
    assert len(worse.failures()) == 3


def test_the_bound_has_the_published_figures() -> None:
    assert [bound(jobs) for jobs in (5, 10, 20, 50)] == pytest.approx([0.93, 0.72, 0.46, 0.22], abs=0.006)
