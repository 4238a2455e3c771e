"""A store that is full, read-only, away or not for this Omega: one clear line, nothing lost, and work goes on after."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omega.cellstate import keys
from omega.cellstate.errors import ReadOnly, StoreFull, Unreachable, Unsuitable
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    all_facts,
    check,
    check_all_ended,
    ended,
    halt,
    made_cell,
    own_server,
    resume,
    seen,
    serve,
    simple_job,
    started_processes,
    submit,
    submit_again,
    unfinished,
    until,
    waited_for_store,
    words_of,
)

pytestmark = pytest.mark.server
FULL = "is out of memory (maxmemory reached); raise maxmemory or remove finished jobs or scripts"
FEW_REPLICAS = "refuses writes because too few replicas follow it; see its min-replicas-to-write"
REPLICA = "is a read-only replica; give the URL of its primary"


def set_maxmemory(url: str, size: int) -> None:
    with connect(url) as client:
        client.config_set("maxmemory", size)


def refused_start(group: ProcessSupervisor, member: str) -> str:
    """Start a member that cannot work; the one line it says."""
    group.start(member)
    assert ended(group, member) == 1
    lines = words_of(group, member)
    assert len(lines) == 1
    del group.members[member]
    return lines[0]


def test_a_full_store_lets_tasks_end_and_nothing_grow(tmp_path: Path) -> None:
    running = [simple_job(f"running-{number}", 2, ms=1_500) for number in range(20)]
    waiting = [simple_job(f"waiting-{number}", 3) for number in range(20)]
    with (
        own_server("--appendonly", "no") as server,
        made_cell(server.url, "full", 4) as cell,
        started_processes(
            cell, server.url, tmp_path, "batch/0", f"simulated/{DEFAULT_EXECUTOR}", lease_ms=6_000
        ) as group,
    ):
        submit(cell, running)
        until(lambda: not cell.schedulers.queue_depths(), "all are placed")
        halt(group, "batch/0")
        submit(cell, waiting)
        set_maxmemory(server.url, 1)
        resume(group, "batch/0")

        with pytest.raises(StoreFull) as refusal:
            cell.jobs.submit([simple_job("one-more")], 0, "ada")
        assert str(refusal.value) == f"the store at {server.url} {FULL}"
        group.start("batch/1")
        until(lambda: words_of(group, "batch/1"), "one that starts waits, and says why")
        assert group.dead() == {}
        until(lambda: words_of(group, "batch/0"), "the scheduler says why it waits")
        until(lambda: len(seen(cell, "finished")) == len(running), "what runs can end")
        assert cell.schedulers.members()["batch/0"][1]
        assert sum(cell.schedulers.queue_depths().values()) == len(waiting)

        set_maxmemory(server.url, 0)
        until(lambda: not unfinished(cell), "the rest is placed, and ends")
        until(lambda: len(words_of(group, "batch/0")) > 1, "the scheduler reports that it goes on")
        said = [line.partition(" seconds=")[0] for line in words_of(group, "batch/0")]
        assert said == waited_for_store("batch/0", f"the store at {server.url} {FULL}")
        assert len(seen(cell, "enlist", "batch/0")) == 1
        check_all_ended(cell, [*running, *waiting])


def test_a_full_store_refuses_a_commit_whole(store_url: str) -> None:
    with own_server() as server, made_cell(server.url, "full-commit", 2) as cell:
        serve(cell)
        submit(cell, [simple_job("job", 4)])
        membership = cell.schedulers.register("batch/0", "nonce", 60_000, 0)
        transaction = Transaction("job", (Claim(0, 0, 2), Claim(1, 0, 2)))
        # Once before, so that the script is known: what is refused is the write.
        cell.schedulers.commit(CommitRequest(membership, 1, [transaction._replace(job="another")], Position(), 0))
        before = cell.counters()
        set_maxmemory(server.url, 1)
        with pytest.raises(StoreFull) as refusal:
            cell.schedulers.commit(CommitRequest(membership, 2, [transaction], Position(), 0))
        assert str(refusal.value) == f"the store at {server.url} {FULL}"
        assert cell.counters() == before
        check(cell)
        set_maxmemory(server.url, 0)
        cell.schedulers.resend()
        assert [outcome.placed for outcome in cell.schedulers.finish().outcomes] == [4]
        check(cell)


def few_replicas(url: str, refuse: bool) -> None:
    with connect(url) as client:
        client.config_set("min-replicas-to-write", int(refuse))


def replica(url: str, refuse: bool) -> None:
    with connect(url) as client:
        if refuse:
            client.replicaof("127.0.0.1", "1")
        else:
            client.replicaof("NO", "ONE")


@pytest.mark.parametrize(
    ("turn", "why"), [(few_replicas, FEW_REPLICAS), pytest.param(replica, REPLICA, marks=pytest.mark.chaos)]
)
def test_a_read_only_store_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: Callable[[str, bool], None], why: str
) -> None:
    """By those at work, and by those that are started meanwhile."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    members = ("batch/0", "service/0", f"simulated/{DEFAULT_EXECUTOR}")
    jobs = [simple_job(f"job-{number}", 2, ms=200, kind=kind) for number, kind in enumerate(("batch", "service") * 20)]
    with (
        own_server() as server,
        made_cell(server.url, "read-only", 4) as cell,
        started_processes(cell, server.url, tmp_path, *members, lease_ms=600) as group,
    ):
        submit(cell, jobs[:20])
        until(lambda: seen(cell, "finished"), "all are at work, the executor too")
        turn(server.url, True)
        with pytest.raises(ReadOnly) as refusal:
            cell.jobs.submit(jobs[20:], 0, "ada")
        assert str(refusal.value) == f"the store at {server.url} {why}"
        late = ("batch/1", "agent/late")
        for member in late:
            group.start(member)
        until(lambda: all(words_of(group, member) for member in (*members, *late)), "all say why they wait")
        until(lambda: not any(alive for _, alive, _ in cell.schedulers.members().values()), "their leases end")
        version = cell.counters()["version"]
        turn(server.url, False)
        submit_again(cell, jobs[20:])
        until(lambda: not unfinished(cell), "all is placed, and ends")
        assert cell.counters()["version"] > version
        assert group.dead() == {}
        for member in members:
            said = [line.partition(" seconds=")[0] for line in words_of(group, member)]
            assert said == waited_for_store(member, f"the store at {server.url} {why}")
        for member in late:
            said = [line.partition(" seconds=")[0] for line in words_of(group, member)]
            waits = [line for line in said if why in line]
            assert len(waits) == 1, said
        check_all_ended(cell, jobs)


def test_a_store_out_of_reach_is_named_and_the_cell_is_none_the_worse(store_url: str, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/nowhere.sock"
    line = f"no answer from the store at {nowhere}: No such file or directory; start the server or check --store"
    with pytest.raises(Unreachable) as refusal:
        RedisCell.connect(nowhere, "cell")
    assert str(refusal.value) == line
    with ProcessSupervisor(nowhere, "cell", tmp_path) as group:
        for member in ("batch/0", "simulated/any"):
            group.start(member)
            waits = waited_for_store(member, line)[:1]
            until(lambda: words_of(group, member) == waits, f"{member} waits for the store")  # noqa: B023 - at once
            assert group.members[member].poll() is None


def test_a_cell_written_by_a_newer_omega_is_left_alone(store_url: str, tmp_path: Path) -> None:
    line = (
        f"cell newer: written with schema {keys.SCHEMA + 1}, this Omega has schema {keys.SCHEMA}; "
        "use the newer Omega, or name another cell with --cell"
    )
    with made_cell(store_url, "newer", 1) as cell:
        cell.client.hset(keys.prefix("newer") + "meta", "schema", keys.SCHEMA + 1)
        version = cell.counters()["version"]
        with pytest.raises(Unsuitable) as refusal:
            RedisCell.connect(store_url, "newer")
        assert str(refusal.value) == line
        group = ProcessSupervisor(store_url, "newer", tmp_path)
        assert refused_start(group, "batch/0") == f"error: {line}"
        assert refused_start(group, "simulated/any") == f"error: {line}"
        assert cell.counters()["version"] == version


def test_a_cell_that_is_not_there_is_named(store_url: str, tmp_path: Path) -> None:
    group = ProcessSupervisor(store_url, "no-such-cell", tmp_path)
    said = refused_start(group, "batch/0")
    assert said.startswith(f"error: unknown cell 'no-such-cell' on {store_url}; it has: ")
    assert said.endswith("; make one with omega cell create no-such-cell")


def test_a_store_that_drops_data_when_full_is_not_used(tmp_path: Path) -> None:
    with own_server("--maxmemory-policy", "allkeys-lru") as server, made_cell(server.url, "drops", 1) as cell:
        group = ProcessSupervisor(server.url, "drops", tmp_path)
        said = refused_start(group, "batch/0")
        assert said.startswith(f"error: the store at {server.url} drops data when it is full")
        assert [fact.event[0] for fact in all_facts(cell)] == ["join", "machine"], "its machine joined, offline"
