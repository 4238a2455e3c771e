"""The reasons why jobs were pending, with their times, as a heartbeat lists them."""

import pytest

from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.transaction import Claim, Outcome, Transaction, Verdict
from omega.queries.explanations import explain_job
from omega.schedulers.constraints.explanation import Explanation
from omega.schedulers.constraints.reasons import Reason
from omega.schedulers.process import scheduler as module
from omega.schedulers.process.scheduler import (
    EXPLAINED_PER_SECOND,
    MOST_JOBS,
    MOST_REASONS,
    PendingReasons,
    SupervisedScheduler,
)
from omega.schedulers.work import Work
from tests.unit.schedulers.rig import LEASE_MS, Rig, spec


def work(job_id: str) -> Work:
    group = GroupStatus(need=(500, 256), total=1, unplaced=1, waiting="0")
    return Work.of(Job(id=job_id, name=job_id, kind="batch", order=1, groups=[group]))


def commit(found: PendingReasons, verdict: Verdict, now: float) -> None:
    found.committed(Transaction("a", (Claim(0, 0, 1),)), Outcome(((int(verdict is Verdict.PLACED), verdict),)), now)


def test_only_changes_are_recorded_with_the_time_of_each() -> None:
    found, job = PendingReasons(), work("a")
    commit(found, Verdict.FULL, 1.0)
    commit(found, Verdict.FULL, 2.0)
    found.blocked(job, 3.0)
    commit(found, Verdict.LIMIT, 4.5)
    found.blocked(job, 4.5)  # because of the limit
    found.delayed(["a"], 5.0)
    found.placed(job, 6.0)
    assert found.as_dict() == {
        "a": [(1000, "CONFLICTS"), (3000, "RESOURCES"), (4500, "LIMIT"), (5000, "LOCALITY"), (6000, "PLACED")]
    }


def test_a_job_that_never_waited_has_none() -> None:
    found = PendingReasons()
    commit(found, Verdict.PLACED, 1.0)
    found.placed(work("a"), 1.0)
    assert found.as_dict() == {}


def test_jobs_and_reasons_are_bounded_and_the_last_ones_stay() -> None:
    found = PendingReasons()
    for i in range(MOST_JOBS + 3):
        found.abandoned(work(f"j{i}"), float(i))
    assert list(found.as_dict()) == [f"j{i}" for i in range(3, MOST_JOBS + 3)]
    for i in range(2 * MOST_REASONS):
        commit(found, (Verdict.FULL, Verdict.LIMIT)[i % 2], float(i))
    assert [at for at, _ in found.as_dict()["a"]] == [1000 * i for i in range(MOST_REASONS, 2 * MOST_REASONS)]


def test_explanations_per_second_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def explain(job: Work, _: object) -> Explanation:
        asked.append(job.id)
        return Explanation(Reason.CONSTRAINT, 0, (), "")

    monkeypatch.setattr(module, "explain", explain)
    found = PendingReasons(lambda: Rig((1_000, 1_000)).live.snapshot)
    for i in range(EXPLAINED_PER_SECOND + 1):
        found.blocked(work(f"j{i}"), 7.25)
    assert len(asked) == EXPLAINED_PER_SECOND
    assert found.as_dict()[f"j{EXPLAINED_PER_SECOND}"] == [(7250, "RESOURCES")]
    found.blocked(work("j0"), 8.0)
    assert asked[-1] == "j0"


def test_a_scheduler_explains_on_its_own_snapshot_and_why_lists_the_reasons() -> None:
    rig = Rig((1_000, 1_000))
    process = SupervisedScheduler(
        "fake://", "c", member="batch/0", scheduler=rig.scheduler, lease_ms=LEASE_MS, figures=rig.figures
    )
    process._live = rig.live
    rig.scheduler.instruments.append(process.reasons)
    rig.submit(spec("first", need=(900, 900)), spec("large", need=(5_000, 5_000)), spec("next", need=(800, 800)))
    rig.until_placed("first")
    process.renew_lease(rig.other)
    blocked = int(rig.clock.seconds * 1000)
    said = {name: explain_job(rig.other, rig.job(name))["past_reasons"] for name in ("first", "large", "next")}
    assert {name: [each["reason"] for each in found] for name, found in said.items()} == {
        "first": [], "large": ["TOO_LARGE"], "next": ["RESOURCES"],
    }  # fmt: skip
    assert said["next"][0]["at_ms"] <= blocked
    rig.end("first")
    rig.until_placed("next")
    process.renew_lease(rig.other)
    found = explain_job(rig.other, rig.job("next"))["past_reasons"]
    assert [(each["reason"], each["by"]) for each in found] == [("RESOURCES", "batch/0"), ("PLACED", "batch/0")]
