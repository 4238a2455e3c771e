"""The book of executions finds what it is for: overlaps, doubled ends, ends nobody wrote, lost jobs."""

from pathlib import Path

import pytest

from omega.cellstate.events import Fact, parse
from tests.chaos.book import Book
from tests.integration.ledger import Ledger

PLACED = Fact(1, 0, "batch/0", parse("place 7 0 a 0 0 1")[0])


def finished(placement: int, version: int = 2) -> Fact:
    return Fact(version, 0, "agent/m", parse(f"finished {placement} 0 a 0 0 2 0 -")[0])


def late(placement: int, how: str) -> Fact:
    return Fact(3, 0, "agent/m", parse(f"late {placement} 0 a 0 0 {how}")[0])


@pytest.mark.parametrize(
    ("page", "facts", "found"),
    [
        ("start 7 1\nend 7 1\n", [PLACED, finished(7)], set()),
        ("start 6 1\nstart 7 1\nend 7 1\n", [finished(7)], set()),
        ("start 7 1\noverlap 8 2\nstart 8 2\nend 8 2\n", [finished(8)], {"overlaps"}),
        ("start 7 1\nend 7 1\nend 8 1\n", [finished(7), finished(8, 3)], {"doubled"}),
        ("start 7 1\n", [finished(7)], {"invented"}),
        ("", [PLACED], {"lost"}),
        ("start 7 1\nend 7 1\n", [PLACED, late(7, "finished")], set()),
        ("start 7 1\nend 7 1\n", [PLACED, late(7, "failed")], {"lost"}),
        ("start 7 1\nend 7 1\n", [finished(7), late(7, "finished")], {"doubled"}),
    ],
)
def test_the_book_finds_each_fault(tmp_path: Path, page: str, facts: list[Fact], found: set[str]) -> None:
    book = Book.new(tmp_path / "book")
    (book.directory / "a.0").write_text(page)
    account = book.compare_facts(facts, [book.job("a", 1, 0.1)])
    faults = {name for name in ("overlaps", "doubled", "invented", "lost") if getattr(account, name)}
    assert faults == found
    assert account.clean is (not found)


def test_the_ledger_counts_a_late_end_in_place_of_the_loss() -> None:
    lost = Fact(2, 0, "batch/1", parse("lost 7 0 a 0 0 4 0 agent")[0])
    task = ("a", "0", 0)
    for how, finished_times in (("finished", 1), ("failed", 0)):
        ledger = Ledger.of([PLACED, lost, late(7, how)])
        assert (ledger.placed[task], ledger.returned[task], ledger.finished[task]) == (1, 0, finished_times)
    ledger = Ledger.of([PLACED, lost, PLACED, finished(7)])
    assert (ledger.placed[task], ledger.returned[task], ledger.finished[task]) == (2, 1, 1)
