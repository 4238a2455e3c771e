"""The live screen, driven as a person would: by keys."""

import html
import re
from dataclasses import replace

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Static

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import PoolShare
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.top.pages import Details, Help
from omega.cli.top.panes import NAMES
from omega.cli.top.screen import HIGH, WIDE, Top
from omega.cli.top.table import PaneTable
from omega.queries.mirror import TopMirror
from omega.queries.overview import Overview, PoolLine
from tests.cli.conftest import join
from tests.cli.top.picture import PICTURE

pytestmark = [pytest.mark.server, pytest.mark.anyio]


@pytest.fixture
def top(cell: RedisCell) -> Top:
    """The screen of a cell with three machines, one of them full, and two jobs that wait."""
    join(cell, 3)
    groups = (TaskGroup((4000, 256), 5),)
    cell.jobs.submit([JobSpec("j1", "crawl", "batch", groups), JobSpec("j2", "shop", "batch", groups)], 5_000, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    cell.schedulers.commit(CommitRequest(me, 1, [Transaction("j1", (Claim(1, 0, 2),))], Position(), 6_000))
    times = iter(range(10_000, 10_000_000, 1_000))
    return Top(TopMirror(cell, "store"), times.__next__, every=60)


async def looked(pilot: "Pilot[str]") -> None:
    """Wait until the workers of a look have ended and what they saw is drawn."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def press(pilot: "Pilot[str]", *keys: str) -> None:
    """Press keys and wait until what they do is drawn."""
    await pilot.press(*keys)
    await looked(pilot)


def lines(top: Top, number: int) -> list[str]:
    table: PaneTable = top.tables[number]
    rows = [table.get_row_at(place) for place in range(table.row_count)]
    return [" ".join(cell.plain for cell in row) for row in rows]


async def test_tables_and_head(top: Top) -> None:
    async with top.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        assert "3 machines: 3 up (1 full) · queued jobs: 2 batch" in str(top.query_one("#head", Static).content)
        assert [table.display for table in top.tables] == [True, False, False, False, False]
        assert [line.split()[1] for line in lines(top, 0)] == ["crawl", "shop"]
        await press(pilot, "3")
        assert [table.display for table in top.tables] == [False, False, True, False, False]
        assert [line.split()[0] for line in lines(top, 2)] == ["m1", "m0", "m2"]
        await press(pilot, "tab")
        assert top.chosen == 3
        assert "conflict of crawl (j1) on m1: full" in "\n".join(lines(top, 3))


async def test_all_tables_at_once_where_there_is_room(top: Top) -> None:
    async with top.run_test(size=(200, 50)) as pilot:
        await looked(pilot)
        assert [table.display for table in top.tables] == [True, True, True, True, False], "there are no pools"
        assert top.overview is not None
        half = (0.5, 0.5)
        share = PoolShare(
            name="a",
            parent="<Root>",
            tree="default",
            weight=1.0,
            fair_share=half,
            demand=half,
            usage=half,
            guarantee=half,
            integral=half,
            limits=half,
            promised=half,
            estimated=half,
            satisfaction=1.0,
        )
        assert isinstance(top.overview, Overview)
        top.overview = replace(top.overview, pools=(PoolLine(0, 0, share, "normal"),))
        top.paused = True
        top.show()
        await pilot.pause()
        assert all(table.display for table in top.tables)
        titles = [str(column.label) for column in top.tables[4].columns.values()]
        assert {"guarantee", "dominant", "weight"} <= set(titles), "pools have the whole width"
        top.paused = False
        await pilot.resize_terminal(80, 24)
        await looked(pilot)
        assert [table.display for table in top.tables] == [True, False, False, False, False]


async def test_filter_and_order(top: Top) -> None:
    async with top.run_test(size=(100, 30)) as pilot:
        await looked(pilot)
        await press(pilot, "slash", *"shop", "enter")
        await pilot.pause()
        assert [line.split()[1] for line in lines(top, 0)] == ["shop"]
        await press(pilot, "escape")
        await press(pilot, "3", "s", "r")
        await pilot.pause()
        assert [line.split()[0] for line in lines(top, 2)] == ["m2", "m1", "m0"]


async def test_open_and_close(top: Top, cell: RedisCell) -> None:
    async with top.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await press(pilot, "down", "enter")
        await looked(pilot)
        assert isinstance(top.screen, Details)
        assert top.screen.heading == "job shop (j2)"
        assert "5 tasks of cpu 4, memory 256Mi: 5 pending" in "\n".join(top.screen.lines)
        await press(pilot, "escape", "3", "enter")
        await looked(pilot)
        assert isinstance(top.screen, Details)
        assert "crawl (j1)" in "\n".join(top.screen.lines)
        await press(pilot, "escape", "question_mark")
        assert type(top.screen) is Help
        await press(pilot, "escape", "2", "enter")
        await looked(pilot)
        assert isinstance(top.screen, Details)
        assert top.screen.heading == "scheduler batch/0"


async def test_pause_stands_still(top: Top, cell: RedisCell) -> None:
    async with top.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        seen = top.overview
        await press(pilot, "space")
        top.look()
        await looked(pilot)
        assert top.overview is seen
        await press(pilot, "space")
        top.look()
        await looked(pilot)
        assert top.overview is not seen


async def test_a_deleted_cell_ends_it_with_the_reason(top: Top, cell: RedisCell) -> None:
    async with top.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        cell.delete()
        top.look()
        while top.return_value is None:
            await pilot.pause(0.01)
    assert str(top.return_value).startswith("unknown cell")


async def test_the_picture_in_the_documentation_has_these_tables_and_keys(top: Top) -> None:
    """When this fails, draw it again: python -m tests.cli.top.picture."""
    drawn = set(re.findall(r"[\w/]+", html.unescape(PICTURE.read_text(encoding="utf-8").partition("<g ")[2])))
    async with top.run_test(size=(WIDE, HIGH)) as pilot:
        await looked(pilot)
        tables = [table for table in top.tables if table.display]
        columns = {str(column.label).strip() for table in tables for column in table.columns.values()}
        keys = {binding.description for binding in top.BINDINGS if isinstance(binding, Binding) and binding.show}
    assert {column for column in columns if column.isalpha()} | keys | set(NAMES[:4]) <= drawn
