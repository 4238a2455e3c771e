"""`omega pool set`, `list`, `show`, `remove`, `plan`, `import`, `export`, `watch`: tables, JSON, refusals."""

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.queries.pool_standing import sentences
from omega.schedulers.process.epochs import Publisher
from tests.cli.conftest import Omega, join

FILE = """
trees:
  - name: main
  - name: gpu
    machines: "gpu == 'yes'"
    preemption: {starvation_timeout: 2}
pools:
  - name: production
    weight: 2
    guarantee: {cpu: 2, memory: 1Gi}
    limits: {tasks: 50}
    users: [ada]
  - name: api
    parent: production
    mode: fifo
    integral: {type: burst, flow: {}, burst: {cpu: 500m}}
  - {name: train, tree: gpu}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pools.yaml"
    path.write_text(FILE)
    return path


def submit(omega: Omega, name: str, pool: str, count: int = 4) -> None:
    omega.run("job", "run", "--name", name, "--pool", pool, "--count", str(count), "--cpu", "1", "--duration", "9s")


def test_a_pool_is_created_changed_and_removed(omega: Omega) -> None:
    assert "no pools" in omega.run("pool", "list").stderr
    created = omega.json(
        "pool", "set", "a", "--weight", "2", "--guarantee", "cpu=1", "--limit", "tasks=9", "--user", "ada"
    )
    assert created["pool"] == {
        "name": "a",
        "weight": 2.0,
        "guarantee": {"cpu": "1"},
        "limits": {"tasks": "9"},
        "users": ["ada"],
        "number": 1,
        "over": {},
        "evicted": 0,
        "not_in_effect": "weight, guarantee: not in effect while no scheduler is live",
        "weight_divides": "2 of 2 with no sibling; weights divide what guarantees (cpu 1) leave of the tree",
    }
    changed = omega.json(
        "pool",
        "set",
        "a",
        "--guarantee",
        "memory=1Gi",
        "--limit",
        "tasks=none",
        "--everybody",
        "--preemption",
        "starvation-timeout=3",
        "--integral",
        "relaxed",
        "--flow",
        "cpu=100m",
    )
    assert changed["pool"]["guarantee"] == {"cpu": "1", "memory": "1Gi"}
    assert changed["pool"]["integral"] == {"type": "relaxed", "flow": {"cpu": "100m"}}
    assert changed["pool"]["preemption"] == {"starvation_timeout": 3.0}
    assert {"limits", "users"}.isdisjoint(changed["pool"])
    assert "unchanged" in omega.run("pool", "set", "a").stderr
    stale = omega.error("pool", "set", "a", "--weight", "3", "--check", str(created["version"]))
    assert f"not {created['version']}" in stale
    omega.run("pool", "set", "b", "--parent", "a")
    assert "has pools below it: b" in omega.error("pool", "remove", "a")
    assert omega.json("pool", "remove", "a", "b")["removed"] == ["a", "b"]
    assert "not configured" in omega.error("pool", "remove", "a")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--weight", "0"], "weights are from 0.001"),
        (["--parent", "x"], "its parent 'x' is no pool"),
        (["--guarantee", "gpu=1"], "--guarantee: unknown resource 'gpu'"),
        (["--limit", "cpu=much"], "--limit: cpu: 'much' is not an amount"),
        (["--preemption", "patience=1"], "unknown setting 'patience'"),
        (["--preemption", "aggressive_threshold=2"], "aggressive_threshold 2 is above threshold 1"),
    ],
)
def test_bad_settings_are_refused_in_one_line(omega: Omega, words: list[str], message: str) -> None:
    assert message in omega.error("pool", "set", "p", *words)
    assert omega.json("pool", "list")["pools"] == []


def test_jobs_name_leaf_pools_and_users_are_checked(omega: Omega, cell: RedisCell) -> None:
    omega.run("pool", "set", "team", "--user", "ada", "--user", "bob")
    omega.run("pool", "set", "night", "--parent", "team", "--user", "bob")
    run = ["job", "run", "--name", "j", "--cpu", "1"]
    assert "'team' has pools below it" in omega.error(*run, "--pool", "team", "--", "true")
    assert "'nigth' is not configured; did you mean night?" in omega.error(*run, "--pool", "nigth", "--", "true")
    assert "user ada may not submit to pool night; night admits bob" in omega.error(
        *run, "--pool", "night", "--", "true"
    )
    omega.user = "bob"
    omega.run(*run, "--pool", "night", "--", "true")
    omega.run("job", "run", "--name", "own", "--cpu", "1", "--", "true")
    rows = {row["name"]: row for row in omega.json("pool", "list")["pools"]}
    assert rows["bob"]["ephemeral"]
    assert rows["bob"]["parent"] == "<Root>"
    assert "has live jobs" in omega.error("pool", "remove", "night")


def test_list_and_show_have_what_operators_ask_for(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    omega.run("pool", "set", "a", "--weight", "3", "--guarantee", "cpu=2", "--limit", "tasks=50")
    omega.run("pool", "set", "b", "--integral", "burst", "--flow", "cpu=1", "--burst", "cpu=2")
    submit(omega, "x", "a", 20)
    submit(omega, "y", "b", 20)
    rows = {row["name"]: row for row in omega.json("pool", "list")["pools"]}
    assert omega.json("pool", "list")["epoch"] is None
    assert rows["a"]["fair_share"]["cpu"] == pytest.approx(0.25 + 0.75 * 0.75)
    assert rows["a"]["demand_amounts"]["cpu"] == 20_000
    assert (rows["a"]["status"], rows["a"]["satisfaction"], rows["a"]["dominant_resource"]) == (
        "below fair share",
        0.0,
        "cpu",
    )
    assert rows["a"]["limited_use"] == {"jobs": 0, "tasks": 0, "cpu": 0, "memory": 0}
    publisher = Publisher(cell)
    assert publisher.publish("batch/0", 1_000)
    assert publisher.publish("batch/0", 11_000)
    shown = omega.json("pool", "show", "b")
    assert shown["epoch"]["number"] == 2
    assert shown["pool"]["volume"]["cpu"] == pytest.approx(10_000)
    table = omega.text("pool", "list").splitlines()
    headings = "pool weight guarantee limit demand usage fair share satisfaction least job dominant status"
    assert table[0].split() == headings.split()
    assert table[1].split()[:6] == ["a", "3", "cpu", "2", "tasks", "50"]
    text = omega.text("pool", "show", "b")
    assert "cpu 10·s" in text
    assert "tasks 0 of 50" in omega.text("pool", "show", "a")
    assert "neither configured nor in use" in omega.error("pool", "show", "c")
    omega.run(
        "pool", "set", "a", "--preemption", "starvation_timeout=2", "--lending", "cpu=1", "--preemption", "threshold=3"
    )
    text = omega.text("pool", "show", "a")
    assert re.search(r"^preemption +starvation_timeout 2  threshold 3$", text, re.MULTILINE)
    assert re.search(r"^lending +cpu 1$", text, re.MULTILINE)
    assert re.search(r"^guaranteed share +cpu 25.0%", text, re.MULTILINE)
    assert omega.json("pool", "show", "a")["pool"]["settings"]["preemption"] == {
        "starvation_timeout": 2.0,
        "threshold": 3.0,
    }
    error = omega.error("pool", "set", "a", "--preemption", "allow_regular_preemption=maybe")
    assert error == "--preemption: allow_regular_preemption: 'maybe' is neither true nor false"
    assert [row["name"] for row in omega.json("pool", "list", "-o", "name,status")["pools"]] == ["a", "b"]


def test_a_file_is_planned_imported_and_exported(omega: Omega, cell: RedisCell, file: Path, tmp_path: Path) -> None:
    join(cell, 1)
    cell.machines.join("here", [MachineSpec("g", (8000, 8192), {"gpu": "yes"})], 1_000)
    omega.run("pool", "set", "train")
    submit(omega, "x", "train", 40)
    plan = {row["name"]: row for row in omega.json("pool", "plan", str(file))["pools"]}
    assert plan["train"]["before"]["cpu"] == pytest.approx(1.0)
    assert (plan["train"]["change"], plan["production"]["change"]) == ("changed", "added")
    assert plan["production"]["before"] is None
    assert [row["name"] for row in omega.json("pool", "list")["pools"]] == ["train"], "a plan changes nothing"
    done = omega.json("pool", "import", str(file))
    assert (done["added"], done["changed"], done["removed"]) == (2, 1, 0)
    exported = tmp_path / "again.yaml"
    exported.write_text(omega.text("pool", "export"))
    assert "2Gi" not in exported.read_text()
    again = omega.json("pool", "import", str(exported))
    assert again == {
        "cell": cell.name,
        "version": done["version"],
        "added": 0,
        "changed": 0,
        "removed": 0,
        "warnings": [],
    }
    assert {row["change"] for row in omega.json("pool", "plan", str(file))["pools"]} == {"same"}
    omega.run("pool", "set", "more", "--tree", "gpu")
    assert "modified concurrently" in omega.error("pool", "import", str(exported))
    assert omega.json("cell", "verify")["ok"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pools: [{name: a, wieght: 2}]", ":1: pools.0.wieght: extra inputs are not permitted"),
        ("pools:\n - name: a\n - name: b\n   guarantee: {cpu: x}", ":3: guarantee: cpu: 'x' is not an amount"),
        ("trees: [{name: a, machines: 'gpu =='}]", "pool tree a: machines: "),
        ("trees: [{name: a, machines: has gpu}, {name: b, machines: has cpus}]", "none selects machine m0"),
        ("trees: [{name: a, machines: has rack}, {name: b, machines: rack == 'r'}]", "a, b: each selects machine g"),
    ],
)
def test_files_that_break_a_rule_are_refused(
    omega: Omega, cell: RedisCell, tmp_path: Path, text: str, message: str
) -> None:
    join(cell, 1)
    cell.machines.join("here", [MachineSpec("g", (8000, 8192), {"rack": "r"})], 1_000)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    for command in ("plan", "import"):
        assert message in omega.error("pool", command, str(path))


@pytest.mark.parametrize(
    ("status", "changes", "last"),
    [
        ("normal", {}, "(normal)"),
        (
            "below fair share",
            {"evictions": {"tasks": 3, "after_seconds": 30.0, "pools": {"b": 2, "c": 1}}},
            "its scheduler evicts tasks in 30 s, if nothing changes: 2 of b, 1 of c",
        ),
        ("starving", {}, "no eviction is possible now"),
        (
            "starving",
            {"kept_by": {"b": {"minimum_runtime": 60.0, "allow_regular_preemption": False}}},
            "possible now, by these settings or others: b: minimum_runtime 60, allow_regular_preemption false",
        ),
        ("starving", {"reclaim": "never"}, "reclaim is never: it waits until their tasks end"),
        ("starving", {"lacks_a_task": False}, "it takes one only from a pool that keeps its share in full"),
        (
            "starving",
            {"beyond": {"cpu": 2000}},
            "its gang exceeds what is left of the share by cpu 2: it waits for free room",
        ),
    ],
)
def test_what_a_pending_job_waits_for(status: str, changes: dict[str, Any], last: str) -> None:
    stands = {
        "name": "a",
        "ephemeral": False,
        "status": status,
        "dominant_resource": "cpu",
        "usage": {"cpu": 0.25},
        "usage_amounts": {"cpu": 1000},
        "fair_share_amounts": {"cpu": 2000},
        "guarantee": {},
        "reclaim": "fair-share",
        "starvation_timeout": 30.0,
        "evictions": None,
        "kept_by": {},
        "beyond": {},
        "lacks_a_task": True,
        "holders": [{"pool": "b", "over": {"cpu": 1000}}],
    }
    assert list(sentences(stands | changes))[-1].endswith(last)


def test_why_says_how_the_pool_stands(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a", "--limit", "tasks=1", "--reclaim", "never")
    omega.run("pool", "set", "b")
    for name, pool, count in (("x", "b", 4), ("y", "a", 2)):
        group = TaskGroup((1000, 64), count)
        cell.jobs.submit([JobSpec(name, name, "batch", (group,), spec={"pool": pool, "user": "ada"})], 0, "ada")
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    job = cell.jobs.get(cell.jobs.id_of("x") or "")
    assert job is not None
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction(job.id, (Claim(0, 0, 4),))], Position(), 0))
    stands = omega.json("job", "why", "y")["pool"]
    assert (stands["name"], stands["status"], stands["reclaim"]) == ("a", "below fair share", "never")
    assert stands["limits"] == []
    assert stands["holders"] == [{"pool": "b", "over": {"cpu": 1000}}]
    assert stands["lacks_a_task"] is True
    text = omega.text("job", "why", "y")
    assert "pool a: holds cpu 0 of its fair share 1 (below fair share)" in text
    assert "above their fair share: b (cpu 1)" in text
    assert "reclaim is never: it waits until their tasks end" in text
    omega.run("pool", "set", "a", "--limit", "tasks=0")
    assert omega.json("job", "why", "y")["pool"]["limits"] == [
        {"pool": "a", "resource": "tasks", "held": 0, "limit": 0}
    ]
    assert "pool a, tasks: a task needs 1, and the limit is 0" in omega.text("job", "why", "y")


def test_starving_pools_are_listed_as_such(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a")
    omega.run("pool", "set", "b")
    submit(omega, "x", "a", 40)
    for member, starving in (("batch/0", {"a": "starving"}), ("batch/1", {"a": "aggressively starving"})):
        membership = cell.schedulers.register(member, "n", 60_000, 0)
        cell.schedulers.renew(membership, 60_000, {"starving": starving})
    rows = {row["name"]: row["status"] for row in omega.json("pool", "list")["pools"]}
    assert rows == {"a": "aggressively starving", "b": "normal"}


def test_machines_of_two_trees_or_none_are_reported(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    """Formulas are checked when they are set; a machine that joins later may break them."""
    cell.executors.register("e0", "n", 60_000, 0)
    machines = [("m0", {"gpu": "yes"}), ("m1", {"rack": "r1"})]
    cell.machines.join("e0", [MachineSpec(name, (4_000, 1_024), attributes) for name, attributes in machines], 0)
    file = tmp_path / "pools.yaml"
    file.write_text(
        "trees: [{name: x, machines: has gpu}, {name: y, machines: has rack}]\npools: [{name: a, tree: x}]\n"
    )
    omega.run("pool", "import", str(file))
    assert omega.json("pool", "list")["warnings"] == []
    later = [("m2", {"gpu": "yes", "rack": "r1"}), ("m3", {})]
    cell.machines.join("e0", [MachineSpec(name, (4_000, 1_024), attributes) for name, attributes in later], 0)
    warnings = omega.json("pool", "list")["warnings"]
    assert [warning.partition(",")[0] for warning in warnings] == [
        "pool trees x",
        "pool trees: none selects machine m3",
    ]
    assert "each selects machine m2, which is in the first" in warnings[0]
    assert omega.json("cell", "verify")["warnings"] == warnings
    assert "none selects machine m3" in omega.run("pool", "list").stderr


def test_verify_computes_the_published_epoch_again(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a")
    submit(omega, "x", "a", 40)
    assert Publisher(cell).publish("batch/0", 1_000)
    assert omega.json("cell", "verify")["ok"]
    epoch = cell.pools.epoch()
    assert epoch is not None
    wrong = replace(
        epoch,
        number=2,
        at_ms=9_000,
        pools={name: replace(share, fair_share=(0.5, 0.5)) for name, share in epoch.pools.items()},
    )
    assert cell.pools.publish_epoch(wrong, 1_000, 9_000)
    found = omega.json("cell", "verify", code=1)["violations"]
    assert [each["where"] for each in found] == ["pool a", "pool default/<Root>"]
    assert "epoch 2" in found[0]["what"]


def test_top_shows_the_pools_of_the_published_epoch(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a")
    submit(omega, "x", "a", 40)
    assert "pools" not in omega.text("top", "--once")
    assert Publisher(cell).publish("batch/0", 1_000)
    assert "pools 1, 1 below fair share" in omega.text("top", "--once")
    (pool,) = omega.json("top", "--once")["pools"]
    assert (pool["name"], pool["status"]) == ("a", "below fair share")
    assert pool["fair_share"]["cpu"] == pytest.approx(1.0)


def test_slots_of_tasks_are_limits_in_every_cell_and_shares_where_machines_state_them(omega: Omega) -> None:
    """One slot a task; in a cell without the resource a limit of slots is one of tasks."""
    assert omega.json("pool", "set", "a", "--limit", "user_slots=2")["pool"]["limits"] == {"tasks": "2"}
    made = omega.json("pool", "set", "b", "--guarantee", "cpu=1", "--borrowing", "cpu=1", "--reclaim", "never")["pool"]
    assert made["not_in_effect"] == "guarantee, reclaim: not in effect while no scheduler is live", (
        "borrowing is a limit"
    )
    said = omega.error("pool", "set", "a", "--limit", "user_slots=2", "--limit", "tasks=3")
    assert "user_slots and tasks are the same in this cell" in said
    assert omega.json("pool", "set", "a", "--limit", "user_slots=none")["pool"].get("limits") is None
    omega.run("cell", "create", f"{omega.cell}-slots", "--resources", "cpu,user_slots")
    slots = Omega(omega.url, f"{omega.cell}-slots")
    slots.run("machine", "add", "m0", "--cpu", "4", "--resource", "user_slots=3")
    slots.run("machine", "add", "m1", "--cpu", "4")
    machines = slots.json("machine", "list")["machines"]
    assert [each["capacity"]["user_slots"] for each in machines] == [3, 4_000_000_000]
    assert "unbounded" in slots.run("machine", "status", "m1").stdout
    slots.run("pool", "set", "a", "--guarantee", "user_slots=2", "--limit", "user_slots=2")
    slots.run("job", "run", "--name", "j", "--pool", "a", "--cpu", "1", "--", "true")
    with closing(RedisCell.connect(str(slots.url), str(slots.cell))) as cell:
        job = cell.jobs.get(cell.jobs.id_of("j") or "")
        assert job is not None
        assert job.groups[0].need == (1000, 1)
        cell.delete()
