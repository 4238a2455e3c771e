"""docs/many-cells.md is true: its policy is used by its name, it names every field, setting and key that is copied."""

import json
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell
from omega.many_cells.policy import AXIS, CellOffer, FitsFirst, cell_policy
from tests.cli.conftest import Omega
from tests.tutorial.page import DOCS, blocks

PAGE = (DOCS / "many-cells.md").read_text(encoding="utf-8")
FILES = {language: text for language, text in blocks("many-cells.md") if language in ("python", "toml")}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of the page, as its installation leaves it."""
    (tmp_path / "house_cells.py").write_text(FILES["python"])
    info = tmp_path / "house-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    points = FILES["toml"].replace('project.entry-points."', "").replace('"]', "]").replace('"', "")
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.server
def test_the_policy_of_the_page(store_url: str, house: Path) -> None:
    url = f"{store_url}?db=8"
    for name, machines in (("east", 9), ("west", 3)):
        with closing(create_cell(connect(url), name, url=url)) as cell:
            cell.executors.register("here", "n", 600_000, 0)
            cell.machines.join("here", [MachineSpec(f"m{i}", (4_000, 4_096)) for i in range(machines)], 0)
            cell.schedulers.register("batch/0", "n", 600_000, 0)
    file, omega = house / "job.yaml", Omega(url)
    for name, count, policy, cell_name in (
        ("a", 1, "cheapest", "west"), ("b", 1, None, "east"), ("c", 20, "house_cells:Cheapest", "east"),
    ):  # fmt: skip
        file.write_text(json.dumps({"name": name, "tasks": [{"count": count, "resources": {"cpu": 1}}]}))
        words = ("--cells-policy", policy) if policy else ()
        (job,) = omega.json("job", "submit", "--cell", "any", *words, str(file))["jobs"]
        assert job["cell"] == cell_name
        assert f"`{next(iter(job['offers'][0]))}`" in PAGE
    for name in ("east", "west"):
        with closing(connect_cell(url, name)) as cell:
            cell.delete()


def test_the_page_names_every_field_of_an_offer() -> None:
    names = [*(each.name for each in fields(CellOffer)), "fits"]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_default_is_registered_under_the_name_of_the_page() -> None:
    assert "`fits-first`" in PAGE
    assert f"`omega.{AXIS}`" in PAGE
    assert isinstance(cell_policy("fits-first"), FitsFirst)
    assert isinstance(cell_policy(), FitsFirst)
