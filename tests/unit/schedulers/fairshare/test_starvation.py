"""Starvation as a state machine: timeouts compare strictly, and it ends when nothing more fits under the share (§9)."""

from dataclasses import replace
from math import inf

import numpy as np

from omega.schedulers.fairshare.satisfaction import Stand, Starvation, StarvationRules, Status

POOL = {"a": StarvationRules(tolerance=0.8, timeout=30.0, aggressive_timeout=120.0)}


def at(usage: float, share: float = 0.5, demand: float = 1.0, unit: float = 0.1) -> Stand:
    share_, demand_, usage_, unit_ = (np.array([part]) for part in (share, demand, usage, unit))
    return Stand(share=share_, demand=demand_, usage=usage_, unit=unit_)


def test_below_the_tolerance_for_longer_than_the_timeouts() -> None:
    found = Starvation(POOL)
    found.update(100, "a", at(0.39))
    found.update(130, "a", at(0.39))
    assert found.status("a") is Status.NORMAL
    assert found.due("a") == 130
    found.update(130.001, "a", at(0.39))
    assert found.status("a") is Status.STARVING
    found.update(220, "a", at(0.39))
    assert found.status("a") is Status.STARVING
    found.update(220.001, "a", at(0.39))
    assert found.status("a") is Status.AGGRESSIVELY_STARVING


def test_at_the_tolerance_nothing_begins() -> None:
    found = Starvation(POOL)
    for now in (0, 31):
        found.update(now, "a", at(0.4))
    assert found.status("a") is Status.NORMAL
    assert found.since("a") is None


def test_it_ceases_only_when_no_further_unit_fits_under_the_share() -> None:
    found = Starvation(POOL)
    for now in (0, 31):
        found.update(now, "a", at(0.2))
    found.update(32, "a", at(0.4))
    assert found.status("a") is Status.STARVING, "0.4 + 0.1 fits under 0.5"
    found.update(33, "a", at(0.45))
    assert found.status("a") is Status.NORMAL, "0.45 + 0.1 does not"
    found.update(34, "a", at(0.39))
    found.update(63, "a", at(0.39))
    assert found.status("a") is Status.NORMAL, "the time counts anew"


def test_no_work_is_no_starvation() -> None:
    found = Starvation(POOL)
    for now in (0, 31):
        found.update(now, "a", at(0.0, share=0.2, demand=0.0, unit=0.0))
    assert found.status("a") is Status.NORMAL
    for now in (40, 71):
        found.update(now, "a", at(0.0))
    found.forget("a")
    assert found.status("a") is Status.NORMAL


def test_only_resources_count_whose_share_is_below_demand() -> None:
    found = Starvation({"a": StarvationRules(tolerance=0.8, timeout=0.0, aggressive_timeout=inf)})
    stand = Stand(
        share=np.array([0.5, 0.2]), demand=np.array([1.0, 0.2]), usage=np.array([0.1, 0.2]), unit=np.array([0.1, 0.0])
    )
    for now in (0, 1):
        found.update(now, "a", stand)
    assert found.status("a") is Status.STARVING, "the second resource is fully served and blocks"


def test_jobs_have_tolerance_one_when_fully_due() -> None:
    found = Starvation({"j": StarvationRules(tolerance=0.5, timeout=30.0, aggressive_timeout=inf)})
    job = replace(at(0.4, share=0.5, demand=0.5), job=True)
    found.update(0, "j", job)
    assert found.since("j") == 0, "tolerance 1, because the share is the whole demand"
    found.update(30.001, "j", job)
    assert found.status("j") is Status.STARVING
