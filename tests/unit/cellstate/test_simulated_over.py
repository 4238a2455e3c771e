"""What the simulator's short way says of a machine that holds more than it has."""

from cellstate.memory import MemoryCell
from cellstate.model import JobSpec, MachineSpec, TaskGroup
from cellstate.resources import Dimensions
from cellstate.transaction import Claim, Singles, Transaction, Verdict


def test_a_machine_that_is_over_is_down_and_not_full() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), log=False, boxes=False)
    cell.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 9),))], 0, "ada")
    assert cell.carry_out("batch/0", Transaction("a", (Claim(0, 0, 2),)), None, 0)[0].accepted
    cell.join("e0", [MachineSpec("m0", (3, 3))], 0)
    outcome, placed = cell.carry_out("batch/0", Transaction("a", Singles([1, 0, 1])), None, 0)
    assert [verdict for _, verdict in outcome.claims] == [Verdict.PLACED, Verdict.DOWN, Verdict.PLACED]
    assert sum(each.tasks for each in placed) == 2
