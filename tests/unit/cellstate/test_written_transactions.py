"""Transactions and endings as the scripts take them: the same bytes however claims and endings are given."""

from struct import Struct

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.model import MOST_CLAIMS
from omega.cellstate.redis.records import write_endings, write_transactions
from omega.cellstate.tasks import EndKind, FinishedRuns, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Detection, Mode, Transaction

LONGEST = "x" * 64
FINE, COARSE = Detection.FINE, Detection.COARSE


def expected(job: str, *numbers: int, claims: tuple[tuple[int, ...], ...], said: bytes = b"") -> bytes:
    """Return a transaction, written out: its job, its mode and detection, its claims, its victims and assertion."""
    head = bytes([len(job)]) + job.encode() + bytes(numbers) + len(claims).to_bytes(4, "little")
    return head + b"".join(Struct("<iiqq").pack(*claim) for claim in claims) + len(said).to_bytes(4, "little") + said


def test_a_transaction_is_its_job_numbers_claims_and_victims() -> None:
    claims = (Claim(300, 1, 2, seen=77, evict=((5, 1), (6, 2))), Claim(4, 0, 200, seen=1 << 40))
    coarse, victims = Transaction("b.1", claims, Mode.GANG, COARSE), b"1:5*1,1:6*2"
    want = expected("b.1", 1, 1, claims=((300, 1, 2, 77), (4, 0, 200, 1 << 40)), said=victims)
    assert write_transactions([coarse]) == want
    fine = expected("b.1", 1, 0, claims=((300, 1, 2, 0), (4, 0, 200, 0)), said=victims)
    assert write_transactions([coarse._replace(detection=FINE)]) == fine, "no number is compared"
    asserted = Transaction("b", (Claim(1, 0, 1),), assertion=Assertion(Threshold(("a é",), (2.0,), (1,)), (), 3))
    assert write_transactions([asserted]).endswith(b"|3|a%20%C3%A9,;1;2.0")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("detection", Detection)
@pytest.mark.parametrize("group", [0, 3])
@pytest.mark.parametrize("counts", [[1], [10], [1, 1, 1], [255, 1000, 7]])
def test_claims_in_compact_form_are_written_as_others(
    mode: Mode, detection: Detection, group: int, counts: list[int]
) -> None:
    machines = [99_999, 0, 5][: len(counts)]
    for seen in (None, [1, 1 << 50, 3][: len(counts)]):
        compact = [ClaimColumns(machines, counts, group=group, seen=seen)]
        compact += [ClaimColumns(machines, group=group, seen=seen)] if set(counts) == {1} else []
        for each in compact:
            for assertion in (None, Assertion(Threshold(("a",), (2.0,)), ())):
                found = Transaction(LONGEST, each, mode, detection, assertion)
                assert write_transactions([found]) == write_transactions([found._replace(claims=tuple(each))])


def test_several_transactions_follow_one_another() -> None:
    each = [Transaction(f"j{i}", ClaimColumns([i], [i])) for i in range(1, 40)]
    assert write_transactions(each) == b"".join(write_transactions([one]) for one in each)


@pytest.mark.parametrize("size", [0, MOST_CLAIMS + 1])
def test_the_number_of_claims_is_bounded(size: int) -> None:
    with pytest.raises(BadInput, match="claims in a transaction"):
        write_transactions([Transaction("a", ClaimColumns([0] * size))])


def test_ends_in_columns_are_written_as_others() -> None:
    columns = FinishedRuns(["5", "99999", "5"], ["17", "1", "123456789012"])
    assert columns[1:] == FinishedRuns(["99999", "5"], ["1", "123456789012"])
    assert list(columns) == [TaskEnd(5, 17, EndKind.FINISHED), TaskEnd(99_999, 1, EndKind.FINISHED), columns[2]]
    assert write_endings(columns) == write_endings(list(columns))


def test_endings_that_say_the_same_share_it() -> None:
    lost = TaskEnd(1, 2, EndKind.LOST, "0-1", "gone", "a", 9)
    said = b"\x04lost" + b"\x03\0\0\0" + b"0-1" + b"\x01a" + Struct("<Q").pack(9) + b"\x04\0\0\0gone"
    ends = b"\x02\0\0\0" + Struct("<iQiQ").pack(1, 2, 7, 8)
    assert write_endings([lost, lost._replace(machine=7, placement=8)]) == said + ends
    assert write_endings([lost, lost._replace(reason="")]) == write_endings([lost]) + write_endings(
        [lost._replace(reason="")]
    )
