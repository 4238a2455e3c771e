"""Rules that hold for a cell at every version, each a function of the cell's state (invariants 1 to 4, 6).

The numbers are those of the invariants in ARCHITECTURE.md; 6 stands for derived data that is stored beside the records
for speed: the use of the jobs of a kind.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from omega.cellstate import ranges
from omega.cellstate.audit.reading import CellState, Held, placed_amounts
from omega.cellstate.audit.register import counts_of
from omega.cellstate.model import GroupStatus, JobState, MachineState


class Violation(NamedTuple):
    """A broken rule: the invariant's number, the wrong values, and where."""

    invariant: int
    what: str
    where: str


Rule = Callable[[CellState], Iterator[Violation]]

_OPEN = (JobState.ACTIVE, JobState.HELD)
_AWAY = (MachineState.DOWN, MachineState.GONE, MachineState.OFFLINE)


def machines_are_valid(cell_state: CellState) -> Iterator[Violation]:
    """1: amounts are not negative, the state and the executor exist, a machine that is away runs nothing.

    Tasks may still be leaving from a machine that was set down or removed; an offline machine has none.
    """
    for index, row in cell_state.rows.items():
        where = f"machine {index}"
        state, executor = row[2], row[3]
        if min(row[4:]) < 0:
            yield Violation(1, f"has a negative amount among {row[4:]}", where)
        if state not in tuple(MachineState):
            yield Violation(1, f"is in state {state}, which does not exist", where)
        elif state in _AWAY and (
            any(row[4 + cell_state.size :])
            or any(state == MachineState.OFFLINE or not run.leaving for run in cell_state.runs.get(index, ()))
        ):
            yield Violation(1, f"is {MachineState(state).name.lower()} and still holds tasks", where)
        if executor < 1:
            yield Violation(1, f"belongs to executor {executor}; their numbers start at 1", where)


def log_is_whole(cell_state: CellState) -> Iterator[Violation]:
    """3: every version since the oldest one in the log has its entry."""
    expected = cell_state.version - cell_state.first + 1
    if cell_state.length != expected:
        versions = f"{expected} versions from {cell_state.first} to {cell_state.version}"
        what = f"has {cell_state.length} entries for the {versions}"
        yield Violation(3, what, "log")


def amounts_follow_from_placements(cell_state: CellState) -> Iterator[Violation]:
    """1: the allocated amounts are the sum over the live placements, without leaving ones."""
    sums = {index: [0] * cell_state.size for index in cell_state.rows}
    for (job_id, group), tasks in cell_state.groups.items():
        job = cell_state.jobs.get(job_id)
        if job is None or group >= len(job.groups):
            continue  # reported by runs_are_in_job_records
        need = job.groups[group].need
        for run, _, size in tasks:
            amounts = sums.get(run.machine)
            if amounts is not None and not run.leaving:
                for d, each in enumerate(need):
                    amounts[d] += each * size
    for index, row in cell_state.rows.items():
        if row[4 + cell_state.size :] != sums[index]:
            what = f"allocated {row[4 + cell_state.size :]} is not the sum over its placements {sums[index]}"
            yield Violation(1, what, f"machine {index}")


def runs_are_in_job_records(cell_state: CellState) -> Iterator[Violation]:
    """2: machines and job records name the same runs, leaving ones too."""
    for job in cell_state.jobs.values():
        for group, status in enumerate(job.groups):
            recorded = sorted(status.runs)
            tasks = cell_state.groups.get((job.id, group), [])
            running = sorted((run.placement, run.machine, run.leaving) for run, _, _ in tasks)
            if recorded != running:
                lost = sorted((Counter(recorded) - Counter(running)).elements())
                extra = sorted((Counter(running) - Counter(recorded)).elements())
                what = f"(placement, machine, leaving) {lost} are in the job's record only, {extra} on machines only"
                yield Violation(2, what, f"job {job.id} group {group}")
    for (job_id, group), tasks in cell_state.groups.items():
        owner = cell_state.jobs.get(job_id)
        if owner is None or group >= len(owner.groups):
            machines = sorted({run.machine for run, _, _ in tasks})
            yield Violation(2, f"runs on machines {machines} and is not kept", f"job {job_id} group {group}")


def overlap(pieces: ranges.Spans) -> tuple[int, int] | None:
    """Return indices that (first, last) pairs have in common, from the first overlap."""
    pieces.sort()
    reach = -1
    for first, last in pieces:
        if first <= reach:
            return first, min(reach, last)
        reach = last
    return None


def union(pieces: ranges.Spans) -> ranges.Spans:
    """Return the (first, last) pairs of all indices in the pieces, ascending and disjoint."""
    joined: ranges.Spans = []
    for first, last in sorted(pieces):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def a_task_runs_once(cell_state: CellState) -> Iterator[Violation]:
    """2: a task has at most one live placement."""
    for (job_id, group), tasks in cell_state.groups.items():
        twice = overlap([span for run, spans, _ in tasks if not run.leaving for span in spans])
        if twice:
            what = f"tasks {ranges.spell([twice])} have more than one live placement"
            yield Violation(2, what, f"job {job_id} group {group}")


def placement_ids_are_unique(cell_state: CellState) -> Iterator[Violation]:
    """2: an id belongs to one run (and its leaving part), and none is above the cell's counter."""
    for placement, runs in cell_state.by_placement.items():
        if placement > cell_state.placements or placement < 1:
            what = f"its id was never given out; the last one is {cell_state.placements}"
            yield Violation(2, what, f"placement {placement}")
        if len(runs) == 1:
            continue
        owners = {(run.machine, run.job, run.group) for run in runs}
        if len(owners) > 1 or len({run.leaving for run in runs}) < len(runs):
            places = sorted((run.machine, run.job, run.group) for run in runs)
            yield Violation(2, f"names several runs, on (machine, job, group) {places}", f"placement {placement}")
        elif twice := overlap([span for run in runs for span in ranges.spans(run.tasks)]):
            what = f"tasks {ranges.spell([twice])} both run and leave"
            yield Violation(2, what, f"placement {placement}")


def counts_add_up(cell_state: CellState) -> Iterator[Violation]:
    """4: unplaced + placed + finished + failed + stopped = total, and the ranges have the same counts."""
    for job in cell_state.jobs.values():
        for group, status in enumerate(job.groups):
            live = [each for each in cell_state.groups.get((job.id, group), []) if not each.run.leaving]
            for what in _miscounts(status, live):
                yield Violation(4, what, f"job {job.id} group {group}")


def _miscounts(group: GroupStatus, live: list[Held]) -> Iterator[str]:
    counts = counts_of(group)
    if sum(counts) != group.total or min(counts) < 0:
        yield f"unplaced, placed, finished, failed, stopped {counts} do not make its total {group.total}"
    waiting = ranges.spans(group.waiting)
    waiting += [span for loss in group.losses if loss.due_ms for span in ranges.spans(loss.tasks)]
    number = ranges.count(group.waiting) + group.delayed
    if number != group.unplaced:
        yield f"{group.unplaced} tasks are unplaced and {number} wait ({group.waiting})"
    placed = sum(size for _, _, size in live)
    if placed != group.placed:
        yield f"{group.placed} tasks count as placed and {placed} are on machines"
    running = union([span for _, spans, _ in live for span in spans])
    if group.indices < group.total:
        yield f"has {group.total} tasks, and only {group.indices} indices were given out"
    if any(last >= group.indices for _, last in waiting + running):
        yield f"has tasks beyond its {group.indices}: {group.waiting} wait, {ranges.spell(running)} are placed"
    if twice := overlap(waiting + running):
        yield f"tasks {ranges.spell([twice])} wait twice, or wait and are placed"


def copies_follow_their_originals(cell_state: CellState) -> Iterator[Violation]:
    """2: a copy is of a task that runs, on another machine than that; no end counts in a group of copies."""
    for job in cell_state.jobs.values():
        for group, status in enumerate(job.groups):
            if status.copies:
                for what in _strange_copies(cell_state, job.id, group, status):
                    yield Violation(2, what, f"job {job.id} group {group}")


def _strange_copies(cell_state: CellState, job_id: str, group: int, status: GroupStatus) -> Iterator[str]:
    if status.total != status.unplaced + status.placed:
        yield f"has {status.total} copies, {status.unplaced} unplaced and {status.placed} placed"
    held = [each.run for each in cell_state.groups.get((job_id, group), []) if not each.run.leaving]
    originals = cell_state.groups.get((job_id, group - 1), [])
    running = {each.run.placement: each.run for each in originals if not each.run.leaving}
    copies = sorted(ranges.indices(status.waiting) + [task for run in held for task in ranges.indices(run.tasks)])
    listed = sorted((loss.tasks, loss.placement, loss.retried.machine) for loss in status.losses)
    if sorted(int(task) for task, _, _ in listed) != copies:
        yield f"has copies of {copies}, and lists originals of {[task for task, _, _ in listed]}"
    machines = {run.tasks: run.machine for run in held}
    for tasks, placement, machine in listed:
        run = running.get(placement)
        if run is None or run.machine != machine or ranges.split(run.tasks, tasks)[0] != tasks:
            yield f"has a copy of task {tasks} of placement {placement} on machine {machine}, which does not run it"
        if machines.get(tasks) == machine:
            yield f"has the copy of task {tasks} on machine {machine}, as its original"


def states_fit_counts(cell_state: CellState) -> Iterator[Violation]:
    """4: only an active or held job has unplaced tasks; once nothing is unplaced or placed it is neither."""
    for job in cell_state.jobs.values():
        placed = sum(group.placed for group in job.groups)
        if job.state in _OPEN and not (job.unplaced or placed):
            yield Violation(4, f"is {job.state.name.lower()} with nothing left to do", f"job {job.id}")
        elif job.state not in _OPEN and job.unplaced:
            what = f"is {job.state.name.lower()} with {job.unplaced} tasks unplaced"
            yield Violation(4, what, f"job {job.id}")
        elif job.state is JobState.DONE and placed:
            yield Violation(4, f"is done with {placed} tasks placed", f"job {job.id}")


def waits_are_mutual(cell_state: CellState) -> Iterator[Violation]:
    """4: a job is held exactly while a person holds it or it waits; the jobs that it waits for know of waiting jobs."""
    for job in cell_state.jobs.values():
        where = f"job {job.id}"
        if job.state in _OPEN and (job.state is JobState.HELD) != bool(job.held or job.gate or job.after):
            why = "a person" if job.held else job.gate or ", ".join(wait.job for wait in job.after) or "nobody"
            yield Violation(4, f"is {job.state.name.lower()} and held back by {why}", where)
        for wait in job.after if job.state is JobState.HELD else ():
            awaited = cell_state.jobs.get(wait.job)
            if awaited is None or not awaited.awaited:
                ended = awaited and not any(group.unplaced or group.placed for group in awaited.groups)
                how = "has ended" if ended else "does not know of it"
                yield Violation(4, f"waits for {wait.job}, which {how}", where)


def queues_hold_pending_jobs(cell_state: CellState) -> Iterator[Violation]:
    """4: a job is in its kind's queue exactly while something is unplaced and it is active or held."""
    for job in cell_state.jobs.values():
        kinds = cell_state.queues.get(job.id, [])
        expected = [job.kind] if job.pending else []
        if kinds != expected:
            what = f"is queued under {kinds or 'no kind'}, not under {expected or 'no kind'}"
            yield Violation(4, what, f"job {job.id}")
    for job_id, kinds in cell_state.queues.items():
        if kinds and job_id not in cell_state.jobs:
            yield Violation(4, f"is queued under {kinds} and is not kept", f"job {job_id}")


def names_lead_to_the_newest_jobs(cell_state: CellState) -> Iterator[Violation]:
    """4: a name leads to the newest job of that name, and so to the live one.

    It may lead nowhere when all jobs of that name ended: one with leaving tasks is kept longer than newer ones (2).
    """
    jobs = cell_state.jobs.values()
    newest = {job.name: job for job in sorted(jobs, key=lambda each: each.order)}
    live = {job.id for job in jobs if any(group.unplaced or group.placed for group in job.groups)}
    for job in jobs:
        holder, last = cell_state.names.get(job.name), newest[job.name]
        if job.id in live and last is not job:
            yield Violation(4, f"is live, and {last.id} is newer and has its name {job.name}", f"job {job.id}")
        if last is job and holder != job.id and (holder or job.id in live):
            what = f"is the newest with its name {job.name}, which leads to {holder or 'no job'}"
            yield Violation(4, what, f"job {job.id}")
    for name, holder in cell_state.names.items():
        if holder and name not in newest:
            yield Violation(4, f"leads to {holder}, no job of that name", f"job name {name}")


def kinds_follow_from_jobs(cell_state: CellState) -> Iterator[Violation]:
    """6: the use of a kind with limits is the sum over its jobs, its admitted jobs are those with a placed task (9)."""
    for kind, book in sorted(cell_state.kinds.items()):
        jobs = [job for job in cell_state.jobs.values() if job.kind == kind]
        booked, expected = [*book.used], placed_amounts(jobs, cell_state.size)
        if booked != expected:
            yield Violation(6, f"uses {booked} by its record and {expected} by its jobs", f"kind {kind}")
        admitted = sum(any(group.placed for group in job.groups) for job in jobs)
        if book.jobs != admitted:
            what = f"has {book.jobs} admitted jobs by its record and {admitted} by its jobs"
            yield Violation(6, what, f"kind {kind}")


RULES: tuple[Rule, ...] = (
    machines_are_valid, log_is_whole, amounts_follow_from_placements, runs_are_in_job_records, a_task_runs_once,
    copies_follow_their_originals, placement_ids_are_unique, counts_add_up, states_fit_counts, waits_are_mutual,
    queues_hold_pending_jobs, names_lead_to_the_newest_jobs, kinds_follow_from_jobs,
)  # a table # fmt: skip
