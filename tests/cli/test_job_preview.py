"""Previews of changes of live jobs on the command line."""

from pathlib import Path

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join

JOB = "name: a\ntasks: [{name: t, count: %d, time_limit: %s}]\n"


def test_a_plan_of_a_live_job_previews_its_update(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 1)
    file = tmp_path / "a.yaml"
    file.write_text(JOB % (2, "1h"))
    omega.text("job", "submit", str(file))
    before = cell.counters()["version"]
    assert "a: an identical job exists; nothing would change" in omega.text("job", "plan", str(file))
    file.write_text(JOB % (3, "2h"))
    told = omega.text("job", "plan", str(file))
    assert "a: a live job; omega job update would replace 2 tasks" in told
    assert "  t: 2 replaced (time_limit), 0 kept, 1 added" in told
    assert told.replace("nothing was submitted", "nothing was changed") == omega.text(
        "job", "update", "--dry-run", str(file)
    )
    assert "  3 new tasks would be placed (3 on m0)" in told
    (planned,) = omega.json("job", "plan", str(file))["updates"]
    assert (planned["replaces"], planned["group_changes"][0]["after"]) == (2, 3)
    assert planned == omega.json("job", "update", "--dry-run", str(file))
    assert cell.counters()["version"] == before


def test_a_plan_of_a_live_job_and_a_new_one_has_both(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.text("job", "run", "--name", "a")
    told = omega.json("job", "plan", "-", given="[{name: a, tasks: [{count: 2}]}, {name: b, tasks: [{}]}]")
    assert ([job["name"] for job in told["jobs"]], [job["name"] for job in told["updates"]]) == (["b"], ["a"])


def test_a_dry_run_of_a_resize_changes_nothing(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.text("job", "run", "--name", "a")
    before = cell.counters()["version"]
    told = omega.text("job", "resize", "a", "3", "--dry-run")
    assert told.splitlines()[0] == "a: from 1 to 3 tasks"
    assert "2 added tasks would be placed" in told
    assert omega.json("job", "resize", "a", "0", "--dry-run")["after"] == 0
    assert cell.counters()["version"] == before
