"""What a trace holds, in figures: sizes, percentiles, and the resources that its tasks request over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.traces.trace import Trace
from omega.workload.workload import Arrival, MachineEvent, Workload

STEPS = 600
"""Points of time of the curve of requests."""
PARTS = (50, 90, 99)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution: mean, percentiles and largest value; `count` values."""

    what: str
    count: int
    mean: float
    percentiles: tuple[float, ...]
    largest: float

    def as_json(self) -> dict[str, float]:
        """Return it by name."""
        named = {f"p{part}": value for part, value in zip(PARTS, self.percentiles, strict=True)}
        return {"count": self.count, "mean": self.mean, **named, "max": self.largest}


def spread(what: str, values: Floats, weights: Floats | None = None) -> Spread:
    """Return the distribution of values; a weight counts a value so many times."""
    if not len(values):
        return Spread(what, 0, 0.0, (0.0,) * len(PARTS), 0.0)
    weights = np.ones(len(values)) if weights is None else weights
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(PARTS) / 100 * reached[-1] - 1e-9)
    found = values[order][np.minimum(places, len(values) - 1)]
    mean = float(values @ weights / reached[-1])
    return Spread(what, round(reached[-1]), mean, tuple(found.tolist()), float(values.max()))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Pieces:
    """Tasks in columns: those of a group that last equally long are one entry with a count."""

    at: Floats
    seconds: Floats
    count: Floats
    need: Floats
    """One column per dimension."""
    waits: NDArray[np.bool_]
    """Whether a resident waits at the beginning."""


def pieces(arrivals: Sequence[Arrival], dimensions: int) -> Pieces:
    """Return the tasks of jobs."""
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in ("at", "seconds", "count", "need", "waits")}
    for arrival in arrivals:
        for place, group in enumerate(arrival.job.groups):
            lasting, many = _lasting(arrival, place, group.duration_ms, group.count)
            where = arrival.machines[place] if arrival.machines else None
            rows = {
                "at": np.full(len(lasting), arrival.at_seconds),
                "seconds": lasting,
                "count": np.full(len(lasting), many),
                "need": np.broadcast_to(np.array(group.need, dtype=float), (len(lasting), dimensions)),
                "waits": where < 0 if where is not None else np.zeros(len(lasting), dtype=bool),
            }
            for name, row in rows.items():
                columns[name].append(row)
    if not columns["at"]:
        nothing, none = np.zeros(0), np.zeros((0, dimensions))
        return Pieces(at=nothing, seconds=nothing, count=nothing, need=none, waits=nothing.astype(bool))
    return Pieces(**{name: np.concatenate(rows) for name, rows in columns.items()})


def _lasting(arrival: Arrival, place: int, duration_ms: int, count: int) -> tuple[Floats, float]:
    """Return how long the tasks of a group run, in seconds, and how many each value counts for."""
    if not arrival.durations:
        return np.array([duration_ms / 1000]), float(count)
    column = arrival.durations[place]
    if arrival.machines or column.strides != (0,):
        return column / 1e6, 1.0
    return column[:1] / 1e6, float(count)


@dataclass(frozen=True, eq=False, slots=True)
class Summary:
    """The figures of ``omega trace info``."""

    machines: int
    capacity: Mapping[str, int]
    machine_events: int
    residents: Mapping[str, int]
    kinds: Mapping[str, Mapping[str, int]]
    """Jobs and tasks that arrive, by kind."""
    spreads: Sequence[Spread]
    times: Floats
    """Seconds since the beginning, in equal steps."""
    requested: Mapping[str, Floats]
    """By dimension: part of the machines' capacity that tasks request if each starts when it arrives."""
    end: float

    def intervals(self, count: int) -> list[dict[str, float]]:
        """Return means of `requested` over equal intervals."""
        found = []
        for part in np.array_split(np.arange(len(self.times)), min(count, len(self.times))):
            means = {name: float(values[part].mean()) for name, values in self.requested.items()}
            found.append({"from": float(self.times[part[0]]), **means})
        return found


def summarised(trace: Trace) -> Summary:
    """Return the figures of a trace."""
    workload, names = trace.workload, trace.workload.dimensions.names
    there, coming = (pieces(jobs, len(names)) for jobs in (workload.residents, workload.arrivals))
    end = max(trace.seconds, workload.arrivals[-1].at_seconds if workload.arrivals else 0.0)
    times = np.linspace(0.0, end, STEPS, endpoint=False) if end else np.zeros(1)
    used = _used(there, times) + _used(coming, times)
    has = _capacity(workload, times)
    parts = np.divide(used, has, out=np.zeros_like(used), where=has > 0)
    kinds: dict[str, dict[str, int]] = {}
    for arrival in workload.arrivals:
        of = kinds.setdefault(arrival.job.kind, {"jobs": 0, "tasks": 0})
        of["jobs"] += 1
        of["tasks"] += arrival.job.total
    waiting = int(there.count[there.waits].sum())
    return Summary(
        machines=len(workload.machines),
        capacity=dict(zip(names, workload.capacity, strict=True)),
        machine_events=sum(isinstance(event, MachineEvent) for event in workload.events),
        residents={
            "jobs": len(workload.residents),
            "running": int(there.count.sum()) - waiting,
            "waiting": waiting,
        },
        kinds=dict(sorted(kinds.items())),
        spreads=_spreads(workload, coming),
        times=times,
        requested={name: parts[:, at] for at, name in enumerate(names)},
        end=end,
    )


def _spreads(workload: Workload, coming: Pieces) -> list[Spread]:
    arrivals = workload.arrivals
    gaps = np.diff(np.array([arrival.at_seconds for arrival in arrivals]))
    found = [
        spread("tasks per job", np.array([arrival.job.total for arrival in arrivals], dtype=float)),
        spread("seconds between jobs", gaps),
        spread("task duration, seconds", coming.seconds, coming.count),
    ]
    return found + [
        spread(f"request of a task, {name}", coming.need[:, at], coming.count)
        for at, name in enumerate(workload.dimensions.names)
    ]


def _used(tasks: Pieces, times: Floats) -> Floats:
    """Return what tasks request at each time: (times, dimensions)."""
    changes = np.zeros((len(times) + 1, tasks.need.shape[1]))
    amounts = tasks.need * tasks.count[:, None]
    for at, sign in ((tasks.at, 1.0), (tasks.at + tasks.seconds, -1.0)):
        places = np.searchsorted(times, at, side="left")
        for column in range(amounts.shape[1]):
            changes[:, column] += sign * np.bincount(places, amounts[:, column], len(changes))
    return changes[:-1].cumsum(axis=0)


def _capacity(workload: Workload, times: Floats) -> Floats:
    """Return what the machines have at each time: (times, dimensions)."""
    changes = np.zeros((len(times) + 1, len(workload.dimensions)))
    changes[0] = workload.capacity or 0
    known = {machine.name: np.array(machine.capacity, dtype=float) for machine in workload.machines}
    nothing = np.zeros(len(workload.dimensions))
    for event in workload.events:
        if isinstance(event, MachineEvent):
            now = np.array(event.machine.capacity, dtype=float) if event.up else nothing
            place = np.searchsorted(times, event.at_seconds, side="left")
            changes[place] += now - known.get(event.machine.name, nothing)
            known[event.machine.name] = now
    return changes[:-1].cumsum(axis=0)


def as_json(trace: Trace, summary: Summary, intervals: int) -> dict[str, Any]:
    """Return the document of ``omega trace info --json``."""
    return {
        "format": trace.format,
        "seconds": summary.end,
        "machines": {"count": summary.machines, "capacity": dict(summary.capacity), "events": summary.machine_events},
        "residents": dict(summary.residents),
        "arrivals": {kind: dict(of) for kind, of in summary.kinds.items()},
        "distributions": {each.what: each.as_json() for each in summary.spreads},
        "requested": summary.intervals(intervals),
        "defects": [
            {"rule": each.rule, "what": each.what, "count": each.count, "places": list(each.places)}
            for each in trace.defects
        ],
        "guessed": list(trace.guessed),
        "facts": dict(trace.facts),
        "workload": trace.workload.about.strip().splitlines(),
    }
