"""Results of tasks as records of a few bytes: state, reason, machine, start and end.

The tasks of a group are divided into chunks of `CHUNK`. A chunk is six lists of numbers (MessagePack), with a place for
each run of equal results: the number of tasks, their state, machine (its index), start (ms after that of the run
before; of the first run after the job's submission), length (ms; 0 while they run) and reason (of failed and stopped
tasks: its number in the job's history). Of tasks that were not placed all but the number is 0. A run has
at most 26 bytes beside the lists.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgpack

from omega.cellstate import ranges
from omega.cellstate.digest.hours import unpacked
from omega.cellstate.events import Fail, Outcome, TaskEvent

CHUNK = 256
"""Tasks of a chunk."""
MOST_CHUNKS = 4_096
"""Chunks of a job with results: its first million tasks of each group are within them, later ones have none."""
NONE, RUNNING, FINISHED, FAILED, STOPPED, EVICTED, LOST, RETRIED = range(8)
STATES = ("none", "running", "finished", "failed", "stopped", "evicted", "lost", "retried")


class TaskResult(NamedTuple):
    """The last placement of a task: machine by index; start and end in ms, the end 0 while it runs.

    `reason` is the number of the reason of a failed or retried task in the job's history, of a stopped one that of how
    its processes ended; else 0. A stopped task ends when they have.
    """

    state: int
    machine: int = 0
    times: tuple[int, int] = (0, 0)
    reason: int = 0


NOTHING = TaskResult(NONE)
_WITH_REASON = frozenset({FAILED, RETRIED, STOPPED})
_STATE_OF = {name: state for state, name in enumerate(STATES)} | {"fail": FAILED, "place": RUNNING, "left": STOPPED}


def pack_results(results: Sequence[TaskResult], base_ms: int) -> bytes:
    """Return the record of a chunk; `base_ms` is the submission of the job."""
    runs, before = list[tuple[int, ...]](), base_ms
    for result, run in groupby(results):
        state, machine, (start, end), reason = result
        count = sum(1 for _ in run)
        if state == NONE:
            runs.append((count, NONE, 0, 0, 0, 0))
            continue
        length = 0 if state == RUNNING else max(0, end - start)
        runs.append((count, state, machine, start - before, length, reason if state in _WITH_REASON else 0))
        before = start
    record: bytes = msgpack.packb([*zip(*runs, strict=True)] or [()] * 6)
    return record


def unpack_results(record: bytes, base_ms: int) -> list[TaskResult]:
    """Return the results of a chunk's tasks. Raises ValueError."""
    results: list[TaskResult] = []
    before = base_ms
    for run in zip(*unpacked(record, *(list,) * 6), strict=True):
        count, state, machine, delay, length, reason = run
        if not all(type(number) is int for number in run) or not 0 <= state < len(STATES):
            raise ValueError(f"{run} is not a run of results")
        if not 0 < count <= CHUNK - len(results) or min(machine, length, reason) < 0:
            raise ValueError(f"{run} is not a run within {CHUNK} tasks")
        before += delay
        times = (before, 0 if state == RUNNING else before + length)
        results += [NOTHING if state == NONE else TaskResult(state, machine, times, reason)] * count
    return results


class JobResults:
    """The results of the tasks of a job by group and chunk, as far as they were read; `changed` since then."""

    def __init__(self) -> None:
        """Begin without results."""
        self.chunks: dict[tuple[int, int], list[TaskResult]] = {}
        self.changed: set[tuple[int, int]] = set()

    def add(self, event: TaskEvent | Fail, at_ms: int, reason: int = 0) -> None:
        """Apply a fact about tasks that were placed or ended; `reason` of failed ones, as a number."""
        word, group, spans = event.word, event.group, ranges.spans(event.tasks)
        if isinstance(event, Outcome) and word == "promote":
            self._promote(group, spans[0][0], event.machine, at_ms=at_ms)
            return
        machine = -1 if isinstance(event, Fail) else event.machine
        state = _STATE_OF[event.how if isinstance(event, Outcome) else word]
        after = TaskResult(state, machine, (at_ms, 0 if state == RUNNING else at_ms), reason)
        for first, last in spans:
            for chunk in range(first // CHUNK, min(last // CHUNK, MOST_CHUNKS - 1) + 1):
                low, high = max(first - chunk * CHUNK, 0), min(last - chunk * CHUNK, CHUNK - 1) + 1
                results = self.chunks.setdefault((group, chunk), [])
                results += [NOTHING] * (high - len(results))
                for at in range(low, high):
                    if word == "left":
                        results[at] = _left(results[at], machine, at_ms, reason)
                    else:
                        results[at] = after if state == RUNNING else _ended(results[at], after)
                self.changed.add((group, chunk))

    def _promote(self, group: int, task: int, machine: int, *, at_ms: int) -> None:
        """Take over the result of a copy, from the group behind that of its task; without one begin a result.

        There a finished result with the same start remains: it tells under which group the output is.
        """
        chunk, at = divmod(task, CHUNK)
        if chunk >= MOST_CHUNKS:
            return
        results, copies = (self.chunks.setdefault((number, chunk), []) for number in (group, group + 1))
        for known in (results, copies):
            known.extend([NOTHING] * (at + 1 - len(known)))
        runs = copies[at] if copies[at].state == RUNNING else TaskResult(RUNNING, machine, (at_ms, 0))
        results[at], copies[at] = runs, runs._replace(state=FINISHED, times=(runs.times[0], at_ms))
        self.changed |= {(group, chunk), (group + 1, chunk)}


def _ended(before: TaskResult, after: TaskResult) -> TaskResult:
    """Return the result of a task that ended: with the time at which it was placed, if that is known."""
    if before.state == RUNNING:
        start, end = before.times[0], after.times[1]
        return after._replace(machine=before.machine, times=(start, max(start, end)))
    if before.state != NONE and after.machine in (-1, before.machine):
        return before._replace(state=after.state, reason=after.reason)  # lost or evicted, then failed; or reported late
    return after._replace(machine=max(0, after.machine))


def _left(before: TaskResult, machine: int, at_ms: int, reason: int) -> TaskResult:
    """Return the result of a task whose processes have ended: a stopped one, unless it was placed again since."""
    if before.state != STOPPED or before.machine != machine:
        return before
    start, end = before.times
    return before._replace(times=(start, max(end, at_ms)), reason=reason or before.reason)


def field_of(job_id: str, group: int, chunk: int) -> str:
    """Return the field of a chunk in the key ``results``."""
    return f"{job_id} {group} {chunk}"


def listed_chunks(record: bytes) -> dict[int, set[int]]:
    """Return the chunks of each group of a job, from its field in the key ``results``. Raises ValueError."""
    pieces = (piece.partition(":") for piece in record.decode().split(";") if piece)
    return {int(group): set(ranges.indices(chunks)) for group, _, chunks in pieces}
