"""The heat map: levels, blocks, and its size at 10,000 machines."""

import re
import time

import numpy as np

from omega.queries.mirror.machine_columns import STATES, MachineColumns
from omega.web.console import heat


def _columns(
    cpu: list[float], racks: list[str], states: dict[int, str] | None = None, over: int = -1
) -> MachineColumns:
    count = len(cpu)
    values = ["", *dict.fromkeys(rack for rack in racks if rack)]
    state = np.full(count, STATES.index("up"))
    for index, word in (states or {}).items():
        state[index] = STATES.index(word)
    return MachineColumns(
        index=np.arange(count) + 100, state=state,
        over=np.arange(count) == over, tasks=np.zeros(count, np.int32), number=np.ones(count, np.int64),
        fraction={"cpu": np.array(cpu), "memory": np.zeros(count)},
        attributes={"rack": np.array([values.index(rack) for rack in racks], np.int32)}, values={"rack": values},
    )  # fmt: skip


def _blocks(html: str) -> list[tuple[str, str, str]]:
    """Return name, levels and machines of each block."""
    found = re.findall(r'<bdi>([^<]*)</bdi>.*?data-levels="([^"]*)" data-machines="([^"]*)"', html)
    return [(name, levels, machines) for name, levels, machines in found]


def test_a_level_is_the_share_in_use_unless_a_state_says_more() -> None:
    shares = [0, 0.01, 0.25, 0.26, 0.5, 0.75, 0.95, 0.96, 1.0, 0.3, 0.3, 0.3, 1.2]
    columns = _columns(shares, ["r1"] * 13, {9: "drained", 10: "offline", 11: "down"}, over=12)
    assert heat.levels(columns, "").tobytes() == b"0112234" + b"55" + b"doxv"
    assert heat.levels(columns, "memory").tobytes() == b"0" * 9 + b"doxv"
    assert heat.selected(columns, "5", "cpu").tolist() == [107, 108]
    shown = heat.heat_map(columns, "", "rack")
    assert {level: count for level, count in shown.counts.items() if count} == {
        "0": 1, "1": 2, "2": 2, "3": 1, "4": 1, "5": 2, "d": 1, "o": 1, "x": 1, "v": 1,
    }  # fmt: skip


def test_blocks_are_in_natural_order_and_machines_without_the_attribute_come_last() -> None:
    shown = heat.heat_map(_columns([0, 1, 0, 0], ["r10", "r2", "", "r2"]), "", "rack")
    assert _blocks(shown.blocks) == [("r2", "50", "101,103"), ("r10", "0", "100-100"), ("without", "0", "102-102")]
    assert (shown.total, shown.squares, shown.following) == (4, 4, None)


def test_squares_of_one_level_in_a_row_are_one_line() -> None:
    assert heat.drawing("0010011", 5) == '<path class="l0" d="M0 0h2M3 0h2"/><path class="l1" d="M2 0h1M0 1h2"/>'
    assert [heat.width(count) for count in (1, 100, 101, 400, 1_601)] == [10, 10, 20, 20, 80]


def test_hostile_values_of_attributes_are_text() -> None:
    html = heat.heat_map(_columns([0.0], ['"><script>\u202e&']), "", "rack").blocks
    assert "<script" not in html
    assert "\u202e" not in html
    assert 'data-key="b100-~22~3e~3cscript~3e~202e~26"' in html
    assert "<bdi>&#34;&gt;&lt;script&gt;\\u202e&amp;</bdi>" in html


def test_ten_thousand_squares_of_all_levels_are_at_most_250_kb() -> None:
    random = np.random.default_rng(1)
    columns = _columns(random.random(10_000).tolist(), [f"rack-{i // 40}" for i in range(10_000)])
    began = time.process_time()
    shown = heat.heat_map(columns, "", "rack")
    assert time.process_time() - began < 0.5  # some 20 ms; the rest is for a busy computer
    assert (shown.squares, shown.following) == (10_000, None)
    assert len(shown.blocks.encode()) < heat.MOST_CHARACTERS


def test_a_large_group_is_cut_into_blocks() -> None:
    shown = heat.heat_map(_columns([0.5] * 30_000, ["z1", "z2", "z3"] * 10_000), "", "rack")
    assert shown.squares <= heat.MOST_SQUARES
    assert [name for name, *_ in _blocks(shown.blocks)][:2] == ["z1", "z1"]
    assert len(shown.blocks) <= heat.MOST_CHARACTERS


def test_more_squares_or_letters_continue_on_the_next_page() -> None:
    columns = _columns([0.5] * 25_000, [f"rack-{i // 5}" for i in range(25_000)])
    first: int | None = 0
    pages = squares = 0
    while first is not None:
        shown = heat.heat_map(columns, "", "rack", first)
        assert 0 < shown.squares <= heat.MOST_SQUARES
        assert len(shown.blocks) <= heat.MOST_CHARACTERS
        first, pages, squares = shown.following, pages + 1, squares + shown.squares
    assert squares == 25_000
    assert pages > 3
