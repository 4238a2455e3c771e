"""Transactions as commit.lua takes them: in the server's protocol, and the same however the claims are given."""

from struct import Struct

import pytest
from hiredis import Reader

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.model import MOST_CLAIMS
from omega.cellstate.redis.link import BulkStrings, bulk_strings
from omega.cellstate.redis.records import MOST_USUAL, _usual, write_endings, write_transactions
from omega.cellstate.tasks import EndKind, FinishedRuns, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Detection, Mode, Transaction

LONGEST = "x" * 64
FINE, COARSE = Detection.FINE, Detection.COARSE


def words(*transactions: Transaction) -> list[bytes]:
    """The words of transactions as a server reads them."""
    written = write_transactions(transactions)
    reader = Reader()
    reader.feed(b"*%d\r\n" % written.number + written.packed)
    found = reader.gets()
    assert isinstance(found, list)
    return found


def numbers(*values: int) -> bytes:
    return Struct(f"<{len(values)}q").pack(*values)


def test_a_transaction_is_its_job_numbers_victims_and_machines() -> None:
    claims = (Claim(300, 1, 2, seen=77, evict=((5, 1), (6, 2))), Claim(4, 0, 200, seen=1 << 40))
    coarse = Transaction("b.1", claims, Mode.GANG, COARSE)
    assert words(coarse) == [b"b.1", numbers(1, 1, 1, 2, 77, 0, 200, 1 << 40), b"1:5*1,1:6*2", b"300", b"4"]
    assert words(coarse._replace(detection=FINE))[1] == numbers(1, 0, 1, 2, 0, 0, 200, 0), "fine: no number is compared"
    asserted = Transaction("b", (Claim(1, 0, 1),), assertion=Assertion(Threshold(("a é",), (2.0,), (1,)), (), 3))
    assert words(asserted)[2].startswith(b"|3|a%20%C3%A9,;1;2.0")


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
                assert words(found) == words(found._replace(claims=tuple(each)))


def test_several_transactions_follow_one_another() -> None:
    each = [Transaction(f"j{i}", ClaimColumns([i], [i])) for i in range(1, 40)]
    assert words(*each) == [word for one in each for word in words(one)]


@pytest.mark.parametrize("size", [0, MOST_CLAIMS + 1])
def test_the_number_of_claims_is_bounded(size: int) -> None:
    with pytest.raises(BadInput, match="claims in a transaction"):
        write_transactions([Transaction("a", ClaimColumns([0] * size))])


def test_ends_in_columns_are_written_as_others() -> None:
    columns = FinishedRuns(["5", "99999", "5"], ["17", "1", "123456789012"])
    assert columns[1:] == FinishedRuns(["99999", "5"], ["1", "123456789012"])
    assert list(columns) == [TaskEnd(5, 17, EndKind.FINISHED), TaskEnd(99_999, 1, EndKind.FINISHED), columns[2]]
    assert write_endings(columns) == write_endings(list(columns))
    other = TaskEnd(1, 2, EndKind.LOST, "0-1", "gone", "a")
    assert write_endings([other]) == bulk_strings(["lost 0-1 a gone", 1, 1, 2])


def test_words_of_a_command() -> None:
    assert bulk_strings(["a é", 12, b"\r\n", 1.5]) == BulkStrings(
        4, "$4\r\na é\r\n$2\r\n12\r\n$2\r\n\r\n\r\n$3\r\n1.5\r\n".encode()
    )


def test_texts_of_transactions_are_kept_up_to_a_bound() -> None:
    for more in range(MOST_USUAL + 10):
        write_transactions([Transaction("j", ClaimColumns([0, 1], [1, 1 + more]))])
    assert max(map(len, _usual)) <= MOST_USUAL
