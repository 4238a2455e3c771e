"""The fast path of a script writes the same bytes as its general path (docs/fast-path.md)."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from hashlib import sha1
from random import Random
from typing import Any
from uuid import uuid4

import fakeredis
import pytest

from omega.cellstate.errors import StoreError
from omega.cellstate.model import BUCKETS, Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.schedulers import GENERAL_KEYS
from omega.cellstate.redis.scripts import Script
from omega.cellstate.replies import CommitRequest, Membership, Reply
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Claim, Detection, Intake, Mode, Position, Transaction

LEASE_MS, MACHINES = 60_000, 8
BEGINS, ENDS = "repeat -- the fast path", "until true -- the general path carries out every other call"


class Watched(RedisCell):
    """A cell whose scripts are changed before they are sent; its tags are counted."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.change: Callable[[str], str] = lambda text: text
        tags = iter(range(10**6))
        self._tag = lambda: f"{next(tags):010d}"
        for link in (self.schedulers._link, self.executors._ends):
            link.send = partial(self._send_changed, link.send)  # type: ignore[method-assign]

    def _send_changed(self, send: Callable[..., None], chosen: Script, *rest: Any) -> None:
        send(self._changed(chosen), *rest)

    def _changed(self, script: Script) -> Script:
        text = self.change(script.text)
        return replace(script, text=text, sha=sha1(text.encode(), usedforsecurity=False).hexdigest())

    def _exchange(self, chosen: Script, full: list[str], arguments: Sequence[Any]) -> Any:
        return super()._exchange(self._changed(chosen), full, arguments)


def never(text: str) -> str:
    """The script without its fast path."""
    return text.replace(BEGINS, f"{BEGINS}\nif true then break end")


def always(text: str) -> str:
    """The script, which fails where a call takes the general path."""
    return text.replace(ENDS, "until true error('the general path')")


RESOURCES, CAPACITY = ("cpu", "memory", "gpu", "disk"), (12, 40, 9, 20)
POOLS = Pools(
    (
        Pool("free"), Pool("team"), Pool("lent", guarantee={"cpu": 4}), Pool("limited", limits={"cpu": 9, "jobs": 3}),
        Pool("upper", limits={"tasks": 20}), Pool("below", "upper"), Pool("lower", "team", limits={"cpu": 7}),
        Pool("beside", "team"),
    )
)  # fmt: skip
"""``free``, ``lent`` and ``beside`` have no limits, and none above them; ``below`` has none of its own."""
TREES = (PoolTree(), PoolTree("right", "side == 'right'"))
DIVIDED = Pools(
    tuple(replace(pool, tree="right") if pool.name in ("free", "upper") else pool for pool in POOLS.pools), TREES
)
"""The same, with two trees that divide the machines; ``free`` and ``below`` are in the second one."""


def make(
    change: Callable[[str], str], client: Any, name: str, resources: int = 2, unit: int = 1
) -> tuple[Watched, Membership]:
    cell = Watched.create(client, name, Dimensions(RESOURCES[:resources]), keep_jobs=6)
    assert isinstance(cell, Watched)
    cell.executors.register("e", "one", LEASE_MS, 1)
    cell.executors.register("f", "one", LEASE_MS, 1)
    for executor, first, side in (("e", 0, "left"), ("f", MACHINES // 2, "right")):
        machines = [
            MachineSpec(f"m{first + i}", tuple(unit * amount for amount in CAPACITY[:resources]), {"side": side})
            for i in range(MACHINES // 2)
        ]
        cell.machines.join(executor, machines, 1)
    membership = cell.schedulers.register("batch/0", "one", LEASE_MS, 1)
    cell.schedulers.may_wake(["batch/0"])
    cell.change = change
    return cell, membership


def dump(cell: RedisCell) -> dict[bytes, Any]:
    """Every key of the cell as it is stored."""
    client: Any = cell.client
    reads = {
        b"hash": client.hgetall, b"string": client.get, b"stream": client.xrange,
        b"list": lambda key: client.lrange(key, 0, -1), b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }  # fmt: skip
    prefix = f"omega:1:{{{cell.name}}}:".encode()
    return {key.removeprefix(prefix): reads[client.type(key)](key) for key in client.keys(prefix + b"*")}


def some_job(rng: Random, number: int, resources: int, unit: int, pools: bool) -> JobSpec:
    odd, gang = rng.random(), Gang.YES if rng.random() < 0.3 else Gang.NO
    need = tuple(unit * amount for amount in (rng.randint(0, 3), rng.randint(1, 5), rng.randint(0, 4), 2)[:resources])
    group = TaskGroup(need, rng.choice([1, 2, 5, 12, 100, 300 if odd < 0.04 else 3]), 500)
    if odd > 0.94:
        group = replace(group, optional=True)
    groups = (group, group) if 0.04 < odd < 0.08 else (group,)
    kind = "service" if odd > 0.9 else "batch"
    pool = rng.choice(["free", "free", "lent", "limited", "below", "lower", "beside", ""]) if pools else ""
    extra = {"pool": pool} if pool else {}
    least = rng.randint(1, sum(each.count for each in groups)) if gang and rng.random() < 0.5 else 0
    name, rank = f"job-{number}", rng.randint(0, 1)
    return JobSpec(f"j{number}", name, kind, groups, gang=gang, precedence=rank, spec=extra, gang_min=least)


def some_claims(rng: Random, cell: RedisCell, job_id: str) -> Transaction:
    job = cell.jobs.get(job_id)
    left = job.groups[0].unplaced if job else 1
    rows = {int(row[0]): int(row[1]) for row in cell.schedulers.sync(Position()).rows}
    claims = list[Claim]()
    while left > 0 and (not claims or rng.random() < 0.9):
        count, machine = rng.randint(1, left) + (rng.random() < 0.05), rng.randrange(MACHINES)
        claims.append(Claim(machine, 0, count, seen=rows[machine] - (rng.random() < 0.1)))
        left -= count
    if job and job.gang_min and len(claims) > 1 and rng.random() < 0.5:
        del claims[-1]
    mode = Mode.GANG if (job and job.gang and rng.random() < 0.9) or rng.random() < 0.3 else Mode.INCREMENTAL
    return Transaction(job_id, tuple(claims) or (Claim(0, 0, 1),), mode, rng.choice(list(Detection)))


@pytest.mark.parametrize(
    ("seed", "resources", "pools"),
    [
        (0, 2, False),
        (1, 2, False),
        (2, 1, False),
        (3, 4, False),
        (4, 2, True),
        (5, 2, True),
        (6, 1, True),
        (7, 4, True),
        (8, 2, True),
        (9, 3, True),
    ],
)
def test_both_paths_write_the_same_bytes(store_url: str, seed: int, resources: int, pools: bool) -> None:
    """World 3 has amounts so large that what a lane wants of them is bounded (MOST_WANTED); 8 and 9 have two trees."""
    client, unit = connect(store_url), 1 << 27 if seed == 3 else 1
    ways = ((str, "both"), (never, "general"))
    worlds = [make(change, client, f"{way}-{uuid4().hex[:8]}", resources, unit) for change, way in ways]
    try:
        for cell, _ in worlds if pools else []:
            cell.pools.set(DIVIDED if seed >= 8 else POOLS, cell.pools.get().version, 1, "ada")
        live_through(worlds, Random(f"{seed}/fast-path"), 45, unit, pools)
    finally:
        for cell, _ in worlds:
            cell.delete()
        client.close()


def shown(answer: Any) -> str:
    """The text of an answer, with the jobs of a reply, which are read when they are asked for."""
    return str((replace(answer, read_jobs=list), list(answer.jobs)) if isinstance(answer, Reply) else answer)


def live_through(
    worlds: list[tuple[Watched, Membership]], rng: Random, turns: int, unit: int, pools: bool
) -> None:  # fmt: skip
    first, number, at = worlds[0][0], 0, 10

    def do(operation: Callable[[RedisCell, Membership], Any]) -> None:
        answers = [operation(*world) for world in worlds]
        assert shown(answers[0]) == shown(answers[1])

    for turn in range(turns):
        at += 10
        jobs = [some_job(rng, 10 * turn + i, len(first.dimensions), unit, pools) for i in range(rng.randint(0, 3))]
        do(lambda cell, _: cell.jobs.submit(jobs, at, "ada"))  # noqa: B023 - called at once
        waiting = [job_id for ids in first.schedulers.pending().values() for job_id in ids]
        chosen = rng.sample(waiting, min(len(waiting), rng.randint(1, 3)))
        if chosen:
            number += 1
            calls = [some_claims(rng, first, job_id) for job_id in chosen]
            lanes = sorted(first.schedulers.lanes())
            intake = Intake("batch", tuple(Ask(lane, 0, 2) for lane in lanes), 3, "1" * BUCKETS)
            since = first.schedulers.sync(Position()).position
            do(lambda cell, who: cell.schedulers.commit(CommitRequest(who, number, calls, since, at, intake=intake)))  # noqa: B023
        runs = first.machines.runs(range(MACHINES))
        hows = [
            EndKind.LEFT if run.leaving else rng.choice([EndKind.FINISHED] * 6 + [EndKind.FAILED, EndKind.EVICTED])
            for run in runs
        ]
        endings = [
            TaskEnd(run.machine, run.placement, how, rng.choice(["*", run.tasks]), rng.choice(["", "exit 1"]))
            for run, how in zip(runs, hows, strict=True) if rng.random() < (0.4 if how is not EndKind.EVICTED else 0.05)
        ]  # fmt: skip
        endings += endings[:1] if rng.random() < 0.2 else []
        do(lambda cell, _: cell.executors.end(endings, at, "e"))  # noqa: B023
        if rng.random() < 0.05:
            machine, state = rng.randrange(MACHINES), rng.choice([MachineState.UP, MachineState.DRAINED])
            do(lambda cell, _: cell.machines.set_state(machine, state, at, "ada"))  # noqa: B023
        if rng.random() < 0.1:  # it comes back with less of its last resource than its tasks hold, or with all of it
            machine, (*others, last) = rng.randrange(MACHINES), CAPACITY[: len(first.dimensions)]
            size, owner = (
                [unit * amount for amount in (*others, rng.choice([1, last]))],
                "ef"[machine // (MACHINES // 2)],
            )
            do(lambda cell, _: cell.machines.join(owner, [MachineSpec(f"m{machine}", tuple(size))], at))  # noqa: B023
        if rng.random() < 0.1:
            names = rng.choice(["-", "*", "job-1 job-2"])
            do(lambda cell, _: cell.client.hset(f"omega:1:{{{cell.name}}}:asleep", "batch/0", names))  # noqa: B023
        if turn % 10 == 9:
            assert dump(worlds[0][0]) == dump(worlds[1][0])


@pytest.mark.parametrize(
    ("gang", "least", "machines", "resources"),
    [
        (Gang.NO, 0, 1, 1), (Gang.YES, 0, 1, 2), (Gang.YES, 0, 5, 2), (Gang.NO, 0, 5, 3), (Gang.YES, 3, 5, 2),
        (Gang.STRICT, 5, 1, 2),
    ],
)  # fmt: skip
def test_simple_jobs_take_the_fast_path(gang: Gang, least: int, machines: int, resources: int) -> None:
    cell, membership = make(str, fakeredis.FakeRedis(server=fakeredis.FakeServer()), "c", resources)
    group = TaskGroup((1, 2, 1)[:resources], 5, 500)
    jobs = [JobSpec(f"j{i}", f"j{i}", "batch", (group,), gang=gang, gang_min=least) for i in range(3)]
    cell.jobs.submit(jobs, 1, "ada")
    mode = Mode.GANG if gang else Mode.INCREMENTAL
    calls = [
        Transaction(job.id, tuple(Claim(i + m, 0, 5 // machines) for m in range(machines)), mode)
        for i, job in enumerate(jobs)
    ]
    cell.schedulers.commit(
        CommitRequest(membership, 1, calls[:1], Position(), 2)
    )  # the client learns which queues there are
    cell.change = always
    reply = cell.schedulers.commit(CommitRequest(membership, 2, calls[1:], Position(), 3, executors=(1, 3)))
    assert all(outcome.accepted for outcome in reply.outcomes)
    runs = [run for run in cell.machines.runs(range(MACHINES)) if run.job != "j0"]
    hows = [EndKind.FINISHED] * (len(runs) - 1) + [EndKind.FAILED]
    endings = [TaskEnd(run.machine, run.placement, how) for run, how in zip(runs, hows, strict=True)]
    assert sum(cell.executors.end(endings, 4, "e")) == 10


@pytest.mark.parametrize(
    ("pools", "fast"),
    [
        (("free", "free"), True), (("free", "beside"), True), (("lent", ""), True), (("", ""), True),
        (("limited", "limited"), False), (("below", "below"), False), (("free", "lower"), False),
        (("below", "free"), False),
    ],
)  # fmt: skip
def test_jobs_of_pools_without_limits_take_the_fast_path(pools: Sequence[str], fast: bool) -> None:
    """A call is covered when no pool with limits binds any of its jobs, whatever limits other pools have."""
    cell, membership = make(str, fakeredis.FakeRedis(server=fakeredis.FakeServer()), "c")
    cell.pools.set(POOLS, cell.pools.get().version, 1, "ada")
    cell.jobs.submit([JobSpec("first", "first", "batch", (TaskGroup((1, 2), 1, 500),))], 1, "ada")
    group = TaskGroup((1, 2), 2, 500)
    jobs = [JobSpec(f"j{i}", f"j{i}", "batch", (group,), spec={"pool": pool} if pool else {}) for i, pool in
            enumerate([*pools, *pools])]  # fmt: skip
    cell.jobs.submit(jobs, 1, "ada")
    calls = [Transaction(job.id, (Claim(i, 0, 2),)) for i, job in enumerate(jobs)]
    first = Transaction("first", (Claim(7, 0, 1),))
    cell.schedulers.commit(
        CommitRequest(membership, 1, [first, *calls[:2]], Position(), 2)
    )  # the client learns which queues there are

    cell.change = always
    refused = nullcontext() if fast else pytest.raises(StoreError, match="the general path")
    with refused:
        cell.schedulers.commit(CommitRequest(membership, 2, calls[2:], Position(), 3, executors=(1, 3)))
    runs = [run for run in cell.machines.runs(range(MACHINES)) if run.job in ("j0", "j1")]
    with refused:
        assert (
            sum(cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in runs], 4, "e"))
            == 4
        )


def test_calls_give_the_keys_of_the_general_path_once_one_needed_them() -> None:
    cell, membership = make(str, fakeredis.FakeRedis(server=fakeredis.FakeServer()), "c")
    given = list[int]()
    send = cell.schedulers._link.send

    def watched(*call: Any, **options: Any) -> None:
        given.append(len(call[1]))
        send(*call, **options)

    cell.schedulers._link.send = watched  # type: ignore[method-assign]
    cell.jobs.submit([JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1, 1), 1, 500),)) for i in range(1, 6)], 1, "ada")

    def place(number: int) -> int:
        """Return how often the call was sent."""
        before = len(given)
        cell.schedulers.commit(
            CommitRequest(
                membership, number, [Transaction(f"j{number}", (Claim(0, 0, 1),))], Position(), 2, executors=(1, 3)
            )
        )
        return len(given) - before

    assert (place(1), place(2)) == (3, 1), "the queue was not known"
    assert given[3] == given[0] + 1
    cell.pools.set_limits("batch", Limits((10, None)), 2, "ada")
    assert (place(3), place(4)) == (2, 1)
    cell.pools.set_limits("batch", Limits((None, None)), 3, "ada")
    assert place(5) == 1
    assert given[-1] == given[3] + len(GENERAL_KEYS)


@pytest.mark.parametrize(
    ("places", "fast"), [((("beside", 0), ("free", 5)), True), ((("beside", 0), ("free", 1)), False)]
)
def test_jobs_take_the_fast_path_to_machines_of_their_tree(places: Sequence[tuple[str, int]], fast: bool) -> None:
    cell, membership = make(str, fakeredis.FakeRedis(server=fakeredis.FakeServer()), "c")
    cell.pools.set(DIVIDED, cell.pools.get().version, 1, "ada")
    group = TaskGroup((1, 2), 2, 500)
    named = [(pool, f"{pool}{i}") for pool, _ in places for i in "ab"]
    cell.jobs.submit([JobSpec(name, name, "batch", (group,), spec={"pool": pool}) for pool, name in named], 1, "ada")
    first, second = ([Transaction(f"{pool}{i}", (Claim(at, 0, 2),)) for pool, at in places] for i in "ab")
    cell.schedulers.commit(
        CommitRequest(membership, 1, first, Position(), 2)
    )  # the client learns which queues there are
    cell.change = always
    with nullcontext() if fast else pytest.raises(StoreError, match="the general path"):
        reply = cell.schedulers.commit(CommitRequest(membership, 2, second, Position(), 3, executors=(1, 3)))
        assert all(outcome.accepted for outcome in reply.outcomes)
    runs = [run for run in cell.machines.runs(range(MACHINES)) if run.job.endswith("a")]
    ends = [TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in runs]
    assert sum(cell.executors.end(ends, 4, "e")) == (4 if fast else 2)
