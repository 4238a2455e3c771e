"""Results of tasks as records of a few bytes: state, reason, machine, start and end.

The tasks of a group are divided into chunks of `CHUNK`. A chunk has a run for each sequence of equal results:

    head      varint    (tasks − 1) × 8 + state
    machine   varint    its index; this and the following only of tasks that were placed
    start     varint    ms after the start of the run before, of the first run after the job's submission; zigzag
    length    varint    ms, of tasks that do not run
    reason    varint    of failed and stopped tasks: the number of the reason in the job's history

A run of one task has at most 16 bytes on up to 2,097,152 machines, if it ran for less than a year.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from omega.cellstate import ranges
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
    out, before = bytearray(), base_ms
    for result, run in groupby(results):
        state, machine, (start, end), reason = result
        _varint(out, (sum(1 for _ in run) - 1) * 8 + state)
        if state == NONE:
            continue
        _varint(out, machine)
        _varint(out, 2 * (start - before) if start >= before else 2 * (before - start) - 1)
        before = start
        if state != RUNNING:
            _varint(out, max(0, end - start))
        if state in _WITH_REASON:
            _varint(out, reason)
    return bytes(out)


def unpack_results(record: bytes, base_ms: int) -> list[TaskResult]:
    """Return the results of a chunk's tasks. Raises ValueError."""
    results: list[TaskResult] = []
    numbers, before = _varints(record), base_ms
    for head in numbers:
        count, state = divmod(head, 8)
        if len(results) + count >= CHUNK:
            raise ValueError(f"{head} is not the head of a run within {CHUNK} tasks")
        if state == NONE:
            results += [NOTHING] * (count + 1)
            continue
        machine, code = _next(numbers), _next(numbers)
        before += code // 2 if code % 2 == 0 else -(code // 2) - 1
        end = 0 if state == RUNNING else before + _next(numbers)
        reason = _next(numbers) if state in _WITH_REASON else 0
        results += [TaskResult(state, machine, (before, end), reason)] * (count + 1)
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


def _varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _varints(record: bytes) -> Iterator[int]:
    number, shift = 0, 0
    for byte in record:
        number |= (byte & 127) << shift
        if byte < 128:
            yield number
            number, shift = 0, 0
        else:
            shift += 7
    if shift:
        raise ValueError("it ends in the middle of a number")


def _next(numbers: Iterator[int]) -> int:
    number = next(numbers, None)
    if number is None:
        raise ValueError("it ends in the middle of a run")
    return number


def field_of(job_id: str, group: int, chunk: int) -> str:
    """Return the field of a chunk in the key ``results``."""
    return f"{job_id} {group} {chunk}"


def listed_chunks(record: bytes) -> dict[int, set[int]]:
    """Return the chunks of each group of a job, from its field in the key ``results``. Raises ValueError."""
    pieces = (piece.partition(":") for piece in record.decode().split(";") if piece)
    return {int(group): set(ranges.indices(chunks)) for group, _, chunks in pieces}
