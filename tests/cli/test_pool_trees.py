"""Changes that move machines or pools to another tree, from the command line."""

from pathlib import Path

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join


def test_tasks_of_other_trees_are_counted_before_they_are_evicted(
    omega: Omega, cell: RedisCell, tmp_path: Path
) -> None:
    join(cell, 1)
    (index,) = cell.machines.join("here", [MachineSpec("g", (8000, 8192), {"gpu": "yes"})], 1_000)
    omega.run("pool", "set", "web")
    cell.jobs.submit([JobSpec("site", "site", "batch", (TaskGroup((1, 1), 4),), spec={"pool": "web"})], 0, "ada")
    member = cell.schedulers.register("batch/9", "n", 60_000, 0)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("site", (Claim(index, 0, 3),))], Position(), 0))
    path = tmp_path / "trees.yaml"
    path.write_text(
        "trees: [{name: main}, {name: gpu, machines: has gpu}]\npools: [{name: web}, {name: ai, tree: gpu}]"
    )
    plan = omega.run("pool", "plan", str(path))
    refused = "3 tasks of pool web would be on machines of another pool tree"
    assert plan.stderr == f"warning: {refused}: the import needs --evict\n"
    assert omega.json("pool", "plan", str(path))["leaving"] == {"web": 3}
    assert f"pools: {refused}; --evict evicts them" in omega.error("pool", "import", str(path))
    assert cell.pools.get().trees[0].name == "default"
    omega.run("pool", "import", str(path), "--evict")
    assert [run.leaving for run in cell.machines.runs([index])] == [True]
    said = omega.text("events")
    assert "g is in pool tree 2 of the list" in said
    assert "evicted on g: tree" in said
    cell.schedulers.commit(CommitRequest(member, 2, [Transaction("site", (Claim(0, 0, 1),))], Position(), 0))
    error = omega.error("machine", "set", "m0", "gpu=yes")
    assert "machine m0: 1 task of pool web would be on machines of another pool tree; --evict evicts them" in error
    assert omega.json("machine", "set", "m0", "rack=r1")["evicted"] == 0
    assert "1 task of pool web" in omega.error("pool", "set", "web", "--tree", "gpu")
    assert omega.json("machine", "set", "m0", "gpu=yes", "--evict")["evicted"] == 1
    assert omega.json("cell", "verify")["ok"]
    cell.jobs.submit([JobSpec("net", "net", "batch", (TaskGroup((1, 1), 1),), spec={"pool": "ai"})], 0, "ada")
    cell.schedulers.commit(CommitRequest(member, 3, [Transaction("net", (Claim(index, 0, 1),))], Position(), 0))
    remove = ("pool", "remove", "ai")
    assert "pool ai: has live jobs" in omega.error(*remove), "so no task can be in another tree afterwards"
    cell.jobs.stop("net", 0, "ada")
    cell.jobs.housekeep(0, "ada")
    assert omega.json(*remove)["removed"] == ["ai"]
    assert [pool.name for pool in cell.pools.get().pools] == ["web"]
    assert omega.json("cell", "verify")["ok"]
