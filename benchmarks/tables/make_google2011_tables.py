"""Measure the tables of omega/workload/tables on a directory of Google's 2011 trace.

    python -m benchmarks.tables.make_google2011_tables TRACE_DIRECTORY OUTPUT_DIRECTORY

Writes the same bytes for the same files. What each table holds: omega/workload/tables/README.md.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from omega.traces import TraceOptions
from omega.traces.csv_blocks import Bools
from omega.traces.google import RULES
from omega.traces.google_jobs import JobMaker, Units, arriving_units, resident_units
from omega.traces.google_tasks import ARRIVES, RUNS
from omega.traces.google_window import GoogleTables, first_machines, read_tables
from omega.traces.trace import Defects

KINDS = ("batch", "service")
COMMONEST, LARGEST = 180, 20
"""How many pairs of requests are kept because many tasks ask for them, or because they are hard to place."""
PROBABILITIES = (
    *(i / 100 for i in range(90)),
    *(0.9 + i / 400 for i in range(36)),
    *(0.99 + i / 2000 for i in range(18)),
    *(0.999 + i / 20000 for i in range(20)),
    1.0,
)


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table with numbers to six significant digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def write_quantiles(path: Path, values: NDArray[np.float64], probabilities: NDArray[np.float64]) -> None:
    """Write the distribution whose share `probabilities[i]` lies at or below `values[i]` (both ascending)."""
    grid = np.array(PROBABILITIES)
    found = np.searchsorted(probabilities, grid - 1e-12, side="left")
    rows = zip(PROBABILITIES, values[np.minimum(found, len(values) - 1)].tolist(), strict=True)
    write(path, ("probability", "value"), ((f"{p:.6g}", float(value)) for p, value in rows))


def empirical(values: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The empirical distribution of `values`."""
    return np.sort(np.array(values, dtype=float)), np.arange(1, len(values) + 1) / len(values)


def kaplan_meier(lengths: Sequence[float], ended: Sequence[bool]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distribution of durations of which some were only seen to be *at least* so long.

    What outlives every observed end is put at the longest time seen: a lower bound.
    """
    order = np.lexsort((~np.array(ended), np.array(lengths)))
    times, ends = np.array(lengths)[order], np.array(ended)[order]
    at_risk = np.arange(len(times), 0, -1)
    survives = np.cumprod(1 - ends / at_risk)
    return np.append(times[ends], times[-1]), np.append(1 - survives[ends], 1.0)


def units_by_kind(tables: GoogleTables) -> dict[str, tuple[Units, Units]]:
    """Jobs by kind: those there at the beginning, and those that arrive."""
    maker = JobMaker(tables.jobs, (1, 1), "priority", {})
    there = resident_units(tables.tasks, tables.tasks.state != ARRIVES)
    arriving = arriving_units(tables.tasks)
    arriving = arriving.only(arriving.number == 0)  # tasks a resident job got later are no job that arrives

    def of(units: Units, kind: str) -> Units:
        return units.only(np.array([each == kind for each in maker.kinds(units)], dtype=bool))

    return {kind: (of(there, kind), of(arriving, kind)) for kind in KINDS}


def write_arrivals(output: Path, kind: str, arriving: Units, window: float) -> None:
    """Write tasks per job, gaps between jobs and task durations of the jobs that arrive."""
    tasks = arriving.tasks
    sizes = np.diff(arriving.first, append=len(tasks.job))
    write_quantiles(output / f"{kind}_tasks_per_job.csv", *empirical(sizes.tolist()))
    # The gaps before the first and after the last arrival count: without them the few service jobs look denser.
    gaps = np.diff([0.0, *sorted((arriving.at / 1e6).tolist()), window])
    write_quantiles(output / f"{kind}_interarrival_seconds.csv", *empirical(gaps.tolist()))
    ran: Bools = (tasks.ran >= 0) | (tasks.seen > 0)
    ended = tasks.ran[ran] >= 0
    lengths = np.where(ended, tasks.ran[ran], tasks.seen[ran]) / 1e6
    write_quantiles(output / f"{kind}_task_seconds.csv", *kaplan_meier(lengths.tolist(), ended.tolist()))


def write_requests(output: Path, kind: str, jobs: Sequence[Units]) -> None:
    """Write the commonest and the largest pairs of requests; other tasks count for the nearest (in logarithms)."""
    counts = Counter[tuple[float, float]]()
    for units in jobs:
        cpu, memory = units.tasks.first_cpu, units.tasks.first_memory
        known = ~np.isnan(cpu) & ~np.isnan(memory)
        counts.update(zip(cpu[known].tolist(), memory[known].tolist(), strict=True))
    ranked = sorted(counts, key=lambda pair: (-counts[pair], pair))
    rest = sorted(ranked[COMMONEST:], key=lambda pair: (-max(pair), pair))
    kept, rest = ranked[:COMMONEST] + rest[:LARGEST], rest[LARGEST:]
    weights = [counts[pair] for pair in kept]
    places = np.log(np.array(kept) + 1e-4)
    for pair in rest:
        nearest = int(np.argmin(((places - np.log(np.array(pair) + 1e-4)) ** 2).sum(axis=1)))
        weights[nearest] += counts[pair]
    total = sum(weights)
    rows = ((*pair, weight / total) for pair, weight in zip(kept, weights, strict=True))
    write(output / f"{kind}_requests.csv", ("cpu", "memory", "weight"), rows)


def write_shares(output: Path, residents: dict[str, Units]) -> None:
    """Write the part of what running residents request at the beginning that service jobs request, by resource."""
    rows = []
    for name in ("cpu", "memory"):
        held = {
            kind: float(np.nansum(getattr(units.tasks, name)[units.tasks.state == RUNS]))
            for kind, units in residents.items()
        }
        total = sum(held.values())
        rows.append((name, held["service"] / total if total else 0.0))
    write(output / "resident_service_share.csv", ("resource", "share"), rows)


def write_machines(output: Path, directory: Path) -> None:
    """Write the capacity classes, the commonest first, platforms named by letters in that order."""
    counts = Counter((m.platform, m.cpu, m.memory) for m in first_machines(directory))
    ranked = sorted(counts, key=lambda machine: (-counts[machine], machine))
    letters: defaultdict[str, str] = defaultdict()
    for platform, _, _ in ranked:
        letters.setdefault(platform, "ABCDEFGHIJ"[len(letters)])
    rows = ((letters[key[0]], key[1], key[2], counts[key] / counts.total()) for key in ranked)
    write(output / "machines.csv", ("platform", "cpu", "memory", "share"), rows)


def main(directory: Path, output: Path) -> None:
    """Write every table. Raises BadInput when the trace cannot be read."""
    output.mkdir(parents=True, exist_ok=True)
    tables = read_tables(directory, TraceOptions(), Defects(RULES))
    window = (tables.window.end_us - tables.window.begin_us) / 1e6
    write_machines(output, directory)
    by_kind = units_by_kind(tables)
    write_shares(output, {kind: there for kind, (there, _) in by_kind.items()})
    for kind, (there, arriving) in by_kind.items():
        write_arrivals(output, kind, arriving, window)
        # Few service jobs arrive in hours; the residents' requests are as good a sample.
        jobs = (there, arriving) if kind == "service" else (arriving,)
        write_requests(output, kind, jobs)
        precedences = Counter(value for units in jobs for value in units.tasks.priority[units.first].tolist())
        shares = ((value, count / precedences.total()) for value, count in sorted(precedences.items()))
        write(output / f"{kind}_precedence.csv", ("precedence", "share"), shares)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the tables of omega/workload/tables on a Google-2011 trace.")
    parser.add_argument("directory", type=Path, help="has machine_events, job_events and task_events")
    parser.add_argument("output", type=Path, help="where the tables are written")
    arguments = parser.parse_args()
    main(arguments.directory, arguments.output)
