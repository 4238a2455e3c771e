"""`omega top --all-cells`: tables with a column for the cell, cells of different resources, and one that goes away."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from textual.widgets import Static

from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.top.cells import CellsMirror, details_of, panes_of
from omega.cli.top.pages import Details
from omega.cli.top.screen import Top
from omega.queries.mirror import TopMirror
from tests.cli.conftest import Omega
from tests.cli.top.test_screen import lines, looked, press

pytestmark = pytest.mark.server
RESOURCES = {"east": ("cpu", "memory"), "west": ("cpu", "gpu")}


@pytest.fixture
def url(store_url: str) -> Iterator[str]:
    """Two cells with a machine each that is full, and two jobs."""
    found = f"{store_url}?db=7"
    for number, (name, resources) in enumerate(RESOURCES.items()):
        with closing(create_cell(connect(found), name, Dimensions(resources), url=found)) as cell:
            cell.executors.register("here", "n", 600_000, 0)
            cell.machines.join("here", [MachineSpec(f"{name}-m", (4_000, 8))], 0)
            jobs = [JobSpec(f"{name}{n}", f"{name}-job{n}", "batch", (TaskGroup((4_000, 1), 1),)) for n in (1, 2)]
            cell.jobs.submit(jobs, 5_000 + number, "ada")
            member = cell.schedulers.register("batch/0", "n", 600_000, 0)
            claim = [Transaction(f"{name}1", (Claim(0, 0, 1),))]
            cell.schedulers.commit(CommitRequest(member, 1, claim, Position(), 6_000 + number))
    yield found
    for name in RESOURCES:
        with closing(connect_cell(found, name, any_schema=True)) as cell:
            cell.delete()


@pytest.fixture
def mirror(url: str) -> Iterator[CellsMirror]:
    cells = [connect_cell(url, name) for name in RESOURCES]
    yield CellsMirror([TopMirror(cell, "store") for cell in cells], "store", {"north": "is away"})
    for cell in cells:
        cell.close()


def test_tables_name_the_cell_and_have_all_columns(mirror: CellsMirror) -> None:
    overview = mirror.look(10_000)
    jobs, schedulers, machines, events, _ = panes_of(overview)
    assert jobs.note == "2 pending, 2 running"
    assert schedulers.note == "2"
    assert machines.note == "2, 2 full or worse"
    titles = [column.title for column in machines.columns]
    assert titles[:6] == ["cell", "machine", "state", "cpu", "memory", "use"]
    assert "gpu" in titles
    shown = {each.cell: {column.title: column.show(each) for column in machines.columns} for each in machines.things}
    assert (shown["east"]["gpu"], shown["west"]["memory"]) == ("", "")
    assert "1/8" in shown["west"]["gpu"]
    for pane in (jobs, schedulers, machines, events):
        for column in pane.columns:
            if column.order is not None:
                assert len(sorted(pane.things, key=column.order)) == len(pane.things)
    assert [each.cell for each in jobs.things] == ["east", "west", "east", "west"]
    times = [each.thing.first.at_ms for each in events.things]
    assert times == sorted(times, reverse=True)
    heading, told = details_of(mirror, overview, machines.identity(machines.things[1]))
    assert heading == "west: machine west-m"
    assert any("west-job1" in line for line in told)


def test_a_cell_that_goes_away_is_named_and_comes_back(mirror: CellsMirror, url: str) -> None:
    gone = mirror.mirrors["west"].cell
    assert isinstance(gone, RedisCell)
    client, meta = connect(url), "omega:1:{west}:meta"
    client.rename(meta, "omega:1:{west}:away")
    overview = mirror.look(11_000)
    assert [each.cell for each in overview.cells] == ["east"]
    assert overview.skipped["north"] == "is away"
    assert "unknown cell 'west'" in overview.skipped["west"]
    client.rename("omega:1:{west}:away", meta)
    assert [each.cell for each in mirror.look(12_000).cells] == ["east", "west"]
    client.close()
    with pytest.raises(StoreError, match="north: is away"):
        CellsMirror([], "store", {"north": "is away"}).look(1)


def test_a_frame_and_its_document(url: str) -> None:
    omega = Omega(url)
    document = omega.json("top", "--once", "--all-cells")
    assert [each["cell"] for each in document["cells"]] == ["east", "west"]
    assert document["skipped"] == {}
    text = omega.text("top", "--once", "--cell", "east,west")
    assert text.startswith("2 cells · ")
    assert "east-job2" in text
    assert "west-job2" in text
    assert omega.json("top", "--once", "--cell", "east,nope", code=3)["skipped"].keys() == {"nope"}


@pytest.mark.anyio
async def test_the_screen(mirror: CellsMirror) -> None:
    times = iter(range(10_000, 10_000_000, 1_000))
    top = Top(mirror, times.__next__, every=60)
    async with top.run_test(size=(100, 24)) as pilot:
        await looked(pilot)
        head = str(top.query_one("#head", Static).content)
        assert "north is left out: is away" in head
        assert "1 of 1 machine up" in head
        assert [line.split()[0] for line in lines(top, 0)] == ["east", "west", "east", "west"]
        await press(pilot, "s", "enter")
        assert isinstance(top.screen, Details)
        assert top.screen.heading.startswith("east: job ")
        await press(pilot, "escape", "slash", *"west", "enter")
        assert {line.split()[0] for line in lines(top, 0)} == {"west"}
