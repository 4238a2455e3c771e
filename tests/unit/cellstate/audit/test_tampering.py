"""Whatever is removed, changed, duplicated or moved in a stored cell, the audit finds it, but for what is listed."""

import sys
from collections.abc import Iterator

import pytest

from omega.cellstate import keys
from omega.cellstate.events import FORMS
from omega.cellstate.verify import verify
from tests.unit.cellstate.audit.tampered import UNSEEN, UNSEEN_WITHOUT_LOG, full, missed, page_rows, shares, unexplained
from tests.unit.cellstate.audit.tampering import Table
from tests.unit.cellstate.audit.town import Town


@pytest.fixture
def everything(store_url: str) -> Iterator[Town]:
    with full(store_url) as town:
        yield town


def test_the_cell_has_every_key(everything: Town) -> None:
    """A new key is a row of cellstate/keys.py, has a reader for the audit, and is put into the cell by `furnish`."""
    table = Table(everything.client, everything.prefix)
    names = {key.removeprefix(everything.prefix).partition(":")[0] for key in table.keys}
    assert names == set(keys.TYPES)
    assert verify(everything.cell).ok


def test_the_log_has_every_kind_of_fact(everything: Town) -> None:
    """A new kind of fact happens in `furnish`."""
    there = {fact.event[0] for fact in everything.cell.log.facts(0, 10_000)}
    assert there == FORMS.keys() - {"restore"}, "a restored cell is made elsewhere"


def test_tampering_is_found(everything: Town) -> None:
    """One row in 32 of the table; tests/chaos/test_tampering.py goes through all of it."""
    rows, tried = missed(everything, 32)
    sys.stdout.write(shares(rows, tried) + "\n")
    assert unexplained(rows) == []


def test_the_page_lists_what_is_not_found() -> None:
    assert sorted(page_rows()) == sorted([*UNSEEN, *UNSEEN_WITHOUT_LOG])


def test_a_key_of_another_type_is_a_violation(everything: Town) -> None:
    everything.client.delete(everything.prefix + "log")
    everything.client.set(everything.prefix + "log", "x")
    assert [(v.where, v.what) for v in verify(everything.cell).violations] == [("log", "is a string, not a stream")]


def test_a_job_that_a_person_held_is_held(everything: Town) -> None:
    everything.cell.jobs.hold("part", 99, "ada")
    assert verify(everything.cell).ok
    everything.job("part", links="")
    said = [v.what for v in verify(everything.cell).violations if v.where == "job part"]
    assert "was held by a person and is not held" in said


def test_a_job_that_ended_keeps_its_state(everything: Town) -> None:
    everything.job("done", state=2)
    said = [v.what for v in verify(everything.cell).violations if v.where == "job done"]
    assert "its state is stopped, by the log done" in said


def test_no_arrival_is_given_out_before_the_first(everything: Town) -> None:
    everything.queue("batch", "part", 0)
    said = [v.what for v in verify(everything.cell).violations if v.where == "job part"]
    assert "its arrival 0 is another's too, or was never given out" in said


def test_kinds_with_a_record_have_limits_and_are_counted(everything: Town) -> None:
    everything.put("kinds", "batch", "- - - - - 0 0 0")
    said = {(v.where, v.what) for v in verify(everything.cell).violations}
    assert {("kind batch", "has a record without limits"), ("meta limits", "is '1', by the records '2'")} <= said


NOT_RECORDS = {
    "jobs part": (b"", b"none", b"\xff\xfe", b"1 2;3 4"), "static 0": (b"\xff\xfe", b"m0\n\xc1"),
    "kinds service": (b"", b"none", b"\xff\xfe"), "meta jobs": (b"", b"none", b"\xff\xfe"),
    "runs 0": (b"none", b"\xff"), "machines 0": (b"", b"none"),
    "specs words": (b"\xc1", b"none"), "schedulers batch/0": (b"", b"none"),
}  # fmt: skip


@pytest.mark.chaos
def test_an_unreadable_record_is_a_violation_with_its_key(everything: Town) -> None:
    for where, records in NOT_RECORDS.items():
        key, field = where.split(" ")
        before = everything.client.hget(everything.prefix + key, field)
        for record in records:
            everything.client.hset(everything.prefix + key, field, record)
            report = verify(everything.cell)
            assert where in {violation.where for violation in report.violations}, record
        everything.client.hset(everything.prefix + key, field, before)
    assert verify(everything.cell).ok
