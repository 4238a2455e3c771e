"""Outcomes and what they count as."""

from itertools import product

from cellstate.transaction import CONFLICTS, Ending, How, Outcome, Position, Verdict


def test_the_order_of_verdicts_is_their_precedence() -> None:
    assert [verdict.name for verdict in Verdict] == [
        "PLACED",
        "UNKNOWN",
        "DOWN",
        "DUPLICATE",
        "INCOMPLETE",
        "LIMIT",
        "SHARE",
        "PRECEDENCE",
        "MOVED",
        "FULL",
        "ABORTED",
    ]


def test_an_outcome_is_accepted_when_all_of_it_stands() -> None:
    for first, second in product(Verdict, repeat=2):
        outcome = Outcome(((2, first), (0, second)))
        assert outcome.accepted == (first is second is Verdict.PLACED)
        assert outcome.conflicted == (first in CONFLICTS or second in CONFLICTS)
        assert outcome.placed == 2


def test_only_moved_and_full_are_interference() -> None:
    assert sorted(CONFLICTS) == [Verdict.MOVED, Verdict.FULL]


def test_defaults() -> None:
    assert Ending(1, 2, How.FINISHED) == Ending(1, 2, How.FINISHED, "*", "")
    assert Position() == Position(0, "")
