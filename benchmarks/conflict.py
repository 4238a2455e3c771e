"""``omega bench conflict``: conflict fraction of schedulers and tasks placed per second.

Sweeps number of schedulers × detection × granularity × fullness × gang jobs. All configurations of one
repeat run in turn before the next repeat begins, each on the same bytes in the store, so that a
disturbance of the computer meets all of them, and repeats can be compared pair by pair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from benchmarks.computer import computer, middle, spread, wait_calm
from benchmarks.contest import Contest, PreparedCell, QueueEmpty, run_contest
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import CAPACITY, add_pools, fill, join, queue_jobs
from benchmarks.store import Saved, Store, StoreSettings
from omega.cellstate.clock import since_1970
from omega.cellstate.errors import BadInput, StoreError
from omega.cellstate.model import Gang, TaskGroup
from omega.schedulers.presets import BATCH_JOBS

JOBS_PER_SECOND = 6_000
"""How many jobs a second of watching is given at first; when the queue runs dry the run is repeated with more."""
SERVICE_JOBS_PER_SECOND = 400
STARTING_SECONDS = 4.0
MOST_TRIES = 4
CHOSEN = ("need", "tasks", "groups", "duration_ms", "jobs_per_call", "seconds", "repeat")
"""Settings common to all configurations: amounts per task, tasks and groups per job, and so on."""
SETTING = ("batch", "service", "fullness", "gang", "detection", "commit", "pools")
"""What configurations differ in."""
MEDIANS = (
    "conflict_fraction",
    "tasks_per_second",
    "jobs_per_second",
    "gangs_per_second",
    "transactions",
    "accepted",
    "conflicts",
    "tasks_placed",
    "server_cpu",
    "server_us_per_task",
    "schedulers_us_per_task",
)
Run = dict[str, Any]
"""The figures of one run, as they stand in the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """What to measure; every combination of the lists is a configuration. Amounts are millicores and MiB."""

    machines: int = 10_000
    batch: Sequence[int] = (1, 2, 4)
    service: Sequence[int] = (0,)
    detection: Sequence[str] = ("fine",)
    commit: Sequence[str] = ("incremental",)
    fullness: Sequence[float] = (0.0,)
    gang: Sequence[bool] = (False,)
    tasks: int = 10
    groups: int = 1
    need: Sequence[int] = (1_000, 2_048)
    duration_ms: int = 600
    jobs_per_call: int = BATCH_JOBS
    seconds: float = 5.0
    repeat: int = 1
    pairs: bool = False
    pools: Sequence[int] = (0,)
    calm_seconds: float = 10.0


PRESETS: dict[str, dict[str, Any]] = {
    "": {},
    # The figure that other figures are compared with: two batch schedulers, jobs of ten, with and without gangs. Tasks
    # are short, so that the schedulers and not the room of the cell limit the rate.
    "headline": {"batch": (2,), "gang": (False, True), "duration_ms": 200, "repeat": 5},
    # All combinations of detection and commit mode where room is scarce. The tasks of a job differ, so they go to ten
    # machines and leave room there: two claims on one machine often both fit, and only coarse detection rejects one of
    # them. Tasks are short, so that the fullness stays as it was at the start.
    "contended": {
        "batch": (4,),
        "detection": ("fine", "coarse"),
        "commit": ("incremental", "gang"),
        "fullness": (0.9,),
        "groups": 10,
        "need": (800, 2_048),
        "duration_ms": 50,
        "jobs_per_call": 8,
        "repeat": 5,
        "pairs": True,
    },
}


def chosen(preset: str = "", **options: Any) -> Settings:
    """Return the settings of a preset with the given overrides. Raises BadInput."""
    if preset not in PRESETS:
        raise BadInput(f"unknown preset {preset!r}; known: {', '.join(name for name in PRESETS if name)}")
    settings = Settings(**{**PRESETS[preset], **options})
    if len(settings.need) != len(CAPACITY):
        raise BadInput(f"need {list(settings.need)}: want cpu and memory, for example 1000,2048")
    return settings


def measure(settings: Settings) -> Document:
    """Measure every configuration and return the document that the command prints with --json."""
    about = computer()
    contests = list(_contests(settings))
    with settings.measured_store() as store:
        cells = PreparedCells(store, settings)
        runs: list[Run] = []
        for repeat in range(settings.repeat):
            for contest in contests:
                wait_calm(settings.calm_seconds)
                runs.append(cells.hold(contest) | {"repeat": repeat})
                _tell(runs[-1])
        document: Document = {
            "cell": {"machines": settings.machines, "capacity": list(CAPACITY)},
            "runs": runs,
            "medians": [_medians(contest, runs) for contest in contests],
            "store": store.describe(),
            "computer": about,
            "chosen": settings.values(*CHOSEN),
        }
        if settings.pairs:
            document["comparisons"] = comparisons(runs)
        if len(settings.pools) > 1:
            document["pools"] = with_pools(runs)
        return document


def _contests(settings: Settings) -> Iterator[Contest]:
    axes = ("fullness", "gang", "batch", "service", "detection", "commit", "pools")
    for values in product(*(getattr(settings, name) for name in axes)):
        each: dict[str, Any] = dict(zip(axes, values, strict=True))
        contest = Contest(tasks_per_job=settings.tasks, jobs_per_call=settings.jobs_per_call, **each)
        if contest.members:
            yield contest


class PreparedCells:
    """The cells that contests are held on, made once and put back for every run."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """Make the cell with its machines."""
        self.store, self.settings = store, settings
        self.rates = {"batch": float(JOBS_PER_SECOND), "service": float(SERVICE_JOBS_PER_SECOND)}
        self.cell = store.make_cell()
        join(self.cell, settings.machines)
        self.empty = Saved.save(store, "empty")
        self.filled: dict[float, Saved] = {}
        self.queued: dict[tuple[object, ...], tuple[Saved, float]] = {}

    def hold(self, contest: Contest) -> Run:
        """Run a contest; again with a longer queue when it ran dry."""
        for _ in range(MOST_TRIES):
            try:
                return run_contest(self.store, self._prepared(contest), contest, self.settings.seconds)
            except QueueEmpty as dry:
                self.rates[str(dry)] *= 2
                progress(f"conflict: the queue of {dry} jobs ran dry; again with twice as many")
        raise StoreError(f"the queue ran dry {MOST_TRIES} times; take shorter --seconds or larger --tasks")

    def _prepared(self, contest: Contest) -> PreparedCell:
        filled = self._filled(contest.fullness)
        kinds = {"batch": contest.batch, "service": contest.service}
        jobs = {kind: self._jobs(kind) for kind, members in kinds.items() if members}
        key = contest.fullness, contest.gang, tuple(jobs.items()), contest.pools
        if key not in self.queued:
            filled.restore()
            groups, submitted, leaves = task_groups(self.settings), since_1970(), add_pools(self.cell, contest.pools)
            for kind, count in jobs.items():
                queue_jobs(self.cell, kind, count, groups, Gang(int(contest.gang)), leaves)
            self.queued[key] = Saved.save(self.store, f"queued-{len(self.queued)}"), submitted
        return PreparedCell(filled, *self.queued[key])

    def _filled(self, fullness: float) -> Saved:
        if fullness not in self.filled:
            self.empty.restore()
            tasks = fill(self.cell, self.settings.machines, fullness, f"fill/{fullness}")
            self.cell.executors.receive(1, most=10 * tasks + 1)
            self.filled[fullness] = Saved.save(self.store, f"filled-{len(self.filled)}")
            if tasks:
                progress(f"conflict: {tasks:,} residents fill the cell to {fullness:.0%}")
        return self.filled[fullness]

    def _jobs(self, kind: str) -> int:
        return int(self.rates[kind] * (self.settings.seconds + STARTING_SECONDS))


def task_groups(settings: Settings) -> tuple[TaskGroup, ...]:
    """The tasks of a job: alike, or in groups of 0.5 to 1.5 times the need, which go to different machines."""
    if settings.tasks % settings.groups:
        raise BadInput(f"tasks {settings.tasks}: cannot be in {settings.groups} groups of one size; take a multiple")
    count = settings.tasks // settings.groups
    shares = [0.5 + (i + 0.5) / settings.groups for i in range(settings.groups)]
    needs = [tuple(round(amount * share) for amount in settings.need) for share in shares]
    return tuple(TaskGroup(need, count, settings.duration_ms) for need in needs)


def _medians(contest: Contest, runs: Sequence[Run]) -> dict[str, Any]:
    """Median and spread over the repeats of a configuration."""
    about: dict[str, Any] = asdict(contest)
    mine = [run for run in runs if all(run[name] == value for name, value in about.items())]
    values = {name: [float(run[name]) for run in mine] for name in MEDIANS if name in mine[0]}
    return about | {
        "repeats": len(mine),
        **{name: middle(numbers) for name, numbers in values.items()},
        "spread": {name: spread(numbers) for name, numbers in values.items()},
    }


def comparisons(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Conflict fractions of runs that differ in one setting, divided repeat by repeat: median and spread."""
    rows: list[dict[str, Any]] = []
    for axis, low in (("detection", "fine"), ("commit", "incremental")):
        ratios: dict[tuple[tuple[str, Any], ...], list[float]] = {}
        for run, other in _pairs(runs, axis, low):
            about = {"of": f"{run[axis]} ÷ {low}", **{name: run[name] for name in SETTING if name != axis}}
            ratio = run["conflict_fraction"] / max(other["conflict_fraction"], 1e-9)
            ratios.setdefault(tuple(about.items()), []).append(ratio)
        for key, each in ratios.items():
            figures = {"conflict_fraction_ratio": round(middle(each), 3), "spread": spread(each, 3)}
            rows.append({**dict(key), **figures, "pairs": len(each)})
    return rows


def with_pools(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Tasks per second with pools ÷ without, by repeat; processor time and instructions per task likewise."""
    groups: dict[tuple[int, bool], list[tuple[Run, Run]]] = {}
    for run, other in _pairs(runs, "pools", 0):
        groups.setdefault((run["pools"], run["gang"]), []).append((run, other))
    rows: list[dict[str, Any]] = []
    for (pools, gang), pairs in sorted(groups.items()):
        row: dict[str, Any] = {"pools": pools, "gang": gang}
        for name in ("tasks_per_second", "schedulers_us_per_task", "server_us_per_task"):
            row |= _ratios(name, [run[name] / max(other[name], 1e-9) for run, other in pairs])
        row["pairs"] = len(pairs)
        counted = [_instructions(run) / count for run, other in pairs if (count := _instructions(other))]
        rows.append(row | (_ratios("instructions", counted) if counted else {}))
    return rows


def _pairs(runs: Sequence[Run], axis: str, base: object) -> list[tuple[Run, Run]]:
    """Return each run with another value than `base` in a setting, beside that of its repeat with `base`."""

    def others(run: Run) -> tuple[object, ...]:
        return tuple(run[name] for name in ("repeat", *SETTING) if name != axis)

    with_base = {others(run): run for run in runs if run[axis] == base}
    return [(run, with_base[others(run)]) for run in runs if run[axis] != base and others(run) in with_base]


def _ratios(name: str, ratios: Sequence[float]) -> dict[str, Any]:
    return {name: round(middle(ratios), 3), f"{name}_spread": spread(ratios, 3)}


def _instructions(run: Run) -> float:
    """Instructions of all processes per task; 0 where they were not counted."""
    return float(run.get("instructions_per_task", {}).get("all", 0))


def _tell(run: Run) -> None:
    gang = ", gang jobs" if run["gang"] else ""
    progress(
        f"conflict: {run['batch']} batch + {run['service']} service, {run['detection']}, {run['commit']}, "
        f"{run['fullness']:.0%} full{gang}: {run['tasks_per_second']:,} tasks/s, "
        f"conflict fraction {run['conflict_fraction']}, server cpu {run['server_cpu']}"
    )


if __name__ == "__main__":
    launch(chosen, measure)
