"""Times of a recording are those of one clock, the server's."""

from collections.abc import Sequence

from omega.cellstate.events import LogEntry
from omega.cellstate.transaction import Basis
from omega.recording.clock import SLACK_MS, Window, server_times


def entry(version: int, at_ms: int, by: str, ahead: int | None = None) -> LogEntry:
    basis = "" if ahead is None else Basis(1, 1, ahead).text
    return LogEntry(version=version, at_ms=at_ms, by=by, facts="", basis=basis)


def times(entries: Sequence[LogEntry], *windows: Window) -> list[int]:
    return server_times(entries, windows)


def test_a_clock_that_is_right_is_left_alone() -> None:
    entries = [entry(1, 100, "ada"), entry(2, 900, "ada"), entry(3, 1_500, "ada")]
    assert times(entries, Window(2, 0, 1_000), Window(1, 1_000, 2_000)) == [100, 900, 1_500]


def test_schedulers_state_the_offset_of_their_clock() -> None:
    assert times([entry(1, 500, "batch/0", -300), entry(2, 700, "batch/0", 0)], Window(2, None, 1_000)) == [200, 700]


def test_an_offset_follows_from_when_entries_were_read() -> None:
    entries = [entry(1, 60_100, "ada"), entry(2, 61_900, "ada")]
    found = times(entries, Window(1, 0, 1_000), Window(1, 1_000, 2_000))
    assert found[1] - found[0] == 1_800, "one offset for the author"
    assert 0 <= found[0] <= 1_000
    assert 1_000 - SLACK_MS <= found[1] <= 2_000


def test_a_slow_clock_is_moved_forward() -> None:
    assert times([entry(1, 100, "ada")], Window(1, 5_000, 6_000)) == [5_000 - SLACK_MS]


def test_without_a_lower_bound_a_late_clock_is_moved_back() -> None:
    """Entries of a backlog may be older than the page before."""
    assert times([entry(1, 100, "ada"), entry(2, 9_000, "bob")], Window(2, None, 6_000)) == [100, 6_000]


def test_times_never_decrease() -> None:
    entries = [entry(1, 500, "ada"), entry(2, 400, "bob"), entry(3, 600, "ada")]
    assert times(entries, Window(3, 0, 1_000)) == [500, 500, 600]
