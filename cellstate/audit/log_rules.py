"""The records of a cell against the facts of its log, each a generator whose docstring is the rule."""

from collections import Counter
from collections.abc import Callable, Iterator

from omega.cellstate import ranges
from omega.cellstate.audit.accounts import PlacementBook, canonical
from omega.cellstate.audit.register import ChangedMachine, CommitFacts, JobFacts
from omega.cellstate.audit.replay import Replay
from omega.cellstate.derive import lives
from omega.cellstate.invariants import Violation
from omega.cellstate.logged_settings import terms_of
from omega.cellstate.model import MOST_PRECEDENCE, Job, JobState, Limits
from omega.cellstate.pools.records import digest, unpack_pool
from omega.cellstate.primary import Mail, Primary
from omega.cellstate.transaction import CONFLICTS, Verdict

LogRule = Callable[[Primary, Replay], Iterator[Violation]]
PROVEN_MS = 600_000
"""Time after which a placement resets the number of losses (semantics 26)."""


def machines_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: a machine has the name, executor, attributes and tree of its facts."""
    register = replay.register
    if register.complete:
        for index in p.rows.keys() - {i for i, entry in register.machines.items() if entry.name is not None}:
            yield Violation(6, "is in the cell, and no fact says that it joined", f"machine {index}")
    for index, entry in register.machines.items():
        where, (name, pairs) = f"machine {index}", p.described.get(index, ("", ()))
        if entry.name is not None and entry.name != name:
            yield Violation(6, f"is called {name!r} and joined as {entry.name!r}", where)
        row, brought = p.rows.get(index), entry.executor
        if row is not None and brought is not None and p.executors.get(brought) != row[3]:
            yield Violation(6, f"belongs to executor {row[3]}, and {brought} brought it", where)
        if entry.attributes is not None and entry.attributes != dict(pairs):
            what = f"has the attributes {dict(pairs)}, after its last fact {dict(entry.attributes)}"
            yield Violation(6, what, where)
        number = p.trees.get(index)
        if index in p.trees and entry.tree not in (None, "-" if number is None else str(number)):
            yield Violation(6, f"is in tree {number}, by the log in {entry.tree}", where)


def jobs_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """4: name, kind, number, time and modify index of a job are those of its facts, so is how it ended."""
    for job in p.jobs.values():
        where, entry = f"job {job.id}", replay.register.jobs.get(job.id)
        for what in _unlike(job, entry) if entry is not None else ():
            yield Violation(4, what, where)
        known = p.updates.get(job.id, "")
        if entry is not None and entry.update is not None and entry.update != known:
            yield Violation(6, f"its update is {known!r}, by the log {entry.update!r}", where)
    for job_id, version in p.done:
        entry = replay.register.jobs.get(job_id)
        if entry is not None and entry.ended is not None and entry.ended[1] != version and job_id in p.jobs:
            yield Violation(
                6, f"ended in version {version} by the list, in {entry.ended[1]} by the log", f"job {job_id}"
            )
    for job_id in p.updates.keys() - p.jobs.keys():
        entry = replay.register.jobs.get(job_id)
        began = not replay.register.complete if entry is None else entry.update != ""
        if not began:
            yield Violation(6, "is updated, by the log no job of that id is", f"job {job_id}")


def _unlike(job: Job, entry: JobFacts) -> Iterator[str]:
    if entry.submitted is not None:
        yield from _unlike_submission(job, entry)
    if entry.order is not None and entry.order != job.order:
        yield f"is number {job.order}, and was submitted as number {entry.order}"
    if entry.surely and job.modified not in entry.modified:
        yield f"its modify index is {job.modified}, and people changed it in versions {sorted(entry.modified)}"
    if entry.held is False and job.held:
        yield "is held, and was released by a person"
    if entry.gate is not None and job.gate != entry.gate:
        yield f"its gate holds it for {job.gate!r}, by the log for {entry.gate!r}"
    if entry.released is not None and job.released != entry.released:
        yield f"a person has {'' if job.released else 'not '}released it from its gate, by the log otherwise"
    if entry.ended is not None and not lives(job) and job.state != entry.ended[0]:
        yield f"is {job.state.name.lower()}, and ended as {JobState(entry.ended[0]).name.lower()}"
    totals = {group: job.groups[group].total for group in entry.totals if group < len(job.groups)}
    if totals != entry.totals:
        yield f"its groups have totals {totals}, by the log {entry.totals}"
    if any(group < len(job.groups) and not job.groups[group].optional for group in entry.optional):
        yield f"has tasks dropped of groups {sorted(entry.optional)}, not all optional"
    if entry.terms is not None:
        gang, terms = (int(job.gang), job.gang_min), tuple(map(terms_of, job.groups))
        if gang != entry.gang:
            yield f"its gang is {gang} (form, minimum), by the log {entry.gang}"
        if terms != entry.terms:
            yield f"its groups have {terms} (duration, budget, optional), by the log {entry.terms}"


def _unlike_submission(job: Job, entry: JobFacts) -> Iterator[str]:
    name, kind, _, at_ms = entry.submitted or ("", "", 0, 0)
    waits = {wait.job for wait in job.after}
    if (job.name, job.kind, job.submitted_ms) != (name, kind, at_ms):
        what = (job.name, job.kind, job.submitted_ms)
        yield f"is {what}, and was submitted as {(name, kind, at_ms)} (name, kind, time)"
    if job.submitter != entry.submitter:
        yield f"was submitted by {job.submitter!r}, by the log by {entry.submitter!r}"
    if entry.held and job.state in (JobState.ACTIVE, JobState.HELD) and not job.held:
        yield "was held by a person and is not held"
    if job.begun != entry.begun:
        yield f"{'has' if job.begun else 'has not'} begun, by the log it {'has' if entry.begun else 'has not'}"
    if entry.ended is None and not lives(job):
        yield f"is {job.state.name.lower()} with nothing left, and no fact says that it is done"
    if job.state is JobState.HELD and waits != entry.awaits:
        yield f"waits for {sorted(waits)}, by the log for {sorted(entry.awaits)}"
    if strange := waits - entry.waits_ever:
        yield f"waits for {sorted(strange)}, which the log does not have"
    if job.awaited and not entry.awaited:
        yield "is awaited, by the log by no job"
    given, told = sum(g.indices for g in job.groups if not g.copies), entry.indices + sum(entry.grown.values())
    if given != told:
        yield f"has given out {given} indices, by the log {told}"


def losses_are_counted(p: Primary, replay: Replay) -> Iterator[Violation]:
    """4: losses and retried failures are as many as the log has since the last placement that ran long enough.

    A group of copies has no losses: its entries name the originals.
    """
    losses = replay.register.losses
    proven = max((last for at, last in p.ticks if at <= p.now_ms - PROVEN_MS), default=0)
    for job_id in losses.known & p.jobs.keys():
        for number, group in enumerate(p.jobs[job_id].groups):
            for what in losses.miscounted(job_id, str(number), () if group.copies else group.losses, proven):
                yield Violation(4, what, f"job {job_id}")


def queues_are_in_order(p: Primary, replay: Replay) -> Iterator[Violation]:
    """4: arrivals rise with the versions in which jobs arrived."""
    earliest = 0
    for job_id, arrival in sorted(p.arrivals.items(), key=lambda each: each[1]):
        book = replay.register.jobs.get(job_id)
        if book is not None and book.submitted is not None:
            if book.arrived[1] < earliest:
                yield Violation(4, f"its arrival {arrival} is after that of jobs that came later", f"job {job_id}")
            earliest = max(earliest, book.arrived[0])


def members_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: schedulers and agents are on record under their last incarnation."""
    register = replay.register
    for name, known in register.members.items():
        now = p.members.get(name)
        if now != known:
            yield Violation(6, f"is on record as incarnation {now}, by the log {known}", f"member {name} ({now})")
    for name in p.members if register.complete else ():
        if name not in register.members:
            yield Violation(6, "is on record, and no fact says that it joined", f"member {name}")


def limits_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: the limits of a kind are those set last."""
    without = Limits((None,) * p.size)
    for kind, words in replay.register.limits.items():
        known = p.limits.get(kind, without)
        if known != _limits(words):
            yield Violation(6, f"its limits are {known}, by the log {_limits(words)}", f"kind {kind}")
    for kind in p.limits.keys() - replay.register.limits.keys() if replay.register.complete else ():
        yield Violation(6, f"its limits are {p.limits[kind]}, and nobody set any", f"kind {kind}")


def _limits(words: tuple[str, ...]) -> Limits:
    jobs, low, high, *amounts = (None if word == "-" else int(word) for word in words)
    return Limits(tuple(amounts), jobs, (low or 0, MOST_PRECEDENCE if high is None else high))


def pools_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: pools and trees are as set last; the published epoch is the one that the log names last."""
    if any(damage.key == "pools" for damage in p.damaged):
        return
    register = replay.register
    stored = {int(name[1:]): data for name, data in p.pools.items() if name[0] == "p"}
    for number, (name, said) in sorted(register.pools.items()):
        if number in stored and unpack_pool(stored[number]).name != name:
            yield Violation(
                6, f"is named {unpack_pool(stored[number]).name}, by the log {name}", f"pool number {number}"
            )
        now = digest(stored[number]) if number in stored else "-"
        if now != said:
            yield Violation(6, f"its settings have the digest {now}, by the log {said}", f"pool {name}")
    for number in sorted(stored.keys() - register.pools.keys()) if register.complete else ():
        yield Violation(6, "is there, and nobody set it", f"pool number {number}")
    if register.trees is not None and register.trees != digest(p.pools.get("trees", b"")):
        yield Violation(6, f"have another digest than {register.trees}, which the log names", "pool trees")
    version, after = int(p.pools.get("version", b"0")), int(p.pools.get("next", b"1"))
    given = max(register.pools, default=0)
    if register.pools_version not in (None, version) or (register.complete and version and not register.pools_version):
        yield Violation(6, f"were changed in version {version}, by the log {register.pools_version}", "pools")
    if register.complete and after != given + 1:
        yield Violation(6, f"is {after}, by the log {given} numbers were given out", "pools field next")
    if (register.epoch is not None or register.complete) and register.epoch != p.epoch:
        what = "number, version, digest, publishing version, author"
        yield Violation(6, f"is {p.epoch and tuple(p.epoch)} ({what}), by the log {register.epoch}", "epoch")
    of = p.epoch_totals[0] if p.epoch_totals else None
    if register.epoch_pools not in (None, of):
        yield Violation(6, f"is of version {of} of the pools, by the log of {register.epoch_pools}", "epoch")


def changes_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """3: an entry of the change list has the machines that the facts of its version changed, as they were then."""
    facts = dict(replay.register.touched)
    executors = {number: name for name, number in p.executors.items()}
    for version, _, rows, _ in p.changes:
        where = f"changes {version}"
        if version not in facts:
            continue
        listed = {row[0]: row for row in rows.tolist()}
        if listed.keys() != facts[version].keys():
            what = f"has the machines {sorted(listed)}, the facts of its version name {sorted(facts[version])}"
            yield Violation(3, what, where)
            continue
        for index, known in facts[version].items():
            _, number, state, executor, *_ = row = listed[index]
            now = ChangedMachine(number, state, executors.get(executor), *p.amounts(row))
            if any(fact is not None and fact != value for fact, value in zip(known, now, strict=True)):
                yield Violation(3, f"machine {index} is {tuple(now)}, by the facts {tuple(known)}", where)


def counters_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: a counter is the last number that the log gave out, but that of a restored cell, which is set ahead."""
    register, restored = replay.register, p.counters["floor"] > 0
    for name, given in (("jobs", register.submissions), ("incarnations", register.incarnation)):
        now = p.counters[name]
        if now < given if restored or not register.complete else now != given:
            yield Violation(6, f"is {now}, and {given} were given out", f"meta {name}")


def facts_agree(_: Primary, replay: Replay) -> Iterator[Violation]:
    """3: a fact is of a known word and length, is there once, and follows from those before it."""
    for version, what in replay.register.wrong:
        yield Violation(3, what, f"log {version}")


def messages_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: a message starts the tasks of its placement, or ends some of them."""
    for executor, mails in p.mailboxes.items():
        for mail in mails:
            for what in _unlike_placement(p, mail, replay.placements.get(mail.placement)):
                yield Violation(6, f"has a message about placement {mail.placement} {what}", f"box:{executor}")


def _unlike_placement(p: Primary, mail: Mail, book: PlacementBook | None) -> Iterator[str]:
    known, tasks = book.placed if book is not None else None, canonical(mail.tasks)
    if known is None:
        runs = [run.tasks for run in p.runs.at(mail.placement) if run.machine == mail.machine]
        running = canonical(",".join(runs)) if runs else ranges.EMPTY
        if mail.job and ranges.split(running, tasks)[1] != ranges.EMPTY:
            yield f"of tasks {mail.tasks}, and tasks {running} are on its machine"
    elif mail.job and tasks != canonical(known):
        yield f"of tasks {mail.tasks}, by the log {known}"
    elif ranges.split(canonical(known), tasks)[0] != tasks:
        yield f"that ends tasks {mail.tasks}, by the log {known} were placed"


def answers_follow_from_log(p: Primary, replay: Replay) -> Iterator[Violation]:
    """6: a scheduler's stored answer has the outcomes that the log has of the version with the answer's tag."""
    versions = {change.tag: change.version for change in p.changes}
    oldest = max(min(versions.values(), default=p.version + 1), replay.start)
    for member, (tag, outcomes) in p.answers.items():
        said, version = replay.register.commits.get(member), versions.get(tag, 0)
        if said is None or max(said.version, version) < oldest:
            continue
        if version < said.version:
            what = f"its last call is that of tag {tag!r}, and it committed in version {said.version}"
            yield Violation(6, what, f"schedulers {member}")
            continue
        if what := _unlike_facts(outcomes, said if version == said.version else CommitFacts(version)):
            yield Violation(6, f"its last answer {outcomes!r} {what} (version {version})", f"schedulers {member}")


def _unlike_facts(outcomes: str, said: CommitFacts) -> str:
    """Return how the outcomes of a call contradict its facts, "" when they do not."""
    parts = [part for part in outcomes.split(";") if part not in ("+", "")]
    pairs = [[tuple(map(int, pair.split(" "))) for pair in part.split(",")] for part in parts]
    verdicts, rejected = Counter[Verdict](), 0
    for _, verdict in (pair for part in pairs for pair in part):
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


LOG_RULES: tuple[LogRule, ...] = (
    machines_follow_from_log, jobs_follow_from_log, losses_are_counted, queues_are_in_order, members_follow_from_log,
    limits_follow_from_log, pools_follow_from_log, changes_follow_from_log, counters_follow_from_log, facts_agree,
    messages_follow_from_log, answers_follow_from_log,
)  # a table # fmt: skip
"""Of a cell on a server; a cell in memory is compared by `books` alone."""
