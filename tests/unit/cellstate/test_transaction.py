"""Outcomes and what they count as."""

from copy import copy
from itertools import product

from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import CONFLICTS, Claim, ClaimColumns, Outcome, Position, Verdict


def test_the_order_of_verdicts_is_their_precedence() -> None:
    assert [verdict.name for verdict in Verdict] == [
        "PLACED",
        "UNKNOWN",
        "DOWN",
        "DUPLICATE",
        "INCOMPLETE",
        "LIMIT",
        "TREE",
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
    assert TaskEnd(1, 2, EndKind.FINISHED) == TaskEnd(1, 2, EndKind.FINISHED, "*", "")
    assert Position() == Position(0, "")


def test_a_claim_can_be_copied() -> None:
    claim = Claim(3, 4, 2, seen=7, evict=((1, 2),))
    assert copy(claim) == claim == (3, 4, 2, 7, ((1, 2),))


def test_claims_in_columns_are_the_same_claims() -> None:
    for counts, seen in product((None, [2, 5, 1]), (None, [7, 8, 9])):
        columns = ClaimColumns([3, 1, 3], counts, group=4, seen=seen)
        tasks, numbers = counts or [1, 1, 1], seen or [0, 0, 0]
        claims = [Claim(machine, 4, tasks[i], seen=numbers[i]) for i, machine in enumerate([3, 1, 3])]
        assert (list(columns), len(columns), columns[1], list(columns[1:])) == (claims, 3, claims[1], claims[1:])
        assert columns == tuple(claims)
        assert hash(columns) == hash(tuple(claims))
