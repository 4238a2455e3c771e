"""Every line of a log is a fact with typed fields, or none: no reader meets an error in one."""

import pytest
from hypothesis import given, strategies as some

from omega.cellstate.events import (
    FORMS,
    Assert,
    AssertedPool,
    Conflict,
    End,
    Event,
    NoFact,
    Place,
    Resize,
    events_in,
    job_of,
    parse,
    reason_of,
    tasks_of,
    word_of,
)
from omega.cellstate.transaction import Verdict

WORDS = some.sampled_from(["", "-", "a", "0", "-1", "x", "1,2", "0-2", "state", "=a;1,1;2,2;-,1", "1:2:3!", "finished"])


def one(line: str) -> Event:
    (event,) = parse(line)
    return event


def test_fields_have_their_types() -> None:
    end = one("evicted 7 4 a 1 0-2,9 12 100,50 precedence:high")
    assert isinstance(end, End)
    assert (end.placement, end.machine, end.job, end.group, end.size) == (7, 4, "a", 1, 4)
    assert (end.number, end.amounts, end.reason, end.winner) == (12, (100, 50), "precedence:high", "high")
    conflict = one("conflict a 3 7 2 0 9")
    assert isinstance(conflict, Conflict)
    assert (conflict.verdict, conflict.lacking, conflict.seen) == (Verdict.MOVED, 2, 9)
    resize = one("resize a 0 4 -2 1")
    assert isinstance(resize, Resize)
    assert (resize.added, resize.taken, resize.given) == (-2, "", 0)
    asserted = one("assert a p,;4,0;6,0;6.5,- =b;8,0;6,0;1e+20,1")
    assert isinstance(asserted, Assert)
    assert asserted.pools[0] == AssertedPool("p,", (4, 0), (6, 0), (6.5, None))
    assert [pool.job for pool in asserted.pools] == ["", "b"]


def test_the_lines_of_several_facts_are_those_facts() -> None:
    assert [event.line for event in events_in("submits a batch 5 9\nplaces a 0 1,2 7 3 4 5 6:0-1")] == [
        "submit a a batch 5 9", "place 7 3 a 0 4 1,2", "place 8 5 a 0 5 1,2", "place 9 6 a 0 0-1 1,2",
    ]  # fmt: skip
    assert word_of("places a 0 1 7 3 4") == "place"
    assert [type(event) for event in events_in("moon\nplaces a 0 1 7 3 4", {"place"})] == [Place]


@pytest.mark.parametrize(
    "line",
    [
        "", "moon", "hold", "hold a b", "hold  a", "place 1 2 a 0 0", "place x 2 a 0 0 1", "place 1 2 a 0 0-x 1",
        "places a 0 1 7 3", "places a 0 1 7 3 4 x", "submits a", "done a 9", "machine 0 state 99 1 0",
        "machine 0 colour 1 1 0", "conflict a 0 99 1 0", "late 1 2 a 0 0 vanished", "aborted a 1:2", "assert a p;1;2",
    ],
)  # fmt: skip
def test_other_lines_are_no_facts(line: str) -> None:
    (event,) = parse(line)
    assert isinstance(event, NoFact)
    assert (event.line, event.word, job_of(event), tasks_of(event)) == (line, "", None, 0)


@given(some.sampled_from([*FORMS, "places", "submits", "newer"]), some.lists(WORDS, max_size=9))
def test_whatever_is_a_fact_can_be_read(word: str, words: list[str]) -> None:
    for event in parse(" ".join((word, *words))):
        read = [getattr(event, name) for name in event.fields]
        assert None not in (read, tasks_of(event), reason_of(event))
        assert (job_of(event) is None) == ("job" not in event.fields or event.word in ("again", "aborted", "rejected"))
