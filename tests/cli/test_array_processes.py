"""Arrays whose tasks are processes: each index runs in its own process once, also over an update."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, scheduler
from tests.cli.test_agent import agent
from tests.cli.test_job_update import looked_after
from tests.tiers import first

pytestmark = pytest.mark.server
ARRAYS = {
    "0-11": range(12),
    "3,20,99000-99008:2": [3, 20, *range(99_000, 99_009, 2)],
    "0-259": range(260),
    "0-1299": range(1_300),
}


@pytest.fixture
def at_home(cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with scheduler(cell), agent(cell, tmp_path / "state"), looked_after(cell, "batch"):
        eventually(lambda: cell.machines.index_of("h1") is not None)
        yield


def document(to: Path, array: str, script: str) -> str:
    """Return a job of which some hundred tasks run at a time."""
    task: dict[str, Any] = {"name": "a", "array": array, "resources": {"cpu": "30m", "memory": "1Mi"}, "grace": "1s"}
    task["command"] = ["sh", "-c", script]
    update = {"max_down": 40, "health": {"healthy_after": "0s"}}
    return json.dumps({"name": "many", "directory": str(to), "update": update, "tasks": [task]})


def lines(to: Path, name: str) -> dict[int, list[str]]:
    """Return what the processes of each index wrote."""
    found = {int(path.suffix[1:]): path.read_text().split() for path in to.glob(f"{name}.*")}
    return dict(sorted(found.items()))


def until_its_end(omega: Omega, cell: RedisCell) -> None:
    """Wait, as long as tasks go on ending, for the end of the job."""
    job = cell.jobs.id_of("many")

    def moves(since: dict[str, int]) -> Callable[[], bool]:
        return lambda: cell.jobs.id_of("many") != job or omega.json("job", "status", "many")["counts"] != since

    while job is not None and cell.jobs.id_of("many") == job:
        eventually(moves(omega.json("job", "status", "many")["counts"]))


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("array", first(2, ARRAYS))
def test_each_index_runs_once_and_its_output_is_kept(omega: Omega, cell: RedisCell, tmp_path: Path, array: str) -> None:
    indices = list(ARRAYS[array])
    script = "echo $OMEGA_TASK >> ran.$OMEGA_ARRAY_INDEX; echo of $OMEGA_ARRAY_INDEX"
    omega.run("job", "submit", "-", given=document(tmp_path, array, script))
    until_its_end(omega, cell)
    assert lines(tmp_path, "ran") == {index: [str(task)] for task, index in enumerate(indices)}
    found = omega.json("job", "logs", "many", "--all")["logs"]
    said = {each["indices"]: (each["text"], each["cut_bytes"]) for each in found if each["text"]}
    assert said == {str(index): (f"of {index}\n", 0) for index in indices}
    (row,) = omega.json("job", "tasks", "many", "--state", "finished")["tasks"][:1]
    assert (row["tasks"].split("-")[0], omega.json("job", "status", "many")["counts"]["finished"]) == (
        "0",
        len(indices),
    )


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("array", first(2, ARRAYS))
def test_an_update_runs_each_index_that_has_not_finished_once(
    omega: Omega, cell: RedisCell, tmp_path: Path, array: str
) -> None:
    """Those of even indices finish before the update, unless they wait for their turn; the others run until then."""
    indices = list(ARRAYS[array])
    script = "echo VERSION >> began.$OMEGA_ARRAY_INDEX; WAIT echo VERSION >> ended.$OMEGA_ARRAY_INDEX"
    waits = "[ $((OMEGA_ARRAY_INDEX % 2)) = 0 ] || exec sleep 1000;"
    old, new = (script.replace("VERSION", word).replace("WAIT", wait) for word, wait in (("1", waits), ("2", "")))
    omega.run("job", "submit", "-", given=document(tmp_path, array, old))
    odd = [index for index in indices if index % 2]
    eventually(
        lambda: len(lines(tmp_path, "ended")) >= min(6, len(indices) - len(odd)) and len(lines(tmp_path, "began")) > 6
    )
    eventually(lambda: omega.json("job", "status", "many")["counts"]["finished"] >= min(6, len(indices) - len(odd)))
    omega.run("job", "update", "-", given=document(tmp_path, array, new))
    until_its_end(omega, cell)
    began, ended = lines(tmp_path, "began"), lines(tmp_path, "ended")
    assert list(began) == list(ended) == indices
    twice = {index: versions for index, versions in ended.items() if len(versions) != 1}
    assert twice == {} or len(indices) > 12, "all ran at once, and had ended"
    assert all(versions == ["1", "2"] for versions in twice.values()), "it ended while the update replaced it"
    assert {index: ended[index] for index in odd} == {index: ["2"] for index in odd}
    assert {index for index, versions in began.items() if versions.count("2") > 1 or versions.count("1") > 1} == set()
    assert {index for index in indices if ended[index] == ["1"] and "2" in began[index]} == set()
    assert "1" in [versions[0] for versions in ended.values()], "some finished before the update"
