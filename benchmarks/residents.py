"""A cell with something in it: machines, long-running residents of varied sizes, and a queue of jobs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import TypeVar
from uuid import uuid4

from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import ROOT, Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Resources
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.submission import new_id

BENCH_EXECUTOR = "bench"
"""The executor that has all machines."""
CAPACITY = (16_000, 65_536)
"""16 cores, 64 GiB."""
SIZES: tuple[tuple[Resources, float], ...] = (
    ((250, 512), 0.30),
    ((500, 2_048), 0.25),
    ((1_000, 4_096), 0.20),
    ((2_000, 4_096), 0.15),
    ((4_000, 16_384), 0.10),
)
"""What residents ask for, and how often; mostly small, as in published cells."""
UNEVEN = 0.1
"""Machines are filled to within this much of the cell's fullness, so that room differs from one to the next."""
FOR_EVER_MS = 10**9
LEASE_MS = 600_000
CLAIMS, CALL = 500, 4
SUBMITTED_AT_ONCE = 2_000
Placed = tuple[int, int]
"""(machine, tasks on it)"""
T = TypeVar("T")


def join(cell: RedisCell, machines: int, capacity: Resources = CAPACITY, lease_ms: int = 1) -> None:
    """Add equal machines; their executor holds a lease for `lease_ms`, 1 where a process of its own takes the name."""
    cell.executors.register(BENCH_EXECUTOR, "bench", lease_ms, now_ms())
    cell.machines.join(BENCH_EXECUTOR, [MachineSpec(f"m{i}", capacity) for i in range(machines)], now_ms())


class Filler:
    """Places endless jobs on given machines, as a scheduler of its own kind."""

    def __init__(self, cell: RedisCell, name: str, *, own_ids: bool = False) -> None:
        """Enlist as ``resident/NAME`` and read where the cell stands.

        `own_ids`: jobs have ids as Omega gives them out on submission, and names of 15 characters; otherwise the id
        is the name, of about 25 characters.
        """
        self.cell, self.calls, self.tasks, self.own_ids = cell, 0, 0, own_ids
        self.membership = cell.schedulers.register(f"resident/{name}", uuid4().hex, LEASE_MS, now_ms())
        self.position = cell.schedulers.sync(Position()).position

    def place(self, need: Resources, jobs: Sequence[Sequence[Placed]]) -> None:
        """Submit jobs of equal tasks and place each as given, all in one commit. Raises StoreError."""
        self.calls += 1
        names = [f"{self.membership.member.replace('/', '-')}-{self.calls}-{i}" for i in range(len(jobs))]
        ids = [new_id() for _ in jobs] if self.own_ids else names
        if self.own_ids:
            names = [f"train-{self.calls:05}-{i:03}" for i in range(len(jobs))]
        groups = [(TaskGroup(need, sum(count for _, count in places), FOR_EVER_MS),) for places in jobs]
        jobs_of = zip(ids, names, groups, strict=True)
        specs = [JobSpec(job, name, "resident", group) for job, name, group in jobs_of]
        self.cell.jobs.submit(specs, now_ms(), BENCH_EXECUTOR)
        transactions = [
            Transaction(job, tuple(Claim(machine, 0, count) for machine, count in places))
            for job, places in zip(ids, jobs, strict=True)
        ]
        request = CommitRequest(self.membership, self.calls, transactions, self.position, now_ms(), executors=(1,))
        reply = self.cell.schedulers.commit(request)
        self.position = reply.position
        if not all(outcome.accepted for outcome in reply.outcomes):
            raise StoreError(f"cell {self.cell.name}: a resident was refused; is it a cell of its own?")
        self.tasks += sum(outcome.placed for outcome in reply.outcomes)

    def leave(self) -> None:
        """Give the name up."""
        self.cell.schedulers.deregister(self.membership, now_ms())


def fill(cell: RedisCell, machines: int, fullness: float, seed: str) -> int:
    """Fill the machines with residents to `fullness` (0 to 1) of their cpu; returns how many tasks run then."""
    filler = Filler(cell, "fill")
    for need, places in _draw(machines, fullness, Random(seed)).items():
        for call in chunks(chunks(places, CLAIMS), CALL):
            filler.place(need, call)
    filler.leave()
    return filler.tasks


def add_pools(cell: RedisCell, number: int) -> list[str]:
    """Configure so many leaf pools, three levels deep; returns their names."""
    if not number:
        return []
    width = max(1, round(number ** (1 / 3)))
    inner = [Pool(f"t{i}") for i in range(width)]
    inner += [Pool(f"t{i}-{j}", f"t{i}") for i in range(width) for j in range(width)]
    above = [pool.name for pool in inner if pool.parent != ROOT]
    leaves = [Pool(f"p{i}", above[i % len(above)], weight=1 + i % 3) for i in range(number)]
    used = {pool.parent for pool in leaves}
    used |= {pool.parent for pool in inner if pool.name in used}
    cell.pools.set(Pools((*(pool for pool in inner if pool.name in used), *leaves)), 0, now_ms(), "bench")
    return [pool.name for pool in leaves]


def queue_jobs(
    cell: RedisCell,
    kind: str,
    jobs: int,
    groups: tuple[TaskGroup, ...],
    gang: Gang = Gang.NO,
    pools: Sequence[str] = (),
) -> None:
    """Submit so many equal jobs of a kind, of each of the pools in turn."""
    at_ms = now_ms()
    extras = [{"pool": pool} for pool in pools] or [{}]
    specs = (
        JobSpec(f"{kind[0]}{i:x}", f"{kind}-{i}", kind, groups, gang=gang, spec=extras[i % len(extras)])
        for i in range(jobs)
    )
    for chunk in chunks(specs, SUBMITTED_AT_ONCE):
        cell.jobs.submit(chunk, at_ms, "bench")


def _draw(machines: int, fullness: float, rng: Random) -> dict[Resources, list[Placed]]:
    """Running tasks by size."""
    drawn: dict[Resources, list[Placed]] = {need: [] for need, _ in SIZES}
    needs, weights = [need for need, _ in SIZES], [weight for _, weight in SIZES]
    for machine in range(machines):
        goal = min(0.99, fullness + rng.uniform(-UNEVEN, UNEVEN)) if fullness else 0.0
        room = [int(amount * goal) for amount in CAPACITY]
        counts: dict[Resources, int] = {}
        while fitting := [i for i, need in enumerate(needs) if all(n <= r for n, r in zip(need, room, strict=True))]:
            need = rng.choices([needs[i] for i in fitting], [weights[i] for i in fitting])[0]
            room = [r - n for r, n in zip(room, need, strict=True)]
            counts[need] = counts.get(need, 0) + 1
        for need, count in counts.items():
            drawn[need].append((machine, count))
    return drawn


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` values, the last perhaps shorter."""
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk
