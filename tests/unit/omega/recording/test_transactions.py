"""The transactions of a call follow from its facts, as far as the log has them."""

from omega.cellstate.events import Fact, parse
from omega.cellstate.transaction import Basis, Claim, Detection, Mode
from omega.recording.transactions import Part, parts_of, transaction_of


def parts(*lines: str, forms: str = "") -> list[Part]:
    return parts_of([Fact(1, 0, "batch/0", parse(line)[0], Basis(0, 0, 0, forms)) for line in lines])


def claims(part: Part) -> list[Claim]:
    return list(transaction_of(part, lambda machine: 70 + machine).claims)


def test_jobs_part_transactions() -> None:
    found = parts("place 1 0 a 0 0 1,1", "place 2 3 b 0 0-1 1,1", forms="fc")
    assert [(part.job, part.mode, part.detection) for part in found] == [
        ("a", Mode.INCREMENTAL, Detection.FINE), ("b", Mode.INCREMENTAL, Detection.COARSE),
    ]  # fmt: skip
    assert claims(found[1]) == [Claim(3, 0, 2, seen=73)]


def test_the_rest_of_a_claim_that_was_placed_in_part_belongs_to_it() -> None:
    (part,) = parts("conflict a 0 8 3 0", "place 1 0 a 0 0-1 1,1")
    assert claims(part) == [Claim(0, 0, 5, seen=70)]


def test_rejected_claims_on_other_machines_come_first() -> None:
    (part,) = parts("conflict a 5 8 3 1", "place 1 0 a 0 0-1 1,1")
    assert claims(part) == [Claim(5, 1, 3, seen=75), Claim(0, 0, 2, seen=70)]


def test_a_moved_claim_saw_an_older_number() -> None:
    (part,) = parts("conflict a 0 7 3 0 12", forms="c")
    assert claims(part) == [Claim(0, 0, 3, seen=12)]


def test_evictions_belong_to_the_claim_after_them() -> None:
    (part,) = parts("evicted 4 0 b 0 1-2 9 1,1 precedence:a", "place 7 0 a 0 0 1,1")
    assert claims(part) == [Claim(0, 0, 1, seen=70, evict=((4, 2),))]


def test_a_failed_gang_is_whole() -> None:
    (part,) = parts("conflict a 0 8 4 0", "aborted a 1:0:5 2:1:1", forms="g")
    assert part.mode is Mode.GANG
    assert sorted(claim[:3] for claim in claims(part)) == [(0, 0, 4), (1, 0, 5), (2, 1, 1)]


def test_a_gang_that_failed_and_then_stood_is_two_transactions() -> None:
    found = parts("conflict a 0 8 4 0", "place 1 1 a 0 0-3 1,1", forms="g")
    assert [len(part.facts) for part in found] == [1, 1]


def test_a_job_may_have_two_transactions() -> None:
    found = parts("place 1 0 a 0 0 1,1", "again a", "place 2 0 a 0 1 1,1")
    assert [part.job for part in found] == ["a", "a"]
    found = parts("place 1 0 a 0 0 1,1", "conflict a 0 8 1 0", "again a", "place 2 1 a 0 1 1,1")
    assert [[words[0] for words in part.facts] for part in found] == [["place"], ["conflict", "place"]]


def test_what_the_log_lacks_is_not_judged() -> None:
    unclear = {
        "rejected a 2": "other verdicts", "aborted a 0:0:1!": "failed gangs that would have evicted",
        "assert a b,;1,1;1,1;-,-": "assertions between pools",
    }  # fmt: skip
    assert {line: parts(line)[0].unclear for line in unclear} == unclear
    assert parts("place 1 0 a 0 0 1,1", forms="fg")[0].unclear == "modes"
