"""Attributes of machines and constraints of tasks of Google's 2011 trace, from its tables or synthetic.

Names and values are hashes in the trace. A name that no constraint can have is replaced by ``attribute_1`` ….
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from omega.traces.csv_blocks import settled
from omega.traces.google_events import JobTable
from omega.traces.google_parts import table_blocks
from omega.traces.google_tasks import Tasks
from omega.traces.trace import Defects

EQUAL, NOT_EQUAL, LESS, GREATER = range(4)
NO_ATTRIBUTES, WINDOW_CONSTRAINTS = "no-attributes", "constraints-before-window"
RULES = {
    NO_ATTRIBUTES: "constraints of tasks, without the table of the machines' attributes: ignored",
    WINDOW_CONSTRAINTS: "tasks submitted before the window, whose constraints no row of it can have: without them",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-?\d{1,18}")

Condition = tuple[str, ...]
"""Constraints of a task, as texts."""
SYNTHETIC: Mapping[str, tuple[tuple[str, float], ...]] = {
    "synthetic_arch": (("a", 0.9), ("b", 0.1)),
    "synthetic_kernel": (("1", 0.5), ("2", 0.3), ("3", 0.2)),
    "synthetic_disks": (("1", 0.4), ("2", 0.3), ("4", 0.2), ("8", 0.1)),
    "synthetic_ethernet": (("1", 0.8), ("10", 0.2)),
}
"""Values of attributes with the part of the machines that have each. Invented: few attributes with a common and some
rare values, which half of the jobs name, as Sharma et al. (SoCC 2011) describe such cells."""
ASKS: Mapping[str, float] = {
    "synthetic_arch": 0.3, "synthetic_kernel": 0.15, "synthetic_disks": 0.1, "synthetic_ethernet": 0.05,
}  # a table # fmt: skip
"""Part of the jobs that name each attribute."""


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """A machine's attribute gets a value (None: it loses the attribute); time in µs."""

    time: int
    machine: int
    name: str
    value: str | None

    def apply(self, attributes: dict[int, dict[str, str]]) -> None:
        """Change the attributes of machines."""
        of = attributes.setdefault(self.machine, {})
        if self.value is None:
            of.pop(self.name, None)
        else:
            of[self.name] = self.value


@dataclass(slots=True)
class Constraints:
    """What the optional tables say; `names` translates the trace's names of attributes."""

    changes: list[AttributeChange] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=lambda: [()])
    tasks: dict[int, int] = field(default_factory=dict)
    """Place of a task's condition, by (place of the job << 24 | index)."""
    names: dict[str, str] = field(default_factory=dict)

    def attributes_at(self, time_us: int) -> dict[int, dict[str, str]]:
        """Return the attributes of machines at a time."""
        attributes: dict[int, dict[str, str]] = {}
        for change in self.changes:
            if change.time <= time_us:
                change.apply(attributes)
        return attributes

    def of(self, tasks: Tasks) -> NDArray[np.int32]:
        """Return the place of each task's condition; 0: none."""
        keys = (tasks.job.astype(np.int64) << 24) | tasks.index
        return np.array([self.tasks.get(key, 0) for key in keys.tolist()], dtype=np.int32)

    def name(self, original: str) -> str:
        """Return the name of an attribute that constraints can have."""
        if original not in self.names:
            plain = _NAME.fullmatch(original) is not None
            self.names[original] = original if plain else f"attribute_{len(self.names) + 1}"
        return self.names[original]


def read_attributes(paths: Sequence[Path], until_us: int, found: Constraints, defects: Defects, *, skip: bool) -> None:
    """Read machine_attributes up to a time: the attributes that constraints name."""
    for block in table_blocks(paths, "machine_attributes", defects, skip=skip):
        time, machine = block.naturals(0, "a time in microseconds"), block.naturals(1, "a machine's number")
        deleted = block.naturals(4, "0 or 1", most=1, missing=0)
        good = settled(block, defects, skip=skip)
        for row in np.flatnonzero(time <= until_us).tolist():
            name = found.names.get(block.text(row, 2))
            if name is not None and (good is None or good[row]):
                value = None if deleted[row] else block.text(row, 3)
                found.changes.append(AttributeChange(int(time[row]), int(machine[row]), name, value))
        if len(time) and time.min() > until_us:
            break
    found.changes.sort(key=lambda change: change.time)


def read_constraints(
    paths: Sequence[Path], jobs: JobTable, until_us: float, found: Constraints, defects: Defects, *, skip: bool
) -> None:
    """Read task_constraints up to a time: those of the first submission of each task."""
    first: dict[int, int] = {}
    rows: defaultdict[int, set[str]] = defaultdict(set)
    for block in table_blocks(paths, "task_constraints", defects, skip=skip):
        time, number = block.naturals(0, "a time in microseconds"), block.naturals(1, "a job's number")
        index = block.naturals(2, "a task's index", most=2**24 - 1)
        operator = block.naturals(3, "a comparison operator, 0 to 3", most=GREATER)
        good = settled(block, defects, skip=skip)
        keys = (jobs.places(block, number, None).astype(np.int64) << 24) | index
        for row, (key, at) in enumerate(zip(keys.tolist(), time.tolist(), strict=True)):
            if at <= until_us and (good is None or good[row]) and first.setdefault(key, at) == at:
                name = found.name(block.text(row, 4))
                rows[key].add(constraint_text(int(operator[row]), name, block.text(row, 5)))
    places: dict[Condition, int] = {(): 0}
    for key in sorted(rows):
        condition = tuple(sorted(rows[key]))
        if condition not in places:
            places[condition] = len(found.conditions)
            found.conditions.append(condition)
        found.tasks[key] = places[condition]


def constraint_text(operator: int, name: str, value: str) -> str:
    """Return a constraint of the trace as text.

    By the trace's documentation a missing attribute equals the empty value, and is 0 in comparisons of numbers.
    """
    if operator == EQUAL:
        return f"{name} == {value!r}" if value else f"not has {name}"
    if operator == NOT_EQUAL:
        return f"{name} != {value!r}" if value else f"has {name}"
    bound = int(value) if _NUMBER.fullmatch(value) else 0
    sign = "<" if operator == LESS else ">"
    missing_holds = (bound > 0) if operator == LESS else (bound < 0)
    text = f"{name} {sign} {bound}"
    return f"({text} or not has {name})" if missing_holds else text


def synthetic_attributes(machines: Iterable[int], seed: int) -> dict[int, dict[str, str]]:
    """Return attributes of machines by number: the same for the same machine and seed, whatever else is read."""
    return {number: _drawn(Random(f"{seed}/synthetic/machine/{number}")) for number in machines}


def synthetic_condition(job: int, seed: int) -> Condition:
    """Return the constraints of a job: each attribute is named by its part of the jobs."""
    rng = Random(f"{seed}/synthetic/job/{job}")
    wanted = _drawn(rng)
    texts = []
    for name, value in wanted.items():
        if rng.random() < ASKS[name]:
            number = name in ("synthetic_disks", "synthetic_ethernet")
            texts.append(f"{name} >= {value}" if number else f"{name} == {value!r}")
    return tuple(texts)


def _drawn(rng: Random) -> dict[str, str]:
    return {
        name: rng.choices([value for value, _ in values], [part for _, part in values])[0]
        for name, values in SYNTHETIC.items()
    }
