"""A workload read from a directory of Google's 2011 trace: its machines, residents and first arrivals.

The trace's machines are overcommitted: the requests of its residents exceed the cell. They are thinned,
whole jobs at a time, and `Workload.about` gives the amount.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MOST_PRECEDENCE, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Resources
from omega.workload import google2011_rows as trace
from omega.workload.quantiles import pairs, quantiles
from omega.workload.workload import LARGEST_CPU, LARGEST_MEMORY, Arrival, Workload, capacity, request, stream

FOLLOW_SECONDS = 25_000.0
"""Seconds of the trace read beyond the last arrival, to see tasks end: about five parts."""


@dataclass(frozen=True, slots=True)
class _Translation:
    """Translates the trace to the cell; `guessed` keeps by job id the values missing in the trace."""

    largest: Resources
    jobs: dict[str, trace.TraceJob]
    guessed: dict[str, Counter[str]] = field(default_factory=dict)

    def machine(self, machine: trace.TraceMachine) -> MachineSpec:
        """Return a machine's specification; its platform is an attribute."""
        has = (capacity(machine.cpu, self.largest[0]), capacity(machine.memory, self.largest[1]))
        return MachineSpec(machine.name, has, {"platform": machine.platform} if machine.platform else {})

    def job(self, number: str, burst: int, lives: Sequence[trace.Life]) -> JobSpec:
        """Return the job of these tasks, grouped by request; a group's duration is the mean of its tasks."""
        first = lives[0]
        known = self.jobs.get(number)
        kind = trace.kind_of(first.precedence, known.scheduling_class if known else first.scheduling_class)
        fallback = self._fallback(kind, lives)
        guessed = Counter[str]()
        groups: dict[tuple[float, float, bool], list[float]] = {}
        for life in lives:
            cpu = fallback[0] if life.cpu is None else life.cpu
            memory = fallback[1] if life.memory is None else life.memory
            groups.setdefault((cpu, memory, life.apart), []).append(_seconds(kind, life))
            guessed["request"] += life.cpu is None or life.memory is None
            if life.ran_us < 0:
                guessed["end" if life.seen_us else "run"] += 1
        suffix = f"-{burst}" if burst else ""
        self.guessed[f"{int(number):012x}{suffix}"] = guessed
        fields = {"user": first.user, "logical_name": known.logical_name if known else ""}
        return JobSpec(
            id=f"{int(number):012x}{suffix}",
            name=f"google2011/{number}{suffix}",
            kind=kind,
            groups=tuple(self._group(*key, seconds) for key, seconds in groups.items()),
            precedence=min(first.precedence, MOST_PRECEDENCE),
            spec={key: value for key, value in fields.items() if value},
        )

    def _group(self, cpu: float, memory: float, apart: bool, seconds: list[float]) -> TaskGroup:  # noqa: FBT001
        need = (request(cpu, self.largest[0]), request(memory, self.largest[1]))
        duration_ms = max(1, round(1000 * sum(seconds) / len(seconds)))
        return TaskGroup(need, len(seconds), duration_ms, {"different_machines": True} if apart else {})

    def _fallback(self, kind: str, lives: Iterable[trace.Life]) -> tuple[float, float]:
        """Return the request of a task without one: that of its job's first task with one, else the kind's median."""
        for life in lives:
            if life.cpu is not None and life.memory is not None:
                return life.cpu, life.memory
        return pairs(f"{kind}_requests").median


def _seconds(kind: str, life: trace.Life) -> float:
    """Return a task's duration: as seen, else the longer of its seen run and its kind's median."""
    if life.ran_us >= 0:
        return life.ran_us / 1e6
    return max(life.seen_us / 1e6, quantiles(f"{kind}_task_seconds").quantile(0.5))


def _demand(job: JobSpec) -> Resources:
    return tuple(sum(group.need[i] * group.count for group in job.groups) for i in (0, 1))


def _thinned(jobs: list[JobSpec], room: tuple[float, ...], seed: int) -> tuple[list[JobSpec], Resources]:
    """Return a random choice of whole jobs that requests at most `room` in any dimension, and its total."""
    order = list(range(len(jobs)))
    stream(seed, "residents").shuffle(order)
    kept, used = set[int](), (0, 0)
    for index in order:
        cpu, memory = _demand(jobs[index])
        if used[0] + cpu <= room[0] and used[1] + memory <= room[1]:
            kept.add(index)
            used = (used[0] + cpu, used[1] + memory)
    return [job for index, job in enumerate(jobs) if index in kept], used


def read_google2011(
    directory: Path | str,
    *,
    tasks: int = 10_000,
    fill: float = 0.6,
    seed: int = 0,
    largest_cpu: int = LARGEST_CPU,
    largest_memory: int = LARGEST_MEMORY,
    follow_seconds: float = FOLLOW_SECONDS,
) -> Workload:
    """Read machines, residents and at least the first `tasks` arriving tasks from `directory`.

    `fill` is the maximum share of the cell that residents request in any dimension; `seed` chooses
    which of them stay. `largest_cpu` (millicores) and `largest_memory` (MiB) are the units of the trace's
    1.0. Tasks are followed for `follow_seconds` after the last arrival to see them end.
    Raises BadInput naming file and line.
    """
    if tasks < 1 or not 0 <= fill <= 1 or largest_cpu < 1 or largest_memory < 1:
        raise BadInput("trace: want at least 1 task, a fill from 0 to 1, and a largest machine of at least 1 unit each")
    directory = Path(directory)
    machines = trace.read_machines(directory)
    history = trace.read_tasks(directory, tasks, follow_seconds)
    if not history.jobs:
        raise BadInput(f"trace {directory}: no task is submitted in task_events; fetch its first parts")
    translation = _Translation((largest_cpu, largest_memory), trace.read_jobs(directory, history.until_us))
    specs = [translation.machine(machine) for machine in machines]
    there: list[JobSpec] = []
    arrivals: list[Arrival] = []
    waiting = 0
    for (number, burst), lives in history.jobs.items():
        if lives[0].submitted_us:
            arrivals.append(Arrival(trace.seconds(lives[0].submitted_us), translation.job(number, burst, lives)))
        else:
            running = [life for life in lives if life.there_at_start]
            waiting += len(lives) - len(running)
            if running:
                there.append(translation.job(number, burst, running))
    has = [sum(spec.capacity[i] for spec in specs) for i in (0, 1)]
    residents, used = _thinned(there, (fill * has[0], fill * has[1]), seed)
    arrivals.sort(key=lambda arrival: arrival.at_seconds)
    guessed = sum((translation.guessed[job.id] for job in (*residents, *(a.job for a in arrivals))), Counter[str]())
    asked = (sum(_demand(job)[0] for job in there), sum(_demand(job)[1] for job in there))
    span = arrivals[-1].at_seconds if arrivals else 0.0
    about = (
        f"Google's 2011 trace: {len(specs):,} machines up when it begins;"
        f" 1.0 is {largest_cpu} millicores, {largest_memory} MiB\n"
        f"arriving: {_total(a.job for a in arrivals):,} tasks in {len(arrivals):,} jobs within {span:,.0f} s\n"
        f"resident at 0 s: {_total(residents):,} of {_total(there):,} tasks running then,"
        f" {len(residents):,} of {len(there):,} jobs; all ask for {_shares(asked, has)} of the cell,"
        f" those kept (chosen by seed {seed}) for {_shares(used, has)}, at most {fill:.0%}\n"
        f"left out: {waiting:,} tasks waiting at 0 s\n"
        f"not in the trace, guessed: {guessed['request']:,} requests (as another task of the job, else the median);"
        f" durations of {guessed['end']:,} tasks not seen to end within {trace.seconds(history.until_us):,.0f} s"
        f" and of {guessed['run']:,} not seen to run (what was seen, at least the median)"
    )
    return Workload(specs, [Arrival(0.0, job) for job in residents], arrivals, about)


def _total(jobs: Iterable[JobSpec]) -> int:
    return sum(job.total for job in jobs)


def _shares(amounts: Sequence[int], whole: Sequence[int]) -> str:
    cpu, memory = (amount / total if total else 0.0 for amount, total in zip(amounts, whole, strict=True))
    return f"{cpu:.0%} cpu, {memory:.0%} memory"
