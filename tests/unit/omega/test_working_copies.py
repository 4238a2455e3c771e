"""Working copies that connections keep for explanations: brought up to date, and only a few of them."""

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MachineSpec
from omega.queries import working_copy


def test_a_connection_keeps_its_copy_and_only_the_newest_are_kept() -> None:
    cells = [MemoryCell() for _ in range(4)]
    for cell in cells:
        cell.executors.register("here", "n", 600_000, 0)
        cell.machines.join("here", [MachineSpec("m0", (1, 1))], 0)
    first = working_copy.latest(cells[0])
    assert working_copy.latest(cells[0]) is first
    cells[0].machines.join("here", [MachineSpec("m1", (1, 1))], 0)
    assert working_copy.latest(cells[0]).size == 2
    for cell in cells[1:]:
        working_copy.latest(cell)
    assert {cell for cell in cells if cell in working_copy._LATEST} == set(cells[-working_copy.MOST_COPIES :])
    assert working_copy.latest(cells[0]) is not first
