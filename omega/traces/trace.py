"""The port of trace readers: a trace is a workload, the defects found in its files, and facts about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown
from omega.workload.workload import LARGEST_CPU, LARGEST_MEMORY, Workload

FACTOR = 1.55
"""Default over-commit of Google's machines: at 1.55 × their capacity, 119 of 12,477 still hold more than they have."""
MOST_PLACES = 5
"""Rows that a defect names; it counts the others."""

PERCENTILES = (50, 90, 99, 100)

Residents = Literal["keep", "scale", "thin"]
Service = Literal["class", "priority"]
Constraints = Literal["trace", "synthetic", "none"]
Overruns = Literal["run", "cut"]
_CHOICES = {
    name: get_args(of)
    for name, of in (
        ("residents", Residents),
        ("service", Service),
        ("constraints", Constraints),
        ("overruns", Overruns),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options of all readers; each reader uses those that its format has. Raises BadInput for impossible values."""

    seed: int = 0
    """Of everything that is drawn: residents that are left out, synthetic attributes, map counts of SWIM."""
    skip_bad_rows: bool = False
    """Whether to continue after rows, files and parts that cannot be read, and to count them."""
    cache: Path | None = None
    """Directory of parsed columns; None: every read parses the files."""
    tasks: int | None = None
    """Maximum number of arriving tasks, jobs whole; None: all."""
    seconds: float | None = None
    """Jobs that arrive later than this many seconds after the beginning are left out; None: all arrive."""
    start_seconds: float = 0.0
    """Google: the window begins so many seconds after the first part that is there."""
    residents: Residents = "keep"
    """Google: ``keep`` residents on their machines, ``scale`` their requests until they fit, or ``thin``: a choice of
    whole jobs, at most `fill` of the cell, on random machines."""
    factor: float | None = None
    """Google: machines have so many times their capacity; None: 1.55 with ``keep``, else 1."""
    fill: float = 0.6
    """Google: maximum part of the cell that residents request with ``thin``."""
    service: Service = "priority"
    """Google: service jobs have priority 9 or more, of any scheduling class, or (``class``) of class 2 or 3."""
    constraints: Constraints = "trace"
    """Google: those of the trace's own tables when it has them, seeded synthetic ones, or none."""
    largest_cpu: int = LARGEST_CPU
    """Google: millicores of 1.0."""
    largest_memory: int = LARGEST_MEMORY
    """Google: MiB of 1.0."""
    follow_seconds: float | None = None
    """Google: seconds read after the last wanted arrival, to see tasks end; None: all parts."""
    overruns: Overruns = "run"
    """SWF: a job that ran longer than its request runs as long as it ran, or is ``cut`` at the request."""
    processors: int | None = None
    """SWF: processors per machine; None: by the header."""
    shared_gpus: float | None = None
    """Alibaba: part of the GPUs that pods may share; None: the part of all GPU time that they ask for."""
    machines: int | None = None
    """SWIM: machines of the cell; None: the published size of the cluster."""

    def __post_init__(self) -> None:
        if self.tasks is not None and self.tasks < 1:
            raise BadInput(f"trace: {self.tasks} tasks; want at least 1")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise BadInput(f"trace: {name} {shown(getattr(self, name))}; want {', '.join(known)}")
        if not 0 <= self.fill <= 1:
            raise BadInput(f"trace: fill {self.fill}; want a part from 0 to 1")
        if self.shared_gpus is not None and not 0 <= self.shared_gpus <= 1:
            raise BadInput(f"trace: shared GPUs {self.shared_gpus}; want a part from 0 to 1")
        if self.factor is not None and not 0.01 <= self.factor <= 100:
            raise BadInput(f"trace: factor {self.factor}; want 0.01 to 100")
        for name in ("largest_cpu", "largest_memory", "processors", "machines"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= 10**9:
                raise BadInput(f"trace: {name} {value}; want 1 to 1,000,000,000")
        for name in ("seconds", "follow_seconds", "start_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise BadInput(f"trace: {name} {value}; want a number from 0 on")


@dataclass(frozen=True, slots=True)
class Defect:
    """Something that a trace lacks or contradicts, handled by the rule of this name in docs/traces.md."""

    rule: str
    what: str
    """The defect and its treatment, in words."""
    count: int
    places: tuple[str, ...] = ()
    """The first rows that have it, as ``file:row``."""


@dataclass(slots=True)
class Defects:
    """Counts defects by rule; `rules` has the texts of a reader's rules."""

    rules: Mapping[str, str]
    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, rule: str, count: int = 1, places: Iterable[str] = ()) -> None:
        """Count defects of a rule, and keep the first places. Raises KeyError for an unstated rule."""
        self.rules[rule]
        if count:
            self.counts[rule] = self.counts.get(rule, 0) + int(count)
        kept = self.places.setdefault(rule, [])
        for place in places:
            if len(kept) == MOST_PLACES:
                break
            kept.append(place)

    def found(self) -> tuple[Defect, ...]:
        """Return the defects that occurred, in the order of the rules."""
        return tuple(
            Defect(rule, what, self.counts[rule], tuple(self.places.get(rule, ())))
            for rule, what in self.rules.items()
            if rule in self.counts
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as read: its workload, its defects, and facts for ``omega trace info``."""

    format: str
    """Name of the reader's format: ``google-2011`` …"""
    workload: Workload
    defects: tuple[Defect, ...]
    facts: Mapping[str, Any]
    """What else the files say, by name: plain values for JSON."""
    seconds: float
    """Length of the period that is read."""
    guessed: tuple[str, ...] = ()
    """What the files do not say and the workload has all the same, in words."""


def percentiles(values: NDArray[np.float64]) -> dict[str, float]:
    """Return percentiles of values by name; nothing without values."""
    return {f"p{part}": round(float(np.percentile(values, part)), 6) for part in PERCENTILES} if len(values) else {}


class TraceReader(Protocol):
    """Reads one format of traces."""

    @property
    def name(self) -> str:
        """Short name of the format, for JSON."""
        ...

    @property
    def title(self) -> str:
        """Name of the format for people."""
        ...

    @property
    def rules(self) -> Mapping[str, str]:
        """Every defect that the reader counts, and what it does about it."""
        ...

    def recognises(self, path: Path) -> bool:
        """Return whether a file or directory looks like this format: by names and first lines, no more."""
        ...

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read a trace. Raises BadInput with file and row."""
        ...
