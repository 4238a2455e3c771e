"""`omega scheduler status`: how one does, or all of a kind."""

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.schedulers.instruments import Figures
from tests.cli.conftest import Omega, join

pytestmark = pytest.mark.server


@pytest.fixture
def three(cell: RedisCell) -> RedisCell:
    """A batch scheduler that has figures, one that has none yet, and one of another kind."""
    join(cell, 3)
    figures = Figures(since=100.0, jobs=4, tasks=9, transactions=5, conflicts=1, busy_seconds=2.5)
    figures.wait.add(0.25)
    figures.decided(0.5, 108.0)
    figures.rejections, figures.in_a_row = {1: 30, 2: 2}, {1: 12}
    first = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.schedulers.renew(first, 60_000, figures.as_dict(110.0, 7, 3) | {"evicts": True, "evicts_by": "age"})
    cell.schedulers.register("batch/1", "nonce", 60_000, 1)
    cell.schedulers.register("service/0", "nonce", 60_000, 1)
    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 1), 1),)) for name in "ab"], 1, "ada")
    return cell


def test_every_field(omega: Omega, three: RedisCell) -> None:
    (found,) = omega.json("scheduler", "status", "batch/0")["schedulers"]
    assert (found.pop("seconds"), found.pop("metrics"), found.pop("heartbeat_at_ms")) == (10.0, None, None)
    assert (found.pop("host"), found.pop("pid")) == (None, None), "its figures came from no process"
    assert found == {
        "member": "batch/0",
        "kind": "batch",
        "job_fields": None,
        "state": "live",
        "alive": True,
        "incarnation": 2,
        "jobs": 4,
        "tasks": 9,
        "transactions": 5,
        "accepted": 4,
        "conflicts": 1,
        "conflict_fraction": 0.25,
        "abandoned": 0,
        "wait_seconds": {"mean": 0.25, "p90": 0.25},
        "busyness": 0.3,
        "failing": {},
        "failed": None,
        "queued": 7,
        "blocked": 3,
        "pending_of_kind": 2,
        "evicts": True,
        "evicts_by": "age",
        "last_cycle": {"seconds": 0.5, "ago": 2.0},
        "rejecting_machines": [
            {"machine": "m1", "rejections": 30, "in_a_row": 12},
            {"machine": "m2", "rejections": 2, "in_a_row": 0},
        ],
    }


def test_who_is_meant(omega: Omega, three: RedisCell) -> None:
    def named(*words: str) -> list[str]:
        return [each["member"] for each in omega.json("scheduler", "status", *words)["schedulers"]]

    assert named() == ["batch/0", "batch/1", "service/0"]
    assert named("batch") == named("b") == ["batch/0", "batch/1"]
    assert named("service/") == named("ser") == ["service/0"]
    said = omega.error("scheduler", "status", "batch/")
    assert said == "scheduler 'batch/': is ambiguous: batch/0, batch/1; give more of the name"
    said = omega.error("scheduler", "status", "batch/9")
    assert said == f"scheduler 'batch/9': not in cell {three.name}; its schedulers: batch/0, batch/1, service/0"


def test_the_text_warns_of_a_machine_that_rejects_over_and_over(omega: Omega, three: RedisCell) -> None:
    result = omega.run("scheduler", "status", "batch")
    assert "7 queued · 3 blocked · 2 of kind batch pending" in result.stdout
    assert "batch/0 · live · incarnation 2 · evicts by age" in result.stdout, "what its policy says of itself"
    assert "fraction 0.250 · 1 of 5 transactions" in result.stdout
    assert "took 0.50 s, 2s ago" in result.stdout
    assert "m1 30 × (12 in a row) · m2 2 ×" in result.stdout
    assert "batch/1 · live · no figures yet" in result.stdout
    assert result.stderr.startswith("warning: machine m1 rejected 12 claims of batch/0 in a row; ")
