"""What `omega job why` promises about evictions, and machines of other trees; settings of pools without effect."""

from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.schedulers.process.epochs import Publisher
from tests.cli.conftest import Omega, join


def submit(cell: RedisCell, name: str, pool: str, count: int, **fields: Any) -> None:
    group = TaskGroup((1000, 64), count, spec=fields)
    cell.jobs.submit([JobSpec(name, name, "batch", (group,), spec={"pool": pool, "user": "ada"})], 0, "ada")


def hold(cell: RedisCell, job: str, *claims: tuple[int, int]) -> None:
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    made = tuple(Claim(machine, 0, count) for machine, count in claims)
    assert (
        cell.schedulers.commit(CommitRequest(member, 1, [Transaction(job, made)], Position(), 0)).outcomes[0].accepted
    )


@pytest.mark.parametrize(
    ("setting", "forbids"),
    [
        ("", ""),
        ("allow_regular_preemption=false", "rich: allow_regular_preemption false"),
        ("minimum_runtime=3600", "rich: minimum_runtime 3600"),
        ("evictions_per_minute=0", "rich: evictions_per_minute 0"),
    ],
)
def test_why_promises_only_evictions_that_settings_allow(
    omega: Omega, cell: RedisCell, setting: str, forbids: str
) -> None:
    join(cell, 1)
    omega.run("pool", "set", "poor")
    omega.run("pool", "set", "rich", *(("--preemption", setting) if setting else ()))
    submit(cell, "x", "rich", 4)
    submit(cell, "y", "poor", 4)
    hold(cell, "x", (0, 4))
    assert Publisher(cell).publish("batch/0", 1_000)
    stands = omega.json("job", "why", "y")["pool"]
    text = omega.text("job", "why", "y")
    if forbids:
        assert stands["evictions"] is None
        assert f"no eviction is possible now, by these settings or others: {forbids}" in text
        assert "evicts tasks" not in text
    else:
        assert (stands["evictions"]["tasks"], stands["evictions"]["pools"]) == (2, {"rich": 2})
        assert stands["evictions"]["after_seconds"] == pytest.approx(30, abs=1)
        assert "its scheduler evicts tasks in 30 s, if nothing changes: 2 of rich" in text


def test_a_cost_forbids_evictions(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "poor", "--preemption", "eviction_cost=2")
    omega.run("pool", "set", "rich")
    submit(cell, "x", "rich", 4)
    submit(cell, "y", "poor", 4)
    hold(cell, "x", (0, 4))
    assert Publisher(cell).publish("batch/0", 1_000)
    assert "no eviction is possible now, by these settings or others: poor: eviction_cost 2" in omega.text(
        "job", "why", "y"
    )


@pytest.mark.parametrize("everywhere", [True, False])
def test_protected_usage_forbids_evictions_between_pools_of_a_tree_that_says_so(
    omega: Omega, cell: RedisCell, tmp_path: Path, everywhere: bool
) -> None:
    join(cell, 1)
    path = tmp_path / "pools.yaml"
    path.write_text(
        f"trees: [{{name: default, partition_everywhere: {everywhere}}}]\n"
        "pools: [{name: poor}, {name: rich, preemption: {non_preemptible_usage: {cpu: 4}}}]\n"
    )
    omega.run("pool", "import", str(path))
    submit(cell, "x", "rich", 4)
    submit(cell, "y", "poor", 4)
    hold(cell, "x", (0, 4))
    assert Publisher(cell).publish("batch/0", 1_000)
    promised = omega.json("job", "why", "y")["pool"]["evictions"]
    assert (promised is None) is everywhere, "else it holds within the pool only"
    text = omega.text("job", "why", "y")
    assert ("by these settings or others: rich: non_preemptible_usage cpu 4" in text) is everywhere


def test_machines_of_other_trees_do_not_count(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 2)
    cell.machines.join("here", [MachineSpec("g", (4000, 4096), {"gpu": "yes"})], 1_000)
    path = tmp_path / "trees.yaml"
    path.write_text(
        "trees: [{name: default}, {name: gpu, machines: \"gpu == 'yes'\"}]\n"
        "pools: [{name: web}, {name: train, tree: gpu}]\n"
    )
    omega.run("pool", "import", str(path))
    submit(cell, "x", "train", 4)
    submit(cell, "y", "train", 2)
    hold(cell, "x", (2, 4))
    explained = omega.json("job", "why", "y")
    assert explained["reason"] == "RESOURCES"
    (group,) = explained["groups"]
    assert group["fits"] == 0, "two machines of the other tree are free"
    assert (group["steps"][0]["what"], group["steps"][0]["excludes"]) == ("pool tree gpu", 2)
    assert {row["name"]: row["reason"] for row in omega.json("job", "list")["jobs"]}["y"] == "RESOURCES"
    checked = omega.json("job", "why", "y", "--machine", "m0")["groups"][0]
    assert (checked["fits"], checked["checks"][0]["holds"]) == (0, False)


def test_a_limit_by_borrowing_is_a_reason(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a", "--guarantee", "cpu=1", "--borrowing", "cpu=1")
    submit(cell, "x", "a", 3)
    hold(cell, "x", (0, 2))
    explained = omega.json("job", "why", "x")
    assert (explained["reason"], explained["limit"]["of"], explained["limit"]["limit"]) == ("LIMIT", "pool a", 2000)
    assert explained["pool"]["limits"] == [{"pool": "a", "resource": "cpu", "held": 2000, "limit": 2000}]
    assert {row["name"]: row["reason"] for row in omega.json("job", "list")["jobs"]}["x"] == "LIMIT"


def test_settings_without_effect_are_named(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    told = "aggressive_starvation_timeout has no effect while aggressive_starvation is false"
    made = omega.run("pool", "set", "a", "--preemption", "aggressive_starvation_timeout=60")
    assert told in " ".join(made.stderr.split())
    assert omega.json("pool", "show", "a")["pool"]["not_in_effect"].endswith(told)
    omega.run("pool", "set", "a", "--preemption", "aggressive_starvation=true")
    assert told not in omega.json("pool", "show", "a")["pool"]["not_in_effect"]
    path = tmp_path / "pools.yaml"
    path.write_text(
        "trees: [{name: default, usage_exponent: 2, preemption: {aggressive_starvation_timeout: 9}}]\n"
        "pools: [{name: a, preemption: {aggressive_starvation_timeout: 60}}, {name: b, sort_keys: [start_time]},\n"
        "  {name: c, parent: b, reorders_for_guarantee: true, preemption: {aggressive_starvation: false}}]\n"
    )
    expected = [
        f"pool a: {told}",
        "pool b: sort_keys has no effect while mode is fair_share",
        "pool c: reorders_for_guarantee has no effect unless mode is fifo and the tree sets it and gang_steps",
        f"tree default: {told}",
        "tree default: usage_exponent has no effect without usage_half_life",
    ]
    assert omega.json("pool", "plan", str(path))["warnings"] == expected
    assert omega.json("pool", "import", str(path))["warnings"] == expected


def test_a_live_ephemeral_pool_keeps_its_parent(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("trees: [{name: default, default_parent: people}]\npools: [{name: people, users: [ada, bob]}]\n")
    omega.run("pool", "import", str(path))
    cell.jobs.submit([JobSpec("x", "x", "batch", (TaskGroup((1000, 64), 1),), spec={"user": "ada"})], 0, "ada")
    assert omega.json("pool", "show", "ada")["pool"]["parent"] == "people"
    omega.run("pool", "set", "ada", "--weight", "2")
    assert omega.json("pool", "show", "ada")["pool"]["parent"] == "people"
    run = ("job", "run", "--pool", "ada", "--cpu", "1", "--", "true")
    omega.user = "eve"
    assert "user eve may not submit to pool ada; people admits ada, bob" in omega.error(*run)
    omega.user = "bob"
    omega.run(*run)
    omega.run("pool", "set", "new", "--weight", "2")
    assert omega.json("pool", "show", "new")["pool"]["parent"] == "<Root>", "no live jobs: a new pool"
    omega.run("pool", "set", "ada", "--parent", "<Root>")
    assert omega.json("pool", "show", "ada")["pool"]["parent"] == "<Root>"


def test_satisfaction_is_that_of_the_pool_and_the_least_job_stands_beside_it(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a")
    for name in ("x", "y"):
        cell.jobs.submit(
            [JobSpec(f"id-{name}", name, "batch", (TaskGroup((1000, 64), 4),), spec={"pool": "a"})], 0, "ada"
        )
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("id-x", (Claim(0, 0, 4),))], Position(), 0))
    assert omega.json("job", "status", "y")["fair_share"] is None, "no epoch is published"
    assert Publisher(cell).publish("batch/0", 1_000)
    (row,) = omega.json("pool", "list")["pools"]
    assert (row["satisfaction"], row["least"]) == (1.0, {"job": "id-y", "name": "y", "satisfaction": 0.0})
    assert omega.text("pool", "list").splitlines()[1].split()[7:10] == ["1.00", "y", "0.00"]
    assert "y 0.00" in omega.text("pool", "show", "a")
    for command in ("status", "why"):
        own = omega.json("job", command, "y")["fair_share"]
        assert own["above"] == [{"job": "id-x", "name": "x", "over": {"cpu": 2000}}]
        assert (own["pool"], own["fair_share_amounts"]["cpu"], own["satisfaction"]) == ("a", 2000, 0.0)
        text = omega.text("job", command, "y")
        assert "holds cpu 0 of its own fair share 2 in pool a (satisfaction 0.00)" in text
        assert "above their own fair share in pool a: x (cpu 2)" in text
    own = omega.json("job", "status", "x")["fair_share"]
    assert (own["satisfaction"], own["above"]) == (2.0, [])
    assert "above" not in omega.text("job", "status", "x")


@pytest.mark.parametrize(
    ("limit", "gang", "text"),
    [
        ("cpu=1500m", False, "pool a, cpu: a task needs 2, and the limit is 1500m"),
        ("memory=32Mi", False, "pool a, memory: a task needs 64Mi, and the limit is 32Mi"),
        ("tasks=2", True, "pool a, tasks: the gang needs 3, and the limit is 2"),
        ("cpu=5", True, "pool a, cpu: the gang needs 6, and the limit is 5"),
    ],
)
def test_a_task_that_exceeds_a_limit_by_itself_never_starts(
    omega: Omega, cell: RedisCell, limit: str, gang: bool, text: str
) -> None:
    join(cell, 4)
    omega.run("pool", "set", "above", "--limit", "cpu=9")
    omega.run("pool", "set", "a", "--parent", "above", "--limit", limit)
    job = ("--name", "x", "--pool", "a", "--cpu", "2", "--memory", "64Mi", "--count", "3", "--duration", "9s")
    strict = ("--gang",) if gang else ()
    told = omega.run("job", "run", "--detach", *job, *strict).stderr
    assert f"{text}; it stays pending until the limit is raised" in " ".join(told.split())
    explained = omega.json("job", "why", "x")
    assert (explained["reason"], explained["detail"], explained["fits_after"]) == ("NEVER", text, [])
    assert [(each["starts"], each["fits"], each["reason"]) for each in explained["groups"]] == [(0, 3, "NEVER")]
    shown = omega.text("job", "why", "x")
    assert text in shown
    assert "would fit" not in shown
    assert {row["name"]: row["reason"] for row in omega.json("job", "list")["jobs"]}["x"] == "NEVER"
    omega.run("pool", "set", "a", "--limit", f"{limit.partition('=')[0]}=none")
    assert omega.json("job", "why", "x")["reason"] == "NO_SCHEDULER"


def test_one_group_that_never_starts_is_told_beside_one_that_does(omega: Omega, cell: RedisCell) -> None:
    join(cell, 4)
    omega.run("pool", "set", "a", "--limit", "cpu=3")
    groups = (TaskGroup((1000, 64), 2, spec={"name": "small"}), TaskGroup((4000, 64), 1, spec={"name": "large"}))
    cell.jobs.submit([JobSpec("x", "x", "batch", groups, spec={"pool": "a"})], 0, "ada")
    explained = omega.json("job", "why", "x")
    assert [(each["name"], each["starts"], each["reason"]) for each in explained["groups"]] == [
        ("small", 2, "WAITING"),
        ("large", 0, "NEVER"),
    ]
    assert explained["reason"] == "NEVER"
    assert {row["name"]: row["reason"] for row in omega.json("job", "list")["jobs"]}["x"] == "NEVER"


def test_nothing_would_fit_beside_a_limit_that_is_reached(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a", "--limit", "tasks=2")
    submit(cell, "x", "a", 4)
    assert omega.json("job", "why", "x")["groups"][0]["starts"] == 2
    hold(cell, "x", (0, 2))
    explained = omega.json("job", "why", "x")
    assert (explained["reason"], explained["groups"][0]["starts"]) == ("LIMIT", 0)
    assert "would fit now" not in omega.text("job", "why", "x")


def test_a_gang_with_room_for_a_part_does_not_fit(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("job", "run", "--detach", "--name", "x", "--gang", "--cpu", "1", "--count", "6", "--duration", "9s")
    (group,) = omega.json("job", "why", "x")["groups"]
    assert (group["starts"], group["fits"]) == (0, 4)
    text = omega.text("job", "why", "x")
    assert "room for 4 of them; a gang starts as a whole" in text
    assert "would fit now" not in text


def test_unknown_values_of_an_attribute_list_those_that_exist(omega: Omega, cell: RedisCell) -> None:
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"m{i}", (4000, 4096), {"rack": f"r{i}"}) for i in range(3)], 1_000)
    asked = ("--cpu", "1", "--duration", "9s", "--constraint", "rack == 'r9'")
    text = "constraint rack == 'r9': matches no machine; known values of rack: r0, r1, r2"
    assert text in " ".join(omega.run("job", "run", "--detach", "--name", "x", *asked).stderr.split())
    (group,) = omega.json("job", "why", "x")["groups"]
    assert group["advice"] == [text]
    assert text in omega.text("job", "why", "x")


def test_set_and_show_say_what_weights_divide(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    alone = "weight 3 of 3 with no sibling; weights divide all of the tree"
    assert alone in omega.run("pool", "set", "a", "--weight", "3").stderr
    omega.run("pool", "set", "b")
    told = "3 of 4 with 1 sibling; weights divide what guarantees (cpu 2) leave of the tree"
    assert f"weight {told}" in omega.run("pool", "set", "a", "--guarantee", "cpu=2").stderr
    assert omega.json("pool", "show", "a")["pool"]["weight_divides"] == told
    assert told in omega.text("pool", "show", "a")
    assert "1 of 4 with 1 sibling" in omega.json("pool", "show", "b")["pool"]["weight_divides"]
    below = omega.json("pool", "set", "c", "--parent", "b", "--weight", "2")["pool"]["weight_divides"]
    assert below == "2 of 2 with no sibling; weights divide all of b"
    assert "weight" not in omega.run("pool", "set", "a", "--limit", "cpu=3").stderr.replace("weight, ", "")


def test_the_weight_of_a_job_is_set_and_changed(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("pool", "set", "a")
    job = ("--pool", "a", "--cpu", "1", "--count", "9", "--duration", "9s")
    omega.run("job", "run", "--detach", "--name", "x", *job, "--weight", "3")
    omega.run("job", "run", "--detach", "--name", "y", *job)
    assert omega.json("job", "status", "x")["spec"]["weight"] == 3

    def shares(at_ms: int) -> list[float]:
        assert Publisher(cell).publish("batch/0", at_ms)
        return [omega.json("job", "status", name)["fair_share"]["fair_share_amounts"]["cpu"] for name in "xy"]

    assert shares(1_000) == pytest.approx([3000, 1000])
    assert "has weight 3" in omega.text("job", "weight", "y", "3")
    assert shares(3_000) == pytest.approx([2000, 2000])
    assert "want 0.001 to 100,000" in omega.error("job", "weight", "y", "0")
