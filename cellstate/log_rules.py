"""The records of a cell against the books that its log folds into (`fold`): what the facts say, the records have.

Most of it is values under a name: `_said` has those of a book, None where the remaining log does not say, `_has` those
of a record. The numbers are those of the invariants in ARCHITECTURE.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.constraints import All, Compare, Either, Expression, Has, Not, OneOf, Value, number_of
from omega.cellstate.errors import BadInput
from omega.cellstate.events import Limit
from omega.cellstate.fold import Books, ChangedMachine, CommitBook, JobBook, PlacedClaim, canonical, exceeds
from omega.cellstate.invariants import Violation
from omega.cellstate.logged_settings import terms_of
from omega.cellstate.model import MACHINE, MOST_PRECEDENCE, Gang, Job, JobState, Limits
from omega.cellstate.pools.records import digest, unpack_pool
from omega.cellstate.primary import Mail, Primary
from omega.cellstate.tasks import TaskLoss
from omega.cellstate.transaction import CONFLICTS, Verdict

Values = Mapping[str, Any]
LogRule = Callable[[Primary, Books], Iterator[Violation]]
PROVEN_MS = 600_000
"""Time after which a placement resets the number of losses (semantics 26)."""
COUNTS = ("unplaced", "placed", "finished", "failed", "stopped")
_OPEN = (JobState.ACTIVE, JobState.HELD)


def _differ(where: str, numbers: Mapping[str, int], said: Values, has: Values) -> Iterator[Violation]:
    """Compare what the log says of a thing with its record; `numbers`: the invariants, of others 4."""
    for name, known in said.items():
        if known is not None and known != has[name]:
            verb = "are" if name.endswith("s") else "is"
            what = f"its {name} {verb} {_text(has[name])}, by the log {_text(known)}"
            yield Violation(numbers.get(name, 4), what, where)


def _text(value: Any) -> str:
    return value.name.lower() if isinstance(value, IntEnum) else repr(value)


# Machines

_OF_MACHINES = {
    "number": 3,
    "state": 1,
    "capacity": 1,
    "allocated": 1,
    "name": 6,
    "executor": 6,
    "attributes": 6,
    "tree": 6,
}


def machines_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """1, 3, 6: a machine is as its last facts leave it, and none is without facts."""
    executors = {number: name for name, number in p.executors.items()}
    for index in p.rows.keys() - books.machines.keys() if books.complete else ():
        yield Violation(3, "never joined by the log", f"machine {index}")
    for index, book in books.machines.items():
        where, row = f"machine {index}", p.rows.get(index)
        if row is None:
            yield Violation(3, "is in the log and not in the cell", where)
            continue
        if book.name is None and books.complete:
            yield Violation(6, "is in the cell, and no fact says that it joined", where)
        (capacity, allocated), (name, pairs) = p.amounts(row), p.described.get(index, ("", ()))
        said: Values = {
            "number": book.number, "state": book.state, "capacity": book.capacity, "allocated": book.amounts,
            "name": book.name, "attributes": None if book.attributes is None else dict(book.attributes),
            "executor": book.executor if p.executors else None, "tree": book.tree if index in p.trees else None,
        }  # fmt: skip
        number = p.trees.get(index)
        has: Values = {
            "number": row[1], "state": row[2], "capacity": capacity, "allocated": allocated, "name": name,
            "attributes": dict(pairs), "executor": executors.get(row[3]),
            "tree": "-" if number is None else str(number),
        }  # fmt: skip
        yield from _differ(where, _OF_MACHINES, said, has)


def nothing_is_over(p: Primary, books: Books) -> Iterator[Violation]:
    """1: no machine has more allocated than its capacity, unless it came back smaller and took nothing since."""
    for index, row in p.rows.items():
        (capacity, amounts), book = p.amounts(row), books.machines.get(index)
        if exceeds(amounts, capacity):
            # It may have come back smaller before the remaining log begins.
            trimmed = not books.complete and (book is None or book.capacity is None)
            if not trimmed and (book is None or book.over is False):
                what = f"{list(amounts)} allocated of {list(capacity)}, and it did not come back smaller"
                yield Violation(1, what, f"machine {index}")
        if book is not None and book.peak is not None and exceeds(book.peak, capacity):
            what = f"placements left {list(book.peak)} allocated of {list(capacity)}"
            yield Violation(1, what, f"machine {index}")


def changes_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """3: an entry of the change list has the machines that the facts of its version changed, as they were then."""
    facts, executors = dict(books.touched), {number: name for name, number in p.executors.items()}
    for version, _, rows, _ in p.changes:
        where, said = f"changes {version}", facts.get(version)
        listed = {row[0]: row for row in rows.tolist()}
        if said is not None and listed.keys() != said.keys():
            what = f"has the machines {sorted(listed)}, the facts of its version name {sorted(said)}"
            yield Violation(3, what, where)
            continue
        for index, known in (said or {}).items():
            _, number, state, executor, *_ = row = listed[index]
            now = ChangedMachine(number, state, executors.get(executor), *p.amounts(row))
            if any(fact is not None and fact != value for fact, value in zip(known, now, strict=True)):
                yield Violation(3, f"machine {index} is {tuple(now)}, by the facts {tuple(known)}", where)


# Placements


def placements_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """5: running and leaving tasks are exactly those placed less those ended."""
    for placement, book in books.placements.items():
        runs, where = p.runs.at(placement), f"placement {placement}"
        if any((run.machine, run.job, run.group) != book.owner for run in runs):
            yield Violation(5, f"is not on the machine, job and group {book.owner} of the log", where)
        live, leaving = ([run.tasks for run in runs if run.leaving == leaves] for leaves in (False, True))
        if book.tasks is None:
            for tasks in live:
                back = ranges.split(canonical(tasks), book.gone)[0]
                if back != ranges.EMPTY:
                    yield Violation(5, f"tasks {back} ended and run again under this id", where)
            continue
        for word, known, now in (("run", book.tasks, live), ("leave", book.leaving, leaving)):
            text = now[0] if now else ranges.EMPTY
            if text != known and canonical(text) != canonical(known):
                yield Violation(5, f"tasks {text} {word}, by the log {known}", where)
    first = books.first_placement
    for placement in set(p.runs.placement.tolist()) - books.placements.keys() if first is not None else ():
        if placement >= (first or 0):
            yield Violation(5, "is on a machine and not in the log, or ended there", f"placement {placement}")
    if books.last_placement not in (None, p.placements):
        what = f"the last id given out is {p.placements}, in the log {books.last_placement}"
        yield Violation(5, what, "placements")


def messages_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: a message starts the tasks of its placement, or ends some of them."""
    for executor, mails in p.mailboxes.items():
        for mail in mails:
            for what in _unlike_placement(p, books, mail):
                yield Violation(6, f"has a message about placement {mail.placement} {what}", f"box:{executor}")


def _unlike_placement(p: Primary, books: Books, mail: Mail) -> Iterator[str]:
    book, tasks = books.placements.get(mail.placement), canonical(mail.tasks)
    known = None if book is None else book.placed
    if known is None:
        runs = [run.tasks for run in p.runs.at(mail.placement) if run.machine == mail.machine]
        running = canonical(",".join(runs)) if runs else ranges.EMPTY
        if mail.job and ranges.split(running, tasks)[1] != ranges.EMPTY:
            yield f"of tasks {mail.tasks}, and tasks {running} are on its machine"
    elif mail.job and tasks != canonical(known):
        yield f"of tasks {mail.tasks}, by the log {known}"
    elif ranges.split(canonical(known), tasks)[0] != tasks:
        yield f"that ends tasks {mail.tasks}, by the log {known} were placed"


# Jobs

_OF_JOBS = {"need": 1, "update": 6, "end": 6}


def jobs_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """1, 4, 6: a job is as its facts leave it; one that is not kept has nothing left, and no update."""
    ends = dict(p.done)
    for job_id, book in books.jobs.items():
        where, job = f"job {job_id}", p.jobs.get(job_id)
        if job is not None:
            yield from _differ(where, _OF_JOBS, _said_of(book, job), _had_by(job, p.updates.get(job_id, "")))
            for number, group in book.groups.items():
                if number < len(job.groups) and group.need not in (None, job.groups[number].need):
                    what = f"takes {[*job.groups[number].need]} a task, by the log {[*map(int, group.need or ())]}"
                    yield Violation(1, what, f"{where} group {number}")
            for what in _unlike(job, book):
                yield Violation(4, what, where)
            if book.ended is not None and ends.get(job_id, book.ended[1]) != book.ended[1]:
                what = f"ended in version {ends[job_id]} by the list, in {book.ended[1]} by the log"
                yield Violation(6, what, where)
        elif book.submitted and (book.counts["unplaced"] or book.counts["placed"]):
            what = f"is not kept, with {book.counts['unplaced']} tasks unplaced and {book.counts['placed']} placed"
            yield Violation(4, what, where)
    for job_id in p.updates.keys() - p.jobs.keys():
        known = books.jobs.get(job_id)
        if known.update == "" if known is not None else books.complete:
            yield Violation(6, "is updated, by the log no job of that id is", f"job {job_id}")


def _said_of(book: JobBook, job: Job) -> dict[str, Any]:
    """Return what the log says of a job, under the names of `_had_by`."""
    left = any(group.unplaced or group.placed for group in job.groups)
    said: dict[str, Any] = {
        "order": book.order, "gate": book.gate, "release from its gate": book.released, "update": book.update,
        "gang": None if book.terms is None else book.gang, "groups": book.terms,
        "state": None if left or book.ended is None else book.ended[0],
    }  # fmt: skip
    if (fact := book.submitted) is None or (event := book.submission) is None:
        return said
    if job.state is JobState.HELD:
        said["waits"] = sorted(book.awaits)
    counts = tuple(book.counts[name] for name in COUNTS)
    indices = event.total + sum(group.grown for group in book.groups.values())
    return said | {
        "name": event.name, "kind": event.kind, "precedence": event.precedence, "submission": fact.at_ms,
        "submitter": fact.by, "counts": counts, "indices": indices, "begin": book.begun,
    }  # fmt: skip


def _had_by(job: Job, update: str) -> dict[str, Any]:
    """Return the values of a record of a job; ``groups``: duration, budget, and whether it is optional, of each."""
    return {
        "order": job.order, "gate": job.gate, "release from its gate": job.released, "update": update,
        "gang": (int(job.gang), job.gang_min), "groups": tuple(map(terms_of, job.groups)), "state": job.state,
        "waits": sorted({wait.job for wait in job.after}), "name": job.name, "kind": job.kind,
        "precedence": job.precedence, "submission": job.submitted_ms, "submitter": job.submitter,
        "counts": tuple(sum(getattr(group, name) for group in job.groups) for name in COUNTS),
        "indices": sum(group.indices for group in job.groups if not group.copies), "begin": job.begun,
    }  # fmt: skip


def _unlike(job: Job, book: JobBook) -> Iterator[str]:
    """Yield what of a job does not follow from its facts, beside equal values."""
    if book.surely and job.modified not in book.modified:
        yield f"its modify index is {job.modified}, and people changed it in versions {sorted(book.modified)}"
    if book.held is False and job.held:
        yield "is held, and was released by a person"
    totals = {at: group.total for at, group in book.groups.items() if group.total is not None}
    now = {at: job.groups[at].total for at in totals if at < len(job.groups)}
    if now != totals:
        yield f"its groups have totals {now}, by the log {totals}"
    dropped = [at for at, group in book.groups.items() if group.dropped]
    if any(at < len(job.groups) and not job.groups[at].optional for at in dropped):
        yield f"has tasks dropped of groups {dropped}, not all optional"
    if book.submitted is None:
        return
    if book.held and job.state in _OPEN and not job.held:
        yield "was held by a person and is not held"
    if book.ended is None and not any(group.unplaced or group.placed for group in job.groups):
        yield f"is {job.state.name.lower()} with nothing left, and no fact says that it is done"
    if strange := {wait.job for wait in job.after} - book.waits_ever:
        yield f"waits for {sorted(strange)}, which the log does not have"
    if job.awaited and not book.awaited:
        yield "is awaited, by the log by no job"


def losses_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """4: delayed tasks, losses and retried failures are those of the facts since the last that ran long enough.

    A group of copies has no losses: its entries name the originals.
    """
    proven = max((last for at, last in p.ticks if at <= p.now_ms - PROVEN_MS), default=0)
    for job_id, job in p.jobs.items():
        book = books.jobs.get(job_id)
        for number, group in enumerate(job.groups) if book is not None and book.live else ():
            said = book.group(number) if book is not None else None
            now = ranges.EMPTY
            for loss in group.losses:
                now = ranges.add(now, loss.tasks) if loss.due_ms else now
            if said is not None and said.delayed not in (None, now):
                what = f"tasks {now} of group {number} are delayed, by the log {said.delayed}"
                yield Violation(4, what, f"job {job_id}")
            for what in _miscounted(
                number, said.returned if said else (), () if group.copies else group.losses, proven
            ):
                yield Violation(4, what, f"job {job_id}")


def _miscounted(
    number: int, returned: Sequence[tuple[str, str, int]], losses: Sequence[TaskLoss], proven: int
) -> Iterator[str]:
    """Yield what is wrong with the numbers of losses and of retried failures of tasks.

    Placements up to `proven` may have reset both, however they ended.
    """
    least, most = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for how, tasks, placement in returned if losses else ():
        for task in ranges.indices(tasks):
            if placement <= proven:
                least["lost", task] = least["retried", task] = 0
            most[how, task] += 1
            least[how, task] += 1
    for loss in losses:
        for how, times in (("lost", loss.times), ("retried", loss.retried.failures)):
            of = [(how, task) for task in ranges.indices(loss.tasks)]
            if wrong := next((each for each in of if not least[each] <= times <= most[each]), None):
                what = f"from {least[wrong]} to {most[wrong]}"
                yield f"task {wrong[1]} of group {number} was {how} {times} times, by the log {what} times"


def gangs_commit_whole(p: Primary, books: Books) -> Iterator[Violation]:
    """2: a gang's transaction leaves nothing unplaced; one evicted member of a strict gang takes all with it.

    One of a gang with a minimum leaves as many placed; evictions leave as many of a strict one, or none.
    """
    for job_id, book in books.jobs.items():
        job, where = p.jobs.get(job_id), f"gang {job_id}"
        if job is None or job.gang is Gang.NO:
            continue
        optional, least, known = any(group.optional for group in job.groups), job.gang_min, book.submitted is not None
        # Without its submission the facts only give changes of the count; the current count is its end.
        start = 0 if known else job.unplaced - book.counts["unplaced"]
        left = max(book.left[1] + start, -(book.left[0] + start)) if book.left is not None else 0
        if left and not optional and not least:
            yield Violation(2, f"a transaction placed some of its tasks and left {left} unplaced", where)
        if known and not optional and book.fewest is not None and book.fewest < least:
            what = f"a transaction left {book.fewest} of its tasks placed, of at least {least}"
            yield Violation(2, what, where)
        torn = [placed for placed in book.torn if placed and (not least or placed < least)]
        if known and torn and job.gang is Gang.STRICT:
            yield Violation(2, f"a transaction evicted some of its tasks and left {max(torn)} placed", where)


def victims_are_lower(p: Primary, books: Books) -> Iterator[Violation]:
    """5: victims of jobs submitted before the log, or ended before, have strictly lower precedence by their records."""

    def precedence(job_id: str) -> int | None:
        book, job = books.jobs.get(job_id), p.jobs.get(job_id)
        if book is not None and book.submission is not None:
            return book.submission.precedence
        return None if job is None else job.precedence

    for version, placement, victim, evictor, group in books.undecided:
        low, high, job = precedence(victim), precedence(evictor), p.jobs.get(victim)
        if group is not None and (job is None or (job.groups[group : group + 1] and job.groups[group].optional)):
            low = None if job is None else 0
        if low is not None and high is not None and low >= high:
            what = f"precedence {low} of job {victim} gave way to {high} of {evictor} (version {version})"
            yield Violation(5, what, f"placement {placement}")


def queues_are_in_order(p: Primary, books: Books) -> Iterator[Violation]:
    """4: arrivals rise with the versions in which jobs arrived."""
    earliest = 0
    for job_id, arrival in sorted(p.arrivals.items(), key=lambda each: each[1]):
        book = books.jobs.get(job_id)
        if book is not None and book.submitted is not None:
            if book.arrived[1] < earliest:
                yield Violation(4, f"its arrival {arrival} is after that of jobs that came later", f"job {job_id}")
            earliest = max(earliest, book.arrived[0])


# Members and settings


def members_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: schedulers and agents are on record under their last incarnation."""
    for name, known in books.members.items():
        if (now := p.members.get(name)) != known:
            yield Violation(6, f"is on record as incarnation {now}, by the log {known}", f"member {name} ({now})")
    for name in p.members.keys() - books.members.keys() if books.complete else ():
        yield Violation(6, "is on record, and no fact says that it joined", f"member {name}")
    restored = p.counters["floor"] > 0  # its counters are set ahead
    for name, given in (("jobs", books.submissions), ("incarnations", books.incarnation)):
        now = p.counters[name]
        if now < given if restored or not books.complete else now != given:
            yield Violation(6, f"is {now}, and {given} were given out", f"meta {name}")


def limits_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: the limits of a kind are those set last."""
    without = Limits((None,) * p.size)
    said = {kind: _limits(event) for kind, event in books.limits.items()}
    for kind in said.keys() | (p.limits if books.complete else {}).keys():
        known, now = said.get(kind, without), p.limits.get(kind, without)
        if known != now:
            yield Violation(6, f"its limits are {now}, by the log {known}", f"kind {kind}")


def _limits(event: Limit) -> Limits:
    band = event.lowest or 0, MOST_PRECEDENCE if event.highest is None else event.highest
    return Limits(event.resources, event.jobs, band)


def pools_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: pools and trees are as set last; the published epoch is the one that the log names last."""
    if any(damage.key == "pools" for damage in p.damaged):
        return
    stored = {int(name[1:]): data for name, data in p.pools.items() if name[0] == "p"}
    given, version = max(books.pools, default=0), int(p.pools.get("version", b"0"))
    for number in sorted(books.pools.keys() | (stored.keys() if books.complete else ())):
        name, said = books.pools.get(number, ("", "-"))
        data = stored.get(number)
        now = ("", "-") if data is None else (unpack_pool(data).name, digest(data))
        if (now[1], now[0] or name) != (said, name):
            yield Violation(6, f"has name and settings {now}, by the log {(name, said)}", f"pool number {number}")
    if books.trees not in (None, digest(p.pools.get("trees", b""))):
        yield Violation(6, f"have another digest than {books.trees}, which the log names", "pool trees")
    if books.pools_version not in (None, version) or (books.complete and version and not books.pools_version):
        yield Violation(6, f"were changed in version {version}, by the log {books.pools_version}", "pools")
    if books.complete and int(p.pools.get("next", b"1")) != given + 1:
        what = f"is {p.pools.get('next')!r}, by the log {given} numbers were given out"
        yield Violation(6, what, "pools field next")
    if (books.epoch is not None or books.complete) and books.epoch != p.epoch:
        now_, known = (each and tuple(each) for each in (p.epoch, books.epoch))
        what = "number, version, digest, publishing version, author"
        yield Violation(6, f"is {now_} ({what}), by the log {known}", "epoch")
    of = p.epoch_totals[0] if p.epoch_totals else None
    if books.epoch_pools not in (None, of):
        yield Violation(6, f"is of version {of} of the pools, by the log of {books.epoch_pools}", "epoch")


# Answers


def answers_follow_from_log(p: Primary, books: Books) -> Iterator[Violation]:
    """6: a scheduler's stored answer has the outcomes that the log has of the version with the answer's tag."""
    versions = {change.tag: change.version for change in p.changes}
    oldest = max(min(versions.values(), default=p.version + 1), books.start)
    for member, (tag, outcomes) in p.answers.items():
        said, version = books.commits.get(member), versions.get(tag, 0)
        if said is None or max(said.version, version) < oldest:
            continue
        if version < said.version:
            what = f"its last call is that of tag {tag!r}, and it committed in version {said.version}"
            yield Violation(6, what, f"schedulers {member}")
        elif what := _unlike_facts(outcomes, said if version == said.version else CommitBook(version=version)):
            yield Violation(6, f"its last answer {outcomes!r} {what} (version {version})", f"schedulers {member}")


def _unlike_facts(outcomes: str, said: CommitBook) -> str:
    """Return how the outcomes of a call contradict its facts, "" when they do not."""
    parts = [part for part in outcomes.split(";") if part]
    pairs = [[tuple(map(int, pair.split(" "))) for pair in part.split(",")] for part in parts if part != "+"]
    verdicts = Counter(Verdict(verdict) for part in pairs for _, verdict in part)
    refused = Counter({v: n for v, n in verdicts.items() if v in CONFLICTS or v is Verdict.ABORTED})
    rejected = verdicts.total() - refused.total() - verdicts[Verdict.PLACED]
    if (refused, rejected) != (said.verdicts, said.rejected):
        return "has other refusals than the log"
    whole, placed = parts.count("+"), [sum(count for count, _ in part) for part in pairs]
    if sum(placed) > said.tasks or (sum(placed) < said.tasks and not whole):
        return f"has {sum(placed)} tasks placed, by the log {said.tasks}"
    if whole + sum(map(bool, placed)) != said.blocks:
        return f"has another number of transactions that placed tasks than the log, which has {said.blocks}"
    return ""


# Constraints


def constraints_hold(p: Primary, books: Books) -> Iterator[Violation]:
    """7: tasks are placed on machines that satisfy the constraints of their group."""
    for claim, texts in _checkable(p, books):
        name, pairs = p.described[claim.machine]
        for text in texts:
            if not holds(text, {**dict(pairs), MACHINE: name}):
                what = f"was placed on machine {claim.machine} ({name}), which does not satisfy {text}"
                yield Violation(7, f"{what} (version {claim.version})", f"job {claim.job} group {claim.group}")


def claims_with_constraints(p: Primary, books: Books) -> dict[str, int]:
    """Return the number of claims in the log for groups with constraints, and of those that can be checked."""
    return {"claims": sum(1 for _ in _demanding(p, books)), "checked": sum(1 for _ in _checkable(p, books))}


def _demanding(p: Primary, books: Books) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
    for claim in books.claims:
        job, submitted = p.jobs.get(claim.job), books.jobs[claim.job].submitted
        texts = () if job is None else constraints_of(job, claim.group)
        if texts and (submitted is None or claim.version > submitted.version):
            yield claim, texts


def _checkable(p: Primary, books: Books) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
    """Yield the claims that were decided on the present attributes of their machines."""
    for claim, texts in _demanding(p, books):
        changes = books.machines[claim.machine].described
        known = claim.since >= books.start - 1 and all(version <= claim.since for version in changes)
        if known and claim.machine in p.described:
            yield claim, texts


def constraints_of(job: Job, group: int) -> Sequence[str]:
    """Return the constraints of a group that must hold."""
    groups = job.spec.get("groups")
    said = groups[group] if isinstance(groups, list) and group < len(groups) else None
    texts = said.get("constraints") if isinstance(said, Mapping) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list | tuple) else ()


def holds(text: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a machine with these attributes satisfies a constraint; no machine satisfies an invalid one."""
    from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most audits meet no constraint

    try:
        return _is_true(parse(text), attributes)
    except BadInput:
        return False


def _is_true(expression: Expression, attributes: Mapping[str, str]) -> bool:
    match expression:
        case Has(attribute):
            return attribute in attributes
        case Not(part):
            return not _is_true(part, attributes)
        case All(parts):
            return all(_is_true(part, attributes) for part in parts)
        case Either(parts):
            return any(_is_true(part, attributes) for part in parts)
        case OneOf(attribute, values):
            return any(_compared(attributes.get(attribute), "==", value) for value in values)
        case Compare(attribute, operator, value):
            return _compared(attributes.get(attribute), operator, value)


def _compared(text: str | None, operator: str, value: Value) -> bool:
    """Compare an attribute, None where the machine has none, with a text or a number."""
    if text is None:
        return False
    if isinstance(value, str):
        return operator == "==" and text == value
    number = number_of(text)
    return {
        "==": number == value, "<": number < value, "<=": number <= value, ">": number > value, ">=": number >= value,
    }[operator]  # fmt: skip


LOG_RULES: tuple[LogRule, ...] = (
    machines_follow_from_log, nothing_is_over, placements_follow_from_log, jobs_follow_from_log, gangs_commit_whole,
    victims_are_lower, losses_follow_from_log, constraints_hold, changes_follow_from_log, messages_follow_from_log,
    queues_are_in_order, members_follow_from_log, limits_follow_from_log, pools_follow_from_log,
    answers_follow_from_log,
)  # a table # fmt: skip
LOG_RULES_OF_MEMORY: tuple[LogRule, ...] = (
    machines_follow_from_log, nothing_is_over, placements_follow_from_log, jobs_follow_from_log, gangs_commit_whole,
    victims_are_lower, losses_follow_from_log, constraints_hold,
)  # a table # fmt: skip
"""Those of them for which a cell in memory has the records."""
