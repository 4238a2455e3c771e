"""`omega job history`, `revert`, and the generations of a job's tasks after updates."""

from collections.abc import Iterator

import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cli.job.history import _text
from tests.cli.conftest import Omega, eventually, executor, join, scheduler
from tests.cli.test_job_update import job, looked_after


@pytest.fixture
def web(omega: Omega, cell: RedisCell) -> Iterator[None]:
    """A service of three tasks that run."""
    join(cell, 3)
    omega.json("job", "submit", "-", given=job(1))
    with scheduler(cell, "service/0"), executor(cell), looked_after(cell):
        eventually(lambda: omega.json("job", "status", "web")["summary"]["running"] == 3)
        yield


def running(omega: Omega) -> list[str]:
    return [g["spec"]["command"][1] for g in omega.json("job", "status", "web")["groups"] if g["counts"]["placed"]]


@pytest.mark.usefixtures("web")
@pytest.mark.chaos
def test_versions_are_listed_compared_and_restored(omega: Omega) -> None:
    omega.json("job", "update", "-", "--follow", given=job(2))
    omega.json("job", "update", "-", "--follow", given=job(3, 4))
    versions = omega.json("job", "history", "web")["versions"]
    assert [(each["version"], each["by"], each["tasks"]) for each in versions] == [
        (3, "ada", 4), (2, "ada", 3), (1, "ada", 3),
    ]  # fmt: skip
    assert versions[1]["changes"] == [
        {"field": "tasks.front.command", "before": ["serve", "1"], "after": ["serve", "2"]}
    ]
    told = omega.text("job", "history", "web")
    assert told.splitlines()[0].startswith("version 3 (present) · ")
    assert '  tasks.front.command: ["serve", "2"] → ["serve", "3"]' in told
    assert omega.text("job", "history", "web", "--diff", "1", "3").count(" → ") == 2
    assert omega.run("job", "revert", "web", "--follow").stdout.splitlines()[-1].endswith("updated")
    assert running(omega) == ["2"]
    omega.json("job", "revert", "web", "--to", "1", "--follow")
    assert (running(omega), omega.json("job", "status", "web")["version"]) == (["1"], 5)
    assert omega.error("job", "revert", "web", "--to", "99").startswith("job web: has no version 99")


@pytest.mark.usefixtures("web")
@pytest.mark.chaos
def test_after_a_good_way_back_failures_of_the_refused_version_are_not_the_jobs_own(
    omega: Omega, cell: RedisCell
) -> None:
    omega.json("job", "update", "-", given=job(2, healthy="1h"))
    eventually(lambda: running(omega) == ["1", "2"])
    found = cell.jobs.get(cell.jobs.id_of("web") or "")
    assert found is not None
    placement, machine, _ = found.groups[1].runs[0]
    cell.executors.end([TaskEnd(machine, placement, EndKind.FAILED, reason="exit 3")], 1, "here")
    eventually(lambda: cell.jobs.updates()[found.id].startswith("stalled"))
    assert omega.json("job", "status", "web")["failures"] == {"exit 3": 1}
    omega.json("job", "revert", "web", "--follow")
    after = omega.json("job", "status", "web")
    assert (after["failures"], after["counts"]["failed"], after["counts"]["total"]) == ({}, 0, 3)
    for group in cell.jobs.get(found.id).groups:  # type: ignore[union-attr]
        for run, on, leaving in group.runs:
            if not leaving:
                cell.executors.end([TaskEnd(on, run, EndKind.FINISHED)], 1, "here")
    assert omega.json("job", "list")["jobs"][0]["state"] == "finished"


@pytest.mark.usefixtures("web")
def test_logs_are_those_of_the_newest_generation(omega: Omega, cell: RedisCell) -> None:
    for version in (2, 3):
        omega.json("job", "update", "-", "--follow", given=job(version))
    found = cell.jobs.id_of("web") or ""
    cell.tasks.keep_tails({(found, group, 0, "stdout"): f"generation {group + 1}\n".encode() for group in range(3)})
    assert omega.text("job", "logs", "web") == "generation 3\n"
    assert omega.text("job", "logs", "web", "--group", "front", "--generation", "1") == "generation 1\n"
    assert omega.json("job", "logs", "web", "--generation", "2")["text"] == "generation 2\n"
    message = omega.error("job", "logs", "web", "--generation", "4")
    assert message == "job web: has no generation 4 of these tasks; the newest is 3"
    assert [group["generation"] for group in omega.json("job", "status", "web")["groups"]] == [1, 2, 3]


@pytest.mark.usefixtures("web")
def test_a_drained_machine_that_holds_a_service_warns_without_a_deadline(omega: Omega, cell: RedisCell) -> None:
    found = cell.jobs.get(cell.jobs.id_of("web") or "")
    assert found is not None
    name = cell.machines.described([found.groups[0].runs[0][1]])[0][0]
    said = omega.run("machine", "drain", name).stderr
    assert f"machine {name}: drained without a deadline, and keeps web: services do not end by themselves" in said
    assert "deadline" not in omega.run("machine", "drain", name, "--deadline", "1h").stderr


def test_differences_of_needs_are_in_the_units_of_job_files() -> None:
    shown = [("tasks.a.resources.cpu", 1000), ("tasks.a.resources.memory", 512), ("tasks.a.count", 3), ("wait", None)]
    assert [_text(field, value) for field, value in shown] == ["1", "512Mi", "3", "–"]
