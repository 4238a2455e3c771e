"""Rules that hold for the primary records of a cell at every version, each a generator whose docstring is the rule.

The numbers are those of the invariants in ARCHITECTURE.md; 6 stands for what is stored beside machines and jobs. What
follows from primary records is compared by `derive`, what follows from the log by the fold of the log. The rule about
evictions between pools (`illegal`) is here too; it is about one transaction in the log.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from omega.cellstate import derive, events as log, ranges
from omega.cellstate.digest.hours import Owner, Settled
from omega.cellstate.digest.results import CHUNK, FAILED, FINISHED, MOST_CHUNKS, RUNNING
from omega.cellstate.errors import BadInput
from omega.cellstate.lanes import BASE, lane_of
from omega.cellstate.model import GroupStatus, Job, JobState, MachineState, Run, runs_commands
from omega.cellstate.pages import TOTALS, head_of, totals_of
from omega.cellstate.pools.rules import check
from omega.cellstate.primary import Mail, Primary
from omega.cellstate.tasks import DOWN_DUE


class Violation(NamedTuple):
    """A broken rule: the invariant's number, the wrong values, and where."""

    invariant: int
    what: str
    where: str


class Group(NamedTuple):
    """A group of a job with its runs on machines, and of those that are not leaving the (first, last) pairs."""

    job: Job
    number: int
    status: GroupStatus
    runs: list[Run]
    live: ranges.Spans

    @property
    def where(self) -> str:
        """The place of a violation."""
        return f"job {self.job.id} group {self.number}"


Rule = Callable[[Primary], Iterator[Violation]]
GroupRule = Callable[[Primary, Group], Iterator[Violation]]
Need = tuple[int | Fraction, ...]
"""What a task takes; fractions where the log shows only what several of them took together."""

_OPEN = (JobState.ACTIVE, JobState.HELD)
_AWAY = (MachineState.DOWN, MachineState.GONE, MachineState.OFFLINE)
_ALWAYS = {"schema", "rules", "resources", "version", "floor", "keep_jobs", "keep_ms"}
"""Fields of ``meta`` that a cell has from its creation."""
LONGEST_MS, LONGEST_RETRY_MS = 300_000, 3_600_000
"""Maximum delay of a lost task, and of one that failed and is retried (semantics 26)."""
LONGEST_GRANT_MS = 86_400_000
"""Maximum time of a grant, if the health commands of its job do not take longer."""


# Machines


def machines_are_valid(p: Primary) -> Iterator[Violation]:
    """1: amounts are not negative, the state and the executor exist, a machine that is away runs nothing.

    Tasks may still be leaving from a machine that was set down or removed; an offline machine has none.
    """
    live, all_ = (set(np.unique(each).tolist()) for each in (p.runs.machine[p.runs.leaving == 0], p.runs.machine))
    for index, row in p.rows.items():
        where, state = f"machine {index}", row[2]
        if min(row[4:]) < 0:
            yield Violation(1, f"has a negative amount among {row[4:]}", where)
        if state not in tuple(MachineState):
            yield Violation(1, f"is in state {state}, which does not exist", where)
        elif state in _AWAY and (any(row[4 + p.size :]) or index in (all_ if state == MachineState.OFFLINE else live)):
            yield Violation(1, f"is {MachineState(state).name.lower()} and still holds tasks", where)
        if row[3] < 1:
            yield Violation(1, f"belongs to executor {row[3]}; their numbers start at 1", where)


def amounts_follow_from_placements(p: Primary) -> Iterator[Violation]:
    """1: the allocated amounts are the sum over the live placements, without leaving ones."""
    highest = max([*p.rows, *p.runs.machine[-1:].tolist(), int(p.runs.machine.max(initial=0))], default=0)
    sums, needs = np.zeros((highest + 1, p.size), np.int64), np.zeros((len(p.runs.owners), p.size), np.int64)
    for number, (job_id, group) in enumerate(p.runs.owners):
        job = p.jobs.get(job_id)
        if job is not None and group < len(job.groups):  # others are reported by runs_are_in_job_records
            needs[number] = job.groups[group].need
    live = p.runs.leaving == 0
    np.add.at(sums, p.runs.machine[live], needs[p.runs.owner[live]] * p.runs.size[live, np.newaxis])
    for index, row in p.rows.items():
        expected = sums[index].tolist()
        if row[4 + p.size :] != expected:
            what = f"allocated {row[4 + p.size :]} is not the sum over its placements {expected}"
            yield Violation(1, what, f"machine {index}")


def machines_are_listed(p: Primary) -> Iterator[Violation]:
    """6: each machine has a record and a name of its own; runs are on machines, deadlines those of drained ones."""
    names = Counter(name for name, _ in p.described.values())
    for index in sorted(p.rows.keys() | p.described.keys() | set(np.unique(p.runs.machine).tolist())):
        where = f"machine {index}"
        if index not in p.rows:
            yield Violation(6, "has a name or runs and no record", where)
        if index not in p.described or names[p.described[index][0]] > 1:
            yield Violation(6, f"its name {p.described.get(index, (None,))[0]!r} is that of another, or none", where)
    for index in sorted(p.deadlines):
        state = p.rows[index][2] if index in p.rows else None
        if state != MachineState.DRAINED:
            now = "does not exist" if state is None else f"is {MachineState(state).name.lower()}"
            yield Violation(6, f"is to be emptied and {now}", f"machine {index}")


def machines_are_as_operators_set_them(p: Primary) -> Iterator[Violation]:
    """6: what operators set of a machine is that of one in the cell, and the machine has it."""
    for index, settings in sorted(p.settings.items()):
        row = p.rows.get(index)
        if row is None or row[2] == MachineState.GONE:
            yield Violation(6, "has settings of operators and is not in the cell", f"machine {index}")
            continue
        (capacity, _), (_, attributes) = p.amounts(row), p.described.get(index, ("", ()))
        if settings.applied(capacity, dict(attributes)) != (capacity, dict(attributes)):
            yield Violation(6, "differs from what operators set of it", f"machine {index}")


def executors_are_numbered(p: Primary) -> Iterator[Violation]:
    """6: executors are numbered from 1 on; machines, mailboxes and executors that live have one."""
    numbers = set(p.executors.values())
    for index, row in p.rows.items():
        if row[3] not in numbers:
            yield Violation(6, f"belongs to executor {row[3]}, which nobody is", f"machine {index}")
    for number, name in p.serving.items():
        if p.executors.get(name) != number or name not in p.members:
            yield Violation(6, f"says that {name} lives, which has another number or no record", f"serving {number}")
    for name in p.members.keys() & p.executors.keys():
        if p.executors[name] not in p.serving:
            yield Violation(6, "is on record, and does not count as living", f"agents {name}")
    for executor in p.mailboxes.keys() - numbers:
        yield Violation(6, "is the mailbox of nobody", f"box:{executor}")


# Runs


def runs_are_in_job_records(p: Primary) -> Iterator[Violation]:
    """2: machines and job records name the same runs, leaving ones too."""
    for job_id, group in dict.fromkeys([*p.recorded.owners, *p.runs.owners]):
        recorded, running = p.recorded.places(job_id, group), p.runs.places(job_id, group)
        if p.listed_chunks is not None and derive.wide(p, job_id, group):
            near = [run for run in p.runs.of(job_id, group) if not derive.chunk_of(run.tasks)]
            running = [(run.placement, run.machine, int(run.leaving)) for run in near]
        if recorded != running:
            lost, extra = Counter(recorded) - Counter(running), Counter(running) - Counter(recorded)
            names = [
                [(at, machine, bool(leaves)) for at, machine, leaves in sorted(each.elements())]
                for each in (lost, extra)
            ]
            what = f"(placement, machine, leaving) {names[0]} are in the job's record only, {names[1]} on machines only"
            yield Violation(2, what, f"job {job_id} group {group}")
    chunks = {field.decode() for field in derive.placed(p)["placed"]} if p.listed_chunks is not None else set()
    for name in sorted(chunks ^ (p.listed_chunks or set())):
        job_id, number, chunk = name.split(" ")
        what = f"has runs of chunk {chunk}, and does not list it"
        if name not in chunks:
            what = f"lists chunk {chunk} without runs"
        yield Violation(2, what, f"job {job_id} group {number}")
    for job_id, group in p.runs.owners:
        owner = p.jobs.get(job_id)
        if owner is None or group >= len(owner.groups):
            machines = sorted({run.machine for run in p.runs.of(job_id, group)})
            yield Violation(2, f"runs on machines {machines} and is not kept", f"job {job_id} group {group}")


def placement_ids_are_unique(p: Primary) -> Iterator[Violation]:
    """2: an id belongs to one run (and its leaving part), and none is above the cell's counter."""
    ids, counts = np.unique(p.runs.placement, return_counts=True)
    for placement in ids[(ids < 1) | (ids > p.placements)].tolist():
        what = f"its id was never given out; the last one is {p.placements}"
        yield Violation(2, what, f"placement {placement}")
    for placement in ids[counts > 1].tolist():
        runs = p.runs.at(placement)
        owners = {(run.machine, run.job, run.group) for run in runs}
        if len(owners) > 1 or len({run.leaving for run in runs}) < len(runs):
            places = sorted((run.machine, run.job, run.group) for run in runs)
            yield Violation(2, f"names several runs, on (machine, job, group) {places}", f"placement {placement}")
        elif twice := overlap([span for run in runs for span in ranges.spans(run.tasks)]):
            yield Violation(2, f"tasks {ranges.spell([twice])} both run and leave", f"placement {placement}")


def overlap(pieces: ranges.Spans) -> tuple[int, int] | None:
    """Return indices that (first, last) pairs have in common, from the first overlap."""
    reach = -1
    for first, last in sorted(pieces):
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


def a_task_runs_once(_: Primary, group: Group) -> Iterator[Violation]:
    """2: a task has at most one live placement."""
    if twice := overlap(group.live):
        yield Violation(2, f"tasks {ranges.spell([twice])} have more than one live placement", group.where)


def counts_add_up(_: Primary, group: Group) -> Iterator[Violation]:
    """4: unplaced + placed + finished + failed + stopped = total, and the ranges have the same counts."""
    status = group.status
    counts = status.unplaced, status.placed, status.finished, status.failed, status.stopped
    if sum(counts) != status.total or min(counts) < 0:
        what = f"unplaced, placed, finished, failed, stopped {counts} do not make its total {status.total}"
        yield Violation(4, what, group.where)
    waiting = ranges.spans(status.waiting)
    waiting += [span for loss in status.losses if loss.due_ms for span in ranges.spans(loss.tasks)]
    number = ranges.count(status.waiting) + status.delayed
    if number != status.unplaced:
        yield Violation(4, f"{status.unplaced} tasks are unplaced and {number} wait ({status.waiting})", group.where)
    placed = sum(last - first + 1 for first, last in group.live)
    if placed != status.placed:
        yield Violation(4, f"{status.placed} tasks count as placed and {placed} are on machines", group.where)
    if status.indices < status.total:
        what = f"has {status.total} tasks, and only {status.indices} indices were given out"
        yield Violation(4, what, group.where)
    running = union(group.live)
    if any(last >= status.indices for _, last in waiting + running):
        what = f"has tasks beyond its {status.indices}: {status.waiting} wait, {ranges.spell(running)} are placed"
        yield Violation(4, what, group.where)
    if twice := overlap(waiting + running):
        yield Violation(4, f"tasks {ranges.spell([twice])} wait twice, or wait and are placed", group.where)


def copies_follow_their_originals(p: Primary, group: Group) -> Iterator[Violation]:
    """2: a copy is of a task that runs, on another machine than that; no end counts in a group of copies."""
    for what in _strange_copies(p, group) if group.status.copies else ():
        yield Violation(2, what, group.where)


def _strange_copies(p: Primary, group: Group) -> Iterator[str]:
    status = group.status
    if status.total != status.unplaced + status.placed:
        yield f"has {status.total} copies, {status.unplaced} unplaced and {status.placed} placed"
    held = [run for run in group.runs if not run.leaving]
    running = {run.placement: run for run in p.runs.of(group.job.id, group.number - 1) if not run.leaving}
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


# Jobs


def states_fit_counts(p: Primary) -> Iterator[Violation]:
    """4: only an active or held job has unplaced tasks; once nothing is unplaced or placed it is neither."""
    for job in p.jobs.values():
        if job.state in _OPEN and not derive.lives(job):
            yield Violation(4, f"is {job.state.name.lower()} with nothing left to do", f"job {job.id}")
        elif job.state not in _OPEN and job.unplaced:
            what = f"is {job.state.name.lower()} with {job.unplaced} tasks unplaced"
            yield Violation(4, what, f"job {job.id}")
        elif job.state is JobState.DONE and job.placed:
            yield Violation(4, f"is done with {job.placed} tasks placed", f"job {job.id}")


def waits_are_mutual(p: Primary) -> Iterator[Violation]:
    """4: a job is held exactly while a person holds it or it waits; the jobs that it waits for know of waiting jobs."""
    for job in p.jobs.values():
        where = f"job {job.id}"
        if job.state in _OPEN and (job.state is JobState.HELD) != bool(job.held or job.gate or job.after):
            why = "a person" if job.held else job.gate or ", ".join(wait.job for wait in job.after) or "nobody"
            yield Violation(4, f"is {job.state.name.lower()} and held back by {why}", where)
        for wait in job.after if job.state is JobState.HELD else ():
            awaited = p.jobs.get(wait.job)
            if awaited is None or not awaited.awaited:
                how = "has ended" if awaited and not derive.lives(awaited) else "does not know of it"
                yield Violation(4, f"waits for {wait.job}, which {how}", where)


def names_and_numbers_are_of_one_job(p: Primary) -> Iterator[Violation]:
    """4: no live job has the name of a newer one; a number of submission is that of one job."""
    newest, orders = {job.name: job for job in p.jobs.values()}, Counter(job.order for job in p.jobs.values())
    for job in p.jobs.values():
        last = newest[job.name]
        if last is not job and derive.lives(job):
            yield Violation(4, f"is live, and {last.id} is newer and has its name {job.name}", f"job {job.id}")
        if orders[job.order] > 1:
            yield Violation(6, f"is number {job.order}, and so is another", f"job {job.id}")


def arrivals_are_given_out_once(p: Primary) -> Iterator[Violation]:
    """4: an arrival is given out once."""
    given = Counter(p.arrivals.values())
    last = 2**53 if any(key.startswith("pending:") for key in p.aged) else p.counters["arrivals"]
    for job_id, arrival in p.arrivals.items():
        if given[arrival] > 1 or not 0 < arrival <= last:
            yield Violation(4, f"its arrival {arrival} is another's too, or was never given out", f"job {job_id}")


def delays_are_short(p: Primary) -> Iterator[Violation]:
    """4: lost tasks are not delayed for longer than losses and failures are."""
    for job in p.jobs.values():
        losses = [loss for group in job.groups for loss in group.losses]
        longest = LONGEST_RETRY_MS if any(loss.retried.failures for loss in losses) else LONGEST_MS
        latest = max((loss.due_ms for loss in losses), default=0)
        if latest > p.now_ms + longest:
            what = f"has lost tasks that are delayed until {latest} ms, at {p.now_ms} ms by the server's clock"
            yield Violation(4, what, f"job {job.id}")


def specifications_belong_to_jobs(p: Primary) -> Iterator[Violation]:
    """6: a specification belongs to a stored job and describes at most its number of task groups."""
    for job_id, groups in p.described_groups.items():
        job = p.jobs.get(job_id)
        if job is None:
            yield Violation(6, "has a specification and is not kept", f"job {job_id}")
        elif groups > len(job.groups):
            yield Violation(6, f"has {len(job.groups)} task groups, its specification {groups}", f"job {job_id}")
    for job in p.jobs.values():
        if job.commands != runs_commands(job.spec):
            said = "runs commands" if job.commands else "runs no commands"
            yield Violation(6, f"{said} by its record, and not by its specification", f"job {job.id}")
    for job_id in p.updates.keys() & p.jobs.keys() - p.described_groups.keys():
        yield Violation(6, "is updated and has no specification", f"job {job_id}")


def health_is_of_placements(p: Primary) -> Iterator[Violation]:
    """6: what is kept of a task's health names its placement, once; grants end, as its checks do."""
    for job_id, tasks in p.health.items():
        where, job = f"health {job_id}", p.jobs.get(job_id)
        if len({(placement, task) for _, placement, task, _ in tasks}) < len(tasks):
            yield Violation(6, "has a task twice", where)
        longest = LONGEST_GRANT_MS if job is None else _longest_grant(job)
        for machine, placement, task, until in tasks:
            runs = p.runs.at(placement)
            there = 0 < placement <= p.placements and machine in p.rows
            if not there or any((run.machine, run.job) != (machine, job_id) for run in runs):
                what = f"has task {task} of placement {placement} on machine {machine}, which is not there"
                yield Violation(6, what, where)
            elif runs and job is not None and all(task >= job.groups[run.group].indices for run in runs):
                yield Violation(6, f"has task {task} of placement {placement}, which has no such task", where)
            if until > DOWN_DUE and until > p.now_ms + longest:
                what = f"grants the end of task {task} until {until} ms, at {p.now_ms} ms by the server's clock"
                yield Violation(6, what, where)


def _longest_grant(job: Job) -> int:
    checks = [each["health"] for each in job.spec.get("groups", ()) if each.get("health")]
    words = ("grace", "interval", "timeout", "failures")
    return LONGEST_GRANT_MS + max(
        (grace + failures * (interval + timeout)
         for grace, interval, timeout, failures in ([each.get(word, 0) for word in words] for each in checks)),
        default=0,
    )  # fmt: skip


def messages_are_of_placements(p: Primary) -> Iterator[Violation]:
    """6: a message is about tasks of a placement on its machine, and starts them once, for as long as they take."""
    for executor, mails in p.mailboxes.items():
        where = f"box:{executor}"
        if strange := [tuple(mail) for mail in mails if not _exists(p, mail)]:
            yield Violation(6, f"has messages that no placement has, as {Mail._fields}: {strange}", where)
        for placement, times in Counter(mail.placement for mail in mails if mail.job).items():
            if times > 1:
                yield Violation(6, f"has {times} messages that start placement {placement}", where)
        for mail in mails:
            job = p.jobs.get(mail.job) if any(run.job == mail.job for run in p.runs.at(mail.placement)) else None
            for group in job.groups[int(mail.group) :][:1] if job is not None else ():
                if mail.duration_ms != group.duration_ms:
                    took = f"of tasks that take {mail.duration_ms} ms, their group says {group.duration_ms} ms"
                    yield Violation(6, f"has a message about placement {mail.placement} {took}", where)


def _exists(p: Primary, mail: Mail) -> bool:
    """Return whether a placement has a message. A run in a group of copies may have been promoted since."""
    there = mail.machine in p.rows and 0 < mail.placement <= p.placements
    runs = p.runs.at(mail.placement)
    return there and all(
        mail.machine == run.machine and mail.job in ("", run.job) and mail.group in ("", *_groups(p, run))
        for run in runs
    )


def _groups(p: Primary, run: Run) -> Iterator[str]:
    groups = p.jobs[run.job].groups if run.job in p.jobs else ()
    yield from (str(run.group), *(str(run.group + 1) for each in groups[run.group + 1 :][:1] if each.copies))


# Pools


def pools_obey_their_rules(p: Primary) -> Iterator[Violation]:
    """6: pools obey the rules of their settings; their numbers are given out once."""
    pools = derive.pools_of(p)
    try:
        check(pools, p.resources)
    except BadInput as error:
        yield Violation(6, f"break a rule: {error}", "pools")
    numbers, after = {pool.number for pool in pools.pools}, int(p.pools.get("next", b"1"))
    if max(numbers, default=0) >= after or len(numbers) != len(pools.pools):
        yield Violation(6, f"have the numbers {sorted(numbers)}, the next is {after}", "pools")


def jobs_run_in_their_trees(p: Primary) -> Iterator[Violation]:
    """6: a job runs on machines of the tree of its pool alone."""
    pools = derive.pools_of(p)
    for job_id, group in p.runs.owners if pools.divided else ():
        job = p.jobs.get(job_id)
        if job is not None:
            lane = lane_of(job.kind, job.precedence, job.spec)
            leaf = lane.pool or lane.user
            own = pools.tree_number(leaf if leaf in pools.leaves else "")
            for run in p.runs.of(job_id, group):
                tree = p.trees.get(run.machine, own)
                if not run.leaving and own != tree:
                    what = f"job {job.id} of tree {own} runs on machine {run.machine} of tree {tree}"
                    yield Violation(6, what, f"placement {run.placement}")


def kinds_with_a_record_have_limits(p: Primary) -> Iterator[Violation]:
    """6: only kinds with limits have a record."""
    for kind, limits in p.limits.items():
        if limits == type(limits)((None,) * p.size):
            yield Violation(6, "has a record without limits", f"kind {kind}")


# Records that outlive the log


def records_belong_to_jobs(p: Primary) -> Iterator[Violation]:
    """6: a history or result belongs to a stored job, and results to a job with a history."""
    with_results = {job for job, *_ in p.chunks}
    for job in sorted(p.histories | with_results):
        if job not in p.jobs:
            yield Violation(6, "has a history or results and is not kept", f"job {job}")
    for job in sorted(with_results - p.histories):
        yield Violation(6, "has results and no history", f"job {job}")


def results_follow_from_jobs(p: Primary) -> Iterator[Violation]:
    """6: by their results as many tasks run, finished and failed as by the records of their jobs."""
    if p.position.version > p.version:
        yield Violation(6, f"is at version {p.position.version}, beyond the cell's", "usage position")
    if p.position.version != p.version or "results" in p.aged:
        return
    states: dict[tuple[str, int], Counter[int]] = {}
    for (job_id, number, _), found in p.chunks.items():
        states.setdefault((job_id, number), Counter()).update(found)
    for job in p.jobs.values():
        for number, group in enumerate(job.groups) if job.order > p.position.since_order else ():
            counted = states.get((job.id, number), Counter())
            pairs = [(RUNNING, group.placed)] + [(FAILED, group.failed)] * (not group.optional)
            pairs += [(FINISHED, group.finished)] * (not group.copies)  # those that continued as their tasks
            for state, count in pairs if group.indices <= CHUNK * MOST_CHUNKS else ():
                if counted[state] != count:
                    what = f"{count} tasks of group {number} are in state {state}, by their results {counted[state]}"
                    yield Violation(6, what, f"job {job.id}")


def accounts_hold_what_jobs_hold(p: Primary) -> Iterator[Violation]:
    """6: the sums of use continue from what the placed tasks of each account hold."""
    if p.position.version != p.version or p.position.settled is not Settled.YES:
        return
    held = Counter[tuple[Owner, int]]()
    for job in filter(derive.runs, p.jobs.values()):
        lane = lane_of(job.kind, job.precedence, job.spec)
        for at, amount in enumerate(derive.held_by([job], p.size)):
            held[Owner(lane.kind, lane.user, lane.pool), at] += amount
    levels = {(owner, at): level for owner, each in p.position.levels.items() for at, level in enumerate(each)}
    for place in sorted(held.keys() | levels.keys()):
        if held[place] != levels.get(place, 0):
            what = f"holds {levels.get(place, 0)} of resource {place[1]} by the sums of use, {held[place]} by its jobs"
            yield Violation(6, what, f"account {' '.join(place[0])}")


def shards_add_up(p: Primary) -> Iterator[Violation]:
    """6: the shards of a MapReduce job add up."""
    for job_id, what in p.shards.items():
        if what:
            yield Violation(6, what, f"shards:{job_id}")


# Members, counters, versions


def members_have_incarnations(p: Primary) -> Iterator[Violation]:
    """6: an incarnation was given out, a lease is one of a member.

    A member that registers again between two readings (a busy computer, short leases) is no violation.
    """
    for name, incarnation in p.members.items():
        if incarnation > p.counters["incarnations"]:
            yield Violation(6, f"its incarnation {incarnation} was never given out", f"member {name}")
    for name, incarnation in p.leases.items():
        if p.members.get(name) != incarnation:
            what = f"is of incarnation {incarnation}, on record is {p.members.get(name)}"
            yield Violation(6, what, f"lease:{name}")


def counters_are_reached(p: Primary) -> Iterator[Violation]:
    """6: numbers are assigned in order; a counter is at least the last one."""
    for name in _ALWAYS - p.meta:
        yield Violation(6, "is missing", f"meta {name}")
    for where, numbers in (
        ("names", sorted(p.described)),
        ("executors", [(number - 1) // 2 for number in sorted(p.executors.values())]),
    ):
        if numbers != list(range(len(numbers))):
            yield Violation(6, f"leaves out a number, or has one twice: {numbers}", where)
    for name, least in (
        ("jobs", max((job.order for job in p.jobs.values()), default=0)),
        ("transactions", max((row[1] for row in p.rows.values()), default=0)),
    ):
        if p.counters[name] < least:
            yield Violation(6, f"is {p.counters[name]}, and {least} were given out", f"meta {name}")


def forgotten_jobs_ended(p: Primary) -> Iterator[Violation]:
    """6: jobs that are no longer kept ended, and so did their tasks."""
    least = totals_of(map(head_of, p.jobs.values()))
    left = {name: p.counters[name] - least[name] for name in sorted(TOTALS)}
    jobs = sum(left[f"jobs_{word}"] for word in ("finished", "failed", "stopped", "abandoned"))
    tasks = left["tasks_total"] - sum(left[f"tasks_{word}"] for word in ("finished", "failed", "stopped"))
    gone = p.counters["jobs"] - len(p.jobs)
    if tasks or jobs > gone:
        what = f"of jobs that are no longer kept, {jobs} of {gone} ended, {tasks} tasks have not"
        yield Violation(6, what, "meta tasks_total")


def log_is_whole(p: Primary) -> Iterator[Violation]:
    """3: every version since the oldest one in the log has its entry."""
    expected = p.version - p.first + 1
    if p.length != expected:
        versions = f"{expected} versions from {p.first} to {p.version}"
        yield Violation(3, f"has {p.length} entries for the {versions}", "log")


def changes_are_of_their_versions(p: Primary) -> Iterator[Violation]:
    """3: each entry of the change list has its own tag; the last row of a lane is its record."""
    tags, last = Counter(change.tag for change in p.changes), dict[int, list[int]]()
    for change in p.changes:
        if tags[change.tag] > 1:
            yield Violation(3, f"has the tag {change.tag} of another version", f"changes {change.version}")
        last.update((row[0] - BASE, row) for row in change.lanes.tolist())
    records = derive.lanes(p)["lanes"] if last else {}
    for number, row in last.items():
        record = records.get(b"%d" % number) if isinstance(records, dict) else None
        now = np.frombuffer(record, "<i8", len(row)).tolist() if isinstance(record, bytes) else None
        if now is None and any((row[2], *row[4:])):
            yield Violation(6, f"is in the change list as {row[1:]}, and is gone", f"lane {number}")
        elif now is not None and row != now:
            yield Violation(6, f"is {now[1:]}, by the change list {row[1:]}", f"lane {number}")


# Evictions between pools


@dataclass(slots=True)
class AssertedSet:
    """A transaction with an assertion, and what of each victim it evicted by the facts that follow."""

    asserted: log.Assert
    units: dict[str, list[Need]] = field(default_factory=dict)
    sums: dict[str, Need] = field(default_factory=dict)
    known: bool = True
    """Whether the log has the amounts of every evicted task."""


def illegal(evictions: AssertedSet, emptied: set[str]) -> Iterator[str]:
    """Yield why evictions between pools contradict what was asserted (rule 33); `emptied`: jobs without tasks after.

    The first pool is that of the job that evicted, the others lost tasks to it; jobs with floors follow.
    """
    evictor, *others = evictions.asserted.pools
    victims, floors = [p for p in others if not p.job], [p for p in others if p.job]
    moved = {pool: [was - now for was, now in zip(pool.before, pool.after, strict=True)] for pool in (evictor, *others)}

    def beyond(pool: log.AssertedPool, amounts: Need, compare: Callable[[Any, float], bool]) -> bool:
        each = zip(amounts, pool.share, moved[pool], strict=True)
        return any(more and part is not None and compare(has, part) for has, part, more in each)

    if beyond(evictor, evictor.before, lambda has, part: has >= part):
        yield f"its pool ({evictor.leaves}) did not stand below its share before it evicted"
    sums, gone = evictions.sums, [sum(moved[victim][d] for victim in victims) for d in range(len(evictor.share))]
    units = [unit for each in evictions.units.values() for unit in each]  # a whole evicted job may be a gang
    units += [total for job, total in sums.items() if job in emptied]
    for victim in victims:
        if min(moved[victim]) < 0:
            yield f"the pool of a victim ({victim.leaves}) holds more afterwards"
        left = [tuple(now + more for now, more in zip(victim.after, unit, strict=True)) for unit in units]
        if evictions.known and any(moved[victim]) and not any(beyond(victim, x, lambda h, p: h > p) for x in left):
            yield f"the pool of a victim ({victim.leaves}) ends a unit or more below its share"
    for floor in floors:
        kept = [least is not None and now >= least for now, least in zip(floor.after, floor.share, strict=True)]
        if not (all(kept) if floor.leaves[0] == "+" else any(kept)):
            yield f"job {floor.job} lost tasks that its floor keeps"
        if evictions.known and list(sums.get(floor.job, moved[floor])) != moved[floor]:
            yield f"job {floor.job} lost other amounts than were counted for its floor"
    # Evictions within the evictor's own pool are in no victim's threshold.
    freed = [sum(total[d] for total in sums.values()) for d in range(len(evictor.share))]
    if sums and evictions.known and any(lost > more for lost, more in zip(gone, freed, strict=True)):
        yield "the pools of its victims lost more than was evicted"


OF_MEMORY: tuple[Rule, ...] = (
    machines_are_valid, log_is_whole, amounts_follow_from_placements, runs_are_in_job_records, placement_ids_are_unique,
    states_fit_counts, waits_are_mutual, names_and_numbers_are_of_one_job,
)  # a table # fmt: skip
"""Those rules for which a cell in memory has the records."""
RULES: tuple[Rule, ...] = (
    *OF_MEMORY, arrivals_are_given_out_once, delays_are_short, machines_are_listed, machines_are_as_operators_set_them,
    executors_are_numbered, specifications_belong_to_jobs, health_is_of_placements, messages_are_of_placements,
    pools_obey_their_rules, jobs_run_in_their_trees, kinds_with_a_record_have_limits, records_belong_to_jobs,
    results_follow_from_jobs, accounts_hold_what_jobs_hold, shards_add_up, members_have_incarnations,
    counters_are_reached, forgotten_jobs_ended, changes_are_of_their_versions,
)  # a table # fmt: skip
GROUP_RULES: tuple[GroupRule, ...] = (a_task_runs_once, counts_add_up, copies_follow_their_originals)


def groups_of(p: Primary) -> Iterator[Group]:
    """Yield the groups of all jobs with their runs."""
    for job in p.jobs.values():
        for number, status in enumerate(job.groups):
            runs = p.runs.of(job.id, number)
            live = [span for run in runs if not run.leaving for span in ranges.spans(run.tasks)]
            yield Group(job, number, status, runs, live)
