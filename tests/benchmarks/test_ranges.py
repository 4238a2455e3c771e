"""ranges.toml: every figure says where it stands, by which command, and how much worse it may become."""

import shlex
from datetime import date

import click
import pytest

from benchmarks.everything import Settings
from benchmarks.ranges import Range, load
from omega.cli.main import omega

MEASURED, RANGES = load()
DOCUMENTS = {"instructions", *(name for name, _, _ in Settings().parts())}  # counted where valgrind is installed
MORE = Range(
    name="tasks",
    command="omega bench conflict",
    document="headline",
    rows="medians",
    figure="tasks",
    measured=100,
    spread=(90, 110),
    margin=0.2,
    unit="tasks/s",
)


def test_it_says_where_and_when() -> None:
    assert date.fromisoformat(str(MEASURED["date"])).year >= 2026
    assert MEASURED["machine"]
    assert len({each.name for each in RANGES}) == len(RANGES) > 10


@pytest.mark.parametrize("each", RANGES, ids=lambda each: each.name)
def test_a_figure_is_whole(each: Range) -> None:
    assert each.spread[0] <= each.measured <= each.spread[1]
    assert 0 < each.margin < 1
    assert each.unit
    assert each.document in DOCUMENTS


@pytest.mark.parametrize("command", sorted({each.command for each in RANGES}))
def test_its_command_exists(command: str) -> None:
    words = shlex.split(command)
    found: click.Command | None = omega
    context = click.Context(omega)
    while words and isinstance(found, click.Group):
        if words[0] != "omega":
            found = found.get_command(context, words[0])
        words.pop(0)
    assert found is not None
    options = {name for parameter in found.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_a_figure_is_found_and_judged() -> None:
    where = Range(**{**{name: getattr(MORE, name) for name in MORE.__slots__}, "where": {"gang": True}})
    document = {"medians": [{"gang": False, "tasks": 1}, {"gang": True, "tasks": 81}]}
    assert where.find(document) == 81
    assert where.find({}) is None
    assert where.check(81)["within"]
    assert not where.check(79)["within"]


def test_less_may_be_better() -> None:
    less = Range(
        name="memory",
        command="omega bench place",
        document="place",
        rows="memory.server",
        figure="mb",
        measured=4,
        spread=(4, 4),
        margin=0.25,
        unit="MB",
        more_is_better=False,
    )
    assert less.find({"memory": {"server": [{"mb": 4.5}]}}) == 4.5
    assert less.check(4.5)["within"]
    assert not less.check(5.5)["within"]
