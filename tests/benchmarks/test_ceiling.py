"""The ceiling writes what a commit writes, and nothing else."""

from typing import Any
from uuid import uuid4

import pytest

from benchmarks.ceiling import UNCHECKED, Recorder, Wire, pack, unchecked_call, without_log_number, words_of
from benchmarks.commit import LEASE_MS
from benchmarks.committer import ClientRound, Commits
from benchmarks.residents import join
from benchmarks.store import Saved, Store
from omega.cellstate.model import JobSpec, TaskGroup

NOTED = (b"HSET", b"HDEL", b"RPUSH", b"XADD", b"ZREM")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (rb'+1.5 [0 lua] "HSET" "a{b}" "1" "x y"', (b"HSET", b"a{b}", b"1", b"x y")),
        (rb'+1.5 [0 lua] "RPUSH" "k" "one\ntwo\x00\"\\"', (b"RPUSH", b"k", b'one\ntwo\x00"\\')),
        (rb'+1.5 [0 lua] "DEL" ""', (b"DEL", b"")),
    ],
)
def test_a_line_of_monitor_is_read_to_the_byte(line: bytes, words: tuple[bytes, ...]) -> None:
    assert words_of(line) == words


def test_only_the_number_of_a_log_entry_is_left_to_the_server() -> None:
    entry = (b"XADD", b"log", b"MAXLEN", b"~", b"5", b"7-0", b"facts", b"8-0")
    assert without_log_number(entry) == (b"XADD", b"log", b"MAXLEN", b"~", b"5", b"*", b"facts", b"8-0")
    assert without_log_number((b"HSET", b"h", b"7-0", b"1")) == (b"HSET", b"h", b"7-0", b"1")


def content(store: Store) -> dict[str, object]:
    """Everything in the cell but the numbers of log entries."""
    found: dict[str, object] = {}
    client: Any = store.client
    for key in client.scan_iter(match=store.prefix + "*"):
        name, kind = key.decode().removeprefix(store.prefix), client.type(key)
        if kind == b"hash":
            found[name] = client.hgetall(key)
        elif kind == b"list":
            found[name] = client.lrange(key, 0, -1)
        elif kind == b"zset":
            found[name] = client.zrange(key, 0, -1, withscores=True)
        elif kind == b"stream":
            found[name] = [fields for _, fields in client.xrange(key)]
    return found


@pytest.mark.server
@pytest.mark.parametrize("way", ["plain", "unchecked", "packed"])
def test_the_ceiling_leaves_what_the_commits_leave(store: Store, way: str) -> None:
    cell = store.make_cell()
    join(cell, 30)
    membership = cell.schedulers.register("bench/0", uuid4().hex, LEASE_MS, 1)
    plan = ClientRound(client=0, size=3, per_call=4, calls=5, machines=30, incarnation=membership.incarnation)
    names = [plan.job(number) for number in range(plan.calls * plan.per_call)]
    cell.jobs.submit([JobSpec(name, name, "bench", (TaskGroup((10, 32), 3, 5),)) for name in names], 1, "bench")
    saved = Saved.save(store, "begin")
    recorder = Recorder(store.client)
    commits = Commits(cell, plan, plan.transactions())
    writes = [recorder.record(commits.step) for _ in range(plan.calls)]
    recorder.close()
    committed = content(store)
    assert {command[0] for call in writes for command in call} <= set(NOTED)

    saved.restore()
    assert content(store) != committed
    client: Any = store.client
    wire, sha = Wire(client), store.load_script(UNCHECKED)
    for call in writes:
        commands = [without_log_number(command) for command in call]
        if way == "plain":
            for command in commands:
                client.execute_command(*command)
        elif way == "unchecked":
            client.execute_command(*unchecked_call(sha, commands))
        else:
            wire.send(pack(commands))
            wire.replies(len(commands))
    wire.close()
    assert content(store) == committed
