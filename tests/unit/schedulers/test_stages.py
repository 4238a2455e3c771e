"""Preemption on one machine: stages, and the back-off by accepted evictions (§11)."""

import numpy as np

from omega.cellstate.snapshot import Resident
from omega.schedulers.fairshare.satisfaction import Preemptible, Status
from omega.schedulers.preemption.planning import Backoff, least_for
from omega.schedulers.preemption.victims import EvictionsInFlight, UnsettledEvictions


def test_stages() -> None:
    """Free room alone serves who does not starve; aggressive starvation reaches further tasks."""
    assert least_for(Status.NORMAL) is None
    assert least_for(Status.STARVING) is Preemptible.YES
    assert least_for(Status.AGGRESSIVELY_STARVING) is Preemptible.AGGRESSIVELY


def test_a_machine_rests_after_an_accepted_eviction() -> None:
    rest = Backoff()
    assert rest.until(1) == 0.0
    rest.evicted(1, 10.0)
    assert rest.until(1) == 10.5
    assert rest.until(1, 2.0) == 12.0
    assert rest.until(2) == 0.0
    rest.evicted(1, 9.0)
    assert rest.until(1) == 10.5, "an older one that is seen late does not shorten it"


def test_an_exchange_on_a_machine_is_an_eviction_by_somebody() -> None:
    """A number one higher and the same use: tasks went and others started in one transaction; else nothing is known."""
    rest = Backoff()

    def resting(now: float) -> list[int]:
        rest.watch(rows, now)
        return [machine for machine in range(rows.shape[1]) if now < rest.until(machine)]

    rows = np.array(
        [[0, 1, 2, 3], [5, 5, 5, 5], [0, 0, 0, 0], [1, 1, 1, 1], [4, 4, 4, 4], [4, 4, 4, 4]], dtype=np.int64
    )
    assert resting(0.0) == []
    rows[1] += [1, 1, 2, 0]
    rows[5, 1] = 3
    assert resting(1.0) == [0], "use fell on the second, the third changed twice, the fourth not at all"
    assert resting(2.0) == []
    rows = np.concatenate([rows, rows], axis=1)
    assert resting(3.0) == [], "machines that joined"


def test_a_job_leaves_what_evictions_in_flight_take_of_it() -> None:
    """Of each its own tasks, and all of a strict gang; two transactions may take of one job."""
    single = Resident(machine=0, placement=7, job="a", precedence=0, need=(10, 1), tasks=5)
    gang = Resident(machine=0, placement=8, job="b", precedence=0, need=(20, 2), tasks=1, together=4)
    victims = {7: single, 8: gang}
    in_flight = EvictionsInFlight()
    in_flight.of["first"] = UnsettledEvictions((), {7: 2, 8: 1}, (), victims)
    in_flight.of["second"] = UnsettledEvictions((), {7: 1}, (), victims)
    assert [in_flight.leaving(job, 2) for job in "abc"] == [(30, 3), (80, 8), (0, 0)]
    assert in_flight.gone() == {7: 3, 8: 1}
