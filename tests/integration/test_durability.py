"""Changes are acknowledged once replicas have them; a repeated call never is while they have not."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate import server
from omega.cellstate.acl import line
from omega.cellstate.connections import slot_of
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated, ReadOnly, StoreFull
from omega.cellstate.keys import prefix
from omega.cellstate.model import JobSpec, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership, Waits
from omega.cellstate.store import connect_cell, create_cell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from omega.live.simulated.executor import SimulatedExecutor
from tests.cli.conftest import Omega
from tests.integration.stage import all_facts, started_processes, words_of
from tests.server_groups import Sentinels, Server, cluster, free_ports, sentinels, until

pytestmark = pytest.mark.server
ONE = Durability(1, 500)
AGAIN = """
import sys
from omega.cellstate.errors import OmegaError
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.store import connect_cell
cell = connect_cell(sys.argv[1], sys.argv[2])
try:
    print(cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((1, 1), 3),))], 0, "me")[0].status)
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
def cell(group: Sentinels, request: pytest.FixtureRequest) -> Iterator[RedisCell]:
    name = request.node.name.removeprefix("test_")
    found = RedisCell.create(server.connect(group.url), name, durability=ONE, url=group.url)
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
    until(lambda: follows(group.primary()))


def follows(primary: Server) -> bool:
    """Return whether a replica has what the primary has."""
    primary.client.set("probe", "", px=1)
    return bool(primary.client.wait(1, 100) == 1)


def submitted_by_a_new_process(group: Sentinels, cell: RedisCell) -> str:
    words = [sys.executable, "-c", AGAIN, group.url, cell.name]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.chaos
def test_a_submission_is_acknowledged_only_by_replicas(group: Sentinels, cell: RedisCell) -> None:
    assert cell.jobs.submit([job("before")], 0, "me")[0].status == "new"
    with halted(group):
        for _ in range(2):  # the second call only finds the job
            with pytest.raises(NotReplicated, match="the primary has the change, but 0 of 1 replicas"):
                cell.jobs.submit([job("j")], 0, "me")
        with closing(connect_cell(group.url, cell.name)) as other, pytest.raises(NotReplicated):
            other.jobs.submit([job("j")], 0, "me")
        assert submitted_by_a_new_process(group, cell).startswith("NotReplicated")
        found = cell.jobs.get("j")
        assert found is not None  # the primary has it
        assert found.unplaced == 3
    assert cell.jobs.submit([job("j")], 0, "me")[0].status == "same"
    assert submitted_by_a_new_process(group, cell) == "same"
    assert cell.jobs.count() == 2
    assert verify(cell).ok


def test_a_commit_is_acknowledged_only_by_replicas(group: Sentinels, cell: RedisCell) -> None:
    cell.machines.join("yard", [MachineSpec("m0", (8, 8))], 0)
    cell.executors.register("yard", "n", 60_000, 0)
    cell.jobs.submit([job("j")], 0, "me")
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    request = commit_of(member)
    with halted(group):
        with pytest.raises(NotReplicated):
            cell.schedulers.commit(request)
        for _ in range(2):
            cell.schedulers.resend()
            with pytest.raises(NotReplicated):
                cell.schedulers.finish()
        with closing(connect_cell(group.url, cell.name)) as other, pytest.raises(NotReplicated):
            other.schedulers.commit(request)
        cell.schedulers.renew(member, 60_000, {})  # leases are renewed meanwhile
    cell.schedulers.resend()
    assert [outcome.accepted for outcome in cell.schedulers.finish().outcomes] == [True]
    assert [run.tasks for run in cell.machines.runs([0])] == ["0-2"]
    assert verify(cell).ok


@pytest.mark.chaos
def test_the_key_that_a_confirmation_renews_may_be_missing(group: Sentinels, cell: RedisCell) -> None:
    cell.machines.join("yard", [MachineSpec("m0", (8, 8))], 0)
    cell.executors.register("yard", "n", 60_000, 0)
    cell.jobs.submit([job("j")], 0, "me")
    request, key = commit_of(cell.schedulers.register("batch/0", "n", 60_000, 0)), f"{prefix(cell.name)}confirmed"
    for call in (lambda: cell.jobs.submit([job("j")], 0, "me"), lambda: cell.schedulers.commit(request)):
        with halted(group):
            group.primary().client.delete(key)
            with pytest.raises(NotReplicated):
                call()
        group.primary().client.delete(key)
        call()
        assert group.primary().client.exists(key)


def test_ends_pass_when_memory_is_full(group: Sentinels, cell: RedisCell) -> None:
    cell.machines.join("yard", [MachineSpec("m0", (8, 8))], 0)
    cell.executors.register("yard", "n", 60_000, 0)
    cell.jobs.submit([job("j")], 0, "me")
    assert cell.schedulers.commit(commit_of(cell.schedulers.register("batch/0", "n", 60_000, 0))).outcomes[0].accepted
    (run,) = cell.machines.runs([0])
    admin = group.primary().client
    admin.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(StoreFull):
            cell.jobs.submit([job("k")], 0, "me")
        assert cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED, "*")], 0, "yard") == [3]
    finally:
        admin.config_set("maxmemory", 0)


def test_a_call_whose_wait_ends_early_is_repeated(group: Sentinels, cell: RedisCell) -> None:
    """A server that becomes a replica ends all waits; so does CLIENT UNBLOCK, with the same error."""
    cell.set_durability(Durability(1, 2_000))
    admin, answers = group.primary().client, list[str]()
    with halted(group):
        caller = threading.Thread(target=lambda: answers.append(cell.jobs.submit([job("j")], 0, "me")[0].status))
        caller.start()
        until(lambda: unblocked(admin))
    caller.join()
    assert answers == ["same"]


def unblocked(admin: Any) -> bool:
    """End the wait of a client; return whether there was one."""
    waiting = [each["id"] for each in admin.client_list() if each["cmd"] == "wait" and "b" in each["flags"]]
    return any(admin.client_unblock(each, error=True) for each in waiting)


def waits(group: Sentinels) -> int:
    """Return how often the primary executed WAIT."""
    stats = group.primary().client.info("commandstats")
    return int(stats.get("cmdstat_wait", {"calls": 0})["calls"])


def test_changes_wait_and_nothing_else_does(group: Sentinels, cell: RedisCell) -> None:
    before = waits(group)
    with closing(connect_cell(group.url, cell.name)) as other:
        (
            other.jobs.all(),
            other.machines.all(),
            other.schedulers.sync(Position()),
            other.counters(),
            other.refuses_writes(),
        )
        member = other.schedulers.register("batch/0", "n", 60_000, 0)
        other.schedulers.renew(member, 60_000, {})
        other.schedulers.set_blocked("batch/0", Waits())
        other.jobs.housekeep(0, "batch/0")
        other.schedulers.deregister(member, 0)
    assert waits(group) == before
    changes: list[Callable[[], object]] = [
        lambda: cell.machines.join("yard", [MachineSpec("m0", (8, 8))], 0),
        lambda: cell.jobs.submit([job("j")], 0, "me"),
        lambda: cell.jobs.hold("j", 0, "me"),
        lambda: cell.jobs.release("j", 0, "me"),
        lambda: cell.jobs.resize("j", {0: 2}, 0, "me"),
        lambda: cell.jobs.stop("j", 0, "me"),
        lambda: cell.machines.set_state(0, MachineState.DRAINED, 0, "me"),
        lambda: cell.machines.set_deadline(0, 60_000),
        lambda: cell.machines.set_deadline(0, None),
        lambda: cell.machines.set_capacity(0, (9, 9), 0, "me"),
        lambda: cell.machines.set_attributes(0, {"a": "b"}, 0, "me"),
        lambda: cell.pools.set_limits("batch", Limits((5, 5)), 0, "me"),
        lambda: cell.pools.set(Pools((Pool("p"),)), None, 0, "me"),
        lambda: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "*")], 0, "yard"),
        lambda: cell.set_durability(Durability(1, 50)),
    ]
    for number, change in enumerate(changes):
        before = waits(group)
        change()
        assert waits(group) > before, number
    connect_cell(group.url, cell.name).delete()
    assert waits(group) > before + 1
    assert not list(group.primary().client.scan_iter(f"{prefix(cell.name)}*"))


@pytest.mark.chaos
def test_processes_repeat_what_replicas_lack(group: Sentinels, cell: RedisCell, tmp_path: Path) -> None:
    SimulatedExecutor(cell, "yard", time.time).join([MachineSpec("m0", (8, 8))])
    members = "batch/0", "simulated/yard"
    with started_processes(cell, group.url, tmp_path / "logs", *members, lease_ms=5_000) as processes:
        cell.jobs.submit([job("before")], 0, "me")
        until(lambda: ended(cell, "before"))
        with halted(group):
            with pytest.raises(NotReplicated):
                cell.jobs.submit([job("j")], 0, "me")
            until(lambda: "but 0 of 1 replicas" in " ".join(words_of(processes, "batch/0")))
        until(lambda: ended(cell, "j"))
        until(lambda: "store back" in " ".join(words_of(processes, "batch/0")))
    assert [fact.event[3] for fact in all_facts(cell) if fact.event[0] == "place"] == ["before", "j"]
    assert verify(cell).ok


def ended(cell: RedisCell, name: str) -> bool:
    found = cell.jobs.get(name)
    return found is not None and found.state is JobState.DONE


@pytest.mark.chaos
def test_commands_report_replicas_that_lack_a_change(group: Sentinels, cell: RedisCell, tmp_path: Path) -> None:
    omega, wanted = Omega(group.url, cell.name), {"mode": "replicas", "replicas": 1, "timeout_ms": 500, "checked": True}
    assert omega.json("cell", "status")["durability"] == wanted
    assert "replicas=1,timeout=500ms" in omega.text("cell", "status")
    assert omega.json("cell", "create", cell.name)["durability"] == wanted
    assert omega.error("cell", "create", cell.name, "--durability", "none") == (
        f"cell {cell.name}: has durability replicas=1,timeout=500ms, not none; change it with "
        f"omega --cell {cell.name} cell durability none"
    )
    file = tmp_path / "job.yaml"
    file.write_text("{name: j, id: j, tasks: [{name: t, resources: {cpu: 1}, duration: 1s}]}")
    with halted(group):
        said = omega.error("job", "submit", str(file))
        assert said == (
            f"cell {cell.name}: the primary has the change, but 0 of 1 replicas; connect the replicas, "
            "or see omega cell durability, and see omega job status j before you submit again"
        )
        assert omega.error("job", "submit", str(file)) == said
        until(lambda: "requires a replica; 0 follow it" in (omega.json("cell", "status")["refuses_writes"] or ""))
        for words in (("machine", "add", "m9", "--cpu", "1"), ("pool", "set", "p", "--weight", "2")):
            for _ in range(2):  # the second time there is nothing to change
                assert "but 0 of 1 replicas" in omega.error(*words)
    assert omega.json("job", "submit", str(file))["jobs"][0]["status"] == "unchanged"
    assert omega.json("cell", "durability", "none")["durability"]["mode"] == "none"
    with halted(group):
        omega.run("job", "stop", "j")
    refused = omega.error("cell", "durability", "replicas=2")
    assert (
        refused == f"cell {cell.name}: durability replicas=2,timeout=1s needs 2 connected replicas, and the store "
        "has 1; connect more"
    )


def test_a_submitter_may_wait_for_replicas(group: Sentinels, cell: RedisCell) -> None:
    admin = group.primary().client
    version = tuple(map(int, admin.info("server")["redis_version"].split(".")))
    admin.execute_command("ACL", "SETUSER", *line("submitter", cell.name, version, "pw").split()[1:])
    with closing(connect_cell(group.url_of("omega-submitter:pw"), cell.name)) as own:
        assert own.jobs.submit([job("j")], 0, "me")[0].status == "new"
        admin.delete(f"{prefix(cell.name)}confirmed")
        with halted(group), pytest.raises(NotReplicated):
            own.jobs.submit([job("j")], 0, "me")
    admin.acl_deluser("omega-submitter")


def test_a_backup_keeps_the_durability(group: Sentinels, cell: RedisCell, tmp_path: Path) -> None:
    omega, file = Omega(group.url, cell.name), str(tmp_path / "cell.omega")
    cell.jobs.submit([job("j")], 0, "me")
    omega.run("store", "backup", file)
    omega.run("store", "restore", file, "--force")
    assert omega.json("cell", "status")["durability"]["replicas"] == 1
    with halted(group), pytest.raises(NotReplicated), closing(connect_cell(group.url, cell.name)) as other:
        other.jobs.submit([job("j")], 0, "me")
    assert verify(cell).ok


def test_a_replica_is_no_store(group: Sentinels, cell: RedisCell) -> None:
    url = f"redis://127.0.0.1:{replica(group).port}"
    with pytest.raises(ReadOnly, match="is a read-only replica; give the URL of its primary"):
        create_cell(server.connect(url), "other", durability=ONE, url=url)
    until(lambda: replica(group).client.exists(f"{prefix(cell.name)}meta"))
    with closing(connect_cell(url, cell.name)) as there, pytest.raises(ReadOnly):
        there.jobs.submit([job("j")], 0, "me")


@pytest.mark.chaos
def test_after_a_failover_changes_are_not_acknowledged_before_the_old_primary_returns() -> None:
    """And a change that the promoted replica lacks is made again by the repeated call."""
    with sentinels(replicas=1) as group:
        cell = create_cell(server.connect(group.url), "default", durability=ONE, url=group.url)
        cell.jobs.submit([job("before")], 0, "me")
        old, promoted = group.primary(), replica(group)
        promoted.halt()
        old.client.client_kill_filter(_type="replica")  # or the replica reads what it was sent once it goes on
        with pytest.raises(NotReplicated):
            cell.jobs.submit([job("j")], 0, "me")
        old.kill()
        promoted.resume()
        assert group.next_after(old) is promoted
        assert cell.jobs.get("before") is not None
        assert cell.jobs.get("j") is None
        for _ in range(2):
            with pytest.raises(NotReplicated):
                cell.jobs.submit([job("j")], 0, "me")
        old.start()
        old.client.replicaof("127.0.0.1", promoted.port)  # as Sentinels do after about ten seconds
        until(lambda: follows(promoted))
        assert cell.jobs.submit([job("j")], 0, "me")[0].status == "same"
        assert cell.jobs.count() == 2
        assert verify(cell).ok
        cell.close()


@pytest.mark.chaos
def test_a_cell_on_a_cluster_waits_for_the_replicas_of_its_node() -> None:
    slot = slot_of(prefix("default"))
    with cluster(primaries=3) as nodes:
        owner = nodes.owner(slot)
        follower = Server(free_ports(1)[0], owner.directory, owner.options)
        try:
            follower.start()
            follower.client.execute_command("CLUSTER", "MEET", "127.0.0.1", owner.port)
            own = owner.client.execute_command("CLUSTER", "MYID")
            until(lambda: follower.client.execute_command("CLUSTER", "REPLICATE", own))
            until(lambda: owner.replicas_in_step == 1)
            cell = create_cell(server.connect(nodes.url), "default", durability=ONE, url=nodes.url)
            assert cell.jobs.submit([job("j")], 0, "me")[0].status == "new"
            other = next(each for each in nodes.servers if each is not owner)
            nodes.move(slot, other, atomic=False)
            with pytest.raises(NotReplicated, match="0 of 1 replicas"):
                cell.jobs.submit([job("k")], 0, "me")
            nodes.move(slot, owner, atomic=False)
            assert cell.jobs.submit([job("k")], 0, "me")[0].status == "same"
            assert verify(cell).ok
            cell.close()
        finally:
            follower.kill()


def commit_of(member: Membership) -> CommitRequest:
    return CommitRequest(member, 1, (Transaction("j", (Claim(0, 0, 3),)),), Position(), 0)
