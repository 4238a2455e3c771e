"""What the tables of `omega top` list, how it is sorted and filtered, and what is left out when there is no room."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest

from omega.cellstate.model import GroupStatus, Job, Machine, MachineState
from omega.cellstate.pools import PoolShare
from omega.cellstate.resources import Dimensions
from omega.cli.top.bars import bar, curve, cut
from omega.cli.top.details import details
from omega.cli.top.head import head
from omega.cli.top.panes import Pane, chosen, fit, panes
from omega.queries.overview import ListedJob, Overview, PoolLine, RankedMachines, Rates, SchedulerRates, condition
from omega.queries.ranked_machines import ranked


def machine(index: int, cpu: int, memory: int = 0, state: MachineState = MachineState.UP) -> Machine:
    return Machine(index, f"m{index}", 7, state, 0, (4000, 4096), (cpu, memory), {"rack": f"r{index % 2}"})


def waiting(number: int, name: str, precedence: int = 0) -> ListedJob:
    group = GroupStatus(need=(500, 256), total=10, unplaced=4, placed=6, waiting="0-3")
    job = Job(
        id=f"id-{number}",
        name=name,
        kind="batch",
        precedence=precedence,
        order=number,
        submitted_ms=1_000,
        groups=[group],
    )
    return ListedJob(number, job, "RESOURCES")


FIGURES = {
    "member": "batch/0", "state": "live", "alive": True, "incarnation": 1, "jobs": 3, "tasks": 40, "transactions": 5,
    "accepted": 4, "conflicts": 1, "queued": 2, "blocked": 1, "abandoned": 0, "conflict_fraction": 0.25,
    "wait_seconds": {"mean": 0.02, "p90": 0.3}, "busyness": 0.41, "seconds": 9.5,
}  # a table # fmt: skip
MACHINES = [
    machine(0, 1000),
    machine(1, 3900),
    machine(2, 4001),
    machine(3, 0, state=MachineState.DOWN),
    machine(4, 0, state=MachineState.DRAINED),
    machine(5, 2000),
]


def as_ranked(machines: list[Machine]) -> RankedMachines:
    """The machines as `top` ranks them, from the rows of a snapshot."""
    rows = [(m.index, m.number, m.state, m.executor, *m.capacity, *m.allocated) for m in machines]
    snapshot = SimpleNamespace(dimensions=2, rows=np.array(rows, dtype=np.int64).T)
    named = {m.index: (m.name, tuple(m.attributes.items())) for m in machines}
    held = SimpleNamespace(described=lambda indices: [named[index] for index in indices])
    cell = SimpleNamespace(dimensions=Dimensions(), machines=held, executors=None)
    return ranked(cell, snapshot, 1_000)  # type: ignore[arg-type]


OVERVIEW = Overview(
    "default",
    "unix:///store.sock",
    Dimensions(),
    61_000,
    1234,
    as_ranked(MACHINES),
    [SchedulerRates(FIGURES, 0.5, 0.1, (0.1, 0.5))],
    [waiting(1, "crawl"), waiting(2, "shop", 100)],
    [],
    {"pending": 2},
    {"batch": 2},
    (),
    Rates(14_900.0, 0.031, 2.0),
    {"cpu": (0.1, 0.9), "memory": (0.0, 0.0), "placed": (0.0, 14_900.0)},
)


def named(name: str) -> Pane:
    return next(pane for pane in panes(OVERVIEW) if pane.name == name)


@pytest.mark.parametrize(
    ("share", "shown"), [(0, "░░░░"), (0.001, "▏░░░"), (0.5, "██░░"), (0.9, "███▋"), (1, "████"), (7, "████")]
)
def test_a_bar_shows_a_share_and_something_is_never_nothing(share: float, shown: str) -> None:
    assert bar(share, 4) == shown


def test_a_curve_shows_the_newest_values_on_its_scale() -> None:
    assert curve((9, 0, 0.5, 1), 3, 1.0) == "▁▅█"
    assert curve((0, 5, 10), 9) == "▁▅█"
    assert curve((0, 0), 9) == "▁▁"
    assert curve((), 9) == curve((1, 2), 0) == ""


def test_what_is_cut_says_so() -> None:
    assert (cut("crawl", 5), cut("crawler", 5)) == ("crawl", "craw…")


def test_machines_that_want_attention_come_first() -> None:
    assert [condition(each) for each in MACHINES] == ["up", "full", "up, over", "down", "drained", "up"]
    assert [each.name for each in named("machines").things] == ["m3", "m2", "m1", "m4", "m5", "m0"]
    assert named("machines").note == "6, 3 full or worse"


def test_sorting_by_a_column_and_the_other_way_round() -> None:
    pane = named("machines")
    by_name = [each.name for each in chosen(pane, 0, reverse=False, wanted="", most=9)]
    assert by_name == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert [each.name for each in chosen(pane, 0, reverse=True, wanted="", most=2)] == ["m5", "m4"]
    by_precedence = chosen(named("jobs"), 3, reverse=False, wanted="", most=9)
    assert [each.job.name for each in by_precedence] == ["shop", "crawl"]


def test_only_lines_with_a_text() -> None:
    assert [each.name for each in chosen(named("machines"), 0, reverse=False, wanted="rack=r1", most=9)] == [
        "m1",
        "m3",
        "m5",
    ]
    assert chosen(named("jobs"), None, reverse=False, wanted="nothing", most=9) == []


def test_columns_of_less_weight_go_when_there_is_no_room() -> None:
    pane = named("machines")
    shown = {width: [column.title for column, _ in fit(pane, pane.things, width)] for width in (200, 60, 20)}
    assert shown[200] == ["machine", "state", "cpu", "memory", "use", "changes", "attributes"]
    assert shown[60] == ["machine", "state", "cpu", "memory", "use"]
    assert shown[20] == ["machine", "state"]
    for width in range(12, 200):
        assert sum(wide + 2 for _, wide in fit(pane, pane.things, width)) <= max(width, 12)


def test_a_column_that_says_nothing_is_left_out() -> None:
    machines = [machine(0, 0)]
    machines[0] = Machine(0, "m0", 1, MachineState.UP, 0, (1, 1), (0, 0), {})
    pane = named("machines")
    assert "attributes" not in [column.title for column, _ in fit(pane, machines, 200)]


@pytest.mark.parametrize("width", [78, 100, 200])
def test_the_head_fits_its_width(width: int) -> None:
    lines = [line.plain for line in head(OVERVIEW, width, "")]
    assert all(len(line) <= width for line in lines)
    assert lines[1] == "6 machines: 4 up (1 full), 1 over, 1 drained, 1 down · queued jobs: 2 batch"
    assert "55 %  10.9 of 20" in lines[2]
    assert lines[4].startswith("placed   14,900 tasks/s · conflict fraction 0.031 · 2 evicted or lost/s")


def test_the_head_says_when_something_is_wrong() -> None:
    assert head(OVERVIEW, 80, "no answer, trying again")[0].plain.endswith("no answer, trying again")


def test_pools_are_listed_with_the_shares_of_the_epoch() -> None:
    half, none = (0.5, 0.25), (0.0, 0.0)
    share = PoolShare(
        name="web",
        parent="prod",
        tree="default",
        weight=2.0,
        fair_share=half,
        demand=(0.9, 0.1),
        usage=(0.125, 0.5),
        guarantee=half,
        integral=none,
        limits=half,
        promised=none,
        estimated=none,
        satisfaction=0.25,
    )
    pane = next(
        pane
        for pane in panes(replace(OVERVIEW, pools=(PoolLine(0, 1, share, "below fair share"),)))
        if pane.name == "pools"
    )
    assert pane.note == "1, 1 below fair share"
    assert [column.show(pane.things[0]) for column in pane.columns] == [
        "  web",
        "below fair share",
        "█░░░░░░░ 12.5 %",
        "50.0 %",
        "90.0 %",
        "0.25",
        "50.0 %",
        "cpu",
        "2",
    ]
    assert named("pools").note == ""


def test_a_pool_without_a_share_has_no_dominant_resource_and_one_that_starves_counts() -> None:
    none = (0.0, 0.0)
    idle = PoolShare(
        name="idle",
        parent="<Root>",
        tree="default",
        weight=1.0,
        fair_share=none,
        demand=none,
        usage=none,
        guarantee=none,
        integral=none,
        limits=none,
        promised=none,
        estimated=none,
        satisfaction=inf,
    )
    lines = (PoolLine(0, 0, idle, "normal"), PoolLine(1, 0, replace(idle, name="web"), "starving"))
    pane = next(pane for pane in panes(replace(OVERVIEW, pools=lines)) if pane.name == "pools")
    shown = {column.title: column.show(lines[0]) for column in pane.columns}
    assert (shown["dominant"], shown["satisfaction"]) == ("–", "infinite"), "as omega pool list prints them"
    assert pane.note == "2, 1 below fair share"


def test_details_of_a_pool_show_what_is_stated() -> None:
    half, none = (0.5, 0.25), (0.0, 0.0)
    limits = (1.0, 0.75)
    share = PoolShare(
        name="web",
        parent="prod",
        tree="default",
        weight=2.0,
        fair_share=half,
        demand=half,
        usage=half,
        guarantee=(0.5, 0.0),
        integral=none,
        limits=limits,
        promised=none,
        estimated=none,
        satisfaction=1.0,
    )
    overview = replace(OVERVIEW, pools=(PoolLine(0, 1, share, "starving"),))
    heading, lines = details(None, overview, "pool web")  # type: ignore[arg-type]
    assert heading == "pool web"
    assert lines[0].split() == ["status", "starving"]
    found = {line[:12].strip(): line[13:] for line in lines[4:]}
    assert (found["guarantee"], found["integral"], found["limits"]) == ("cpu 50.0 %", "none", "memory 75.0 %")
