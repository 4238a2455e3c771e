"""What follows from the primary records of a cell: every index of a cell, written down once, as its key has it.

`verify` compares it with what is stored; `omega cell verify --repair` and `omega store restore` write it. It shares no
code with the scripts that keep the indexes up to date.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from operator import add
from struct import pack
from typing import NamedTuple, TypeAlias

from omega.cellstate import ranges
from omega.cellstate.lanes import BASE, BUCKET_SPAN, LANE_SPAN, MOST_WANTED, Lane, lane_of
from omega.cellstate.model import MOST_PRECEDENCE, RUNS_CHUNK, Job, JobState, MachineState, bucket_of
from omega.cellstate.pages import DELAYED, OVER, TOTALS, head_of, shape_fields, totals_of
from omega.cellstate.pools import Pools, PoolTree
from omega.cellstate.pools.lending import Lent, keepers, lenders
from omega.cellstate.pools.records import (
    leaf_field,
    leaf_rows,
    limits_words,
    operators_word,
    state_of,
    unpack_pool,
    unpack_trees,
)
from omega.cellstate.primary import Content, LaneMark, Primary, Reading, Value, count_of

Written: TypeAlias = dict[str, Content]
"""Content by key."""

_ENDED = (JobState.STOPPED, JobState.ABANDONED, JobState.DONE)
_OF_KEPT_JOBS = ("jobs_held", "jobs_halted", "jobs_stopping", DELAYED)
"""Totals in which no job counts that is not kept any more."""


def lives(job: Job) -> bool:
    """Return whether any task of a job waits or runs."""
    return any(group.unplaced or group.placed for group in job.groups)


def runs(job: Job) -> bool:
    """Return whether any task of a job is placed."""
    return any(group.placed for group in job.groups)


def has_ended(job: Job) -> bool:
    """Return whether a job belongs to the list of ended jobs."""
    return job.state in _ENDED and not lives(job)


def held_by(jobs: Sequence[Job], size: int) -> list[int]:
    """Return what the placed tasks of some jobs hold together."""
    groups = [group for job in jobs for group in job.groups if group.placed]
    return [sum(group.need[d] * group.placed for group in groups) for d in range(size)]


def pools_of(p: Primary) -> Pools:
    """Return the pools that operators set."""
    stored = [unpack_pool(data) for name, data in sorted(p.pools.items()) if name[0] == "p"]
    trees_ = unpack_trees(p.pools["trees"]) if "trees" in p.pools else (PoolTree(),)
    return Pools(tuple(stored), trees_, int(p.pools.get("version", b"0")))


def _text(*words: object) -> bytes:
    return " ".join(map(str, words)).encode()


# Machines


def names(p: Primary) -> Written:
    """Machines by name."""
    return {"names": {name.encode(): _text(index) for index, (name, _) in p.described.items() if index in p.rows}}


def shapes(p: Primary) -> Written:
    """How many machines are in a state with a capacity; which hold more than they have."""
    fields = shape_fields((row for row in p.rows.values() if row[2] in tuple(MachineState)), p.size)
    return {"shapes": {field.encode(): text.encode() for field, text in fields.items()}}


def trees(p: Primary) -> Written:
    """The pool tree of each machine, by its attributes."""
    pools = pools_of(p)
    if not pools.divided:
        return {"trees": {}}
    from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - the grammar; few cells have several trees

    indices = [index for index in p.rows if index in p.described]
    numbers = zip(indices, trees_of(pools, [p.described[index] for index in indices]), strict=True)
    return {"trees": {_text(index): b"-" if number is None else _text(number) for index, number in numbers}}


# Jobs


def jobnames(p: Primary) -> Written:
    """The newest job of each name; empty where that is its id."""
    newest = {job.name: job.id for job in p.jobs.values()}
    return {"jobnames": {name.encode(): b"" if job == name else job.encode() for name, job in newest.items()}}


def recent(p: Primary) -> Written:
    """Jobs by number of submission."""
    return {"recent": {job.id.encode(): job.order for job in p.jobs.values()}}


def waiters(p: Primary) -> Written:
    """Jobs that wait for others, under these."""
    waiting = [(wait.job, job) for job in p.jobs.values() if job.state is JobState.HELD for wait in job.after]
    return {"waiters": {_text(awaited, f"{job.order:014}", job.id): 0 for awaited, job in waiting}}


def done(p: Primary) -> Written:
    """Ended jobs in the order in which they ended: in this version where nothing says when."""
    versions = {job: version for job, version in p.done if job in p.jobs and has_ended(p.jobs[job])}
    missing = [job.id for job in p.jobs.values() if has_ended(job) and job.id not in versions]
    versions |= {job: p.ended.get(job, p.version) for job in missing}
    return {"done": [_text(*each) for each in sorted(versions.items(), key=lambda each: each[1])]}


def chunk_of(tasks: str) -> int:
    """Return the chunk of a run of these tasks, that of its last one; 0: it is in the record of its job."""
    return ranges.spans(tasks)[-1][1] // RUNS_CHUNK


def wide(p: Primary, job_id: str, group: int) -> bool:
    """Return whether runs of a group may be in chunks."""
    job = p.jobs.get(job_id)
    return job is None or group >= len(job.groups) or job.groups[group].indices > RUNS_CHUNK


def placed(p: Primary) -> Written:
    """Runs beyond those in the record of their job, in chunks."""
    chunks: dict[bytes, list[str]] = {}
    for run in (run for owner in p.runs.owners if wide(p, *owner) for run in p.runs.of(*owner)):
        if chunk := chunk_of(run.tasks):
            mark = "!" if run.leaving else ""
            listed = chunks.setdefault(_text(run.job, run.group, f"{mark}{chunk}"), [])
            listed.append(f"{mark}{run.placement}@{run.machine},")
    return {"placed": {field: "".join(listed).encode() for field, listed in chunks.items()}}


def copied(p: Primary) -> Written:
    """Kinds of the jobs whose tasks may have copies."""
    may = [job for job in p.jobs.values() if any(group.copies for group in job.groups)]
    return {"copied": {job.id.encode(): job.kind.encode() for job in may}}


def due_of(job: Job) -> float | None:
    """Return when housekeeping is to act on a job, by its record: 0 is at once, None: it may be left alone."""
    over = job.state not in (JobState.ACTIVE, JobState.HELD) and not lives(job)
    if (job.state is JobState.STOPPED and runs(job)) or (job.awaited and over):
        return 0
    due = [loss.due_ms for group in job.groups for loss in group.losses if loss.due_ms]
    return (max if job.whole else min)(due) if due else None


def housekeeping(p: Primary) -> Written:
    """Jobs that housekeeping acts on, and when."""
    due = ((job.id.encode(), due_of(job)) for job in p.jobs.values())
    return {"housekeeping": {job: at for job, at in due if at is not None}}


def results(p: Primary) -> Written:
    """The chunks of the results of each job."""
    found: dict[str, dict[int, list[int]]] = {}
    for job, group, chunk in sorted(p.chunks):
        found.setdefault(job, {}).setdefault(group, []).append(chunk)
    return {"results": {job.encode(): _chunk_list(groups).encode() for job, groups in found.items()}}


def _chunk_list(groups: Mapping[int, Sequence[int]]) -> str:
    return ";".join(f"{group}:{ranges.spell_all(chunks)}" for group, chunks in groups.items())


def outputs(p: Primary) -> Written:
    """Fields of the tasks' last output, in the order in which they are trimmed."""
    listed = [field for field in dict.fromkeys(p.listed_outputs) if field in p.outputs]
    return {"outputs": [field.encode() for field in (*listed, *sorted(p.outputs.difference(listed)))]}


# Queues and lanes


def arrivals(p: Primary) -> dict[str, int]:
    """Return the arrivals of pending jobs; those that are in no queue come last."""
    missing = [job.id for job in p.jobs.values() if job.pending and job.id not in p.arrivals]
    last = max(p.counters["arrivals"], *p.arrivals.values(), 0)
    return p.arrivals | {job: last + more for more, job in enumerate(missing, 1)}


def pending(p: Primary) -> Written:
    """Pending jobs by kind, at their lane, bucket and arrival."""
    queues, arrived = dict[str, dict[bytes, Value]](), arrivals(p)
    for job in p.jobs.values():
        if job.pending:
            bucket = bucket_of(job.id)
            score = job.lane * LANE_SPAN + bucket * BUCKET_SPAN + arrived[job.id]
            queues.setdefault(f"pending:{job.kind}", {})[f"{bucket:02x}{job.id}".encode()] = score
    return {**queues}


def lanes(p: Primary) -> Written:
    """What the live jobs of each lane want and hold, its name, and the numbers that no lane has."""
    size, sums, own, last = p.size, dict[int, list[int]](), dict[int, set[str]](), Counter[int]()
    arrived = arrivals(p)
    highest = max(p.counters["arrivals"], *arrived.values(), 0)
    for job in p.jobs.values():
        if lives(job):
            _count(job, sums.setdefault(job.lane, [0] * (4 + 2 * size)), size)
            own.setdefault(job.lane, set()).add(str(lane_of(job.kind, job.precedence, job.spec)))
            last[job.lane] = max(last[job.lane], arrived.get(job.id, 0))
    serials, records, called = _serials(p, sums), dict[bytes, Value](), dict[bytes, Value]()
    for number, (waiting, *counts) in sorted(sums.items()):
        mark = p.lanes.get(number, LaneMark(0, -1, ""))
        arrival = mark.arrival if last[number] <= mark.arrival <= highest else last[number]
        (name, *more), shared = sorted(own[number]), str(Lane(Lane.named(min(own[number])).kind, 0))
        name = shared if more or mark.name == shared else name  # where there were too many lanes, one of a kind's jobs
        called[name.encode()] = _text(number)
        row = BASE + number, serials[number], waiting, arrival, *counts
        records[_text(number)] = pack(f"<{len(row)}q", *row) + name.encode()
    numbers = sums.keys() | p.spare_lanes
    most = max(numbers if numbers == set(range(1, len(numbers) + 1)) else sums, default=0)
    spare = [number for number in range(1, most + 1) if number not in sums]
    if spare:
        records[b"spare"] = _text(*spare, "")
    return {"lanes": records, "lanenames": called}


def _count(job: Job, sums: list[int], size: int) -> None:
    """Add a job to the sums of its lane: pending, wanted, held, live, tasks, running."""
    sums[0] += job.pending
    for group in job.groups:
        waiting = 0 if group.waiting == ranges.EMPTY or group.copies else count_of(group.waiting)
        for d, need in enumerate(group.need):
            sums[1 + d] += min(MOST_WANTED, need * waiting)
            sums[1 + size + d] += need * group.placed
        sums[-2] += group.placed
    sums[-3] += 1
    sums[-1] += runs(job)


def _serials(p: Primary, numbers: Mapping[int, object]) -> dict[int, int]:
    """Return the serials of lanes: where one was never given out, or is given out twice, the next one."""
    known, given = Counter(mark.serial for mark in p.lanes.values()), p.counters["lanes"]
    fresh = count(given + 1)
    own = {number: p.lanes[number].serial if number in p.lanes else 0 for number in sorted(numbers)}
    return {number: one if 0 < one <= given and known[one] == 1 else next(fresh) for number, one in own.items()}


# Sums, limits and pools


def counters(p: Primary) -> dict[str, int]:
    """Return those counters that follow from records, or have at least what the kept jobs give."""
    kept, gone = totals_of(map(head_of, p.jobs.values())), p.counters["jobs"] > len(p.jobs)
    totals = {
        name: max(p.counters[name], least) if gone and name not in _OF_KEPT_JOBS else least
        for name, least in kept.items()
    }
    live = {job.lane: None for job in p.jobs.values() if lives(job)}
    last = max(_serials(p, live).values(), default=0)
    return totals | {
        "limits": len(p.limits), "pools": state_of(pools_of(p)), "lanes": max(p.counters["lanes"], last),
        "arrivals": max(p.counters["arrivals"], *arrivals(p).values(), 0),
    }  # fmt: skip


def meta(p: Primary) -> Written:
    """Those counters that follow from records."""
    return {"meta": {name.encode(): _text(number) for name, number in counters(p).items()}}


def kinds(p: Primary) -> Written:
    """The limits of kinds, and what their jobs hold."""
    found: dict[bytes, Value] = {}
    for kind, limits in p.limits.items():
        jobs = [job for job in p.jobs.values() if job.kind == kind and runs(job)]
        low, high = ("-", "-") if limits.precedence == (0, MOST_PRECEDENCE) else limits.precedence
        bounds = [limits.jobs, low, high, *limits.resources]
        words = ["-" if bound is None else bound for bound in bounds]
        found[kind.encode()] = _text(*words, len(jobs), *held_by(jobs, p.size))
    return {"kinds": found}


def pool_books(p: Primary) -> Written:
    """Which pools bind the jobs of a leaf, and what pools with limits, pools that lend in part, and trees hold."""
    pools, size = pools_of(p), p.size
    books = {pool.number: [0] * (2 + size) for pool in pools.pools if pool.upper}
    lent = lenders(pools, p.epoch_totals[1] if p.epoch_totals else {}, p.resources)
    rows = leaf_rows(pools)
    for job in p.jobs.values() if books or lent else ():
        if runs(job):
            lane = lane_of(job.kind, job.precedence, job.spec)
            leaf, held = lane.pool or lane.user, held_by([job], size)
            chain = rows.get(leaf_field(leaf), rows.get("c", ""))
            for number in chain.partition("@")[0].partition("/")[0].split():
                tasks = sum(group.placed for group in job.groups)
                books[int(number)] = list(map(add, books[int(number)], [1, tasks, *held]))
            name = leaf if leaf in pools.leaves else ""
            if tree := lent.get(f"t{pools.trees.index(pools.tree_of(name))}"):
                above = [lent[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)]
                Lent(above, tree).occupy(held)
    limits = {pool.number: limits_words(pool, p.resources) for pool in pools.pools}
    fields = rows | {f"b{number}": f"{limits[number]} {' '.join(map(str, used))}" for number, used in books.items()}
    fields |= {name: each.words for name, each in lent.items()}
    return {"pools": {b"operators": operators_word(pools), **{f.encode(): text.encode() for f, text in fields.items()}}}


INDEXES: Mapping[str, Callable[[Primary], Written]] = {
    "names": names, "shapes": shapes, "trees": trees, "jobnames": jobnames, "recent": recent, "waiters": waiters,
    "done": done, "placed": placed, "copied": copied, "housekeeping": housekeeping, "results": results,
    "outputs": outputs, "pending": pending, "lanes": lanes, "meta": meta, "kinds": kinds, "pools": pool_books,
}  # fmt: skip
"""What gives each key; ``lanes`` gives ``lanenames`` too, ``pending`` a key for each kind."""
ALONE: Mapping[str, Callable[[str], bool]] = {
    "meta": lambda field: field in TOTALS or field in ("limits", "pools", "lanes", "arrivals"),
    "pools": lambda field: not re.fullmatch(r"p\d+|trees|version|next", field),
    "results": lambda field: " " not in field,
}  # fmt: skip
"""Of keys that have primary records too: which fields follow from others."""


MIXED = frozenset({*ALONE, "kinds"})
SCORED = frozenset({"recent", "waiters", "housekeeping", "pending"})
"""Sorted sets."""


class Difference(NamedTuple):
    """A field of a key that is not as it follows from primary records; None: it is not there."""

    key: str
    field: bytes
    expected: Value | None
    stored: Value | None


def follows(key: str, field: bytes) -> bool:
    """Return whether a field of a key follows from primary records."""
    base = key.partition(":")[0]
    alone = ALONE.get(base)
    return (base in INDEXES or base == "lanenames") and (alone is None or alone(field.decode(errors="replace")))


def differences(reading: Reading) -> Iterator[Difference]:
    """Compare what follows from primary records with what is stored, by key."""
    p, stored, kept = reading
    for base, derived in INDEXES.items():
        if kept is not None and base not in kept:
            continue
        expected = derived(p)
        for key in sorted(expected.keys() | {key for key in stored if key.partition(":")[0] == base}):
            left, right = _fields(expected.get(key, {})), _fields(stored.get(key, {}))
            for field in left.keys() | right.keys() if left != right else ():
                now, then = right.get(field), left.get(field)
                if now != then and follows(key, field) and not _is_alike(p, key, field, then, now):
                    yield Difference(key, field, then, now)


def _fields(content: Content) -> Mapping[bytes, Value]:
    return content if isinstance(content, Mapping) else Counter(content)


def _is_alike(p: Primary, key: str, field: bytes, expected: Value | None, stored: Value | None) -> bool:
    """Return whether what is stored says the same in other words, or only waits for its removal."""
    name = field.decode(errors="replace")
    match key, expected, stored:
        case (("meta" | "pools"), (b"0" | b"-" | b""), None):
            return True
        case "jobnames", bytes(job), None:
            return not lives(p.jobs[job.decode() or name])
        case "copied", _, None:
            return not lives(p.jobs[name])
        case "copied", None, _:
            return name not in p.jobs
        case "housekeeping", None, float(at):
            return name in p.jobs and at <= p.now_ms
        case "placed", bytes(), bytes():
            return _runs_listed(expected, name) == _runs_listed(stored, name)
        case "lanes", bytes(), bytes() if name == "spare":
            return sorted(expected.split()) == sorted(stored.split())
        case "shapes", _, bytes() if name == OVER:
            over, there = expected.split() if isinstance(expected, bytes) else [], stored.split()
            present = {_text(row[0]) for row in p.rows.values() if row[2] != MachineState.GONE}
            return set(over) <= set(there) <= present and len(set(there)) == len(there)
        case "pools", bytes(), bytes() if name[0] == "t" and p.epoch_totals:
            unbound = p.epoch_totals[0] != int(p.pools.get("version", b"0"))
            return unbound and expected.split()[p.size :] == stored.split()[p.size :]
        case "results", bytes(), bytes():
            return sorted(expected.split(b";")) == sorted(stored.split(b";"))
    return False


def _runs_listed(text: bytes, field: str) -> list[tuple[int, bytes]] | None:
    """Read the runs of a chunk; one without an id has the id after the one before. None for other text."""
    mark, found, placement = b"!" if "!" in field else b"", list[tuple[int, bytes]](), 0
    for item in text.split(b",")[:-1]:
        first, at, machine = item.partition(b"@")
        if not at or first[:1] not in (mark, first[:1] if not mark else b"") or not text.endswith(b","):
            return None
        digits = first.removeprefix(mark)
        if not (digits.isdigit() or not digits):
            return None
        placement = int(digits) if digits else placement + 1
        found.append((placement, machine))
    return sorted(found)
