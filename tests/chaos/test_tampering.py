"""The whole table of tampering with a stored cell: the audit finds all of it, but for what has a reason."""

import sys

import pytest

from tests.unit.cellstate.audit.tampered import full, missed, shares, stale, unexplained

pytestmark = pytest.mark.chaos


def test_the_audit_finds_all_tampering_but_what_has_a_reason(store_url: str) -> None:
    with full(store_url) as town:
        rows, tried = missed(town, 1)
    sys.stdout.write(shares(rows, tried) + "\n")
    assert "\n".join(unexplained(rows)) == ""
    assert "\n".join(stale(rows)) == "", "found by now: take the reason out"
    assert len(rows) <= tried.total() / 10, f"{len(rows)} of {tried.total()}"
