"""Jobs of Facebook's MapReduce clusters as the SWIM repository publishes them: tab-separated lines.

Columns: name, submission (seconds), gap (seconds), bytes of the input, of the shuffle and of the output, and in the
form of 2010 the paths of input and output. The files hold no tasks: numbers of maps are drawn from table 1 of the paper
on delay scheduling (Zaharia et al., EuroSys 2010), whose cluster this is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.model import After, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import shown
from omega.traces import csv_blocks
from omega.traces.names import Names
from omega.traces.text_rows import RowError, first_lines, lines, refuse
from omega.traces.trace import Defects, Trace, TraceOptions
from omega.workload.workload import Arrival, Workload, array_stream, stream

COLUMNS = 6
"""Columns that every file has; the path of the input follows."""
MACHINES = 600
"""Machines of the cluster in 2009."""
SLOTS, RACK = 6, 40
"""Tasks that a machine runs at a time (4 maps and 2 reduces there); machines per rack: a guess."""
REPLICAS = 3
NEED = (1_000, 2_048)
BINS = (
    (1, 1, 39, 0), (2, 2, 16, 0), (3, 20, 14, 3), (21, 60, 9, 0), (61, 150, 6, 0), (151, 300, 6, 50), (301, 500, 4, 0),
    (501, 1_500, 4, 180), (1_501, 4_800, 3, 360),
)  # a table # fmt: skip
"""Least and most maps of a job, jobs of 100, and reduces of the mixed workload. The last bin is open; its jobs in the
paper's benchmark have 4,800 maps."""
MAP_SECONDS, REDUCE_SECONDS = (12.0, 26.0), (150.0, 312.0)
"""Ranges around the medians of Facebook's maps (19 s) and reduces (231 s)."""
OUT_OF_ORDER, TWICE, EXTRA = "out-of-order", "name-twice", "extra-columns"
RULES = {
    **csv_blocks.RULES,
    OUT_OF_ORDER: "rows submitted earlier than the row before them: sorted by submission",
    TWICE: "rows with a name that an earlier row has: another job",
    EXTRA: "rows with more than 8 columns: the others are ignored",
}


@dataclass(frozen=True, slots=True)
class SwimJob:
    """A job: submission in seconds, bytes of its input, and the path of it, ``""`` where the file names none."""

    name: str
    at: float
    input_bytes: int
    path: str = ""
    shuffle_bytes: int = 0


def read_swim(path: Path, defects: Defects | None = None, *, skip: bool = False) -> list[SwimJob]:
    """Return the jobs of a file, in order of submission. Raises BadInput with file and row."""
    counted = defects or Defects(RULES)
    jobs = []
    for number, text in lines(path, counted, skip=skip):
        if text.strip():
            place = f"{path}:{number}"
            try:
                jobs.append(_job(place, text.split("\t"), counted))
            except RowError as error:
                refuse(place, error, counted, skip=skip)
    counted.add(OUT_OF_ORDER, sum(jobs[at].at < jobs[at - 1].at for at in range(1, len(jobs))))
    return sorted(jobs, key=lambda job: job.at)


def _job(place: str, columns: Sequence[str], defects: Defects) -> SwimJob:
    if len(columns) < COLUMNS:
        raise RowError(f"{len(columns)} columns; want name, submission, gap and three sizes, with tabs between them")
    if len(columns) > COLUMNS + 2 and any(text.strip() for text in columns[COLUMNS + 2 :]):
        defects.add(EXTRA, 1, [place])
    at, size, shuffle = (_number(columns[column]) for column in (1, 3, 4))
    path = columns[COLUMNS].strip() if len(columns) > COLUMNS else ""
    return SwimJob(columns[0].strip(), at, int(size), path, int(shuffle))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RowError(f"{shown(text)} is not a number") from None
    if not isfinite(value) or value < 0 or value > 1e18:
        raise RowError(f"{shown(text)} is not a number from 0 on")
    return value


def drawn_maps(jobs: Sequence[SwimJob], seed: int) -> list[tuple[int, int]]:
    """Return maps and reduces of each job: its bin by the place of its input among all, the number drawn in the bin."""
    total, passed, bins = sum(share for _, _, share, _ in BINS), 0, list[int]()
    for number, (_, _, share, _) in enumerate(BINS):
        passed += share
        bins += [number] * (round(len(jobs) * passed / total) - len(bins))
    order = sorted(range(len(jobs)), key=lambda at: (jobs[at].input_bytes, at))
    rng, found = stream(seed, "swim/maps"), [(1, 0)] * len(jobs)
    for at, number in zip(order, bins, strict=True):
        least, most, _, reduces = BINS[number]
        found[at] = (rng.randint(least, most), reduces if jobs[at].shuffle_bytes else 0)
    return found


class SwimReader:
    """Reads tab-separated files of the SWIM repository."""

    name = "swim"
    title = "SWIM, Facebook's MapReduce jobs (.tsv, .tsv.gz)"
    rules = RULES

    def recognises(self, path: Path) -> bool:
        """Return whether it is a file with that name, or one whose first row has a name and five numbers."""
        if not path.is_file():
            return False
        if path.name.lower().removesuffix(".gz").endswith(".tsv"):
            return True
        rows = first_lines(path, 1)
        columns = rows[0].split("\t") if rows else []
        try:
            return len(columns) >= COLUMNS and all(isfinite(float(text)) for text in columns[1:COLUMNS])
        except ValueError:
            return False

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read a file. Raises BadInput with file and row."""
        defects = Defects(RULES)
        jobs = read_swim(path, defects, skip=options.skip_bad_rows)
        if not jobs:
            raise BadInput(
                f"{path}: no row of a job; want name, submission, gap and three sizes, with tabs between them"
            )
        counts = drawn_maps(jobs, options.seed)
        count = options.machines or MACHINES
        machines = [
            MachineSpec(f"m{at}", (SLOTS * NEED[0], SLOTS * NEED[1]), {"rack": f"r{at // RACK}"}) for at in range(count)
        ]
        begin, tasks, kept = jobs[0].at, 0, 0
        while kept < len(jobs):
            if options.seconds is not None and jobs[kept].at - begin > options.seconds:
                break
            if options.tasks is not None and tasks >= options.tasks:
                break
            tasks += sum(counts[kept])
            kept += 1
        arrivals = _arrivals(jobs[:kept], counts, len(machines), options.seed, defects)
        facts = _facts(jobs, counts, len(machines), guessed=options.machines is None)
        about = (
            f"{path.name}: {kept:,} jobs with {sum(each.job.total for each in arrivals):,} tasks; maps drawn from the"
            f" published bins (seed {options.seed})\n{len(machines):,} machines of {SLOTS} tasks"
        )
        seconds = jobs[kept - 1].at - begin if kept else 0.0
        workload = Workload(machines, [], arrivals, about)
        return Trace(SwimReader.name, workload, defects.found(), facts, seconds, _guessed(facts))


def _arrivals(
    jobs: Sequence[SwimJob], counts: Sequence[tuple[int, int]], machines: int, seed: int, defects: Defects
) -> list[Arrival]:
    """Return the maps of each job as a job, and its reduces as another one after it."""
    draws, blocks, names = array_stream(seed, "swim/seconds"), _Blocks(machines, seed), Names()
    column = np.empty(sum(map(sum, counts[: len(jobs)])), dtype=np.int64)
    used, arrivals = 0, []
    for job, (maps, reduces) in zip(jobs, counts, strict=False):
        name, again = names.unique(job.name)
        defects.add(TWICE, int(again))
        locality = blocks.locality(job.path, maps)
        for suffix, count, (least, most) in (("", maps, MAP_SECONDS), ("-reduce", reduces, REDUCE_SECONDS)):
            if not count:
                continue
            lasting = column[used : used + count]
            lasting[:] = np.rint(1e6 * (least + (most - least) * draws.random(count)))
            used += count
            group = TaskGroup(NEED, count, round(500 * (least + most)), {} if suffix else locality)
            after = (After(name),) if suffix else ()
            made = JobSpec(f"{name}{suffix}", f"swim/{name}{suffix}", "batch", (group,), after=after)
            arrivals.append(Arrival(job.at - jobs[0].at, made, (lasting,)))
    return arrivals


class _Blocks:
    """Draws the machines of blocks, three replicas each; jobs with one path read the same blocks."""

    def __init__(self, machines: int, seed: int) -> None:
        self._machines, self._rng = machines, array_stream(seed, "swim/blocks")
        self._files: dict[str, list[tuple[int, ...]]] = {}
        self._most = machines // (2 * REPLICAS)
        """Blocks that are on at most half of the machines."""

    def locality(self, path: str, maps: int) -> dict[str, Any]:
        """Return the field of the machines with a job's blocks; none for a job whose blocks are on most machines."""
        if maps > self._most:
            return {}
        file = self._files.setdefault(path, []) if path else []
        while len(file) < maps:
            file.append(self._drawn())
        distinct = sorted({machine for block in file[:maps] for machine in block})
        return {"locality": {"machines": [f"m{at}" for at in distinct]}}

    def _drawn(self) -> tuple[int, ...]:
        return tuple(self._rng.choice(self._machines, REPLICAS, replace=False).tolist())


def _facts(
    jobs: Sequence[SwimJob], counts: Sequence[tuple[int, int]], machines: int, *, guessed: bool
) -> dict[str, Any]:
    paths = Counter(job.path for job in jobs if job.path)
    maps = np.array([count for count, _ in counts])
    return {
        "rows": len(jobs),
        "machines": machines,
        "machines_guessed": guessed,
        "input_bytes": sum(job.input_bytes for job in jobs),
        "paths": len(paths),
        "jobs_on_shared_paths": sum(count for count in paths.values() if count > 1),
        "hottest_path": max(paths.values(), default=0),
        "maps_drawn": {f"p{part}": float(np.percentile(maps, part)) for part in (50, 90, 99, 100)},
    }


def _guessed(facts: dict[str, Any]) -> tuple[str, ...]:
    machines = f"{facts['machines']:,} machines of {SLOTS} tasks, {RACK} per rack"
    return (
        f"{machines}: those of the cluster in 2009" if facts["machines_guessed"] else machines,
        "numbers of maps and reduces: drawn from the published bins, larger inputs in later bins",
        f"maps run for {MAP_SECONDS[0]:g} to {MAP_SECONDS[1]:g} s",
        f"reduces run for {REDUCE_SECONDS[0]:g} to {REDUCE_SECONDS[1]:g} s, after the last map",
        "three random machines have each block; jobs with one input path read the same blocks",
    )
