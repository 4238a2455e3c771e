"""Announcements and writes of a call in the twin; ``lua/parts/publish.lua`` and ``announce.lua``.

Every changing call raises the version by one and records, under that version, its tag and the machines it touched.
Facts and messages are kept as tuples and converted to text when they are read.
"""

from collections.abc import Iterable

from omega.cellstate.memory.done import retire_excess
from omega.cellstate.memory.lanes import count_in_lane, enqueue, leave_lane, remove, write_lanes
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.links import end_waits
from omega.cellstate.memory.losses import note_due
from omega.cellstate.memory.records import JobRow
from omega.cellstate.model import JobState
from omega.cellstate.replies import ANY_JOB
from omega.cellstate.transaction import Basis

MAILBOX_MOST = 20_000
"""Entries of a mailbox: the messages of a call."""


def write_jobs(ledger: Ledger, before: Iterable[JobRow]) -> None:
    """End waits, complete jobs without remaining tasks, update which jobs are pending and when lost tasks are due.

    `before`: jobs that ended before this call and that others still wait for.
    """
    if ledger.waited:
        end_waits(ledger, before)
    # What is noted of a job that had ended before: that others wait for it.
    noted = [j for j in ledger.changed_jobs if not j.complete]
    for j in ledger.changed_jobs:
        if ledger.counted and not j.complete:
            count_in_lane(ledger, j)
        pending = j.unplaced > 0 and j.state <= JobState.HELD and not (j.whole and j.delayed)
        if j.unplaced == 0 and j.placed == 0 and not j.delayed and not j.complete:
            if j.state <= JobState.HELD:
                j.state = JobState.DONE
            else:
                ledger.due.pop(j.id, None)
            j.complete = True
            leave_lane(ledger, j.lane)
            ledger.retired.append(j)
            ledger.fact("done", j.id, int(j.state))
        if pending and (j.returned or not j.arrival):
            ledger.pend.append(j)
        elif j.arrival and not pending:
            remove(ledger, j)
    note_due(ledger, noted)
    ledger.due |= dict.fromkeys(ledger.releasing, 0)


def write_pending(ledger: Ledger) -> None:
    """Add jobs to the end of the queue of their lane; at most one token notifies a scheduler (semantics 19)."""
    for j in ledger.pend:
        if j.arrival:
            remove(ledger, j)
        ledger.arrivals += 1
        enqueue(ledger, j, ledger.arrivals)
    for kind in {j.kind.name for j in ledger.pend}:
        wake(ledger, kind)


def wake(ledger: Ledger, kind: str) -> None:
    """Leave a token for every live scheduler of a kind."""
    for name, member in ledger.schedulers.items():
        if member.lives and name.partition("/")[0] == kind:
            ledger.wakes.add(name)


def notify_blocked(ledger: Ledger) -> None:
    """Notify live schedulers with blocked jobs: all of room, those that wait for it of a placement."""
    for name, awaited in ledger.blocked.items():
        lives = name in ledger.schedulers and ledger.schedulers[name].lives
        if lives and (ledger.freed or any(j.name in awaited or ANY_JOB in awaited for j in ledger.gained)):
            ledger.wakes.add(name)


def write_mailboxes(ledger: Ledger) -> None:
    """Deliver messages; an overfull mailbox is replaced by a mark to read everything."""
    for executor, lines in ledger.messages_now.items():
        mailbox = ledger.messages.setdefault(executor, [])
        mailbox.append(lines)
        if len(mailbox) > MAILBOX_MOST:
            ledger.messages[executor] = [[("!",)]]


def announce(ledger: Ledger, at: int, by: str, basis: Basis | None = None, settings: str = "") -> None:
    """Announce the touched machines and the facts under the next version, with the basis of a commit or settings."""
    catch_up(ledger)
    ledger.version += 1
    ledger.tags.append(ledger.new_tag())
    ledger.marks.append(ledger.cut + len(ledger.trail))
    if ledger.version - ledger.floor > 2 * ledger.changes_kept:
        trim(ledger, ledger.version - ledger.changes_kept)
    if ledger.log:
        ledger.entries.append((ledger.version, at, by, ledger.facts_now, basis, settings))


def trim(ledger: Ledger, floor: int) -> None:
    """Forget which machines the versions up to `floor` changed; ``lua/parts/trim.lua``.

    The store chooses the floor by the length of its entries, which the twin does not have.
    """
    catch_up(ledger)
    drop = floor - ledger.floor
    ledger.floor = floor
    del ledger.trail[: ledger.marks[drop - 1] - ledger.cut]
    ledger.cut = ledger.marks[drop - 1]
    del ledger.tags[:drop], ledger.marks[:drop]
    ledger.restated = [each for each in ledger.restated if each[0] > floor]
    ledger.gone_lanes = [each for each in ledger.gone_lanes if each.version > floor]


def catch_up(ledger: Ledger) -> None:
    """Create the tags of versions that were only counted; all their changes count as made after the first."""
    if ledger.behind:
        mark = ledger.marks[-1] if ledger.marks else ledger.cut
        ledger.tags += [ledger.new_tag() for _ in range(ledger.behind)]
        ledger.marks += [mark] * ledger.behind
        ledger.behind = 0


def publish(
    ledger: Ledger,
    at: int,
    by: str,
    basis: Basis | None = None,
    ended_before: Iterable[JobRow] = (),
    settings: str = "",
) -> None:
    """Write everything."""
    write_jobs(ledger, ended_before)
    if ledger.pend:
        write_pending(ledger)
    if ledger.left_lanes:
        write_lanes(ledger)
    if ledger.blocked and (ledger.freed or ledger.gained):
        notify_blocked(ledger)
    if ledger.messages_now:
        write_mailboxes(ledger)
    retire_excess(ledger)
    announce(ledger, at, by, basis, settings)
