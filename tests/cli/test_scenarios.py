"""What users of other schedulers reported of explanations, lists and limits (docs/faults.md, W and O)."""

from typing import Any

import pytest

from omega.cellstate.model import Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction
from omega.cli.app import App
from omega.queries.events import events, extent
from omega.queries.job_history import past
from omega.queries.recent import recently
from omega.queries.schedulers import FIGURES
from tests.cli.conftest import Omega, join
from tests.unit.schedulers.rig import Rig, spec as small

pytestmark = pytest.mark.server
GIB = 1024


def job(name: str, count: int, cpu: int, memory: int = 0, **more: object) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((cpu, memory), count),), **more)  # type: ignore[arg-type]


def place(
    cell: RedisCell, me: Membership, number: int, name: str, *claims: Claim, mode: Mode = Mode.INCREMENTAL
) -> int:
    reply = cell.schedulers.commit(CommitRequest(me, number, [Transaction(name, claims, mode)], Position(), 1))
    return reply.outcomes[0].placed


def test_w01_a_limit_that_does_not_block_hides_no_freed_room() -> None:
    rig = Rig((4_000, 1_000))
    rig.other.pools.set_limits("batch", Limits((100_000, None), 100), 0, "ada")
    rig.submit(small("eater", need=(4_000, 0)))
    rig.until_placed("eater")
    rig.submit(small("job", need=(1_000, 0)))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 1)
    rig.end("eater")
    began = rig.clock.seconds
    rig.until_placed("job")
    assert rig.clock.seconds - began <= 1.0


@pytest.mark.parametrize("gang", [Gang.NO, Gang.YES])
def test_w02_jobs_start_when_a_machine_joins(gang: Gang) -> None:
    rig = Rig((25_000, 0))
    jobs = rig.submit(*(small(f"j{i}", need=(1_000, 0)) for i in range(40))) if gang is Gang.NO else []
    if gang is Gang.YES:
        jobs = rig.submit(small("gang", 30, need=(1_000, 0), gang=gang))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == (15 if gang is Gang.NO else 1))
    began = rig.clock.seconds
    rig.join((25_000, 0))
    rig.until_placed(*jobs)
    assert rig.clock.seconds - began <= 1.0


def test_w03_each_machine_is_counted_once_and_one_machine_tells_all(omega: Omega, cell: RedisCell) -> None:
    cell.executors.register("here", "n", 600_000, 0)
    has = {"m0": {"class": "gpu"}, "m1": {"class": "cpu", "port": "taken"}, "m2": {"class": "cpu"}}
    cell.machines.join(
        "here", [MachineSpec(name, (4_000, GIB if name == "m2" else 8 * GIB), each) for name, each in has.items()], 1
    )
    cell.schedulers.register("service/0", "nonce", 60_000, 1)
    demands = {"constraints": ["class == 'cpu'", "port != 'taken'"]}
    cell.jobs.submit([JobSpec("web", "web", "service", (TaskGroup((1_000, 2 * GIB), 1, 0, demands),))], 1, "ada")
    found = omega.json("job", "why", "web")
    steps = found["groups"][0]["steps"]
    assert sum(step["excludes"] for step in steps) == found["machines"] == 3
    assert [step["machines"] for step in steps if step["excludes"]] == [["m0"], ["m1"], ["m2"]]
    lines = omega.text("job", "why", "web", "--verbose").splitlines()
    demand = next(i for i, line in enumerate(lines) if "constraint class" in line)
    assert lines[demand + 1].split() == ["m0"]
    failed = {
        name: [
            check["what"]
            for check in omega.json("job", "why", "web", "--machine", name)["groups"][0]["checks"]
            if not check["holds"]
        ]
        for name in has
    }
    assert failed == {
        "m0": ["constraint class == 'cpu'"],
        "m1": ["constraint port != 'taken'"],
        "m2": ["memory 2Gi of the whole machine", "memory 2Gi"],
    }


def test_w04_enough_in_total_on_no_machine(omega: Omega, cell: RedisCell) -> None:
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"m{i}", (1_000, GIB)) for i in range(2)], 1)
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit([job("bundle", 1, 2_000)], 1, "ada")
    found = omega.json("job", "why", "bundle")
    assert (found["reason"], found["groups"][0]["lacking"]) == (
        "TOO_LARGE",
        [{"resource": "cpu", "need": 2_000, "free": 2_000, "most_free": 1_000, "largest": 1_000}],
    )
    text = "cpu: 2 free in all, at most 1 on one machine; a task needs 2, and no machine has more than 1"
    assert text in omega.text("job", "why", "bundle")


def test_w05_the_limit_of_a_pool_is_named_with_what_is_short(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    omega.run("pool", "set", "parent", "--limit", "memory=4Gi")
    omega.run("pool", "set", "p", "--parent", "parent", "--limit", "cpu=8")
    cell.jobs.submit([job("first", 1, 1_000, 3 * GIB, spec={"pool": "p"})], 1, "ada")
    assert place(cell, me, 1, "first", Claim(0, 0, 1)) == 1
    cell.jobs.submit([job("next", 1, 2_000, 2 * GIB, spec={"pool": "p"})], 1, "ada")
    found = omega.json("job", "why", "next")
    assert (found["reason"], found["limit"]) == (
        "LIMIT",
        {"of": "pool parent", "resource": "memory", "used": 3 * GIB, "limit": 4 * GIB, "needed": 2 * GIB, "short": GIB},
    )
    assert found["groups"][0]["fits"] == 1, "machines have room"
    text = "pool parent, memory: 3Gi of at most 4Gi in use, a task needs 2Gi; 1Gi short"
    assert text in omega.text("job", "why", "next")
    listed = omega.json("job", "list")["jobs"]
    assert [each["reason"] for each in listed if each["name"] == "next"] == ["LIMIT"]


def test_o01_what_can_be_read_is_listed(store_url: str, omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    other = RedisCell.create(cell.client, f"{cell.name}-new", url=store_url)
    other.client.hset(f"omega:1:{{{other.name}}}:meta", "schema", 99)
    try:
        found = {each["name"]: each for each in Omega(store_url).json("cell", "list", code=3)["cells"]}
    finally:
        other.client.hdel(f"omega:1:{{{other.name}}}:meta", "schema")
        other.delete()
    assert found[cell.name]["machines"] == 1
    assert found[cell.name]["note"] is None
    assert "written with schema 99" in found[other.name]["note"]
    lapsed = cell.schedulers.register("batch/1", "nonce", 60_000, 1)
    cell.client.delete(f"omega:1:{{{cell.name}}}:lease:{lapsed.member}")
    assert omega.json("scheduler", "list")["schedulers"][0]["state"] == "lapsed"


def test_o01_since_when_a_member_is_silent(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    me, now = cell.schedulers.register("batch/0", "nonce", 60_000, 1), App.now_ms()
    cell.schedulers.renew(me, 60_000, {"at_ms": now - 125_000} | dict.fromkeys(FIGURES, 0) | {"conflict_fraction": 0.0})
    cell.client.delete(f"omega:1:{{{cell.name}}}:lease:{me.member}")
    assert omega.json("scheduler", "list")["schedulers"][0]["heartbeat_at_ms"] == now - 125_000
    assert " lapsed 2m0" in omega.text("scheduler", "list")
    cell.machines.set_state(1, MachineState.DOWN, now - 65_000, "ada")
    cell.machines.set_state(0, MachineState.DRAINED, now, "ada")
    assert omega.json("machine", "status", "m1")["state_since_ms"] == now - 65_000
    assert "down since " in omega.text("machine", "status", "m1")
    listed = {each["name"]: each["state_since_ms"] for each in omega.json("machine", "list", "-v")["machines"]}
    assert listed == {"m0": now, "m1": now - 65_000}
    assert " down 1m0" in omega.text("machine", "list", "--verbose")


def test_o02_evicted_tasks_are_counted_once(cell: RedisCell) -> None:
    join(cell, 2)  # 4 cpu each
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit(
        [job("gang", 4, 1_000, gang=Gang.STRICT), job("other", 2, 1_000), job("high", 4, 1_000, precedence=9)], 1, "ada"
    )
    place(cell, me, 1, "gang", Claim(0, 0, 4), mode=Mode.GANG)
    place(cell, me, 2, "other", Claim(1, 0, 2))
    runs = {run.job: run.placement for run in cell.machines.runs([0, 1])}
    placed = place(
        cell,
        me,
        3,
        "high",
        Claim(0, 0, 2, seen=0, evict=((runs["gang"], 2),)),
        Claim(1, 0, 2, seen=0, evict=((runs["other"], 2),)),
    )
    assert placed == 4
    kept = extent(cell)
    counted = dict.fromkeys(("gang", "other"), 0)
    for event in events(cell, kept.first - 1, kept.newest, ("evicted",)):
        counted[str(event.job)] += event.count or 0
    assert counted["gang"] == 4
    assert recently(cell, 2).total["evicted"] == sum(counted.values())
    for name, number in counted.items():
        kept_job = cell.jobs.get(name)
        assert kept_job is not None
        assert sum(past(cell, kept_job).evicted_for.values()) == number
        assert kept_job.unplaced == number


def test_o03_an_unknown_pool_is_refused(omega: Omega, cell: RedisCell) -> None:
    omega.run("pool", "set", "known")
    assert "did you mean known" in omega.error("job", "run", "--pool", "knwon", "--cpu", "1", "--", "true")


def test_o03_settings_that_no_scheduler_reads_are_reported(omega: Omega, cell: RedisCell) -> None:
    limits = omega.json("pool", "set", "limits", "--limit", "cpu=8")["pool"]
    assert limits["not_in_effect"] == "", "limits hold for every scheduler"
    alone = omega.json("pool", "set", "p", "--weight", "2", "--guarantee", "cpu=4")["pool"]
    assert alone["not_in_effect"] == "weight, guarantee: not in effect while no scheduler is live"
    own = cell.schedulers.register("own/0", "nonce", 60_000, 1)
    cell.schedulers.renew(own, 60_000, {"uses_pools": False})
    told = "weight, guarantee: not in effect: no live scheduler has the ordering fair-pools"
    assert omega.json("pool", "show", "p")["pool"]["not_in_effect"] == told
    assert f"warning: pool p: {told}" in omega.run("pool", "set", "p", "--weight", "3").stderr
    assert "weight, guarantee: no live scheduler has the ordering fair-pools" in omega.text("pool", "show", "p")
    batch = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.schedulers.renew(batch, 60_000, {"uses_pools": True})
    assert "not in effect for own/0" in omega.json("pool", "show", "p")["pool"]["not_in_effect"]
    cell.schedulers.deregister(own, 2)
    assert omega.json("pool", "show", "p")["pool"]["not_in_effect"] == ""


@pytest.mark.parametrize("of", ["kind", "pool"])
def test_o04_the_difference_is_evicted_on_demand(omega: Omega, cell: RedisCell, of: str) -> None:
    join(cell, 4)
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    omega.run("pool", "set", "p")
    omega.run("pool", "set", "below", "--parent", "p")
    in_pool: dict[str, Any] = {"spec": {"pool": "below"}} if of == "pool" else {}
    cell.jobs.submit([job(f"s{i}", 1, 1_000, precedence=i // 5, **in_pool) for i in range(10)], 1, "ada")
    other = JobSpec("other", "other", "service", (TaskGroup((1_000, 0), 2),), 0)
    cell.jobs.submit([other], 1, "ada")
    for i in range(10):
        assert place(cell, me, i + 1, f"s{i}", Claim(i % 4, 0, 1)) == 1
    assert place(cell, me, 11, "other", Claim(3, 0, 2)) == 2
    setting = ("cell", "limits", "batch", "--cpu", "6") if of == "kind" else ("pool", "set", "p", "--limit", "cpu=6")
    kept = omega.run(*setting)
    what = "kind batch" if of == "kind" else "pool p"
    assert f"warning: {what}: over by cpu 4: running tasks continue" in kept.stderr
    found = omega.json(*setting, "--over", "evict")
    assert (found if of == "kind" else found["pool"])["evicted"] == 4
    left = sorted(run.job for run in cell.machines.runs(range(4)) if not run.leaving)
    assert left == ["other", "s0", "s5", "s6", "s7", "s8", "s9"], "the least important, of equals the newest"
    assert [fact.event[-1] for fact in cell.log.facts(kinds=("evicted",))] == ["limit"] * 4
    assert omega.json("cell", "verify")["ok"]


@pytest.mark.parametrize("of", ["kind", "pool"])
def test_o04_a_limit_below_what_is_in_use(omega: Omega, cell: RedisCell, of: str) -> None:
    join(cell, 4)
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    setting = ("cell", "limits", "batch", "--cpu") if of == "kind" else ("pool", "set", "p", "--limit")
    written = "{}" if of == "kind" else "cpu={}"
    omega.run(*setting, written.format(10))
    cell.jobs.submit([job(f"s{i}", 1, 1_000, spec={"pool": "p"} if of == "pool" else {}) for i in range(11)], 1, "ada")
    for i in range(10):
        assert place(cell, me, i + 1, f"s{i}", Claim(i % 4, 0, 1)) == 1
    omega.run(*setting, written.format(6))
    assert sum(len(run.tasks) > 0 for run in cell.machines.runs(range(4))) == 10, "nothing is ended"
    shown = omega.text("cell", "limits") if of == "kind" else omega.text("pool", "show", "p")
    assert "over by 4" in shown
    for i in range(5):
        assert place(cell, me, 20 + i, "s10", Claim(i % 4, 0, 1)) == 0, "nothing starts above the limit"
        assert omega.json("job", "why", "s10")["limit"]["short"] == 1_000 * (5 - i)
        run = next(run for run in cell.machines.runs(range(4)) if run.job == f"s{i}")
        cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED)], 3, "here")
    assert place(cell, me, 30, "s10", Claim(0, 0, 1)) == 1
