"""How long a benchmark takes: the time that its settings state, and work that scales with the speed of this computer.

Work is given in units of a short loop, which is timed first: other load and a slower processor lengthen both alike.
The coefficients were measured on two cores of an Intel Xeon under load; docs and help promise a factor of two.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.computer import is_calm

Estimate = Callable[[Any, float, float], float]
"""Settings, seconds of a unit, and whether one waits for a calm computer (0 or 1); returns seconds."""


def unit() -> float:
    """Seconds of a unit of work: the median of five."""
    spans = []
    for _ in range(5):
        began, total = time.perf_counter(), 0
        for i in range(200_000):
            total += i * i % 7
        spans.append(5 * (time.perf_counter() - began))
    return sorted(spans)[2]


def commit(s: Any, work: float, busy: float) -> float:
    """Each configuration: rounds of four kinds, and its plan and cell."""
    each = 4 * s.rounds * s.seconds + busy * s.calm_seconds + 50 * work
    return float(len(s.clients) * len(s.sizes) * each + s.machines / 1_000 * work)


def conflict(s: Any, work: float, busy: float) -> float:
    """Each contest: a queue that is filled, and the seconds of the run."""
    contests = len(s.fullness) * len(s.gang) * len(s.batch) * len(s.service) * len(s.detection) * len(s.commit)
    each = s.seconds + busy * s.calm_seconds + (40 + 22 * s.seconds) * work
    return float(s.repeat * contests * each + s.machines / 1_000 * work)


def blocked(s: Any, work: float, busy: float) -> float:
    """The waking, and a pair of runs for each repetition."""
    each = s.seconds + busy * s.calm_seconds + (45 + 22 * s.seconds) * work
    return float(2 * s.repeat * each + (120 + s.sleepers / 100) * work)


def place(s: Any, work: float, busy: float) -> float:
    """Placement by the size of the cell, sync by the size, memory by the tasks."""
    parts = {
        "placement": 40 + sum(s.machines) / 300,
        "fair-shares": 70,
        "sync": sum(s.sync_machines) / 400,
        "memory": s.memory_tasks * len(s.per_job) / 3_000,
    }
    return float(busy * s.calm_seconds + sum(parts.get(part, 0) for part in s.parts) * work)


def intake(s: Any, work: float, _: float) -> float:
    """Two queues, and the requests for each."""
    return float(2 * (s.jobs / 650 + s.calls / 60) * work)


def lists(s: Any, work: float, _: float) -> float:
    """The cell, its jobs, and the questions."""
    return float((4 + s.machines / 600 + s.jobs / 300 + s.calls) * work)


def instructions(s: Any, work: float, _: float) -> float:
    """A server under valgrind, and the jobs of each form."""
    return float((15 + 0.2 * len(s.forms) * s.jobs) * work)


def recording(s: Any, work: float, _: float) -> float:
    """As the instructions, read once more by the recorder, and the jobs of the timed run."""
    return float((15 + 0.4 * len(s.forms) * s.jobs + s.timed / 200) * work)


def sim(s: Any, work: float, busy: float) -> float:
    """A day on 1,000 machines, one on 10,000, the rows to compare, a day for each seed, and 800,000 tasks of slots."""
    parts = {
        "speed": s.repeat * (320 if s.large else 60),
        "agreement": 115 * s.seeds,
        "slots": s.repeat * 800,
        "full": 200,
    }
    return float(busy * s.calm_seconds + sum(parts.get(part, 0) for part in s.parts) * work)


def fair(s: Any, work: float, busy: float) -> float:
    """Each run: the processes, the first pool, the time until the shares are reached, and the quiet time after it."""
    reached = 5.0 if s.preemption == "quick" else 35.0
    return float(s.repeat * (reached + 8.0 + busy * s.calm_seconds + 30 * work))


def questions(s: Any, work: float, _: float) -> float:
    """Each cell: it is filled, and each command is started several times; verification reads all of it."""
    from benchmarks.large_cells import SIZES  # it imports what starts a benchmark

    total = 0.0
    for size in (SIZES[name] for name in s.cells):
        held = size.running / 250
        verified = s.verify * (10 + held + size.pending / 3_000)
        total += (20 + held + size.pending / 1_400 + (s.times + 1) * (52 + verified)) * work
    return total


def latency(s: Any, work: float, busy: float) -> float:
    """The processes, and each submission; an estimate that was not calibrated."""
    return float(busy * s.calm_seconds + (30 + s.submissions + s.machines / 1_000) * work)


def tasks(s: Any, work: float, busy: float) -> float:
    """The processes, each task, and the time of the sleeping ones."""
    each = 2 * s.small / 150 + s.whole / 80 + (s.foreign + s.sleeping) / 100
    return float(busy * s.calm_seconds + 2 * s.sleep_seconds + 25 + each * work)


def durability(s: Any, work: float, _: float) -> float:
    """The servers of five settings, and calls of two kinds in each round."""
    return float((20 + 10 * (s.rounds + 1) * s.calls / 35) * work)


def shards(s: Any, work: float, _: float) -> float:
    """The servers and schedulers of all stores, and the commits of each round; an estimate that was not calibrated."""
    cells = 1 + sum(s.shards)
    return float((40 + 10 * cells + cells * s.schedulers * (s.rounds + 1) * s.calls * s.per_call / 400) * work)


def web(s: Any, work: float, _: float) -> float:
    """The cell, its first readings, the changes before each measured one, and the pages; not calibrated."""
    return float((30 + (s.machines + s.jobs) / 900 + s.rounds * s.changes / 250 + 3 * s.calls + s.requests) * work)


def web_pages(s: Any, work: float, _: float) -> float:
    """The cell, four and a half spans of changes, and the pages; not calibrated."""
    return float(4.5 * s.seconds + (30 + (s.machines + s.jobs) / 900 + s.pages / 10) * work)


def web_submissions(s: Any, work: float, _: float) -> float:
    """The server, and two spans of submissions; not calibrated."""
    return float(2 * s.seconds + 30 * work)


def heat_map(s: Any, work: float, _: float) -> float:
    """Chromium, the cells, and the loads of their pages; not calibrated."""
    return float((30 + sum(s.machines) / 600 + len(s.machines) * s.times * 10) * work)


def what_if(s: Any, work: float, _: float) -> float:
    """Each run of the cells of the chosen pairs, and its processes; not calibrated."""
    pairs = len(s.pairs) or 10
    runs = pairs * (s.part != "live") + 2 * pairs * s.times * (s.part != "answers")
    return float(runs * (s.seconds + 3 * work))


def everything(s: Any, work: float, busy: float) -> float:
    """The sum of its parts."""
    return sum(BY_MODULE[module](settings, work, busy) for _, module, settings in s.parts())


BY_MODULE: dict[str, Estimate] = {
    "commit": commit,
    "conflict": conflict,
    "blocked": blocked,
    "place": place,
    "intake": intake,
    "lists": lists,
    "instructions": instructions,
    "recording": recording,
    "sim": sim,
    "fair": fair,
    "questions": questions,
    "latency": latency,
    "tasks": tasks,
    "durability": durability,
    "shards": shards,
    "web": web,
    "web_pages": web_pages,
    "web_submissions": web_submissions,
    "heat_map": heat_map,
    "what_if": what_if,
    "everything": everything,
}


def estimate(module: str, settings: Any) -> float | None:
    """Return the seconds that a benchmark takes with these settings here and now; None for one without an estimate."""
    found = BY_MODULE.get(module)
    return None if found is None else found(settings, unit(), 0.0 if is_calm() else 1.0)
