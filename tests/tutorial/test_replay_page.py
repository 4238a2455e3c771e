"""docs/replay.md is true: its commands run and print what it shows, it names every column and option."""

from pathlib import Path

import pytest

from omega.cli.sim.replay import command
from omega.replay.fairness import fairness_of
from omega.replay.tables import HOW, Table, jobs_table, tasks_table, users_table, utilisation_table
from omega.replay.utilisation import utilisation_of
from omega.replay.waits import times_of
from tests.simulation.replay_cases import drawn
from tests.tutorial.page import DOCS, blocks
from tests.tutorial.test_tour import pasted

PAGE = (DOCS / "replay.md").read_text(encoding="utf-8")


@pytest.mark.server
def test_the_commands(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(tmp_path)
    pasted(blocks("replay.md"), store_url, tmp_path)
    assert sorted(path.name for path in (tmp_path / "records").iterdir()) == [
        "jobs.csv", "tasks.csv", "users.csv", "utilisation.csv",
    ]  # fmt: skip
    assert len(list((tmp_path / "figures").iterdir())) == 4


def test_the_page_names_every_column() -> None:
    columns = drawn(1).columns
    times = times_of(columns)
    tables: list[Table] = [
        jobs_table(columns, times), tasks_table(columns), users_table(fairness_of(columns, times)),
        utilisation_table(utilisation_of(columns)),
    ]  # fmt: skip
    like_cpu = ("memory_mib_held", "memory_mib_capacity", "memory_utilisation")
    names = {name for table in tables for name in table} - set(like_cpu)
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_the_page_names_every_way_in_which_placements_end() -> None:
    ends = PAGE[PAGE.index("| `how` |") :].partition("\n")[0]
    assert [how for how in HOW.values() if how not in ends] == ["left"]


def test_the_page_names_every_option() -> None:
    common = {"--json", "--cell", "--help", "--store-file"}
    options = {name for each in command.params for name in each.opts if name.startswith("--")} - common
    assert len(options) > 20
    assert [name for name in sorted(options) if f"`{name}" not in PAGE] == []
