"""Every kind of kept record has a text: whole, as a number of further ones, with other words than expected."""

from hypothesis import given, strategies as some

from omega.cellstate.events import FORMS, Fact, parse
from omega.cellstate.memory import MemoryCell
from omega.queries.event_text import lines
from omega.queries.events import event
from omega.queries.job_history import _summed
from omega.queries.names import Names
from omega.web.console.job_view import history_lines

KINDS = some.sampled_from([*sorted(FORMS), "of-a-later-version"])
WORDS = some.sampled_from(
    ["0", "1", "7", "-", "0-3", "1,4", "a", "first-job", "full", "=", "+x", "2 3", "{}", "[1]", ""]
)
FACTS = some.builds(lambda kind, words: (kind, *words), KINDS, some.lists(WORDS, max_size=9))
SUMS = some.builds(
    lambda kind, n, tasks: ("+", kind, str(n), str(tasks)), KINDS, some.integers(1, 9), some.integers(0, 9)
)
HISTORIES = some.lists(some.tuples(some.integers(1, 3), FACTS | SUMS), max_size=8).map(sorted)


@given(HISTORIES)
def test_no_record_ends_in_a_traceback(records: list[tuple[int, tuple[str, ...]]]) -> None:
    cell = MemoryCell()
    facts = [Fact(version, 1_000, "ada", parse(" ".join(words))[0]) for version, words in records]
    events = [_summed(fact, "web") or event(fact, cell.dimensions) for fact in facts]
    assert len(list(lines(events, Names(cell)))) == len({version for version, _ in records})
    history_lines([each.as_json() for each in events], {}, 9)


def text(*words: str) -> str:
    cell = MemoryCell()
    facts = [Fact(5, 0, "ada", parse(each)[0]) for each in words]
    (line,) = lines([_summed(fact, "web") or event(fact, cell.dimensions) for fact in facts], Names(cell))
    return line.partition("ada        ")[2]


def test_further_resizes_and_conflicts_are_numbers() -> None:
    resizes = [f"resize web {group} 3 3 0" for group in range(3)]
    assert text(*resizes, "+ resize 2 0").endswith("group 2 to 3 tasks, 2 further groups")
    assert text("+ conflict 6 6") == "6 events of kind conflict of web, 6 tasks"


def test_a_record_of_an_unknown_kind_is_shown() -> None:
    assert text("of-a-later-version a b") == "of-a-later-version a b"
