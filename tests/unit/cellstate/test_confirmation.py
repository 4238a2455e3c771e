"""Tests of the confirmation of changes by replicas."""

import re
from importlib.resources import files

import pytest

from omega.cellstate.acl import SCRIPTS
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated
from omega.cellstate.redis.link import UNCHANGED, UNCONFIRMED, Confirmation

TWO = Confirmation("c", Durability(2, 500))


@pytest.mark.parametrize("answer", [[b"ok", b"1"], [b"map", b"0"], b"1 1", None])
def test_a_change_that_too_few_replicas_have_is_not_acknowledged(answer: object) -> None:
    with pytest.raises(NotReplicated, match="1 of 2 replicas"):
        TWO.check(answer, [True, 1])
    assert TWO.check(answer, [True, 2])


@pytest.mark.parametrize("word", [b"keys", b"fenced", b"moved", b"unknown"])
def test_an_answer_without_a_change_needs_no_replicas(word: bytes) -> None:
    assert TWO.check([word, b"history"], [True, 0])


def test_every_answer_of_a_script_is_one_of_a_change_or_of_none() -> None:
    """A word that is missing in the list is confirmed: that delays a refusal and acknowledges nothing too early."""
    changed = {"ok", "map", "reduce"}
    for name in set(SCRIPTS) - UNCONFIRMED:
        text = (files("omega.cellstate") / "lua" / f"{name}.lua").read_text("utf-8")
        reply = text[text.index("-- Reply") : text.index("-- Types")]
        words = set(re.findall(r'\{ ?"(\w+)"', reply))
        assert words - {word.decode() for word in UNCHANGED} <= changed, name
        assert words & changed, name
    assert set(SCRIPTS) >= UNCONFIRMED


def test_a_count_without_a_write_proves_nothing() -> None:
    assert not TWO.check([b"ok"], [0, 2])
