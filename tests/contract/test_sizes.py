"""How much fits into one call (semantics 11) and how large numbers may get (12)."""

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MOST_CLAIMS, Gang, JobSpec, Limits, MachineSpec, TaskGroup
from omega.cellstate.resources import LARGEST
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from tests.contract.conftest import AnyCell, Make, Member, job


@pytest.fixture
def wide(make: Make, request: pytest.FixtureRequest) -> AnyCell:
    """A cell of MOST_CLAIMS machines, each of an executor of its own kind of size."""
    cell = make().cell
    for number in range(0, MOST_CLAIMS, 100):
        cell.executors.register(f"e{number}", "n", 600_000, 0)
        cell.machines.join(f"e{number}", [MachineSpec(f"m{number + i}", (1, 1)) for i in range(100)], 0)
    return cell


@pytest.mark.parametrize("make", ["memory", "resp3"], indirect=True)
def test_the_largest_gang(wide: AnyCell) -> None:
    wide.jobs.submit([job("a", count=MOST_CLAIMS, gang=Gang.YES)], 0, "ada")
    member = Member(wide)
    claims = tuple(Claim(machine, 0, 1) for machine in range(MOST_CLAIMS))
    full = claims[:-1] + claims[:1]
    (outcome,) = member.transact(Transaction("a", full, Mode.GANG))
    assert [verdict for _, verdict in outcome.claims] == [Verdict.ABORTED] * (MOST_CLAIMS - 1) + [Verdict.FULL]
    assert member.transact(Transaction("a", claims, Mode.GANG))[0].accepted
    endings = [TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in wide.machines.runs(range(MOST_CLAIMS))]
    assert sum(wide.executors.end(endings, 1, "e0")) == MOST_CLAIMS
    assert {m.allocated for m in wide.machines.all()} == {(0, 0)}


def test_more_is_refused_before_it_reaches_the_store(cell: AnyCell, member: Member) -> None:
    with pytest.raises(BadInput, match="a gang of 5001 tasks"):
        job("a", count=MOST_CLAIMS + 1, gang=Gang.YES)
    cell.jobs.submit([job("a")], 0, "ada")
    for claims in ((), (Claim(0, 0, 1),) * (MOST_CLAIMS + 1)):
        with pytest.raises(BadInput, match="job a"):
            member.transact(Transaction("a", claims))
    assert cell.machines.runs([0]) == []


@pytest.mark.parametrize("make", ["resp3", pytest.param("memory", marks=pytest.mark.chaos)], indirect=True)
def test_many_answers_in_one_call(make: Make) -> None:
    """Lua's unpack fails near 8,000 values, and what was written before is not rolled back."""
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    machines = cell.machines.join("e0", [MachineSpec(f"m{i}", (1, 1)) for i in range(300)], 0)
    member = Member(cell)
    jobs = [job(f"j{i}", (0, 0)) for i in range(9_000)]
    assert {answer.status for answer in cell.jobs.submit(jobs, 0, "ada")} == {"new"}
    for start in range(0, 9_000, 3_000):
        some = enumerate(jobs[start : start + 3_000])
        member.transact(*(Transaction(each.id, (Claim(i % 300, 0, 1),)) for i, each in some))
    assert cell.schedulers.pending() == {}
    endings = [TaskEnd(run.machine, run.placement, EndKind.FAILED) for run in cell.machines.runs(machines)]
    assert cell.executors.end(endings, 1, "e0") == [1] * 9_000


def test_a_job_of_many_tasks_is_one_record(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (0, 0), 1_000_000_000)], 0, "ada")
    assert member.place("a", (0, 999_999_999)).accepted
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.groups[0].waiting, [run.tasks for run in cell.machines.runs([0])]) == ("999999999", ["0-999999998"])


def test_amounts_near_the_largest_stay_exact(make: Make) -> None:
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (LARGEST, LARGEST - 1)) for i in range(40)], 0)
    member = Member(cell)
    third = LARGEST // 3
    cell.jobs.submit([job("a", (third, third - 1), 150), job("b", (1, 1), 2), job("c", (0, 3), 2)], 0, "ada")
    assert member.place("a", *((i, 4) for i in range(40))).placed == 120
    assert cell.machines.all()[7].allocated == (3 * third, 3 * third - 3)
    assert cell.pools.kinds()["batch"].used == (120 * third, 120 * (third - 1)), "a sum of 4 * 10^15"
    assert member.place("b", (0, 1)).claims == ((0, Verdict.FULL),)
    assert member.place("c", (0, 1)).claims == ((0, Verdict.FULL),)
    assert cell.machines.set_capacity(0, (LARGEST, LARGEST), 1, "ada") == 0
    assert member.place("c", (0, 2)).claims == ((1, Verdict.FULL),)
    row = cell.schedulers.sync(Position()).rows[0]
    assert row.tolist()[4:] == [LARGEST, LARGEST, 3 * third, 3 * third]
    cell.executors.end(
        [TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in cell.machines.runs(range(40))], 1, "e0"
    )
    assert "batch" not in cell.pools.kinds()


def test_limits_beyond_what_a_machine_has_stay_exact(make: Make) -> None:
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (LARGEST, 1)) for i in range(4)], 0)
    member = Member(cell)
    most = 3 * LARGEST - 1
    cell.pools.set_limits("batch", Limits((most, None)), 0, "ada")
    assert cell.pools.kinds()["batch"].limits.resources == (most, None)
    cell.jobs.submit([job("a", (LARGEST, 0), 3), job("b", (LARGEST - 1, 0)), job("c", (1, 0))], 0, "ada")
    assert member.place("a", (0, 1), (1, 1), (2, 1)).claims[2] == (0, Verdict.LIMIT)
    assert member.place("b", (2, 1)).accepted
    assert member.place("c", (3, 1)).claims == ((0, Verdict.LIMIT),)


@pytest.mark.parametrize("duration", [-1, LARGEST + 1])
def test_durations_a_group_cannot_have(cell: AnyCell, duration: int) -> None:
    with pytest.raises(BadInput, match="duration"):
        cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 1, duration),))], 0, "ada")
