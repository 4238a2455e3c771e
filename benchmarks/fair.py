"""``omega bench fair``: how fast pools of a full cell come to their fair shares, with several schedulers.

One pool holds all machines; then the others submit their jobs. Real scheduler processes evict until each pool holds
its share. The figures are read from the cell's log afterwards, and the audit replays it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.computer import computer, cpu_seconds, middle, wait_calm
from benchmarks.fair_log import Convergence
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, FOR_EVER_MS, join
from benchmarks.store import Store, StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.events import Fact
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import DEFAULT_PREEMPTION, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.redis import RedisCell
from omega.cellstate.verify import verify
from omega.live.processes.supervisor import ProcessSupervisor

LEASE_MS = 3_000
TASK = (1_000, 1_024)
TIMEOUT_SECONDS = 120.0
QUIET_SECONDS = 6.0
"""For how long pools hold their shares before a run ends: evictions that are undone come sooner."""
QUICK = PreemptionSettings(starvation_timeout=2.0, starvation_tolerance=1.0, backoff=0.5)
MOST_SECONDS = {"quick": 10.0, "default": 45.0}
"""The targets: shares are reached within this time of saturation."""
MOST_OVERSHOOT = 2.0
MEDIANS = ("seconds", "overshoot", "undershoot", "undone", "evictions", "wasted_task_seconds", "unfair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """What to measure. `guarantees` (tasks) and with them the number of pools; `preemption`: quick or default."""

    machines: int = 1_000
    slots: int = 8
    schedulers: int = 4
    guarantees: Sequence[int] = (1_000, 2_000, 1_000)
    jobs: int = 10
    preemption: str = "quick"
    repeat: int = 3
    calm_seconds: float = 10.0

    @property
    def tasks(self) -> int:
        """Of a job: those of a pool fill the cell."""
        return -(-self.machines * self.slots // self.jobs)


def measure(settings: Settings) -> Document:
    """Measure so many runs, each in a cell of its own."""
    runs: list[dict[str, Any]] = []
    about = computer()
    with settings.measured_store() as store:
        for repeat in range(settings.repeat):
            wait_calm(settings.calm_seconds)
            each = replace(store, cell=f"{store.cell}-{repeat}")
            try:
                runs.append(_run(each, settings) | {"repeat": repeat})
            finally:
                each.clear()
            _tell(runs[-1])
        return {
            "runs": runs,
            "medians": {name: middle([float(run[name]) for run in runs if run[name] is not None]) for name in MEDIANS},
            "target_seconds": MOST_SECONDS[settings.preemption],
            "met": all(run["met"] for run in runs),
            "store": store.describe(),
            "computer": about,
            "chosen": settings.values("machines", "slots", "schedulers", "guarantees", "jobs", "tasks", "preemption"),
        }


def _run(store: Store, settings: Settings) -> dict[str, Any]:
    cell = store.make_cell()
    join(cell, settings.machines, (TASK[0] * settings.slots, TASK[1] * settings.slots))
    preemption = QUICK if settings.preemption == "quick" else DEFAULT_PREEMPTION
    names = [f"p{i}" for i in range(len(settings.guarantees))]
    pools = [Pool(name, guarantee={"cpu": TASK[0] * n}) for name, n in zip(names, settings.guarantees, strict=True)]
    cell.pools.set(Pools(tuple(pools), (PoolTree(preemption=preemption),)), 0, now_ms(), "bench")
    members = [f"batch/{i}" for i in range(settings.schedulers)]
    with ProcessSupervisor(
        store.url, store.cell, store.directory / f"logs-{store.cell}", lease_ms=LEASE_MS, bound=True
    ) as group:
        for member in (f"simulated/{BENCH_EXECUTOR}", *members):
            group.start(member)
        group.wait_ready(cell)
        full = settings.machines * settings.slots
        _submit(cell, names[:1], settings)
        _wait(group, lambda: _held(cell, names[0]) >= full, "the first pool fills the cell")
        used = {name: cpu_seconds(process.pid) for name, process in group.members.items()}
        begin_ms = now_ms()
        _submit(cell, names[1:], settings)
        _watch(cell, group, names, begin_ms, settings)
        cpu = {name: cpu_seconds(each.pid) - used[name] for name, each in group.members.items()}
        story, figures = _story(cell, names, begin_ms), cell.schedulers.figures()
    report = verify(cell)
    for violation in report.violations[:5]:
        progress(f"fair: {violation}")
    cell.close()
    seconds = None if story.outside is None else round(story.outside, 2)
    most = MOST_SECONDS[settings.preemption]
    found = {
        "seconds": seconds,
        "shares": {name: round(share, 1) for name, share in story.shares.items()},
        "held": story.held,
        "overshoot": round(story.overshoot, 1),
        "undershoot": round(story.undershoot, 1),
        "evictions": story.evictions,
        "undone": story.undone,
        "wasted_task_seconds": round(story.wasted_seconds, 1),
        "transactions": story.sets,
        "not_improved": story.not_improved,
        "sets": report.evictions["sets"],
        "checked_when_decided": report.evictions["checked"],
        "unfair": sum(each.get("unfair", 0) for each in figures.values()),
        "violations": len(report.violations),
        "cpu": {name: round(spent, 2) for name, spent in cpu.items()},
    }
    met = seconds is not None and seconds <= most and max(story.overshoot, story.undershoot) <= MOST_OVERSHOOT
    confirmed = not report.violations and report.evictions["checked"] == report.evictions["sets"]
    return found | {"met": met and not story.undone and not story.not_improved and confirmed}


def _submit(cell: RedisCell, pools: Sequence[str], settings: Settings) -> None:
    """Submit the jobs of pools, all at once."""
    group = TaskGroup(TASK, settings.tasks, FOR_EVER_MS)
    jobs = [
        JobSpec(f"{pool}-{i}", f"{pool}-{i}", "batch", (group,), spec={"pool": pool})
        for i in range(settings.jobs)
        for pool in pools
    ]
    cell.jobs.submit(jobs, now_ms(), "bench")


def _held(cell: RedisCell, pool: str) -> int:
    return sum(group.placed for job in cell.jobs.all() if job.id.startswith(f"{pool}-") for group in job.groups)


def _wait(group: ProcessSupervisor, true: Any, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        if group.dead() or time.monotonic() > deadline:
            raise StoreError(f"not within {TIMEOUT_SECONDS:.0f} s: {what}; ended: {group.dead()}")
        time.sleep(0.05)


def _watch(cell: RedisCell, group: ProcessSupervisor, names: Sequence[str], begin_ms: int, settings: Settings) -> None:
    """Watch until the shares were held for a while, or the time of the target is long over."""
    end = time.monotonic() + 1.5 * MOST_SECONDS[settings.preemption] + QUIET_SECONDS
    while time.monotonic() < end:
        time.sleep(1.0)
        epoch = cell.pools.epoch()
        if epoch is None or not all(name in epoch.pools and epoch.pools[name].fair_share[0] for name in names):
            continue
        for name, code in group.dead().items():
            raise StoreError(f"{name}: {group.end_of(name, code)} (while measured)")
        outside = _story(cell, names, begin_ms).outside
        if outside is not None and outside + QUIET_SECONDS < (now_ms() - begin_ms) / 1000:
            return


def _story(cell: RedisCell, names: Sequence[str], begin_ms: int) -> Convergence:
    """Read the whole log against the shares of the last epoch."""
    epoch = cell.pools.epoch()
    if epoch is None:
        raise StoreError("no epoch was published")
    total = epoch.totals[next(iter(epoch.totals))][0] / TASK[0]
    story = Convergence(shares={name: epoch.pools[name].fair_share[0] * total for name in names}, begin_ms=begin_ms)
    story.follow(_facts(cell), {job.id: job.id.partition("-")[0] for job in cell.jobs.all()})
    return story


def _facts(cell: RedisCell) -> list[Fact]:
    found: list[Fact] = []
    since = 0
    while chunk := cell.log.facts(since, 5_000):
        found += chunk
        since = chunk[-1].version
    return found


def _tell(run: dict[str, Any]) -> None:
    progress(
        f"fair: {'met' if run['met'] else 'missed'}: "
        + ", ".join(f"{name} {value}" for name, value in run.items() if name not in ("met", "repeat"))
    )


if __name__ == "__main__":
    launch(Settings, measure)
