"""One run of ``omega bench conflict``: real scheduler processes on a real server, watched for some seconds.

What is counted comes from the instruments that every scheduler carries and leaves in the store with its
heartbeat. Two readings are taken while all schedulers work; a scheduler's figures are the difference
between its own two, divided by its own time between them. Starting up is in neither.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.computer import InstructionCounts, cpu_seconds
from benchmarks.launch import progress
from benchmarks.residents import BENCH_EXECUTOR
from benchmarks.store import Saved, Store
from omega.cellstate.clock import since_1970
from omega.cellstate.errors import StoreError
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Position
from omega.live.processes.supervisor import ProcessSupervisor

LEASE_MS = 3_000
"""A heartbeat per second: a reading is at most that old and carries its age."""
WARM_SECONDS = 1.0
TIMEOUT_SECONDS = 90.0
READING_SECONDS = 0.05

COUNTED = ("transactions", "accepted", "conflicts", "tasks", "jobs", "jobs_placed", "abandoned")
TIMED = ("seconds", "busy_seconds")
"""Counters and timers among a scheduler's figures."""

Readings = Mapping[str, Mapping[str, Any]]
"""By member: what its instruments had counted, after how many seconds."""


class QueueEmpty(Exception):
    """The queue ran out within the measured time: more jobs are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The competing schedulers and their settings, as they stand in the document."""

    batch: int
    service: int = 0
    detection: str = "fine"
    commit: str = "incremental"
    fullness: float
    gang: bool = False
    tasks_per_job: int
    jobs_per_call: int
    pools: int = 0
    """Pools that the jobs belong to, in turn; 0: the cell has none."""

    @property
    def members(self) -> list[str]:
        """The schedulers."""
        return [f"batch/{i}" for i in range(self.batch)] + [f"service/{i}" for i in range(self.service)]

    @property
    def settings(self) -> dict[str, str]:
        """What departs from the presets, as member.py reads it."""
        return {
            "OMEGA_DETECTION": self.detection,
            "OMEGA_MODE": self.commit,
            "OMEGA_JOBS_PER_CALL": str(self.jobs_per_call),
        }


@dataclass(slots=True)
class PreparedCell:
    """The cell a contest is held on: first with its residents only, then with the queue."""

    filled: Saved
    queued: Saved
    submitted: float
    """When the queue was made (seconds of the wall clock): every run meets it older."""


@dataclass(slots=True)
class Observation:
    """Two readings and the resources used between them."""

    before: Readings = field(default_factory=dict)
    after: Readings = field(default_factory=dict)
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    instructions: dict[str, float] = field(default_factory=dict)
    """Per second, by process; empty where the processor does not count them."""
    fullness: list[float] = field(default_factory=list)
    backlog: int = 0


def run_contest(
    store: Store, prepared: PreparedCell, contest: Contest, seconds: float, blocked: int = 0
) -> dict[str, Any]:
    """Let the schedulers compete and return the run's figures. Raises QueueEmpty, StoreError.

    The measurement begins once this many jobs are `blocked`.
    """
    prepared.filled.restore()
    with ProcessSupervisor(
        store.url, store.cell, store.directory / "logs", lease_ms=LEASE_MS, settings=contest.settings, bound=True
    ) as group:
        group.start(f"simulated/{BENCH_EXECUTOR}")
        _wait_for_executor(store, group)
        prepared.queued.restore()
        cell = store.open_cell()
        _wait_for_name(store, cell, group)
        age = since_1970() - prepared.submitted
        for member in contest.members:
            group.start(member)
        group.wait_ready(cell)
        _wait_until(lambda: _blocked(cell, group) >= blocked, group)
        time.sleep(WARM_SECONDS)
        observed = _observe(store, cell, group, contest, seconds)
        cell.close()
        return asdict(contest) | figures(observed, contest, age)


def _wait_for_executor(store: Store, group: ProcessSupervisor) -> None:
    """Wait until the executor has read the restored cell and waits at its mailbox; 150,000 residents take seconds.

    Schedulers that begin before meet a cell in which nothing ends: it fills up, and every figure is another one.
    """
    mailbox = f"{store.prefix}box:1"
    deadline = time.monotonic() + TIMEOUT_SECONDS
    store.client.rpush(mailbox, "!")
    while store.client.exists(mailbox) or not _waits_for_messages(store):
        if group.dead() or time.monotonic() > deadline:
            raise StoreError(
                f"the executor does not take its messages: {group.last_words(f'simulated/{BENCH_EXECUTOR}')}"
            )
        time.sleep(0.02)


def _wait_for_name(store: Store, cell: RedisCell, group: ProcessSupervisor) -> None:
    """Wait until the executor has its lease again, which the restored cell does not hold, and has read its runs.

    A scheduler that meets an executor without a lease takes its machines down.
    """

    def is_back() -> bool:
        return any(each.lives for each in cell.executors.records().values()) and _waits_for_messages(store)

    _wait_until(is_back, group)


def _waits_for_messages(store: Store) -> bool:
    """Return whether a client is blocked at a list; before the schedulers start only the simulated executor is."""
    clients: Any = store.client.client_list()
    return any("b" in client["flags"] and client["cmd"] == "blmove" for client in clients)


def _blocked(cell: RedisCell, group: ProcessSupervisor) -> int:
    return sum(each.get("blocked", 0) for name, each in cell.schedulers.figures().items() if name in group.members)


def _wait_until(true: Callable[[], bool], group: ProcessSupervisor) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        _check(group, deadline)
        time.sleep(0.02)


def _observe(store: Store, cell: RedisCell, group: ProcessSupervisor, contest: Contest, seconds: float) -> Observation:
    pids = {name: process.pid for name, process in group.members.items()}
    deadline = time.monotonic() + TIMEOUT_SECONDS + seconds
    observed = Observation()
    while not set(contest.members) <= set(observed.before):
        _check(group, deadline)
        observed.before = cell.schedulers.figures()
    counts = InstructionCounts(pids | store.pids())
    began, server = time.monotonic(), store.cpu_seconds()
    used = {name: cpu_seconds(pid) for name, pid in pids.items()}
    while True:
        time.sleep(READING_SECONDS)
        _check(group, deadline)
        observed.after = cell.schedulers.figures()
        lasted = [observed.after[name]["seconds"] - observed.before[name]["seconds"] for name in contest.members]
        if min(lasted) >= seconds:
            break
    observed.seconds = time.monotonic() - began
    observed.cpu = {name: round((cpu_seconds(pid) - used[name]) / observed.seconds, 2) for name, pid in pids.items()}
    observed.cpu["server"] = round((store.cpu_seconds() - server) / observed.seconds, 2)
    observed.instructions = {name: count / observed.seconds for name, count in counts.stop().items()}
    observed.backlog = int(store.client.llen(f"{store.prefix}box:1"))
    observed.fullness = fullness_of(cell)
    for kind in {member.partition("/")[0] for member in contest.members}:
        if not store.client.zcard(f"{store.prefix}pending:{kind}"):
            raise QueueEmpty(kind)
    return observed


def _check(group: ProcessSupervisor, deadline: float) -> None:
    for name, code in group.dead().items():
        progress((group.logs / f"{name.replace('/', '-')}.log").read_text("utf-8", errors="replace"))
        raise StoreError(f"{name}: {group.end_of(name, code)} (while measured)")
    if time.monotonic() > deadline:
        raise StoreError("the schedulers leave no figures; is the computer very busy?")


def fullness_of(cell: RedisCell) -> list[float]:
    """Share of the cell in use now, per resource."""
    rows, size = cell.schedulers.sync(Position()).rows, len(cell.dimensions)
    capacity, used = rows[:, 4 : 4 + size].sum(axis=0), rows[:, 4 + size :].sum(axis=0)
    return [round(float(u / c), 3) for u, c in zip(used, capacity, strict=True)]


def figures(observed: Observation, contest: Contest, age: float = 0.0) -> dict[str, Any]:
    """The figures of a run, from two readings. Waits count from when the queue was put back, `age` seconds old."""
    changes = {name: difference(observed.before[name], observed.after[name]) for name in contest.members}
    counted = {name: sum(int(change[name]) for change in changes.values()) for name in COUNTED}
    rate = sum(change["tasks"] / change["seconds"] for change in changes.values())
    accepted, conflicts = counted["accepted"], counted["conflicts"]
    own = sum(observed.cpu.get(name, 0.0) for name in contest.members)
    found: dict[str, Any] = {
        **{name: counted[name] for name in ("transactions", "accepted", "conflicts")},
        "conflict_fraction": round(conflicts / accepted, 4) if accepted else float(conflicts),
        "tasks_placed": counted["tasks"],
        "tasks_per_second": round(rate),
        "jobs_per_second": round(sum(change["jobs_placed"] / change["seconds"] for change in changes.values())),
        "wait_seconds": _waits(changes, observed.after, age),
        "busyness": {name: round(min(1.0, c["busy_seconds"] / c["seconds"]), 3) for name, c in changes.items()},
        "seconds": round(sum(change["seconds"] for change in changes.values()) / len(changes), 2),
        "cpu": observed.cpu,
        "server_cpu": observed.cpu["server"],
        "schedulers_us_per_task": round(own / max(rate, 1.0) * 1e6, 2),
        "server_us_per_task": round(observed.cpu["server"] / max(rate, 1.0) * 1e6, 2),
        "instructions_per_task": instructions_per_task(observed, rate),
        "utilisation": observed.fullness,
        "executor_backlog": observed.backlog,
        "abandoned": counted["abandoned"],
    }
    if contest.gang:
        found["gangs_per_second"] = found["jobs_per_second"]
    return found


def instructions_per_task(observed: Observation, rate: float) -> dict[str, int]:
    """Instructions per placed task: of schedulers, executors and the server, and of all; empty if not counted."""
    found: dict[str, int] = {}
    for name, count in observed.instructions.items():
        part = {"server": "server", "simulated": "executors"}.get(name.partition("/")[0], "schedulers")
        for each in (part, "all"):
            found[each] = found.get(each, 0) + round(count / max(rate, 1.0))
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Return a scheduler's figures between two readings; `wait_mean` of the jobs begun between them."""
    change = {name: after[name] - before[name] for name in (*COUNTED, *TIMED)}
    waited = after["wait_mean"] * after["jobs"] - before["wait_mean"] * before["jobs"]
    change["wait_mean"] = waited / change["jobs"] if change["jobs"] else 0.0
    return change


def _waits(changes: Mapping[str, Mapping[str, float]], after: Readings, age: float) -> dict[str, dict[str, float]]:
    """Waits by kind, weighted by jobs; p90 is the schedulers' own, over their last 100,000 jobs."""
    found = {}
    for kind in sorted({name.partition("/")[0] for name in changes}):
        mine = {name: change for name, change in changes.items() if name.startswith(kind + "/")}
        jobs = sum(change["jobs"] for change in mine.values()) or 1
        mean = sum(change["wait_mean"] * change["jobs"] for change in mine.values()) / jobs
        p90 = sum(after[name]["wait_p90"] * change["jobs"] for name, change in mine.items()) / jobs
        found[kind] = {"mean": round(max(0.0, mean - age), 4), "p90": round(max(0.0, p90 - age), 4)}
    return found
