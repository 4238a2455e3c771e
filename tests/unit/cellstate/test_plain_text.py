"""What a name, a user, an attribute or a value may hold, and what a terminal is sent."""

import json
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.errors import BadInput
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup, check_author, merged
from omega.cellstate.plain_text import MOST_BYTES, MOST_IN_ALL, check_text, check_texts, cleaned, escaped
from omega.cellstate.redis import RedisCell

BAD = [
    "\0",
    "\x1b",
    "\n",
    "\r",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u200b",
    "\u2028",
    "\ufeff",
    "\U000e0041",
]
GOOD = ["ä", "日本", "🙂", "👩\u200d🚀", "می\u200cکنم", "Ω≤", "a b", "<>|&$'\"\\"]


@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_refused_wherever_it_stands(bad: str) -> None:
    group = TaskGroup((1,), 1)
    calls: list[Callable[[], object]] = [
        lambda: MachineSpec("m", (1,), {"rack": f"r{bad}"}),
        lambda: MachineSpec("m", (1,), {f"ra{bad}ck": "r"}),
        lambda: MachineSpec(f"m{bad}", (1,)),
        lambda: merged({"a": "b"}, {"rack": f"r{bad}"}),
        lambda: JobSpec("j", f"j{bad}", "batch", (group,)),
        lambda: JobSpec("j", "j", "batch", (group,), 0, Gang.NO, {"user": f"ada{bad}"}),
        lambda: JobSpec("j", "j", "batch", (group,), 0, Gang.NO, {"environment": {f"A{bad}": "x"}}),
        lambda: TaskGroup((1,), 1, 0, {"name": f"fetch{bad}"}),
        lambda: TaskGroup((1,), 1, 0, {"constraints": ["has ssd", {"prefer": f"has {bad}"}]}),
        lambda: check_author(f"ada{bad}"),
    ]
    for make in calls:
        with pytest.raises(BadInput) as caught:
            make()
        assert str(caught.value).isprintable(), "the message itself can be shown"


@pytest.mark.parametrize("good", GOOD)
def test_text_of_all_languages_is_taken(good: str) -> None:
    assert MachineSpec("m", (1,), {"rack": good}).attributes == {"rack": good}
    assert cleaned(good) == good


def test_programs_may_be_given_lines() -> None:
    said = {"command": ["sh", "-c", "a\n\tb"]}
    group = TaskGroup((1,), 1, 0, said)
    assert group.spec == said
    health = {"update": {"health": {"command": ["a\nb"]}}}
    assert JobSpec("j", "j", "batch", (group,), spec=health).spec == health
    for bad in (*BAD[:2], *BAD[3:]):
        with pytest.raises(BadInput, match=r"^task group: command\.0: .* cannot be shown; remove it$"):
            TaskGroup((1,), 1, 0, {"command": [bad]})


def door(cell: Any) -> None:
    """Every call of the port that takes a name refuses one that cannot be shown, and changes nothing."""
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec("m", (1, 1))], 1)
    cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 1),))], 1, "ada")
    before = cell.counters()["version"]
    bad = "a\x1bb"
    calls: list[Callable[[], object]] = [
        lambda: cell.machines.join(bad, [MachineSpec("n", (1, 1))], 1),
        lambda: cell.machines.set_state(0, MachineState.DRAINED, 1, bad),
        lambda: cell.machines.set_capacity(0, (2, 2), 1, bad),
        lambda: cell.machines.set_attributes(0, {"rack": "r"}, 1, bad),
        lambda: cell.machines.set_attributes(0, {"rack": bad}, 1, "ada"),
        lambda: cell.machines.set_attributes(0, {bad: "r"}, 1, "ada"),
        lambda: cell.jobs.submit([JobSpec("k", "k", "batch", (TaskGroup((1, 1), 1),))], 1, bad),
        lambda: cell.jobs.stop("j", 1, bad),
        lambda: cell.jobs.hold("j", 1, bad),
        lambda: cell.jobs.release("j", 1, bad),
        lambda: cell.jobs.resize("j", {0: 2}, 1, bad),
        lambda: cell.jobs.update("j", [TaskGroup((1, 1), 1)], {"user": "ada"}, 1, bad),
        lambda: cell.jobs.update("j", [TaskGroup((1, 1), 1)], {"user": bad}, 1, "ada"),
        lambda: cell.pools.set_limits("batch", Limits((1, 1)), 1, bad),
        lambda: cell.pools.set_limits("b\x1b", Limits((1, 1)), 1, "ada"),
    ]
    for call in calls:
        with pytest.raises(BadInput):
            call()
    assert cell.counters()["version"] == before


def test_the_door_of_the_store(fake_redis: Any) -> None:
    door(RedisCell.create(fake_redis, "door"))


def test_the_door_of_the_twin() -> None:
    door(MemoryCell("door"))


def test_sizes() -> None:
    with pytest.raises(BadInput, match=r"^user: 131,072 bytes; the most is 131,071: put it"):
        check_text("a" * (MOST_BYTES + 1), "user")
    with pytest.raises(BadInput, match=r"^user: 131,072 bytes"):
        check_text("я" * 65_536, "user")
    with pytest.raises(BadInput, match="more than 8,388,608 letters in all; put them into a file"):
        check_texts({"command": ["a" * 100_000] * (MOST_IN_ALL // 100_000 + 1)}, "job a")


CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}


def test_which_characters() -> None:
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if unicodedata.category(letter) in CATEGORIES or unicodedata.bidirectional(letter) in {
            "LRE",
            "RLE",
            "PDF",
            "LRO",
            "RLO",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }:
            assert cleaned(letter) == ""
        elif cleaned(letter) == "":
            assert unicodedata.category(letter) in {"Cf", "Cn", "Lo", "Mn"}, hex(code)


@given(st.text())
def test_json_says_the_same_without_them(text: str) -> None:
    told = escaped(json.dumps([text], indent=1, ensure_ascii=False))
    assert json.loads(told) == [text]
    assert cleaned(told, "\n") == told


@pytest.mark.parametrize("spec", [{"deadline": 30}, {"user": "ada", "groups": [], "extra": {}}])
def test_a_submitted_job_has_no_fields_that_omega_does_not_know(spec: dict[str, object]) -> None:
    group, said = TaskGroup((1,), 1), "is no field; a policy declares its own (policy, docs/job-fields.md)"
    for make in (lambda: JobSpec("j", "j", "batch", (group,), spec=spec), lambda: TaskGroup((1,), 1, 0, spec)):
        with pytest.raises(BadInput, match=re.escape(said)):
            make()
