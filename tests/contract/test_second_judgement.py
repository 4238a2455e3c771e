"""What the log has for judging transactions again (docs/decisions/0056), on the script and on the twin."""

import json

import pytest

from omega.cellstate.cell import Cell
from omega.cellstate.events import LogEntry
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Basis, Claim, Detection, Mode, Position, Transaction, forms_of

SMALL, LARGE = TaskGroup((100, 10), 9), TaskGroup((900, 10), 9)


class Judged:
    """A cell of two machines of 1,000 millicores, and a scheduler that commits."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        cell.executors.register("simulated", "n", 60_000, 0)
        cell.machines.join(
            "simulated", [MachineSpec("m0", (1000, 1000), {"rack": "r1"}), MachineSpec("m1", (1000, 1000))], 0
        )
        cell.jobs.submit(
            [JobSpec("a", "a", "batch", (SMALL, LARGE)), JobSpec("b", "b", "batch", (SMALL,), gang=Gang.YES)], 0, "u"
        )
        self.member = cell.schedulers.register("batch/0", "n", 60_000, 0, {"kind": "batch", "mode": "incremental"})
        self.number = 0

    def commit(self, *transactions: Transaction, basis: Basis | None = None) -> LogEntry:
        self.number += 1
        position = self.cell.schedulers.sync(Position()).position
        self.cell.schedulers.commit(CommitRequest(self.member, self.number, transactions, position, 5, basis=basis))
        return self.cell.log.entries(position.version)[-1]


@pytest.fixture
def judged(cell: Cell) -> Judged:
    return Judged(cell)


@pytest.mark.parametrize("beside", [(), (Claim(1, 1, 1),)], ids=["fast", "general"])
def test_a_full_claim_has_its_group(judged: Judged, beside: tuple[Claim, ...]) -> None:
    entry = judged.commit(Transaction("a", (Claim(0, 0, 9), *beside, Claim(0, 1, 2))))
    assert "conflict a 0 8 2 1" in entry.facts.split("\n")
    entry = judged.commit(Transaction("b", (Claim(0, 0, 4), Claim(0, 0, 5)), Mode.GANG))
    assert entry.facts.split("\n") == ["conflict b 0 8 4 0", "conflict b 0 8 5 0"]


def test_a_moved_claim_has_the_number_that_it_saw(judged: Judged) -> None:
    number = judged.cell.schedulers.sync(Position()).rows.tolist()[0][1]
    judged.commit(Transaction("a", (Claim(0, 0, 1),)))
    entry = judged.commit(Transaction("a", (Claim(0, 0, 1, seen=number),), detection=Detection.COARSE))
    assert entry.facts == f"conflict a 0 7 1 0 {number}"
    assert Basis.read(entry.basis).forms == "c"


def test_a_failed_gang_has_its_aborted_claims(judged: Judged) -> None:
    judged.commit(Transaction("a", (Claim(0, 0, 9),)))
    entry = judged.commit(Transaction("b", (Claim(0, 0, 4), Claim(1, 0, 5)), Mode.GANG))
    assert entry.facts.split("\n") == ["conflict b 0 8 4 0", "aborted b 1:0:5"]
    assert Basis.read(entry.basis).forms == "g"


def test_an_aborted_claim_that_would_have_evicted_has_a_mark(judged: Judged) -> None:
    judged.commit(Transaction("a", (Claim(0, 1, 1), Claim(1, 1, 1))))
    victim = judged.cell.machines.runs([0])[0].placement
    judged.cell.jobs.submit(
        [JobSpec("high", "high", "batch", (TaskGroup((900, 10), 2),), precedence=9, gang=Gang.YES)], 0, "u"
    )
    claims = Claim(0, 0, 1, evict=((victim, 1),)), Claim(1, 0, 1)
    entry = judged.commit(Transaction("high", claims, Mode.GANG))
    assert entry.facts.split("\n") == ["conflict high 1 8 1 0", "aborted high 0:0:1!"]


def test_other_verdicts_are_counted(judged: Judged) -> None:
    entry = judged.commit(
        Transaction("a", (Claim(7, 0, 1), Claim(0, 0, 1), Claim(9, 0, 1))), Transaction("no", (Claim(0, 0, 1),))
    )
    assert entry.facts.split("\n")[0] == "rejected a 2"
    assert "rejected no 1" in entry.facts.split("\n")


def test_an_accepted_call_has_no_addition(judged: Judged) -> None:
    entry = judged.commit(Transaction("a", (Claim(0, 0, 1),)), basis=Basis(1, 2))
    assert entry.basis == "1 2"
    assert entry.settings == ""
    assert [line.split(" ")[0] for line in entry.facts.split("\n")] in (["place"], ["places"])


def test_the_offset_of_the_authors_clock_is_kept(judged: Judged) -> None:
    entry = judged.commit(Transaction("a", (Claim(0, 0, 1),)), basis=Basis(1, 2, -30))
    assert entry.basis == "1 2 -30"
    assert Basis.read(entry.basis) == Basis(1, 2, -30)


def test_settings_stand_in_the_entry_that_sets_them(judged: Judged) -> None:
    cell = judged.cell
    cell.machines.set_attributes(1, {"zone": "z"}, 1, "ada")
    cell.machines.set_attributes(0, {"rack": None}, 1, "ada")
    cell.pools.set(Pools((Pool("a", weight=2.0),)), 0, 1, "ada")
    said = [json.loads(each.settings) for each in cell.log.entries() if each.settings]
    assert {"attributes": {}} in said, "machines joined without any"
    settings = [each for each in said if each != {"attributes": {}}]
    assert settings[:5] == [
        {"attributes": {"m0": {"rack": "r1"}}},
        {"gangs": {"b": [1, 0]}, "groups": {"a": [[0, 10, 0], [0, 10, 0]], "b": [[0, 10, 0]]}},
        {"scheduler": {"kind": "batch", "mode": "incremental"}},
        {"attributes": {"m1": {"zone": "z"}}},
        {"attributes": {"m0": {}}},
    ]
    assert settings[5]["pools"] == [{"name": "a", "number": 1, "weight": 2.0}]


def test_the_words_of_an_older_log_are_read() -> None:
    assert Basis.read("7 9") == Basis(7, 9)
    assert Basis.read(Basis(7, 9, 0, "fg").text) == Basis(7, 9, 0, "fg")


def test_forms_are_as_short_as_they_can_be() -> None:
    fine, gang = Transaction("a", ()), Transaction("a", (), Mode.GANG)
    assert [forms_of(each) for each in ([], [fine, fine], [gang, gang], [fine, gang])] == ["", "", "g", "fg"]
