"""The working copy of a command: the cell as it is, or as if nothing ran there."""

import pytest

from cellstate.model import JobSpec, MachineSpec, TaskGroup
from cellstate.redis import RedisCell
from cellstate.transaction import Claim, Position, Transaction
from omega.queries.working_copy import working_copy


@pytest.mark.parametrize("machines", [1, 3, 100])
def test_a_cell_as_if_it_were_empty(cell: RedisCell, machines: int) -> None:
    cell.register_executor("e", "n", 600_000, 0)
    cell.join("e", [MachineSpec(f"m{number}", (4_000, 4_096)) for number in range(machines)], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((1_000, 96), 1),))], 0, "ada")
    cell.commit(
        cell.register_scheduler("batch/0", "n", 60_000, 0), 1, [Transaction("a", (Claim(0, 0, 1),))], Position(), 0
    )
    assert working_copy(cell).free[0].tolist()[0] == 3_000
    assert working_copy(cell, empty=True).free[0].tolist()[0] == 4_000
