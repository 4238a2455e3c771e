"""Tests of the confirmation of changes by replicas."""

import pytest

from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated
from omega.cellstate.redis.confirmation import Confirmation

TWO = Confirmation("c", Durability(2, 500))


@pytest.mark.parametrize("answer", [[b"ok", b"1"], [b"map", b"0"], b"1 1", None])
def test_a_change_that_too_few_replicas_have_is_not_acknowledged(answer: object) -> None:
    with pytest.raises(NotReplicated, match="1 of 2 replicas"):
        TWO.check(answer, [True, 1])
    assert TWO.check(answer, [True, 2])


@pytest.mark.parametrize("word", [b"keys", b"fenced", b"moved", b"unknown"])
def test_an_answer_without_a_change_needs_no_replicas(word: bytes) -> None:
    assert TWO.check([word, b"history"], [True, 0])


def test_a_count_without_a_write_proves_nothing() -> None:
    assert not TWO.check([b"ok"], [0, 2])
