"""Changes are acknowledged once replicas have them; a repeated call never is while they have not."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from omega.cellstate import server
from omega.cellstate.audit import verify
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated
from omega.cellstate.keys import prefix
from omega.cellstate.model import JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.ports import StoredCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.store import connect_cell, create_cell
from omega.cellstate.task_ends import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.server_groups import Sentinels, Server, sentinels, until

pytestmark = pytest.mark.server
ONE = Durability(1, 300)
AGAIN = """
import sys
from omega.cellstate.errors import OmegaError
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.store import connect_cell
cell = connect_cell(sys.argv[1], sys.argv[2])
try:
    print(cell.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 3),))], 0, "me")[0].status)
except OmegaError as error:
    print(type(error).__name__, error)
"""
"""A new process that submits the job again, which the store has."""


def job(name: str) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1, 1), 3),))


@pytest.fixture(scope="module")
def group() -> Iterator[Sentinels]:
    with sentinels(replicas=1) as running:
        yield running


@pytest.fixture
def cell(group: Sentinels, request: pytest.FixtureRequest) -> Iterator[StoredCell]:
    name = request.node.name.removeprefix("test_")
    found = create_cell(server.connect(group.url), name, durability=ONE, url=group.url)
    yield found
    found.delete()
    found.close()


def replica(group: Sentinels) -> Server:
    return next(each for each in group.servers if each is not group.primary())


@contextmanager
def halted(group: Sentinels) -> Iterator[None]:
    """The only replica stands still."""
    behind = replica(group)
    behind.halt()
    try:
        yield
    finally:
        behind.resume()
    until(lambda: group.primary().client.wait(1, 100) == 1)


def submitted_by_a_new_process(group: Sentinels, cell: StoredCell) -> str:
    words = [sys.executable, "-c", AGAIN, group.url, cell.name]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_a_submission_is_acknowledged_only_by_replicas(group: Sentinels, cell: StoredCell) -> None:
    assert cell.submit([job("before")], 0, "me")[0].status == "new"
    with halted(group):
        for _ in range(2):  # the second call only finds the job
            with pytest.raises(NotReplicated, match="the primary has the change, but 0 of 1 replicas"):
                cell.submit([job("j")], 0, "me")
        with closing(connect_cell(group.url, cell.name)) as other, pytest.raises(NotReplicated):
            other.submit([job("j")], 0, "me")
        assert submitted_by_a_new_process(group, cell).startswith("NotReplicated")
        found = cell.job("j")
        assert found is not None  # the primary has it
        assert found.unplaced == 3
    assert cell.submit([job("j")], 0, "me")[0].status == "same"
    assert submitted_by_a_new_process(group, cell) == "same"
    assert cell.job_count() == 2
    assert verify(cell).ok


def test_a_commit_is_acknowledged_only_by_replicas(group: Sentinels, cell: StoredCell) -> None:
    cell.join("yard", [MachineSpec("m0", (8, 8))], 0)
    cell.register_executor("yard", "n", 60_000, 0)
    cell.submit([job("j")], 0, "me")
    member = cell.register_scheduler("batch/0", "n", 60_000, 0)
    request = commit_of(member)
    with halted(group):
        with pytest.raises(NotReplicated):
            cell.commit(request)
        for _ in range(2):
            cell.resend()
            with pytest.raises(NotReplicated):
                cell.finish()
        with closing(connect_cell(group.url, cell.name)) as other, pytest.raises(NotReplicated):
            other.commit(request)
        cell.renew_scheduler(member, 60_000, {})  # leases are renewed meanwhile
    cell.resend()
    assert [outcome.accepted for outcome in cell.finish().outcomes] == [True]
    assert [run.tasks for run in cell.runs([0])] == ["0-2"]
    assert verify(cell).ok


def waits(group: Sentinels) -> int:
    """Return how often the primary executed WAIT."""
    stats = group.primary().client.info("commandstats")
    return int(stats.get("cmdstat_wait", {"calls": 0})["calls"])


def test_changes_wait_and_nothing_else_does(group: Sentinels, cell: StoredCell) -> None:
    before = waits(group)
    with closing(connect_cell(group.url, cell.name)) as other:
        other.jobs(), other.machines(), other.sync(Position()), other.counters(), other.refuses_writes()
        member = other.register_scheduler("batch/0", "n", 60_000, 0)
        other.renew_scheduler(member, 60_000, {})
        other.set_blocked("batch/0", blocked=True)
        other.housekeep(0, "batch/0")
        other.deregister_scheduler(member, 0)
    assert waits(group) == before
    changes: list[Callable[[], object]] = [
        lambda: cell.join("yard", [MachineSpec("m0", (8, 8))], 0),
        lambda: cell.submit([job("j")], 0, "me"),
        lambda: cell.hold("j", 0, "me"),
        lambda: cell.release("j", 0, "me"),
        lambda: cell.resize("j", {0: 2}, 0, "me"),
        lambda: cell.stop("j", 0, "me"),
        lambda: cell.set_machine_state(0, MachineState.DRAINED, 0, "me"),
        lambda: cell.set_deadline(0, 60_000),
        lambda: cell.set_deadline(0, None),
        lambda: cell.set_machine_capacity(0, (9, 9), 0, "me"),
        lambda: cell.set_machine_attributes(0, {"a": "b"}, 0, "me"),
        lambda: cell.set_limits("batch", Limits((5, 5)), 0, "me"),
        lambda: cell.set_pools(Pools((Pool("p"),)), None, 0, "me"),
        lambda: cell.end([TaskEnd(0, 1, EndKind.FINISHED, "*")], 0, "yard"),
        lambda: cell.set_durability(Durability(1, 50)),
    ]
    for number, change in enumerate(changes):
        before = waits(group)
        change()
        assert waits(group) > before, number
    connect_cell(group.url, cell.name).delete()
    assert waits(group) > before + 1
    assert not list(group.primary().client.scan_iter(f"{prefix(cell.name)}*"))


def commit_of(member: Membership) -> CommitRequest:
    return CommitRequest(member, 1, (Transaction("j", (Claim(0, 0, 3),)),), Position(), 0)
