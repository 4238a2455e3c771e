"""The working copy of a command: the cell as it is, or as if nothing ran there."""

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Reply
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.client.client import Client
from omega.queries.working_copy import latest, working_copy
from tests.cli.conftest import join


@pytest.mark.parametrize("machines", [1, 3, 100])
def test_a_cell_as_if_it_were_empty(cell: RedisCell, machines: int) -> None:
    cell.executors.register("e", "n", 600_000, 0)
    cell.machines.join("e", [MachineSpec(f"m{number}", (4_000, 4_096)) for number in range(machines)], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1_000, 96), 1),))], 0, "ada")
    cell.schedulers.commit(
        CommitRequest(
            cell.schedulers.register("batch/0", "n", 60_000, 0), 1, [Transaction("a", (Claim(0, 0, 1),))], Position(), 0
        )
    )
    assert working_copy(cell).free[0].tolist()[0] == 3_000
    assert working_copy(cell, empty=True).free[0].tolist()[0] == 4_000


def test_the_latest_copy_reads_changed_machines_only(cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    join(cell, 3)
    first = latest(cell)
    read, sync = list[Position](), cell.schedulers.sync

    def noted(position: Position) -> Reply:
        read.append(position)
        return sync(position)

    monkeypatch.setattr(cell.schedulers, "sync", noted)
    cell.machines.set_state(1, MachineState.DOWN, 1, "ada")
    assert latest(cell) is first
    assert [position.version > 0 for position in read] == [True], "no full read"
    assert first.rows[2].tolist() == [MachineState.UP, MachineState.DOWN, MachineState.UP]
    assert not len(first.freed()), "nothing accumulates"


def test_reasons_of_a_page_follow_the_machines(store_url: str, cell: RedisCell) -> None:
    join(cell, 1)  # 4 cpu
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((3_000, 0), 2),))], 1, "ada")
    with Client(store_url, cell.name) as client:
        assert client.jobs(limit=1)["jobs"][0]["reason"] == "RESOURCES"
        join(cell, 2)
        assert client.jobs(limit=1)["jobs"][0]["reason"] == "WAITING"
        cell.machines.set_state(1, MachineState.DOWN, 1, "ada")
        assert client.jobs(limit=1)["jobs"][0]["reason"] == "RESOURCES"
