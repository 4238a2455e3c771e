"""Settings of pools that break a rule, by command and by file: one line with the reason, and nothing changes."""

from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join

pytestmark = pytest.mark.server

SETTINGS = [
    (["child", "--guarantee", "cpu=3"], "pool top: the pools below it have a guarantee of cpu 3 together, it has 2"),
    (
        ["top", "--guarantee", "cpu=500m"],
        "pool top: the pools below it have a guarantee of cpu 1 together, it has 500m",
    ),
    (["child", "--integral", "burst", "--flow", "cpu=1"], "pool top: the pools below it have a flow of cpu 1 together"),
    (["top", "--parent", "child"], "pool top: is below itself: top < child < top"),
    (["top", "--parent", "top"], "pool top: is below itself: top < top"),
    (["x", "--parent", "nowhere"], "pool x: its parent 'nowhere' is no pool"),
    (["x", "--parent", "queue"], "pool x: its parent queue is a FIFO pool, which holds jobs only"),
    (["top", "--mode", "fifo"], "pool child: its parent top is a FIFO pool, which holds jobs only"),
    (["x", "--parent", "busy"], "pool busy: has live jobs, so it can neither be removed nor get pools below it"),
    (["x", "--weight", "0"], "weights are from 0.001"),
    (["x", "--weight", "-1"], "weights are from 0.001"),
    (["x", "--weight", "nan"], "weights are from 0.001"),
    (["x", "--weight", "1e308"], "weights are from 0.001 to 100,000"),
    (["x", "--preemption", "threshold=0.1"], "aggressive_threshold 0.2 is above threshold 0.1"),
    (["x", "--preemption", "starvation_tolerance=1.5"], "starvation_tolerance 1.5; want a part of the fair share"),
    (["x", "--preemption", "starvation_timeout=-1"], "starvation_timeout -1.0; want 0 or more"),
    (["x", "--preemption", "evict_over_limit=perhaps"], "'perhaps' is neither true nor false"),
    (["x", "--limit", "tasks=1.5"], "--limit: tasks: '1.5' is not a whole number"),
    (["x", "--limit", "machines=2"], "this cell has cpu, memory; limits also name tasks and jobs"),
    (["x", "--guarantee", "tasks=2"], "pool x: guarantee: names 'tasks'; known: cpu, memory"),
    (["x", "--tree", "nowhere"], "pool x: tree 'nowhere' is unknown"),
    (["<Root>"], "pool name '<Root>': use 1 to 128 letters"),
]
FILES = [
    ("", "empty; write pools and trees"),
    ("pools: {a: 1}", "pools: input should be a valid list"),
    ("pools: [{name: busy}, {name: busy}]", "pool busy: is there twice"),
    ("pools: [{name: top}]", "pool busy: has live jobs"),
    ("trees: [{name: a, machines: has gpu}]\npools: [{name: busy}]", "pool trees: none selects machine m0"),
    ("trees: [{name: a, machines: has rack}, {name: b, machines: rack == 'r'}, {name: c}]\npools: [{name: busy}]",
     "pool trees a, b: each selects machine r"),
]  # a table # fmt: skip


def prepared(omega: Omega, cell: RedisCell) -> None:
    """A tree of two levels, a FIFO pool, and a pool with a running job."""
    join(cell, 1)
    cell.machines.join("here", [MachineSpec("r", (4000, 4096), {"rack": "r"})], 1_000)
    omega.run("pool", "set", "top", "--guarantee", "cpu=2")
    omega.run("pool", "set", "child", "--parent", "top", "--guarantee", "cpu=1")
    omega.run("pool", "set", "queue", "--mode", "fifo")
    omega.run("pool", "set", "busy")
    cell.jobs.submit([JobSpec("x", "x", "batch", (TaskGroup((1000, 64), 2),), spec={"pool": "busy"})], 0, "ada")
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("x", (Claim(0, 0, 2),))], Position(), 0))


def test_what_breaks_a_rule_is_refused_and_changes_nothing(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    prepared(omega, cell)
    before = cell.pools.get()
    for words, message in SETTINGS:
        assert message in omega.error("pool", "set", *words), words
    for text, message in FILES:
        path = tmp_path / "pools.yaml"
        path.write_text(text)
        assert message in omega.error("pool", "import", str(path)), text
        if "live jobs" in message:
            assert omega.json("pool", "plan", str(path))["in_use"] == ["busy"]
            assert "pool busy: has live jobs" in omega.run("pool", "plan", str(path)).stderr
        else:
            assert message in omega.error("pool", "plan", str(path)), text
    assert "has live jobs" in omega.error("pool", "remove", "busy")
    assert "has pools below it: child" in omega.error("pool", "remove", "top")
    assert cell.pools.get() == before


def test_what_looks_wrong_and_is_allowed(omega: Omega, cell: RedisCell) -> None:
    """A limit below the guarantee wins; a pool with running jobs moves, and takes what it holds along."""
    prepared(omega, cell)
    omega.run("pool", "set", "busy", "--guarantee", "cpu=4", "--limit", "cpu=1")
    rows = {row["name"]: row for row in omega.json("pool", "list")["pools"]}
    assert rows["busy"]["fair_share_amounts"]["cpu"] == 1_000
    assert "cpu 2 of 1 (over by 1)" in omega.text("pool", "show", "busy")
    omega.run("pool", "set", "busy", "--parent", "top", "--guarantee", "cpu=1")
    rows = {row["name"]: row for row in omega.json("pool", "list")["pools"]}
    assert (rows["busy"]["parent"], rows["top"]["usage_amounts"]["cpu"]) == ("top", 2_000)
    assert omega.json("cell", "verify")["ok"]
