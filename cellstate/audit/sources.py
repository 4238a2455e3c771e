"""Values that have a second source, each compared with it: a record, the log, or the server's clock.

Each function names what a value is derived from. Messages, answers and times of housekeeping are written once and read
by other processes: a wrong one misleads them, and no count shows it.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from omega.cellstate import ranges
from omega.cellstate.audit.accounts import PlacementBook, canonical
from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import CommitFacts
from omega.cellstate.audit.replay import Replay
from omega.cellstate.audit.rules import Violation
from omega.cellstate.health import DOWN_DUE
from omega.cellstate.inspection import Inspection, Mail
from omega.cellstate.logged_settings import terms_of
from omega.cellstate.model import Job, JobState
from omega.cellstate.transaction import CONFLICTS, Verdict

Source = Callable[[Inspection, CellState, Replay], Iterator[Violation]]

LONGEST_MS, LONGEST_RETRY_MS = 300_000, 3_600_000
"""Maximum delay of a lost task, and of one that failed and is retried (semantics 26)."""
LONGEST_GRANT_MS = 86_400_000
"""Maximum time of a grant, if the health commands of its job do not take longer."""


def attributes_follow_from_log(inspection: Inspection, _: CellState, replay: Replay) -> Iterator[Violation]:
    """6: a machine's attributes are those that the entry of its last change has beside its facts."""
    for index, entry in replay.register.machines.items():
        now = dict(inspection.described.get(index, ("", ()))[1])
        if entry.attributes is not None and entry.attributes != now:
            what = f"has the attributes {now}, after its last fact {dict(entry.attributes)}"
            yield Violation(6, what, f"machine {index}")


def indices_follow_from_log(_: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: a job's groups gave out as many indices as tasks were submitted and added since."""
    for job in cell_state.jobs.values():
        entry = replay.register.jobs.get(job.id)
        given = sum(group.indices for group in job.groups if not group.copies)
        told = 0 if entry is None else entry.indices + sum(entry.grown.values())
        if entry is not None and entry.submitted is not None and given != told:
            yield Violation(4, f"has given out {given} indices, by the log {told}", f"job {job.id}")


def terms_follow_from_log(_: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """4: a gang is one as submitted; duration, budget and the kind of each group are as submitted, or as updated."""
    for job in cell_state.jobs.values():
        entry = replay.register.jobs.get(job.id)
        if entry is None or entry.terms is None:
            continue
        gang, terms = (int(job.gang), job.gang_min), tuple(map(terms_of, job.groups))
        if gang != entry.gang:
            what = f"its gang is {gang} (form, minimum), by the log {entry.gang}"
            yield Violation(4, what, f"job {job.id}")
        if terms != entry.terms:
            what = f"its groups have {terms} (duration, budget, optional), by the log {entry.terms}"
            yield Violation(4, what, f"job {job.id}")


# Housekeeping


def due_of(job: Job) -> float | None:
    """Return when housekeeping is to act on a job, by its record: 0 is at once, None: it may be left alone."""
    placed = any(group.placed for group in job.groups)
    ended = job.state not in (JobState.ACTIVE, JobState.HELD) and not placed and not job.unplaced
    if (job.state is JobState.STOPPED and placed) or (job.awaited and ended):
        return 0
    due = [loss.due_ms for group in job.groups for loss in group.losses if loss.due_ms]
    return (max if job.whole else min)(due) if due else None


def chores_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Replay) -> Iterator[Violation]:
    """4: housekeeping acts on a job when its record says so: stopped, awaited and ended, or with delayed tasks."""
    for job in cell_state.jobs.values():
        due, listed = due_of(job), inspection.chores.get(job.id)
        if due is not None and listed != due:
            what = f"housekeeping acts on it {_time(listed)}, by its record {_time(due)}"
            yield Violation(4, what, f"job {job.id}")
        elif due is None and listed is not None and listed > inspection.now_ms:
            what = f"housekeeping acts on it {_time(listed)}, and its record gives no reason"
            yield Violation(4, what, f"job {job.id}")
        retried = any(loss.retried.failures for group in job.groups for loss in group.losses)
        longest = LONGEST_RETRY_MS if retried else LONGEST_MS
        latest = max((loss.due_ms for group in job.groups for loss in group.losses), default=0)
        if latest > inspection.now_ms + longest:
            what = f"has lost tasks that are delayed until {latest} ms, at {inspection.now_ms} ms by the server's clock"
            yield Violation(4, what, f"job {job.id}")
    for job_id in inspection.chores.keys() - cell_state.jobs.keys():
        yield Violation(4, "is housekeeping's to act on, and is not kept", f"job {job_id}")


def _time(ms: float | None) -> str:
    return "at no time" if ms is None else "at once" if not ms else f"at {ms:.15g} ms"


# Messages


def messages_follow_from_placements(
    inspection: Inspection, cell_state: CellState, replay: Replay
) -> Iterator[Violation]:
    """6: a message starts the tasks of its placement for as long as their group says, or ends some of them."""
    for executor, mails in inspection.mailboxes.items():
        for mail in mails:
            for what in _unlike_placement(mail, cell_state, replay.placements.get(mail.placement)):
                yield Violation(6, f"has a message about placement {mail.placement} {what}", f"box:{executor}")
        starts = Counter(mail.placement for mail in mails if mail.job)
        for placement, count in starts.items():
            if count > 1:
                yield Violation(6, f"has {count} messages that start placement {placement}", f"box:{executor}")


def _unlike_placement(mail: Mail, cell_state: CellState, book: PlacementBook | None) -> Iterator[str]:
    runs = [run for run in cell_state.by_placement.get(mail.placement, ()) if run.machine == mail.machine]
    known = book.placed if book is not None else None
    tasks = canonical(mail.tasks)
    if known is None:
        running = canonical(",".join(run.tasks for run in runs)) if runs else ranges.EMPTY
        if mail.job and ranges.split(running, tasks)[1] != ranges.EMPTY:
            yield f"of tasks {mail.tasks}, and tasks {running} are on its machine"
    elif mail.job and tasks != canonical(known):
        yield f"of tasks {mail.tasks}, by the log {known}"
    elif ranges.split(canonical(known), tasks)[0] != tasks:
        yield f"that ends tasks {mail.tasks}, by the log {known} were placed"
    job = cell_state.jobs.get(mail.job) if any(run.job == mail.job for run in runs) else None
    for group in job.groups[int(mail.group) :][:1] if job is not None else ():
        if mail.duration_ms != group.duration_ms:
            yield f"of tasks that take {mail.duration_ms} ms, their group says {group.duration_ms} ms"


# Answers


def answers_follow_from_log(inspection: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """6: a scheduler's stored answer has the outcomes that the log has of the version with the answer's tag."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    versions = {change.tag: change.version for change in inspection.changes}
    oldest = max(min(versions.values(), default=cell_state.version + 1), replay.start)
    for member, (tag, outcomes) in inspection.answers.items():
        said, version = replay.register.commits.get(member), versions.get(tag, 0)
        if said is None or max(said.version, version) < oldest:
            continue
        if version < said.version:
            what = f"its last call is that of tag {tag!r}, and it committed in version {said.version}"
            yield Violation(6, what, f"schedulers {member}")
            continue
        if version > said.version:
            said = CommitFacts(version)
        if what := _unlike_facts(outcomes, said):
            yield Violation(6, f"its last answer {outcomes!r} {what} (version {version})", f"schedulers {member}")


def _unlike_facts(outcomes: str, said: CommitFacts) -> str:
    """Return how the outcomes of a call contradict its facts, "" when they do not."""
    parts = [part for part in outcomes.split(";") if part not in ("+", "")]
    pairs = [[tuple(map(int, pair.split(" "))) for pair in part.split(",")] for part in parts]
    verdicts, rejected = Counter[Verdict](), 0
    for placed, verdict in (pair for part in pairs for pair in part):
        del placed
        if verdict in CONFLICTS or verdict == Verdict.ABORTED:
            verdicts[Verdict(verdict)] += 1
        elif verdict != Verdict.PLACED:
            rejected += 1
    if (verdicts, rejected) != (said.verdicts, said.rejected):
        return "has other refusals than the log"
    whole = [part for part in outcomes.split(";") if part == "+"]
    placed = sum(placed for part in pairs for placed, _ in part)
    if placed > said.tasks or (placed < said.tasks and not whole):
        return f"has {placed} tasks placed, by the log {said.tasks}"
    if len(whole) + sum(any(placed for placed, _ in part) for part in pairs) != said.blocks:
        return f"has another number of transactions that placed tasks than the log, which has {said.blocks}"
    return ""


# Health, updates


def health_is_of_placements(inspection: Inspection, cell_state: CellState, _: Replay) -> Iterator[Violation]:
    """6: what is kept of a task's health names its placement, once; grants end, as its checks do."""
    for job_id, tasks in inspection.health.items():
        where, job = f"health {job_id}", cell_state.jobs.get(job_id)
        if len({(placement, task) for _, placement, task, _ in tasks}) < len(tasks):
            yield Violation(6, "has a task twice", where)
        longest = LONGEST_GRANT_MS if job is None else _longest_grant(job)
        for machine, placement, task, until in tasks:
            runs = cell_state.by_placement.get(placement, ())
            there = 0 < placement <= cell_state.placements and machine in cell_state.rows
            if not there or any((run.machine, run.job) != (machine, job_id) for run in runs):
                what = f"has task {task} of placement {placement} on machine {machine}, which is not there"
                yield Violation(6, what, where)
            elif runs and job is not None and all(task >= job.groups[run.group].indices for run in runs):
                yield Violation(6, f"has task {task} of placement {placement}, which has no such task", where)
            if until > DOWN_DUE and until > inspection.now_ms + longest:
                what = (
                    f"grants the end of task {task} until {until} ms, at {inspection.now_ms} ms by the server's clock"
                )
                yield Violation(6, what, where)


def _longest_grant(job: Job) -> int:
    checks = [each["health"] for each in job.spec.get("groups", ()) if each.get("health")]
    words = ("grace", "interval", "timeout", "failures")
    return LONGEST_GRANT_MS + max(
        (grace + failures * (interval + timeout)
         for grace, interval, timeout, failures in ([each.get(word, 0) for word in words] for each in checks)),
        default=0,
    )  # fmt: skip


def updates_follow_from_log(inspection: Inspection, cell_state: CellState, replay: Replay) -> Iterator[Violation]:
    """6: the update of a job that is no longer kept began, by the log, and did not end."""
    for job_id in inspection.updates.keys() - cell_state.jobs.keys():
        entry = replay.register.jobs.get(job_id)
        began = not replay.complete if entry is None else entry.update != ""
        if not began:
            yield Violation(6, "is updated, by the log no job of that id is", f"job {job_id}")


SOURCES: tuple[Source, ...] = (
    attributes_follow_from_log, terms_follow_from_log, indices_follow_from_log, chores_follow_from_jobs,
    messages_follow_from_placements, answers_follow_from_log, health_is_of_placements, updates_follow_from_log,
)  # a table # fmt: skip
