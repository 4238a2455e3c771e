"""Jobs without rows: the cell answers as one that has all rows, whatever is asked between submission and end."""

from collections.abc import Callable
from typing import Any

import pytest

from omega.cellstate.model import Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Mode, Outcome, Placed, Transaction, Verdict
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.simple_jobs import SimpleJob
from omega.simulation.twin import SimulatedTwin

BY = "ada"


class Both:
    """Two cells with the same history: in `quick` simple jobs are submitted without rows, in `full` with rows."""

    def __init__(self) -> None:
        self.quick, self.full = (
            SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=False, mailboxes=False, tag=str)
            for _ in range(2)
        )
        self.do(self._found)

    @staticmethod
    def _found(cell: SimulatedTwin) -> None:
        cell.ledger.counted = False
        cell.register_executor("e0", "n", 600_000, 0)
        cell.join("e0", [MachineSpec(f"m{i}", (8, 8)) for i in range(3)], 0)

    def do(self, call: Callable[[SimulatedTwin], Any]) -> Any:
        first, second = call(self.quick), call(self.full)
        assert first == second
        return first

    def submit(self, *names: str, tasks: int = 2, gang: Gang = Gang.NO) -> None:
        specs = [JobSpec(name, f"n-{name}", "batch", (TaskGroup((1, 1), tasks),), gang=gang) for name in names]
        assert self.quick.submit_simple(specs, 1, BY)
        self.full.submit(specs, 1, BY)

    def place(self, job: str, *machines: int, group: int = 0, mode: Mode = Mode.INCREMENTAL) -> tuple[Outcome, Any]:
        claims = ClaimColumns(list(machines), group=group)
        outcome, placed = self.quick.carry_out("batch/0", Transaction(job, claims, mode), None, 2)
        written = [each.placed() if isinstance(each, SimpleJob) else each for each in placed]
        assert (outcome, written) == self.full.carry_out("batch/0", Transaction(job, claims, mode), None, 2)
        return outcome, placed

    def end(self, placed: Placed | SimpleJob) -> int:
        found: int = self.do(lambda cell: cell.finish_placed(placed, 3))
        return found

    def compare(self) -> None:
        self.do(lambda cell: (cell.jobs(), cell.runs([0, 1, 2]), cell.pending(), cell.kinds(), cell.counters()))
        self.do(lambda cell: [(row.lane, row.live, row.pending, row.version) for row in cell.ledger.L.values()])
        self.do(lambda cell: (cell.ledger.free, cell.ledger.numbers, cell.ledger.trail, cell.ledger.names))


@pytest.fixture
def both() -> Both:
    return Both()


def verdicts(outcome: Outcome) -> list[Verdict]:
    return [verdict for _, verdict in outcome.claims]


def test_a_job_that_is_placed_and_ends_at_once_never_has_rows(both: Both) -> None:
    both.submit("a", "b")
    _, (placed,) = both.place("a", 0, 1)
    assert not both.quick._ledger.J
    assert both.end(placed) == 2
    both.compare()
    assert list(both.quick._ledger.J) == ["b"]


def test_a_job_that_is_placed_in_part_keeps_its_place_among_the_pending(both: Both) -> None:
    both.submit("a", "b", "c")
    both.place("b", 0)
    assert both.do(lambda cell: cell.pending()) == {"batch": ["a", "b", "c"]}
    both.compare()


def test_runs_are_listed_in_the_order_of_their_placements(both: Both) -> None:
    both.submit("a", "b", "c", "d")
    both.place("a", 0, 0)
    both.place("b", 0)  # with rows
    both.place("c", 0, 0)
    both.place("b", 0)
    assert [run.job for run in both.do(lambda cell: cell.runs([0]))] == ["a", "a", "b", "c", "c", "b"]
    both.compare()


def test_a_machine_that_is_not_up_takes_nothing(both: Both) -> None:
    both.do(lambda cell: cell.set_machine_state(1, MachineState.DRAINED, 1, BY))
    both.submit("a")
    assert verdicts(both.place("a", 0, 1)[0]) == [Verdict.PLACED, Verdict.DOWN]
    both.compare()


def test_room_is_given_back_where_a_later_claim_does_not_fit(both: Both) -> None:
    both.submit("a", "b", tasks=8)
    both.place("a", *[1] * 8)
    assert verdicts(both.place("b", *[0] * 7, 1)[0]) == [*[Verdict.PLACED] * 7, Verdict.FULL]
    both.compare()


@pytest.mark.parametrize(("mode", "verdict"), [(Mode.GANG, Verdict.PLACED), (Mode.INCREMENTAL, Verdict.INCOMPLETE)])
def test_a_gang_is_placed_by_a_gang_transaction(both: Both, mode: Mode, verdict: Verdict) -> None:
    both.submit("a", gang=Gang.YES)
    assert set(verdicts(both.place("a", 0, 1, mode=mode)[0])) == {verdict}
    both.compare()


def test_a_group_that_the_job_has_not_is_unknown(both: Both) -> None:
    both.submit("a")
    assert set(verdicts(both.place("a", 0, 1, group=1)[0])) == {Verdict.UNKNOWN}
    both.compare()


def test_a_second_placement_of_a_running_job_is_a_duplicate(both: Both) -> None:
    both.submit("a")
    both.place("a", 0, 1)
    assert set(verdicts(both.place("a", 0, 1)[0])) == {Verdict.DUPLICATE}
    both.compare()


def test_the_end_of_a_job_deletes_an_earlier_one_whose_tasks_were_leaving(both: Both) -> None:
    both.submit("a", "b")
    _, (placed,) = both.place("a", 0)
    both.do(lambda cell: cell.end([TaskEnd(0, placed.placements[0], EndKind.STOPPED)], 2, BY))
    _, (again,) = both.place("a", 1)
    both.end(again)
    both.do(lambda cell: cell.end([TaskEnd(0, placed.placements[0], EndKind.LEFT)], 3, "e0"))
    assert [job.id for job in both.do(lambda cell: cell.jobs())] == ["a", "b"]
    both.submit("c")
    _, (last,) = both.place("c", 2, 2)
    assert both.end(last) == 2
    assert [job.id for job in both.do(lambda cell: cell.jobs())] == ["b"]
    both.compare()


@pytest.mark.parametrize("place", [False, True])
@pytest.mark.parametrize(("job", "name"), [("a", "other"), ("other", "n-a")])
def test_a_job_that_is_there_is_not_submitted_again(both: Both, place: bool, job: str, name: str) -> None:
    both.submit("a")
    if place:
        both.place("a", 0, 1)
    assert not both.quick.submit_simple([JobSpec(job, name, "batch", (TaskGroup((1, 1), 1),))], 2, BY)
    both.compare()


def test_a_job_of_a_limited_kind_has_rows(both: Both) -> None:
    both.submit("a")
    both.do(lambda cell: cell.set_limits("batch", Limits((3, None)), 1, BY))
    assert not both.quick.submit_simple([JobSpec("b", "b", "batch", (TaskGroup((1, 1), 1),))], 2, BY)
    assert set(verdicts(both.place("a", 0, 1)[0])) == {Verdict.PLACED}
    both.compare()


def test_tasks_that_end_one_by_one_end_a_job_without_rows(both: Both) -> None:
    both.submit("a")
    _, (placed,) = both.place("a", 0, 1)
    first, second = placed.endings()
    assert both.do(lambda cell: cell.end([first], 4, "e0")) == [1]
    assert both.do(lambda cell: cell.end([second], 4, "e0")) == [1]
    both.compare()


def test_claims_of_several_tasks_on_a_machine_are_placed_with_rows(both: Both) -> None:
    both.submit("a", tasks=3)
    transaction = Transaction("a", (Claim(0, 0, 2), Claim(1, 0, 1)))
    _, (placed,) = both.do(lambda cell: cell.carry_out("batch/0", transaction, None, 2))
    assert both.end(placed) == 3
    both.compare()


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("watching", [False, True])
def test_machines_gain_room_for_a_watching_snapshot_when_tasks_end_and_not_when_they_are_placed(
    both: Both, watching: bool, numbered: bool
) -> None:
    copies = [PackedSnapshot(2, numbered=numbered) for _ in range(2)]
    both.submit("a")
    found = []
    for cell, copy in zip((both.quick, both.full), copies, strict=True):
        cell.bring_up_to_date(copy)
        copy.watching = watching
        machines = copy.take_each((1, 1), [0, 2])
        outcome, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns(machines)), copy, 2)
        copy.settle(stands=outcome.accepted)
        cell.bring_up_to_date(copy)
        found.append((copy.freed().tolist(), list(copy.rest), list(copy.numbers), copy.followed, copy.changes))
        cell.finish_placed(placed[0], 3)
        cell.bring_up_to_date(copy)
        found.append((copy.freed().tolist(), list(copy.rest), list(copy.numbers), copy.followed, copy.changes))
    assert found[:2] == found[2:]
    assert [freed for freed, *_ in found[:2]] == [[], [0, 2] if watching else []]
    both.compare()
