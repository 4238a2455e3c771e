"""The audit reports placements on machines that do not satisfy a constraint of their job, and no others."""

from collections.abc import Mapping
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Basis, Claim, Position, Transaction
from omega.cellstate.verify import Report, verify
from tests.contract.conftest import AnyCell

MACHINES: tuple[Mapping[str, str], ...] = ({"rack": "r1", "gpu": "2"}, {"rack": "r2"}, {})


class Placing:
    """A cell of three machines, and a scheduler that places tasks wherever a test wants them."""

    def __init__(self, cell: AnyCell) -> None:
        self.cell, self.number = cell, 0
        cell.executors.register("e", "n", 600_000, 0)
        cell.machines.join("e", [MachineSpec(f"m{i}", (100, 100), has) for i, has in enumerate(MACHINES)], 0)
        self.member = cell.schedulers.register("batch/0", "n", 600_000, 0)

    def submit(self, name: str, *constraints: Any) -> None:
        group = TaskGroup((1, 1), 9, 0, {"constraints": list(constraints)} if constraints else {})
        self.cell.jobs.submit([JobSpec(name, name, "batch", (group,))], 0, "ada")

    def version(self) -> int:
        return self.cell.log.changed_records(0, 0).version

    def place(self, name: str, machine: int, since: int | None = None) -> None:
        """Place a task; `since` is the version of the snapshot that it was decided on."""
        self.number += 1
        basis = None if since is None else Basis(since, 0)
        request = CommitRequest(
            self.member, self.number, [Transaction(name, (Claim(machine, 0, 1),))], Position(self.version()), 0,
            basis=basis,
        )  # fmt: skip
        assert self.cell.schedulers.commit(request).outcomes[0].placed == 1

    def broken(self) -> list[tuple[int, str, str]]:
        return [(each.invariant, each.what, each.where) for each in self.report().violations]

    def report(self) -> Report:
        return verify(self.cell)


@pytest.fixture
def placing(cell: AnyCell) -> Placing:
    return Placing(cell)


def test_a_placement_on_another_machine_is_reported(placing: Placing) -> None:
    placing.submit("a", "rack == 'r1'", {"prefer": "rack == 'r9'"})
    placing.place("a", 0)
    assert placing.broken() == []
    placing.place("a", 1)
    placing.place("a", 2)
    found = [(invariant, what.partition(" (version")[0], where) for invariant, what, where in placing.broken()]
    assert found == [
        (7, f"was placed on machine {i} (m{i}), which does not satisfy rack == 'r1'", "job a group 0") for i in (1, 2)
    ]
    assert placing.report().constraints == {"claims": 3, "checked": 3}


def test_soft_constraints_and_jobs_without_any_are_no_violation(placing: Placing) -> None:
    placing.submit("a", {"prefer": "rack == 'r9'"})
    placing.submit("b")
    for machine in (0, 1, 2):
        placing.place("a", machine)
        placing.place("b", machine)
    assert placing.broken() == []
    assert placing.report().constraints == {"claims": 0, "checked": 0}


def test_a_placement_that_has_ended_is_reported_while_its_job_is_kept(placing: Placing) -> None:
    placing.submit("a", "has gpu")
    placing.place("a", 1)
    (run,) = placing.cell.machines.runs([1])
    placing.cell.executors.end([TaskEnd(1, run.placement, EndKind.FINISHED, "*")], 0, "e")
    assert [invariant for invariant, _, _ in placing.broken()] == [7]


def test_attributes_that_change_later_make_no_placement_wrong(placing: Placing) -> None:
    placing.submit("a", "rack == 'r1'")
    placing.place("a", 0)
    placing.cell.machines.set_attributes(0, {"rack": "r7"}, 0, "ada")
    assert placing.broken() == []
    assert placing.report().constraints == {"claims": 1, "checked": 0}, "what they were then is not known"


def test_attributes_that_changed_between_decision_and_commit_make_no_placement_wrong(placing: Placing) -> None:
    placing.submit("a", "rack == 'r1'")
    since = placing.version()
    placing.cell.machines.set_attributes(0, {"rack": "r7"}, 0, "ada")
    placing.place("a", 0, since)
    assert placing.broken() == []
    placing.place("a", 0, placing.version())
    assert [invariant for invariant, _, _ in placing.broken()] == [7], "that one was decided on the new ones"


def test_a_machine_that_joined_again_may_have_had_other_attributes(placing: Placing) -> None:
    placing.submit("a", "rack == 'r9'")
    placing.cell.machines.join("e", [MachineSpec("m1", (100, 100), {"rack": "r9"})], 0)
    placing.place("a", 1)
    assert placing.broken() == []
    placing.cell.machines.join("e", [MachineSpec("m1", (100, 100), {"rack": "r2"})], 0)
    assert placing.broken() == []


def test_an_earlier_job_of_the_same_id_is_not_compared(placing: Placing) -> None:
    placing.submit("a")
    placing.place("a", 1)
    placing.cell.jobs.stop("a", 0, "ada")
    (run,) = placing.cell.machines.runs([1])
    placing.cell.executors.end([TaskEnd(1, run.placement, EndKind.STOPPED, "*")], 0, "e")
    placing.cell.executors.end([TaskEnd(1, run.placement, EndKind.LEFT, "*")], 0, "e")
    placing.cell.jobs.retire(1)
    placing.cell.jobs.retire(10**12)
    assert placing.cell.jobs.get("a") is None
    placing.submit("a", "rack == 'r1'")
    assert placing.broken() == []
    assert placing.report().constraints == {"claims": 0, "checked": 0}
