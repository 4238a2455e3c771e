"""A change takes exact names: a prefix, an index or the number of a task finds nothing, and says what is near."""

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join


@pytest.fixture
def jobs(omega: Omega, cell: RedisCell) -> list[str]:
    join(cell, 3)
    names = ["train-015", "arr", "other5"]
    given = "\n".join(
        f"- {{name: {name}, id: {i}f00d{i}{'0' * 20}, tasks: [{{duration: 1h}}]}}" for i, name in enumerate(names, 2)
    )
    omega.json("job", "submit", "-", "--detach", given=given)
    return names


@pytest.mark.parametrize(
    "words",
    [
        ("stop", "2"), ("stop", "2f00d"), ("hold", "2f00d"), ("release", "2f00d"), ("resize", "2f00d", "3"),
        ("weight", "2f00d", "2"), ("rerun", "2f00d"), ("revert", "2f00d"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_change_of_a_job_takes_no_prefix(
    omega: Omega, cell: RedisCell, jobs: list[str], words: tuple[str, ...]
) -> None:
    before = cell.counters()["version"]
    said = omega.error("job", *words)
    assert "no job has this name or id (2f00d2000000" in said
    assert "train-015 begins so); a change takes the exact name" in said
    assert cell.counters()["version"] == before
    assert omega.json("job", "status", words[1])["name"] == "train-015", "reading may guess"


def test_a_word_that_looks_like_a_task_stops_nothing(omega: Omega, cell: RedisCell, jobs: list[str]) -> None:
    before = cell.counters()["version"]
    assert "4f00d" in omega.error("job", "stop", "arr", "4")
    assert cell.counters()["version"] == before


def test_the_letters_that_lists_print_are_enough(omega: Omega, jobs: list[str]) -> None:
    shown = omega.text("job", "list").splitlines()
    id_shown = next(line.split()[0] for line in shown if "train-015" in line)
    omega.text("job", "stop", id_shown)
    assert omega.json("job", "status", "train-015")["state"] in ("stopped", "stopping")


@pytest.mark.parametrize("word", ["web", "web-1", "0"])
@pytest.mark.parametrize(
    "change",
    [("drain",), ("up",), ("down",), ("remove",), ("resize", "--cpu", "1"), ("set", "a=b")],
    ids=" ".join,
)
def test_a_change_of_a_machine_takes_its_name(
    omega: Omega, cell: RedisCell, word: str, change: tuple[str, ...]
) -> None:
    join(cell, 1, prefix="web-11")
    before = cell.counters()["version"]
    assert "no machine has this name (web-110 is near)" in omega.error("machine", change[0], word, *change[1:])
    assert cell.counters()["version"] == before
    assert omega.json("machine", "status", word)["name"] == "web-110", "reading may guess"
