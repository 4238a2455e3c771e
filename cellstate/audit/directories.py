"""The directories of a cell against its machines and jobs, and against its log (invariant 6 of the audit).

A directory is read slightly before the cell state, so a contradiction in a busy cell may be a change in between:
`report` reports only contradictions that several readings show at the same place.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from omega.cellstate.audit.lanes import lanes_follow_from_jobs
from omega.cellstate.audit.outliving import OUTLIVING
from omega.cellstate.audit.pool_invariants import (
    epoch_follows_from_log,
    machines_are_in_their_trees,
    pools_follow_from_jobs_and_log,
)
from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import ChangedMachine, JobFacts, Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.audit.sums import sums_follow_from_records, waiters_follow_from_jobs
from omega.cellstate.inspection import Inspection, Mail
from omega.cellstate.model import MOST_PRECEDENCE, RUNS_CHUNK, Job, JobState, Limits, MachineState, Run, runs_commands

Directory = Callable[[Inspection, CellState, Register], Iterator[Violation]]

_ALWAYS = {"schema", "resources", "version", "floor", "keep_jobs", "keep_ms"}
"""Fields of ``meta`` that a cell has from its creation."""
PROVEN_MS = 600_000
"""Time after which a placement resets the number of losses (semantics 26)."""
_ENDED = (JobState.STOPPED, JobState.ABANDONED, JobState.DONE)


def records_are_readable(inspection: Inspection, _: CellState, __: Register) -> Iterator[Violation]:
    """6: every key is one of a cell and has its type, every record has the form that its reader expects."""
    for key, name, what in inspection.damaged:
        yield Violation(6, what, f"{key} {name}".rstrip())


def machines_are_listed(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: names and indices of machines match, from 0 on; runs are on existing machines."""
    names = {index: name for index, (name, _) in inspection.described.items()}
    for index in sorted(cell_state.rows.keys() | names.keys() | inspection.run_records):
        where = f"machine {index}"
        if index not in cell_state.rows:
            yield Violation(6, "has a name or runs and no record", where)
        if index not in names or inspection.machine_names.get(names[index]) != index:
            yield Violation(6, f"its name {names.get(index)!r} does not lead to it", where)
    for name, index in inspection.machine_names.items():
        if names.get(index) != name:
            what = f"leads to machine {index}, which is called {names.get(index)!r}"
            yield Violation(6, what, f"machine name {name}")
    for index in sorted(inspection.drains):
        state = cell_state.rows[index][2] if index in cell_state.rows else None
        if state != MachineState.DRAINED:
            now = "does not exist" if state is None else f"is {MachineState(state).name.lower()}"
            yield Violation(6, f"is to be emptied and {now}", f"machine {index}")
    if register.complete:
        for index in cell_state.rows.keys() - {i for i, entry in register.machines.items() if entry.name is not None}:
            yield Violation(6, "is in the cell, and no fact says that it joined", f"machine {index}")
    for index, entry in register.machines.items():
        name, _ = inspection.described.get(index, ("", ()))
        if entry.name is not None and entry.name != name:
            yield Violation(6, f"is called {name!r} and joined as {entry.name!r}", f"machine {index}")


def machines_are_as_operators_set_them(
    inspection: Inspection, cell_state: CellState, __: Register
) -> Iterator[Violation]:
    """6: what operators set of a machine is that of one in the cell, and the machine has it."""
    for index, settings in sorted(inspection.settings.items()):
        row = cell_state.rows.get(index)
        if row is None or row[2] == MachineState.GONE:
            yield Violation(6, "has settings of operators and is not in the cell", f"machine {index}")
            continue
        capacity, (_, attributes) = tuple(row[4 : 4 + len(settings.amounts)]), inspection.described.get(index, ("", ()))
        if settings.applied(capacity, dict(attributes)) != (capacity, dict(attributes)):
            yield Violation(6, "differs from what operators set of it", f"machine {index}")


def chunks_hold_runs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: runs outside their job's record are in the chunk of their last task, and nowhere else."""
    expected: dict[str, set[tuple[int, int]]] = {}
    for (job, group), tasks in cell_state.groups.items():
        for run, spans, _size in tasks:
            chunk = spans[-1][1] // RUNS_CHUNK
            if chunk:
                field = f"{job} {group} {'!' if run.leaving else ''}{chunk}"
                expected.setdefault(field, set()).add((run.placement, run.machine))
    for field in sorted(expected.keys() | inspection.placed.keys()):
        listed, there = inspection.placed.get(field, set()), expected.get(field, set())
        if listed != there:
            only, lost = sorted(listed - there), sorted(there - listed)
            what = f"(placement, machine) {only} are listed only, {lost} on machines only"
            yield Violation(6, what, f"placed {field}")


def executors_are_numbered(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: executors are numbered from 1 on; a machine has the executor that brought it; a mailbox has an owner."""
    numbers = set(inspection.executors.values())
    for index, row in cell_state.rows.items():
        entry = register.machines.get(index)
        brought = entry.executor if entry else None
        if row[3] not in numbers or (brought is not None and inspection.executors.get(brought) != row[3]):
            what = f"belongs to executor {row[3]}, and {brought or 'an executor of a number'} brought it"
            yield Violation(6, what, f"machine {index}")
    for number, name in inspection.serving.items():
        if inspection.executors.get(name) != number or name not in inspection.members:
            yield Violation(6, f"says that {name} lives, which has another number or no record", f"serving {number}")
    for name in inspection.members.keys() & inspection.executors.keys():
        if inspection.executors[name] not in inspection.serving:
            yield Violation(6, "is on record, and does not count as living", f"agents {name}")
    for executor, messages in inspection.mailboxes.items():
        strange = [tuple(message) for message in messages if not _exists(message, cell_state)]
        if executor not in numbers or strange:
            what = f"has messages that no placement has, as {Mail._fields}: {strange}"
            yield Violation(6, what, f"box:{executor}")


def _exists(message: Mail, cell_state: CellState) -> bool:
    placement, machine, _, job, group, _ = message
    runs = [(run.machine, run.job, _groups(run, cell_state)) for run in cell_state.by_placement.get(placement, [])]
    there = machine in cell_state.rows and 0 < placement <= cell_state.placements
    return there and all(machine == at and job in ("", name) and group in ("", *groups) for at, name, groups in runs)


def _groups(run: Run, cell_state: CellState) -> Iterator[str]:
    """Yield the groups that a run may have been placed in: one of copies, if it was promoted since."""
    groups = cell_state.jobs[run.job].groups if run.job in cell_state.jobs else ()
    yield from (str(run.group), *(str(run.group + 1) for each in groups[run.group + 1 :][:1] if each.copies))


def jobs_follow_from_log(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """4: name, kind, number, time and modify index of a job are those of its facts, so is how it ended."""
    orders = Counter(job.order for job in cell_state.jobs.values())
    for job in cell_state.jobs.values():
        where = f"job {job.id}"
        if orders[job.order] > 1:
            yield Violation(6, f"is number {job.order}, and so is another", where)
        entry = register.jobs.get(job.id)
        if entry is not None:
            for what in _unlike(job, entry):
                yield Violation(4, what, where)
            if entry.submitted is not None and job.state is JobState.HELD:
                waits = {wait.job for wait in job.after}
                if waits != entry.awaits:
                    yield Violation(4, f"waits for {sorted(waits)}, by the log for {sorted(entry.awaits)}", where)
            if entry.submitted is not None:
                for what in _strange_links(job, entry):
                    yield Violation(4, what, where)
            totals = {group: job.groups[group].total for group in entry.totals if group < len(job.groups)}
            if totals != entry.totals:
                yield Violation(4, f"its groups have totals {totals}, by the log {entry.totals}", where)
            if any(group < len(job.groups) and not job.groups[group].optional for group in entry.optional):
                yield Violation(4, f"has tasks dropped of groups {sorted(entry.optional)}, not all optional", where)
            known = inspection.updates.get(job.id, "")
            if entry.update is not None and entry.update != known:
                yield Violation(6, f"its update is {known!r}, by the log {entry.update!r}", where)


def _strange_links(job: Job, entry: JobFacts) -> Iterator[str]:
    if strange := {wait.job for wait in job.after} - entry.waits_ever:
        yield f"waits for {sorted(strange)}, which the log does not have"
    if job.awaited and not entry.awaited:
        yield "is awaited, by the log by no job"


def _unlike(job: Job, entry: JobFacts) -> Iterator[str]:
    if entry.submitted is not None:
        name, kind, _, at_ms = entry.submitted
        if (job.name, job.kind, job.submitted_ms) != (name, kind, at_ms):
            what = (job.name, job.kind, job.submitted_ms)
            yield f"is {what}, and was submitted as {(name, kind, at_ms)} (name, kind, time)"
        if job.submitter != entry.submitter:
            yield f"was submitted by {job.submitter!r}, by the log by {entry.submitter!r}"
    if entry.order is not None and entry.order != job.order:
        yield f"is number {job.order}, and was submitted as number {entry.order}"
    if entry.surely and job.modified not in entry.modified:
        yield f"its modify index is {job.modified}, and people changed it in versions {sorted(entry.modified)}"
    if entry.held and entry.submitted is not None and job.state in (JobState.ACTIVE, JobState.HELD) and not job.held:
        yield "was held by a person and is not held"
    if entry.held is False and job.held:
        yield "is held, and was released by a person"
    if entry.gate is not None and job.gate != entry.gate:
        yield f"its gate holds it for {job.gate!r}, by the log for {entry.gate!r}"
    if entry.released is not None and job.released != entry.released:
        yield f"a person has {'' if job.released else 'not '}released it from its gate, by the log otherwise"
    if entry.submitted is not None and job.begun != entry.begun:
        yield f"{'has' if job.begun else 'has not'} begun, by the log it {'has' if entry.begun else 'has not'}"
    left = any(group.unplaced or group.placed for group in job.groups)
    if entry.submitted is not None and entry.ended is None and not left:
        yield f"is {job.state.name.lower()} with nothing left, and no fact says that it is done"
    if entry.ended is not None and not left and job.state != entry.ended[0]:
        yield f"is {job.state.name.lower()}, and ended as {JobState(entry.ended[0]).name.lower()}"


def finished_jobs_are_listed(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: a job is in the list of finished jobs exactly when it has no unplaced and no placed tasks."""
    listed = Counter(job_id for job_id, _ in inspection.done)
    for job in cell_state.jobs.values():
        ended = job.state in _ENDED and not any(group.unplaced or group.placed for group in job.groups)
        if listed[job.id] != ended:
            what = f"is {listed[job.id]} times in the list of finished jobs, and is {job.state.name.lower()}"
            yield Violation(6, what, f"job {job.id}")
    for job_id, version in inspection.done:
        entry = register.jobs.get(job_id)
        if job_id not in cell_state.jobs:
            yield Violation(6, "is in the list of finished jobs and is not kept", f"job {job_id}")
        elif entry is not None and entry.ended is not None and entry.ended[1] != version:
            what = f"ended in version {version} by the list, in {entry.ended[1]} by the log"
            yield Violation(6, what, f"job {job_id}")


def specifications_belong_to_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: a specification belongs to a stored job and describes at most its number of task groups."""
    for job_id, groups in inspection.specs.items():
        job = cell_state.jobs.get(job_id)
        if job is None:
            yield Violation(6, "has a specification and is not kept", f"job {job_id}")
        elif groups > len(job.groups):
            yield Violation(6, f"has {len(job.groups)} task groups, its specification {groups}", f"job {job_id}")
    for job in cell_state.jobs.values():
        if job.commands != runs_commands(job.spec):
            said = "runs commands" if job.commands else "runs no commands"
            yield Violation(6, f"{said} by its record, and not by its specification", f"job {job.id}")
    for job_id in inspection.updates:
        if job_id in cell_state.jobs and job_id not in inspection.specs:
            yield Violation(6, "is updated and has no specification", f"job {job_id}")


def losses_are_counted(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """4: losses and retried failures are as many as the log has since the last placement that ran long enough.

    A group of copies has no losses: its entries name the originals.
    """
    proven = max((last for at, last in inspection.ticks if at <= inspection.now_ms - PROVEN_MS), default=0)
    for job_id in register.losses.known & cell_state.jobs.keys():
        for number, group in enumerate(cell_state.jobs[job_id].groups):
            losses = () if group.copies else group.losses
            for what in register.losses.miscounted(job_id, str(number), losses, proven):
                yield Violation(4, what, f"job {job_id}")


def queues_are_in_order(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """4: an arrival is given out once, and rises with the versions in which jobs arrived."""
    arrivals = Counter(entry.arrival for entry in inspection.queued)
    last, earliest = inspection.counters["arrivals"], 0
    if inspection.version != cell_state.version:
        last = 2**53
    for entry in sorted(inspection.queued, key=lambda entry: entry.arrival):
        where = f"job {entry.job}"
        if arrivals[entry.arrival] > 1 or not 0 < entry.arrival <= last:
            yield Violation(4, f"its arrival {entry.arrival:.0f} is another's too, or was never given out", where)
        book, job = register.jobs.get(entry.job), cell_state.jobs.get(entry.job)
        if job is not None and (entry.kind != job.kind or not job.pending):
            yield Violation(4, f"is queued under {entry.kind} and is {job.state.name.lower()} of {job.kind}", where)
        if book is not None and book.submitted is not None and book.arrived[1] <= inspection.version:
            if book.arrived[1] < earliest:
                yield Violation(4, f"its arrival {entry.arrival:.0f} is after that of jobs that came later", where)
            earliest = max(earliest, book.arrived[0])


def members_follow_from_log(inspection: Inspection, _: CellState, register: Register) -> Iterator[Violation]:
    """6: schedulers and agents are on record under their last incarnation, a lease is one of a member.

    A member that registers again between the two readings of each look (a busy computer, short leases) is no
    violation: the place has the incarnation, so that another look confirms only the same one.
    """
    for name, known in register.members.items():
        now = inspection.members.get(name)
        if now != known:
            yield Violation(6, f"is on record as incarnation {now}, by the log {known}", f"member {name} ({now})")
    for name, incarnation in inspection.members.items():
        if register.complete and name not in register.members:
            yield Violation(6, "is on record, and no fact says that it joined", f"member {name}")
        if incarnation > inspection.counters["incarnations"]:
            yield Violation(6, f"its incarnation {incarnation} was never given out", f"member {name}")
    for name, incarnation in inspection.leases.items():
        if inspection.members.get(name) != incarnation:
            what = f"is of incarnation {incarnation}, on record is {inspection.members.get(name)}"
            yield Violation(6, what, f"lease:{name}")


def limits_follow_from_log(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: the limits of a kind are those set last; only kinds with limits have a record, and they are counted."""
    if inspection.version == cell_state.version and inspection.counters["limits"] != len(cell_state.kinds):
        what = f"is {inspection.counters['limits']}, of {len(cell_state.kinds)} kinds"
        yield Violation(6, what, "meta limits")
    without = Limits((None,) * cell_state.size)
    for kind, words in register.limits.items():
        book = cell_state.kinds.get(kind)
        known = book.limits if book else without
        if known != _limits(words):
            yield Violation(6, f"its limits are {known}, by the log {_limits(words)}", f"kind {kind}")
    for kind, book in cell_state.kinds.items():
        if book.limits == without:
            yield Violation(6, "has a record without limits", f"kind {kind}")
        if register.complete and kind not in register.limits:
            yield Violation(6, f"its limits are {book.limits}, and nobody set any", f"kind {kind}")


def _limits(words: tuple[str, ...]) -> Limits:
    jobs, low, high, *amounts = (None if word == "-" else int(word) for word in words)
    return Limits(tuple(amounts), jobs, (low or 0, MOST_PRECEDENCE if high is None else high))


def changes_follow_from_log(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """3: an entry of the change list has the machines that the facts of its version changed, as they were then."""
    tags = Counter(change.tag for change in inspection.changes)
    facts = dict(register.touched)
    executors = {number: name for name, number in inspection.executors.items()}
    for version, tag, rows, _ in inspection.changes:
        where = f"changes {version}"
        if tags[tag] > 1:
            yield Violation(3, f"has the tag {tag} of another version", where)
        if version not in facts:
            continue
        listed = {row[0]: row for row in rows.tolist()}
        if listed.keys() != facts[version].keys():
            what = f"has the machines {sorted(listed)}, the facts of its version name {sorted(facts[version])}"
            yield Violation(3, what, where)
            continue
        for index, known in facts[version].items():
            _, number, state, executor, *_ = row = listed[index]
            now = ChangedMachine(number, state, executors.get(executor), *cell_state.amounts(row))
            if any(fact is not None and fact != value for fact, value in zip(known, now, strict=True)):
                yield Violation(3, f"machine {index} is {tuple(now)}, by the facts {tuple(known)}", where)


def counters_are_reached(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: numbers are assigned in order; a counter is at least the last one, and equal to it if the log is complete."""
    for name in _ALWAYS - inspection.meta:
        yield Violation(6, "is missing", f"meta {name}")
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    for where, numbers in (
        ("names", sorted(inspection.machine_names.values())),
        ("executors", [(number - 1) // 2 for number in sorted(inspection.executors.values())]),
    ):
        if numbers != list(range(len(numbers))):
            yield Violation(6, f"leaves out a number, or has one twice: {numbers}", where)
    counters = inspection.counters
    restored = counters["floor"] > 0  # counters of a restored cell are set ahead
    for name, least, exact in (
        ("jobs", max((job.order for job in cell_state.jobs.values()), default=0), register.submissions),
        ("incarnations", max(register.incarnation, *inspection.members.values(), 0), register.incarnation),
        ("transactions", max((row[1] for row in cell_state.rows.values()), default=0), None),
    ):
        now = counters[name]
        wrong = now < least or (exact is not None and register.complete and not restored and now != exact)
        if wrong:
            yield Violation(6, f"is {now}, and {max(least, exact or 0)} were given out", f"meta {name}")


def facts_agree(_: Inspection, __: CellState, register: Register) -> Iterator[Violation]:
    """3: a fact is of a known word and length, is there once, and follows from those before it."""
    for version, what in register.wrong:
        yield Violation(3, what, f"log {version}")


def others_agree(inspection: Inspection, _: CellState, __: Register) -> Iterator[Violation]:
    """6: the shards of a job add up, and the list that trims the tasks' output names existing fields."""
    for job_id, what in inspection.shards.items():
        if what:
            yield Violation(6, what, f"shards:{job_id}")
    kept, listed = inspection.outputs
    for name in sorted(kept ^ set(listed)) + sorted(name for name, n in Counter(listed).items() if n > 1):
        yield Violation(6, "is kept and not listed once for trimming, or listed and not kept", f"output {name}")


DIRECTORIES: tuple[Directory, ...] = (
    records_are_readable, machines_are_listed, machines_are_as_operators_set_them,
    chunks_hold_runs, executors_are_numbered, jobs_follow_from_log,
    finished_jobs_are_listed, specifications_belong_to_jobs, waiters_follow_from_jobs,
    losses_are_counted, queues_are_in_order, members_follow_from_log, limits_follow_from_log, lanes_follow_from_jobs,
    pools_follow_from_jobs_and_log,
    machines_are_in_their_trees, epoch_follows_from_log, changes_follow_from_log, counters_are_reached, facts_agree,
    others_agree, *OUTLIVING, sums_follow_from_records,
)  # a table # fmt: skip
