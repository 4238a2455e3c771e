"""The claim of Omega §5 that neither machine failures nor preemption change much, checked on a replay."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from omega.replay.run import Replay

LITTLE = 0.10
"""A figure changes little by less than this part of its value, …"""
LEAST: Mapping[str, float] = {"wait mean": 1.0, "bounded slowdown mean": 0.1}
"""… or by less than this amount: seconds of wait, slowdown; shares and fractions below."""
LEAST_SHARE = 0.01


class Compared(NamedTuple):
    """A figure in several runs; `little` for each whether it is close to the first one."""

    name: str
    kind: str
    values: list[float | None]
    little: list[bool]


Figures = Mapping[tuple[str, str], float | None]
"""Figures of a run by name and kind of job."""


def figures(replayed: Replay) -> Figures:
    """Return the figures that are compared, by name and kind of job."""
    found = dict[tuple[str, str], float | None]()
    jobs = replayed.metrics()["jobs"]
    for kind, of in replayed.result.kinds.items():
        if of.jobs_submitted:
            found["wait mean", kind] = of.wait_mean
            found["bounded slowdown mean", kind] = jobs[kind]["bounded_slowdown"]["mean"] if kind in jobs else None
            found["busyness", kind] = of.busyness.median
            found["conflict fraction", kind] = of.conflict_fraction.median
    for name, share in replayed.utilisation.mean().items():
        found[f"{name} utilisation", "all"] = share
    return found


def compared(runs: list[Figures]) -> list[Compared]:
    """Return each figure of the first run beside those of the others."""
    rows = []
    for name, kind in runs[0]:
        values = [each.get((name, kind)) for each in runs]
        rows.append(Compared(name, kind, values, [_close(name, values[0], value) for value in values]))
    return rows


def _close(name: str, one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= max(LITTLE * abs(one), LEAST.get(name, LEAST_SHARE))


FORMS: Mapping[str, tuple[bool, bool]] = {
    "as traced": (True, True),
    "no failures": (False, True),
    "no preemption": (True, False),
    "paper mode": (False, False),
}
"""The runs of a comparison: with failures, with preemption."""


def compare(run: Callable[[str, bool, bool], Replay], kept: str) -> tuple[list[Compared], Replay]:
    """Run a workload in all forms by `run` (name, with failures, with preemption); return their figures and one run.

    The others are not kept: a large one has hundreds of MiB.
    """
    found, wanted = list[Figures](), list[Replay]()
    for name, (failures, preemption) in FORMS.items():
        replayed = run(name, failures, preemption)
        found.append(figures(replayed))
        wanted += [replayed] if name == kept else []
    return compared(found), wanted[0]


def as_json(rows: list[Compared]) -> list[dict[str, Any]]:
    """Return the figures as plain values."""
    return [
        {
            "figure": row.name,
            "kind": row.kind,
            **dict(zip(FORMS, row.values, strict=True)),
            "little": dict(zip(list(FORMS)[1:], row.little[1:], strict=True)),
        }
        for row in rows
    ]
