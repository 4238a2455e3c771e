"""Comparison of the replayed log with the cell (invariants 1 to 5), each rule a function.

A book has a record's expected values after the last fact; a cell state at the same version has its actual values.
"""

from collections.abc import Callable, Iterator

from omega.cellstate import ranges
from omega.cellstate.audit.accounts import JobBook, canonical, counts_of, exceeds
from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.replay import Replay
from omega.cellstate.invariants import Violation
from omega.cellstate.model import Gang, Job

Comparison = Callable[[CellState, Replay], Iterator[Violation]]


def numbers_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """3: a machine's number is the one of its last fact, and no machine is without a fact."""
    for index, row in cell_state.rows.items():
        book = replay.machines.get(index)
        if book is None:
            if replay.complete:
                yield Violation(3, "never joined by the log", f"machine {index}")
        elif book.number is not None and book.number != row[1]:
            yield Violation(3, f"its number is {row[1]}, after its last fact it was {book.number}", f"machine {index}")
    for index in replay.machines.keys() - cell_state.rows.keys():
        yield Violation(3, "is in the log and not in the cell", f"machine {index}")


def records_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: a machine's amounts, capacity and state are those of its last facts."""
    for index, book in replay.machines.items():
        row = cell_state.rows.get(index)
        if row is None:
            continue
        capacity, amounts = cell_state.amounts(row)
        for word, known, now in (
            ("allocated", book.amounts, amounts),
            ("capacity", book.capacity, capacity),
            ("state", book.state, row[2]),
        ):
            if known is not None and known != now:
                yield Violation(1, f"its {word} is {now}, after its last fact it was {known}", f"machine {index}")


def needs_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: a task takes what the facts of its placements say."""
    stated = ((job_id, *each) for job_id, needs in replay.needs.known.items() for each in needs.items())
    for job_id, number, need in stated:
        job, group = cell_state.jobs.get(job_id), int(number)
        if job and group < len(job.groups) and job.groups[group].need != need:
            what = f"takes {list(job.groups[group].need)} a task, by the log {[int(amount) for amount in need]}"
            yield Violation(1, what, f"job {job_id} group {group}")


def nothing_is_over(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """1: no machine has more allocated than its capacity, unless it came back smaller and took nothing since."""
    for index, row in cell_state.rows.items():
        capacity, amounts = cell_state.amounts(row)
        book = replay.machines.get(index)
        if exceeds(amounts, capacity):
            # It may have come back smaller before the remaining log begins.
            trimmed = not replay.complete and (book is None or book.capacity is None)
            if not trimmed and (book is None or book.over is False):
                what = f"{list(amounts)} allocated of {list(capacity)}, and it did not come back smaller"
                yield Violation(1, what, f"machine {index}")
        if book is not None and book.peak is not None and exceeds(book.peak, capacity):
            what = f"placements left {list(book.peak)} allocated of {list(capacity)}"
            yield Violation(1, what, f"machine {index}")


def placements_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: running and leaving tasks are exactly those placed less those ended."""
    for placement, book in replay.placements.items():
        runs = cell_state.by_placement.get(placement, ())
        where = f"placement {placement}"
        if any((str(run.machine), run.job, str(run.group)) != book.owner for run in runs):
            yield Violation(5, f"is not on the machine, job and group {book.owner} of the log", where)
        live = [run.tasks for run in runs if not run.leaving]
        if book.tasks is None:
            for tasks in live:
                back = ranges.split(canonical(tasks), book.gone)[0]
                if back != ranges.EMPTY:
                    yield Violation(5, f"tasks {back} ended and run again under this id", where)
            continue
        leaving = [run.tasks for run in runs if run.leaving]
        for word, known, tasks_now in (("run", book.tasks, live), ("leave", book.leaving, leaving)):
            now = tasks_now[0] if tasks_now else ranges.EMPTY
            if now != known and canonical(now) != canonical(known):
                yield Violation(5, f"tasks {now} {word}, by the log {known}", where)
    first = replay.first_placement
    for placement in cell_state.by_placement.keys() - replay.placements.keys():
        if first is not None and placement >= first:
            yield Violation(5, "is on a machine and not in the log, or ended there", f"placement {placement}")
    if replay.last_placement is not None and replay.last_placement != cell_state.placements:
        what = f"the last id given out is {cell_state.placements}, in the log {replay.last_placement}"
        yield Violation(5, what, "placements")


def counts_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: the counts of a job submitted within the log follow from its facts."""
    for job_id, book in replay.jobs.items():
        if not book.known:
            continue
        expected = counts_of(book)
        job = cell_state.jobs.get(job_id)
        if job is None:
            if book.unplaced or book.placed:
                what = f"is not kept, with {book.unplaced} tasks unplaced and {book.placed} placed"
                yield Violation(4, what, f"job {job_id}")
            continue
        now = tuple(map(sum, zip(*map(counts_of, job.groups), strict=True)))
        if now != expected:
            what = f"unplaced, placed, finished, failed, stopped are {now}, by the log {expected}"
            yield Violation(4, what, f"job {job_id}")
        if book.precedence != job.precedence:
            yield Violation(4, f"its precedence is {job.precedence}, submitted {book.precedence}", f"job {job_id}")


def gangs_commit_whole(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """2: a gang's transaction leaves nothing unplaced; one evicted member of a strict gang takes all with it.

    One of a gang with a minimum leaves as many placed; evictions leave as many of a strict one, or none.
    """
    for job_id, book in replay.jobs.items():
        job = cell_state.jobs.get(job_id)
        if job is None or job.gang is Gang.NO:
            continue
        optional = any(group.optional for group in job.groups)
        left = 0 if optional or job.gang_min else _left_unplaced(job, book)
        if left:
            yield Violation(2, f"a transaction placed some of its tasks and left {left} unplaced", f"gang {job_id}")
        few, least = book.fewest, job.gang_min
        if book.known and not optional and few is not None and few < least:
            yield Violation(2, f"a transaction left {few} of its tasks placed, of at least {least}", f"gang {job_id}")
        torn = [placed for placed in book.torn if placed and (not least or placed < least)]
        if book.known and torn and job.gang is Gang.STRICT:
            what = f"a transaction evicted some of its tasks and left {max(torn)} placed"
            yield Violation(2, what, f"gang {job_id}")


def _left_unplaced(job: Job, book: JobBook) -> int:
    if book.least is None or book.most is None:
        return 0
    # Without its submission the facts only give changes of the count; the current count is its end.
    start = 0 if book.known else job.unplaced - book.unplaced
    return max(book.most + start, -(book.least + start))


def victims_are_lower(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: victims of jobs submitted before the log, or ended before, have strictly lower precedence by their records."""

    def precedence(job_id: str) -> int | None:
        book, job = replay.jobs.get(job_id), cell_state.jobs.get(job_id)
        if book is not None and book.known:
            return book.precedence
        return None if job is None else job.precedence

    for version, placement, victim, evictor, group in replay.undecided:
        low, high, job = precedence(victim), precedence(evictor), cell_state.jobs.get(victim)
        if group is not None and (job is None or (job.groups[group : group + 1] and job.groups[group].optional)):
            low = None if job is None else 0
        if low is not None and high is not None and low >= high:
            what = f"precedence {low} of job {victim} gave way to {high} of {evictor} (version {version})"
            yield Violation(5, what, f"placement {placement}")


def delays_follow_from_log(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: the delayed tasks of a live job that was submitted in the log are those of its facts."""
    for job_id in replay.losses.known & cell_state.jobs.keys():
        for number, group in enumerate(cell_state.jobs[job_id].groups):
            expected = replay.losses.delayed.get((job_id, str(number)), ranges.EMPTY)
            now = ranges.EMPTY
            for loss in group.losses:
                if loss.due_ms:
                    now = ranges.add(now, loss.tasks)
            if expected is not None and now != expected:
                yield Violation(4, f"tasks {now} of group {number} are delayed, by the log {expected}", f"job {job_id}")


def sets_were_legal_when_decided(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """5: evictions between pools were legal on what their scheduler saw."""
    known = {name: job for name, job in cell_state.jobs.items() if name not in cell_state.bare}
    for what, where in replay.decisions.check(known):
        yield Violation(5, what, where)


def constraints_hold(cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """7: tasks are placed on machines that satisfy the constraints of their group."""
    for what, where in replay.constraints.check(cell_state.jobs, cell_state.described):
        yield Violation(7, what, where)


COMPARISONS: tuple[Comparison, ...] = (
    numbers_follow_from_log, records_follow_from_log, needs_follow_from_log, nothing_is_over,
    placements_follow_from_log, counts_follow_from_log, gangs_commit_whole, victims_are_lower, delays_follow_from_log,
    sets_were_legal_when_decided, constraints_hold,
)  # a table # fmt: skip
