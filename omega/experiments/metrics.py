"""Metrics of a finished simulation."""

from collections.abc import Iterator, Mapping
from typing import Any

from omega.cellstate.errors import BadInput
from omega.experiments.results import Record

KINDS = ("batch", "service")
SHORT = {
    "wait": "wait_mean",
    "busyness": "busyness_median",
    "abandoned": "jobs_abandoned",
    "useful": "busyness_useful_median",
    "wasted": "busyness_wasted_median",
    "no_conflict": "busyness_no_conflict_median",
}
UNITS = {
    "wait_mean": "mean wait (s)",
    "wait_p90": "wait, 90th percentile (s)",
    "busyness_median": "busyness",
    "conflict_fraction": "conflict fraction",
    "jobs_abandoned": "jobs abandoned",
    "utilisation": "share in use",
}
SATURATED_BUSYNESS = 0.99
UNSCHEDULED = 0.05


def of(record: Record, kind: str, name: str) -> float:
    """Return a figure of a kind of job: ``of(record, "batch", "wait")``."""
    return float(record["result"][kind][SHORT.get(name, name)])


def spread(record: Record, kind: str, name: str) -> float:
    """Return the median absolute deviation of the daily values behind a figure; 0 when it is no median."""
    return float(record["result"][kind].get(SHORT.get(name, name).removesuffix("_median") + "_mad", 0.0))


def saturated(record: Record, kind: str) -> bool:
    """Return whether the kind's scheduler has no time left, or a part of the jobs is not scheduled by the end."""
    figures = record["result"][kind]
    missing = figures["jobs_submitted"] - figures["jobs_scheduled"]
    return of(record, kind, "busyness") >= SATURATED_BUSYNESS or missing > max(
        2, UNSCHEDULED * figures["jobs_submitted"]
    )


def unscheduled(record: Record) -> float:
    """Return the share of all submitted jobs that were not scheduled by the end, abandoned ones included."""
    jobs = record["result"]["jobs"]
    return 1.0 - jobs["scheduled"] / jobs["submitted"] if jobs["submitted"] else 0.0


def chosen(record: Record, wanted: str) -> Iterator[tuple[str, str, str, float]]:
    """Return the meaning of a metric's name: (column, kind, name, value) each.

    ``busyness`` is that of both kinds, ``batch.busyness`` of one, ``utilisation`` of every resource,
    ``events`` and ``seconds`` of the run. Raises BadInput.
    """
    result: Mapping[str, Any] = record["result"]
    head, dot, tail = wanted.partition(".")
    if head == "utilisation" and (not dot or tail in result[head]):
        for resource in [tail] if dot else result[head]:
            yield f"utilisation.{resource}", "", "utilisation", float(result[head][resource])
        return
    if wanted in ("seconds", "events"):
        yield wanted, "", wanted, float(record[wanted] if wanted == "seconds" else result[wanted])
        return
    kinds, name = ((head,), tail) if dot and head in KINDS else (KINDS, wanted)
    name = SHORT.get(name, name)
    if name not in result[KINDS[0]]:
        known = ", ".join([*SHORT, *(name for name in result[KINDS[0]] if name not in SHORT.values())])
        raise BadInput(f"unknown metric {wanted!r}; known: {known}, utilisation, events, seconds")
    for kind in kinds:
        yield f"{kind}.{name}", kind, name, float(result[kind][name])
