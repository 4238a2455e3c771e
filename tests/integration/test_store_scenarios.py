"""What users of other systems suffered at their store, tried on a cell (docs/faults.md names each scenario)."""

import time
from collections.abc import Iterator

import pytest

from omega.cellstate.backup import read_backup, restore
from omega.cellstate.errors import StoreFull
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega
from tests.contract.conftest import Member
from tests.integration.stage import Server, check, join, made_cell, own_server, serve, simple_job, submit, until

pytestmark = pytest.mark.server
LEASE_MS = 2_000


def test_a_flushed_script_cache_is_noticed_by_nobody(store_url: str) -> None:
    """S02: scripts are sent again in the same call, also by the connection that has one call in flight."""
    with made_cell(store_url, "s02", 1) as cell:
        serve(cell)
        member = Member(cell)
        submit(cell, [simple_job("before"), simple_job("after")])
        assert member.place("before", (0, 1)).accepted
        cell.client.script_flush()
        assert member.place("after", (0, 1)).accepted
        cell.client.script_flush()
        submit(cell, [simple_job("third")])
        cell.schedulers.renew(member.membership, 60_000, {})
        cell.schedulers.begin(
            CommitRequest(member.membership, 9, [Transaction("third", (Claim(0, 0, 1),))], Position(), 0)
        )
        assert [outcome.placed for outcome in cell.schedulers.finish().outcomes] == [1]
        check(cell)


def test_a_policy_that_is_changed_later_fails_the_audit() -> None:
    """S07: a store that may drop keys is refused at every start, and by the audit of a cell that is at work."""
    with own_server() as server, made_cell(server.url, "s07", 1) as cell:
        omega = Omega(server.url)
        assert omega.json("cell", "verify", cell.name)["ok"]
        with connect(server.url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        said = omega.error("cell", "verify", cell.name)
        assert "drops data when it is full (maxmemory-policy allkeys-lru); run CONFIG SET" in said


@pytest.fixture
def replaced(store_url: str) -> Iterator[tuple[RedisCell, Member]]:
    """A cell restored from a backup made when three machines, gone since, ran nine tasks; three new ones joined."""
    with made_cell(store_url, "s10") as cell:
        for number in range(3):
            cell.executors.register_agent(f"old{number}", "n", LEASE_MS, 0)
            cell.machines.join(f"agent/old{number}", [MachineSpec(f"old{number}", (8000, 32768))], 0)
        submit(cell, [JobSpec("job", "job", "batch", (TaskGroup((100, 64), 9, 0),))])
        member = Member(cell)
        assert member.place("job", (0, 3), (1, 3), (2, 3)).placed == 9
        kept = read_backup(cell, 0)
        with connect(store_url) as client:
            restore(client, kept, cell.name, 0, "ada", url=store_url).close()
        for number in range(3):
            cell.executors.register_agent(f"new{number}", "n", 60_000, 0)
            cell.machines.join(f"agent/new{number}", [MachineSpec(f"new{number}", (8000, 32768))], 0)
        yield cell, Member(cell, "batch/1")


@pytest.mark.chaos
def test_tasks_of_machines_that_are_gone_run_on_new_ones_after_a_restore(replaced: tuple[RedisCell, Member]) -> None:
    """S10: within one lease nobody is taken for gone and nothing starts; after it all nine run, once each."""
    cell, member = replaced
    submit(cell, [simple_job("new")])
    assert member.place("new", (3, 1)).accepted
    (run,) = cell.machines.runs([3])
    assert cell.executors.may_start([(3, run.placement)]) == ["wait"], "a copy of a task may run where nobody sees it"
    (old, *_) = cell.machines.runs([0])
    assert cell.executors.may_start([(0, old.placement)]) == ["go"], "what the backup lists goes on"
    assert cell.executors.reap(0, "batch/1") == []
    until(
        lambda: (
            len(cell.executors.reap(0, "batch/1")) == 3
            or not any(name.startswith("old") for name in cell.executors.agents())
        ),
        "the agents that are gone are taken for gone",
        20,
    )
    assert cell.executors.may_start([(3, run.placement)]) == ["go"]
    assert [machine.state for machine in cell.machines.all()][:3] == [MachineState.OFFLINE] * 3
    # Lost tasks wait for a second (semantics 26); housekeeping of any scheduler queues them again.
    until(
        lambda: (cell.jobs.housekeep(0, "batch/1"), cell.jobs.chores())[1] == {},
        "the lost tasks may be placed again",
        20,
    )
    assert member.place("job", (3, 3), (4, 3), (5, 3)).placed == 9
    endings = [
        TaskEnd(run.machine, run.placement, EndKind.FINISHED)
        for run in cell.machines.runs([3, 4, 5])
        if run.job == "job"
    ]
    assert sum(cell.executors.end(endings, 0, "e")) == 9
    check(cell)


def fill(server: Server, cell: RedisCell, limit: int) -> int:
    """Jobs of one task, finished at once, until three times the limit has gone through; returns their bytes."""
    member, sent, number = Member(cell), 0, 0
    payload = "x" * 20_000
    with connect(server.url) as client:
        while sent < 3 * limit:
            number += 1
            name = f"job-{number}"
            spec = JobSpec(name, name, "batch", (TaskGroup((1, 1), 1, 0),), spec={"environment": {"X": payload}})
            cell.jobs.submit([spec], 0, "ada")
            assert member.place(name, (0, 1)).accepted
            (run,) = cell.machines.runs([0])
            cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], 0, "e")
            sent += len(payload)
            cell.jobs.retire(int(time.time() * 1000)) if number % 20 == 0 else None
        return int(client.info("memory")["used_memory"])


@pytest.mark.chaos
def test_history_does_not_fill_the_store() -> None:
    """S11: finished jobs are bounded by count; at the limit submissions are refused, ends and leases pass."""
    with own_server() as server, connect(server.url) as client:
        cell = RedisCell.create(client, "s11", keep_jobs=20, url=server.url)
        serve(cell)
        join(cell, [MachineSpec("m0", (8000, 32768))])
        limit = int(client.info("memory")["used_memory"]) + (3 << 20)
        client.config_set("maxmemory", limit)
        assert fill(server, cell, 3 << 20) < limit
        submit(cell, [simple_job("runs")])
        member = Member(cell, "batch/1")
        assert member.place("runs", (0, 1)).accepted
        (run,) = [run for run in cell.machines.runs([0]) if not run.leaving]
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull):
            cell.jobs.submit([simple_job("more")], 0, "ada")
        cell.schedulers.renew(member.membership, 60_000, {})
        assert cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], 0, "e") == [1]
        client.config_set("maxmemory", 0)
        check(cell)
        cell.delete()
