"""`omega events`: the log as JSON, field by field, and in sentences."""

import json
import re

import pytest

from omega.cellstate import events as log
from omega.cellstate.events import Fact
from omega.cellstate.model import JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from omega.queries import events as history
from omega.queries.event_text import clock
from tests.cli.conftest import Omega, eventually, join
from tests.cli.test_main import start

GROUP = (TaskGroup((1000, 100), 2),)


def commit(cell: RedisCell, membership: Membership, number: int, *transactions: Transaction) -> None:
    cell.schedulers.commit(CommitRequest(membership, number, transactions, Position(), 5_000 + number))


def lived(cell: RedisCell) -> None:
    """Let everything that the log can tell happen once; versions 1 to 17."""
    join(cell, 2, (2000, 4096))
    cell.jobs.submit([JobSpec("4f1c09", "crawl", "batch", GROUP, 7)], 2_000, "ada")
    one = cell.schedulers.register("batch/0", "nonce", 60_000, 3_000)
    claim = Claim(0, 0, 1, seen=0)
    commit(cell, one, 1, Transaction("4f1c09", (claim, Claim(1, 0, 1, seen=0))))
    cell.executors.end([TaskEnd(0, 1, EndKind.FAILED, "0", "exit:3")], 6_000, "agent")
    cell.machines.set_state(1, MachineState.DOWN, 7_000, "ada")
    cell.jobs.stop("4f1c09", 8_000, "ada")
    cell.machines.set_capacity(0, (1500, 2048), 9_000, "ada")
    cell.jobs.submit([JobSpec("b", "big", "batch", (TaskGroup((1500, 0), 3),))], 9_100, "ada")
    commit(cell, one, 2, Transaction("b", (Claim(0, 0, 3, seen=0),), Mode.INCREMENTAL, Detection.FINE))
    cell.executors.end([TaskEnd(0, 3, EndKind.EVICTED, "0", "drain")], 9_300, "ada")
    cell.executors.end([TaskEnd(0, 3, EndKind.LEFT, "0")], 9_400, "agent")
    cell.pools.set_limits("batch", Limits((None, 3000), 9, (1, 5)), 9_500, "ada")
    cell.client.delete(f"omega:1:{{{cell.name}}}:lease:batch/0")
    cell.schedulers.deregister(one, 9_600, reaped=True)
    two = cell.schedulers.register("batch/0", "nonce2", 60_000, 9_700)
    cell.schedulers.deregister(two, 9_800)


@pytest.fixture
def old_cell(cell: RedisCell) -> RedisCell:
    lived(cell)
    return cell


def test_every_kind_of_event_field_by_field(omega: Omega, old_cell: RedisCell) -> None:
    found = omega.json("events", "--since", "0")
    told = found.pop("events")
    assert found == {"cell": omega.cell, "first_version": 1, "version": 17, "gap": None}
    task = {"job": "4f1c09", "count": 1, "group": 0}
    big = {"job": "b", "machine": 0, "count": 1, "placement": 3, "group": 0, "tasks": "0"}
    apart = ("at_ms", "version", "by", "since", "began_ms")
    assert [{key: event[key] for key in event if key not in apart} for event in told] == [
        {"kind": "register", "member": "here", "incarnation": 1},
        {"kind": "join", "machine": 0, "name": "m0", "capacity": {"cpu": 2000, "memory": 4096}},
        {"kind": "join", "machine": 1, "name": "m1", "capacity": {"cpu": 2000, "memory": 4096}},
        {"kind": "submit", "job": "4f1c09", "count": 2, "name": "crawl", "job_kind": "batch", "precedence": 7},
        {"kind": "register", "member": "batch/0", "incarnation": 2},
        {"kind": "place", **task, "machine": 0, "placement": 1, "tasks": "0"},
        {"kind": "place", **task, "machine": 1, "placement": 2, "tasks": "1"},
        {"kind": "failed", **task, "machine": 0, "placement": 1, "tasks": "0", "reason": "exit:3"},
        {"kind": "machine", "machine": 1, "state": "down"},
        {"kind": "evicted", **task, "machine": 1, "placement": 2, "tasks": "1", "reason": "down"},
        {"kind": "stop", "job": "4f1c09", "count": 1},
        {"kind": "ended", "job": "4f1c09", "state": "stopped"},
        {"kind": "machine", "machine": 0, "capacity": {"cpu": 1500, "memory": 2048}},
        {"kind": "submit", "job": "b", "count": 3, "name": "big", "job_kind": "batch", "precedence": 0},
        {"kind": "conflict", "job": "b", "machine": 0, "count": 2, "verdict": "full", "group": 0},
        {"kind": "place", **big},
        {"kind": "evicted", **big, "reason": "drain"},
        {"kind": "left", **big},
        {
            "kind": "limit",
            "job_kind": "batch",
            "jobs": 9,
            "resources": {"cpu": None, "memory": 3000},
            "precedence": [1, 5],
        },
        {"kind": "expire", "member": "batch/0", "incarnation": 2},
        {"kind": "register", "member": "batch/0", "incarnation": 3},
        {"kind": "deregister", "member": "batch/0", "incarnation": 3},
    ]
    assert {event["kind"] for event in told} <= set(history.KINDS)
    assert told[3] | {} == told[3] | {"version": 3, "at_ms": 2000, "by": "ada"}
    decided = [(event["kind"], event["since"], event["began_ms"]) for event in told if "since" in event]
    assert decided == [("place", 0, 5_001), ("place", 0, 5_001), ("conflict", 0, 5_002), ("place", 0, 5_002)]


def test_every_fact_of_the_log_is_a_kind_of_event() -> None:
    """What `omega events` prints can be asked for; only recordings and the audit read the others."""
    facts = log.FORMS.keys() - {"again", "aborted", "rejected"}
    assert {history.current_kind(word) for word in facts} | {history.UNREADABLE} == {*history.KINDS}
    assert len(history.KINDS) == len({*history.KINDS})


@pytest.mark.parametrize("kind", history.KINDS)
def test_every_kind_of_event_can_be_asked_for(omega: Omega, kind: str) -> None:
    omega.json("job", "submit", "-", "--hold", given="{name: a, tasks: [{}]}")
    found = omega.json("events", "--kind", kind)["events"]
    assert [event["kind"] for event in found] == (["submit"] if kind == "submit" else [])
    assert kind in omega.text("events", "--help")


def sentences(omega: Omega) -> list[tuple[str, ...]]:
    """Version, author and text of every line; the date is that of another day."""
    found = [re.fullmatch(r"\S+ \S+ +(v\d+) +(\S+) +(.*)", line) for line in omega.text("events").splitlines()]
    return [line.groups() for line in found if line]


def test_sentences(omega: Omega, old_cell: RedisCell) -> None:
    assert sentences(omega) == [
        ("v1", "here", "here joined (incarnation 1)"),
        ("v2", "here", "m0, m1 joined"),
        ("v3", "ada", "submitted crawl (4f1c), 2 tasks of kind batch, precedence 7"),
        ("v4", "batch/0", "batch/0 joined (incarnation 2)"),
        ("v5", "batch/0", "placed 2 tasks of crawl (4f1c) on m0, m1"),
        ("v6", "agent", "1 task of crawl (4f1c) failed on m0: exit:3"),
        ("v7", "ada", "m1 is down · 1 task of crawl (4f1c) evicted on m1: down"),
        ("v8", "ada", "stopped crawl (4f1c), 1 task unplaced · crawl (4f1c) ended as stopped"),
        ("v9", "ada", "m0 has a new capacity: cpu 1500m, memory 2Gi"),
        ("v10", "ada", "submitted big (b), 3 tasks of kind batch"),
        ("v11", "batch/0", "conflict of big (b) on m0: full · placed 1 task of big (b) on m0"),
        ("v12", "ada", "1 task of big (b) evicted on m0: drain"),
        ("v13", "agent", "1 task of big (b) left on m0"),
        ("v14", "ada", "limits of kind batch changed"),
        ("v15", "batch/0", "lease of batch/0 expired"),
        ("v16", "batch/0", "batch/0 joined (incarnation 3)"),
        ("v17", "batch/0", "batch/0 left"),
    ]


def test_many_jobs_and_machines_make_one_sentence(omega: Omega, cell: RedisCell) -> None:
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"m{i}", (2000, 4096)) for i in range(9)], 1)
    cell.jobs.submit([JobSpec(f"j{i}", f"j{i}", "batch", GROUP) for i in range(5)], 2, "ada")
    one = cell.schedulers.register("batch/0", "nonce", 60_000, 3)
    commit(cell, one, 1, *(Transaction(f"j{i}", (Claim(i, 0, 2, seen=0),)) for i in range(5)))
    cell.jobs.submit([JobSpec("k", "k", "batch", (TaskGroup((1, 1), 4),))], 2, "ada")
    commit(cell, one, 2, Transaction("k", tuple(Claim(i, 0, 1, seen=0) for i in range(5, 9))))
    cell.executors.end([TaskEnd(i, i + 1, EndKind.FINISHED) for i in range(5)], 4, "here")
    assert [text for _, _, text in sentences(omega)] == [
        "here joined (incarnation 1)",
        "9 machines joined",
        "submitted 5 jobs, 10 tasks",
        "batch/0 joined (incarnation 2)",
        "placed 10 tasks of 5 jobs on 5 machines",
        "submitted k (k), 4 tasks of kind batch",
        "placed 4 tasks of k (k) on 4 machines",
        "10 tasks of 5 jobs finished on 5 machines · 5 jobs ended",
    ]


def test_choosing_events(omega: Omega, old_cell: RedisCell) -> None:
    def versions(*words: str) -> list[int]:
        return [event["version"] for event in omega.json("events", *words)["events"]]

    assert versions("--limit", "3") == [15, 16, 17]
    everything = versions("--since", "0", "--limit", "1000")
    for limit in range(1, len(everything)):  # a version is told whole
        told = versions("--limit", str(limit))
        assert len(told) >= limit
        assert told == [version for version in everything if version >= told[0]]
    assert versions("--since", "14") == [15, 16, 17]
    assert versions("--since", "0", "--limit", "1") == [1]
    assert versions("--kind", "conflict", "--kind", "expire") == [11, 15]
    assert versions("--kind", "lapse") == [15], "the former word is understood"
    assert versions("--job", "big") == [10, 11, 11, 12, 13]
    assert versions("--job", "4f1", "--kind", "evicted") == [7]
    assert versions("--job", "forgotten") == []
    assert versions("--limit", "0") == []


def test_reading_on_from_where_a_page_ended(omega: Omega, old_cell: RedisCell) -> None:
    at, told = 0, []
    while (page := omega.json("events", "--since", str(at), "--limit", "4"))["events"]:
        told += page["events"]
        at = page["version"]
    assert told == omega.json("events", "--since", "0", "--limit", "1000")["events"]


def test_a_log_that_was_trimmed_says_so(omega: Omega, old_cell: RedisCell) -> None:
    old_cell.client.xtrim(f"omega:1:{{{old_cell.name}}}:log", maxlen=4, approximate=False)
    found = omega.json("events", "--since", "5")
    assert (found["first_version"], found["gap"]) == (14, {"from": 6, "to": 13})
    assert [event["version"] for event in found["events"]] == [14, 15, 16, 17]
    result = omega.run("events", "--since", "5")
    assert result.stderr == "versions 6 to 13 are no longer in the log; it keeps the newest\n"
    assert omega.json("events", "--since", "13")["gap"] is None


def test_follow_prints_json_lines_as_they_happen(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    words = ("--store", str(omega.url), "--cell", cell.name, "events", "--follow", "--json", "--kind", "machine")
    with start(*words) as process:
        assert process.stdout is not None
        omega.run("machine", "drain", "m0")
        eventually(lambda: bool(cell.machines.all()))
        assert json.loads(process.stdout.readline())["state"] == "drained"
        omega.run("machine", "up", "m0")
        assert json.loads(process.stdout.readline())["state"] == "up"
        process.kill()


def test_an_unknown_kind_of_fact_keeps_its_words() -> None:
    event = history.event(Fact(7, 1, "ada", log.parse("moon rose twice")[0]), Dimensions())
    assert event.as_json() == {"version": 7, "at_ms": 1, "by": "ada", "kind": "moon", "words": ["rose", "twice"]}


def test_clock_shows_the_date_of_other_days() -> None:
    noon = 1_700_000_000_000
    assert clock(noon + 7, noon)[-4:] == ".007"
    assert len(clock(noon, noon)) == len("12:03:04.123")
    assert len(clock(noon, noon + 3 * 86_400_000)) == len("2023-11-14 12:03:04.123")
