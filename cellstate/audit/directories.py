"""The directories of a cell against its machines and jobs, and against its log (invariant 6 of the audit).

A directory is read slightly before the cell state, so a contradiction in a busy cell may be a change in between:
`report` reports only contradictions that several readings show at the same place.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from operator import add

from omega.cellstate import ranges
from omega.cellstate.audit.reading import CellState, placed_amounts
from omega.cellstate.audit.register import ChangedMachine, JobFacts, Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.digest.hours import Owner, Settled
from omega.cellstate.digest.results import CHUNK, FAILED, FINISHED, MOST_CHUNKS, RUNNING
from omega.cellstate.errors import BadInput
from omega.cellstate.inspection import Inspection, LaneBook, Mail
from omega.cellstate.lanes import BASE, MOST_WANTED, Lane, lane_of
from omega.cellstate.model import MOST_PRECEDENCE, RUNS_CHUNK, Job, JobState, Limits, MachineState, Run, runs_commands
from omega.cellstate.pages import DELAYED, TOTALS, Shape, head_of, totals_of
from omega.cellstate.pools import Pools, PoolTree
from omega.cellstate.pools.lending import Lender, Lent, bounds as bounds_of, keep, keepers, lending_trees
from omega.cellstate.pools.records import (
    digest,
    leaf_field,
    leaf_rows,
    limits_words,
    operators_word,
    state_of,
    unpack_pool,
    unpack_trees,
)
from omega.cellstate.pools.rules import check

# Lanes against the jobs in them, their queues and the change list (invariant 6 of the audit).


def lanes_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: a lane's counts, demand and use are those of its live jobs; jobs and queue entries name their lane."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    expected: dict[int, list[int]] = {}
    for job in cell_state.jobs.values():
        if any(group.unplaced or group.placed for group in job.groups):
            _count(job, expected.setdefault(job.lane, [0] * (4 + 2 * cell_state.size)), cell_state.size)
            lane, own = inspection.lanes.get(job.lane), lane_of(job.kind, job.precedence, job.spec)
            if lane is None or lane.name not in (str(own), str(Lane(job.kind, 0))):
                yield Violation(6, f"names lane {job.lane}, which is that of {lane and lane.name!r}", f"job {job.id}")
    for number in sorted(expected.keys() | inspection.lanes.keys()):
        lane = inspection.lanes.get(number)
        counts = [lane.live, lane.pending, *lane.wanted, *lane.held, lane.tasks, lane.running] if lane else []
        if counts != expected.get(number):
            what = f"counts {counts} (live, pending, wanted, held, tasks, running), its jobs {expected.get(number)}"
            yield Violation(6, what, f"lane {number}")
    yield from _queues(inspection, cell_state)
    yield from _lane_names(inspection)
    yield from _rows(inspection)


def _count(job: Job, counts: list[int], size: int) -> None:
    counts[0] += 1
    counts[1] += job.pending
    for group in job.groups:
        waiting = 0 if group.waiting == ranges.EMPTY or group.copies else ranges.count(group.waiting)
        for d, need in enumerate(group.need):
            counts[2 + d] += min(MOST_WANTED, need * waiting)
            counts[2 + size + d] += need * group.placed
        counts[-2] += group.placed
    counts[-1] += any(group.placed for group in job.groups)


def _queues(inspection: Inspection, cell_state: CellState) -> Iterator[Violation]:
    last: Counter[int] = Counter()
    for entry in inspection.queued:
        job = cell_state.jobs.get(entry.job)
        if job is not None and entry.lane != job.lane:
            yield Violation(6, f"is queued in lane {entry.lane} and belongs to {job.lane}", f"job {entry.job}")
        last[entry.lane] = max(last[entry.lane], int(entry.arrival))
    for number, lane in inspection.lanes.items():
        if not last[number] <= lane.arrival <= inspection.counters["arrivals"]:
            yield Violation(6, f"its last arrival is {lane.arrival}, in its queue {last[number]}", f"lane {number}")


def _lane_names(inspection: Inspection) -> Iterator[Violation]:
    """Names and lanes match; each number from 1 on belongs to a lane or is free; serials are unique."""
    names = {lane.name: number for number, lane in inspection.lanes.items()}
    for name in sorted(names.keys() ^ inspection.lane_names.keys()):
        yield Violation(6, "does not lead to a lane of that name", f"lane name {name}")
    for name, number in inspection.lane_names.items():
        if names.get(name, number) != number:
            yield Violation(6, f"leads to lane {number} and is that of {names[name]}", f"lane name {name}")
    numbers = sorted([*inspection.lanes, *inspection.spare_lanes])
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation(6, f"numbers of lanes and free ones are {numbers}", "lanes spare")
    serials = Counter(lane.serial for lane in inspection.lanes.values())
    for serial, count in serials.items():
        if count > 1 or not 0 < serial <= inspection.counters["lanes"]:
            yield Violation(6, f"serial {serial} is of {count} lanes, or was never given out", "lanes")


def _rows(inspection: Inspection) -> Iterator[Violation]:
    """Check that the last row of a lane in the change list equals its record."""
    last: dict[int, list[int]] = {}
    for change in inspection.changes:
        for row in change.lanes.tolist():
            last[row[0] - BASE] = row
    for number, row in last.items():
        lane = inspection.lanes.get(number)
        if lane is None and any((row[2], *row[4:])):
            yield Violation(6, f"is in the change list as {row[1:]}, and is gone", f"lane {number}")
        elif lane is not None and row[1:] != _row(lane):
            yield Violation(6, f"is {_row(lane)}, by the change list {row[1:]}", f"lane {number}")


def _row(lane: LaneBook) -> list[int]:
    return [lane.serial, lane.pending, lane.arrival, *lane.wanted, *lane.held]


# Records that outlive the log against the machines and jobs of the cell (invariant 6 of the audit).
#
# What a digest of the log counted follows from the cell where it has read the whole log: then tasks run, finished and
# failed by their results as by the records of their jobs, and accounts hold what their lanes hold.


def records_belong_to_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: a history or result belongs to a stored job, and the chunks of results are those that are listed."""
    kept = inspection.records
    for job in sorted(kept.histories | {job for job, *_ in kept.chunks}):
        if job not in cell_state.jobs:
            yield Violation(6, "has a history or results and is not kept", f"job {job}")
    for job in sorted({job for job, *_ in kept.chunks.keys() | kept.listed} - kept.histories):
        yield Violation(6, "has results and no history", f"job {job}")
    for place in sorted(kept.chunks.keys() ^ kept.listed):
        yield Violation(6, "is listed or there, not both", "results {} {} {}".format(*place))


def results_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: by their results as many tasks run, finished and failed as by the records of their jobs."""
    kept = inspection.records
    if kept.position.version > cell_state.version:
        yield Violation(6, f"is at version {kept.position.version}, beyond the cell's", "usage position")
    if not _has_read_all(inspection, cell_state):
        return
    states: dict[tuple[str, int], Counter[int]] = {}
    for (job_id, group, _chunk), found in kept.chunks.items():
        states.setdefault((job_id, group), Counter()).update(found)
    for job in cell_state.jobs.values():
        if job.order > kept.position.since_order:
            yield from _counted_alike(job, states)


def _counted_alike(job: Job, states: dict[tuple[str, int], Counter[int]]) -> Iterator[Violation]:
    for number, group in enumerate(job.groups):
        if group.indices > CHUNK * MOST_CHUNKS:
            continue
        counted = states.get((job.id, number), Counter())
        pairs = [(RUNNING, group.placed)] + [(FAILED, group.failed)] * (not group.optional)
        pairs += [(FINISHED, group.finished)] * (not group.copies)  # those that continued as their tasks
        for state, count in pairs:
            if counted[state] != count:
                what = f"{count} tasks of group {number} are in state {state}, by their results {counted[state]}"
                yield Violation(6, what, f"job {job.id}")


def accounts_hold_what_lanes_hold(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: the sums of use continue from what the placed tasks of each account hold."""
    if not _has_read_all(inspection, cell_state) or inspection.records.position.settled is not Settled.YES:
        return
    held: Counter[tuple[Owner, int]] = Counter()
    for book in inspection.lanes.values():
        lane = Lane.named(book.name)
        for at, amount in enumerate(book.held):
            held[Owner(lane.kind, lane.user, lane.pool), at] += amount
    levels = {
        (owner, at): amount
        for owner, amounts in inspection.records.position.levels.items()
        for at, amount in enumerate(amounts)
    }
    for place in sorted(held.keys() | levels.keys()):
        if held[place] != levels.get(place, 0):
            what = f"holds {levels.get(place, 0)} of resource {place[1]} by the sums of use, {held[place]} by its lanes"
            yield Violation(6, what, f"account {' '.join(place[0])}")


def _has_read_all(inspection: Inspection, cell_state: CellState) -> bool:
    return inspection.records.position.version == inspection.version == cell_state.version


def copied_jobs_are_listed(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: jobs whose tasks may have copies are listed by kind until they end; those that ended may be."""
    for job in cell_state.jobs.values():
        may, kind = any(group.copies for group in job.groups), inspection.copied.get(job.id)
        lives = any(group.unplaced or group.placed for group in job.groups)
        if (kind is None and may and lives) or (kind is not None and (not may or kind != job.kind)):
            listed = "not listed" if kind is None else f"listed under kind {kind}"
            what = f"of kind {job.kind} {'may' if may else 'may not'} have copies of tasks, and is {listed}"
            yield Violation(6, what, f"job {job.id}")


OUTLIVING = records_belong_to_jobs, results_follow_from_jobs, accounts_hold_what_lanes_hold, copied_jobs_are_listed
"""The checks of these records."""

# Pools against the log, their rules, and the jobs in them (invariant 6 of the audit).


def pools_follow_from_jobs_and_log(
    inspection: Inspection, cell_state: CellState, register: Register
) -> Iterator[Violation]:
    """6: pools are as set last and obey their rules; the use of those with limits is the sum over their jobs."""
    fields = inspection.pools
    if inspection.version != cell_state.version or any(damage.key == "pools" for damage in inspection.damaged):
        return  # it changed during the reading, or cannot be read
    pools = _pools(fields)
    yield from _by_the_log(pools, fields, register)
    try:
        check(pools, _resource_names(pools, cell_state.size))
    except BadInput as error:
        yield Violation(6, f"break a rule: {error}", "pools")
        return
    expected = {name: text.encode() for name, text in leaf_rows(pools).items()}
    stored = {name: text for name, text in fields.items() if name[0] in "cu"}
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            verb, now = "leads to pools" if name[0] == "c" else "admits the users", stored.get(name)
            yield Violation(6, f"{verb} {now!r}, by the tree {expected.get(name)!r}", f"pools field {name}")
    state = state_of(pools)
    if inspection.counters["pools"] != state:
        yield Violation(6, f"is {inspection.counters['pools']}, by the pools {state}", "meta field pools")
    numbers = {pool.number for pool in pools.pools}
    if max(numbers, default=0) >= int(fields.get("next", b"1")) or len(numbers) != len(pools.pools):
        yield Violation(6, f"have the numbers {sorted(numbers)}, the next is {fields.get('next')!r}", "pools")
    given_out = max(register.pools, default=0)
    if register.complete and int(fields.get("next", b"1")) != given_out + 1:
        what = f"is {fields.get('next')!r}, by the log {given_out} numbers were given out"
        yield Violation(6, what, "pools field next")
    band, expected_band = fields.get("operators", b"-"), operators_word(pools)
    if band != expected_band:
        yield Violation(6, f"is {band!r}, by the trees {expected_band!r}", "pools field operators")
    yield from _books(pools, fields, cell_state)
    yield from _lenders(pools, inspection, cell_state)


def _pools(fields: dict[str, bytes]) -> Pools:
    return Pools(
        tuple(unpack_pool(data) for name, data in sorted(fields.items()) if name[0] == "p"),
        unpack_trees(fields["trees"]) if "trees" in fields else (PoolTree(),), int(fields.get("version", b"0")),
    )  # fmt: skip


def _resource_names(pools: Pools, size: int) -> list[str]:
    """Return names for the cell's resources as used by the pools; the audit has no access to their order."""
    used = {name for pool in pools.pools for amounts in (pool.guarantee, pool.limits, pool.integral.flow,
            pool.integral.burst, pool.borrowing, pool.lending, pool.preemption.non_preemptible_usage or {})
            for name in amounts}  # fmt: skip
    return [*sorted(used - {"tasks", "jobs"}), *(f"resource {d}" for d in range(size))]


def _by_the_log(pools: Pools, fields: dict[str, bytes], register: Register) -> Iterator[Violation]:
    names = {pool.number: pool.name for pool in pools.pools}
    stored = {int(name[1:]): digest(data) for name, data in fields.items() if name[0] == "p"}
    for number, (name, said) in sorted(register.pools.items()):
        if names.get(number, name) != name:
            yield Violation(6, f"is named {names[number]}, by the log {name}", f"pool number {number}")
        if stored.get(number, "-") != said:
            what = f"its settings have the digest {stored.get(number, '-')}, by the log {said}"
            yield Violation(6, what, f"pool {name}")
    for number in sorted(stored.keys() - register.pools.keys()) if register.complete else ():
        yield Violation(6, "is there, and nobody set it", f"pool number {number}")
    if register.trees is not None and register.trees != digest(fields.get("trees", b"")):
        yield Violation(6, f"have another digest than {register.trees}, which the log names", "pool trees")
    version = int(fields.get("version", b"0"))
    if register.pools_version not in (None, version) or (register.complete and version and not register.pools_version):
        yield Violation(6, f"were changed in version {version}, by the log {register.pools_version}", "pools")


def _books(pools: Pools, fields: dict[str, bytes], cell_state: CellState) -> Iterator[Violation]:
    sums: dict[str, list[int]] = {f"b{pool.number}": [0] * (2 + cell_state.size) for pool in pools.pools if pool.upper}
    for job in cell_state.jobs.values():
        if any(group.placed for group in job.groups):
            lane = lane_of(job.kind, job.precedence, job.spec)
            leaf = leaf_field(lane.pool or lane.user)
            chain = fields.get(leaf, fields.get("c", b"")).decode()
            for number in chain.partition("@")[0].partition("/")[0].split():
                if used := sums.get(f"b{number}"):
                    tasks = sum(group.placed for group in job.groups)
                    used[:] = map(add, used, [1, tasks, *placed_amounts([job], cell_state.size)])
    for name in sorted(sums.keys() | {name for name in fields if name[0] == "b"}):
        words = fields.get(name, b"").decode().split()
        if name not in sums:
            yield Violation(6, "carries no limits, and is booked", f"pools field {name}")
        elif words[2 + cell_state.size :] != list(map(str, sums[name])):
            yield Violation(6, f"holds {words[2 + cell_state.size :]}, its jobs {sums[name]}", f"pools field {name}")
    for pool in pools.pools:
        words = fields.get(f"b{pool.number}", b"").decode().split()[: 2 + cell_state.size]
        own = [word for word in limits_words(pool, ()).split() if pool.upper]
        given = sorted(word for word in words if word != "-")
        if pool.upper and (words[:2] != own or given != sorted(map(str, pool.upper.values()))):
            yield Violation(6, f"has limits {words}, its settings {dict(pool.upper)}", f"pool {pool.name}")


def _lenders(pools: Pools, inspection: Inspection, cell_state: CellState) -> Iterator[Violation]:
    """What pools that lend in part and their trees have and occupy follows from settings, the epoch and jobs."""
    fields, known = inspection.pools, inspection.epoch_totals
    size, settings = cell_state.size, {f"k{pool.number}": pool.kept for pool in pools.pools if pool.kept}
    wanted = {*settings, *(f"t{pools.trees.index(tree)}" for tree in lending_trees(pools))}
    stored = {name: fields[name].decode().split() for name in fields if name[0] in "kt" and name != "trees"}
    for name in sorted(wanted ^ stored.keys()):
        what = "is there although nothing is kept" if name in stored else "is not there"
        yield Violation(6, what, f"pools field {name}")
    if wanted ^ stored.keys():
        return
    bounds = {name: [None if word == "-" else int(word) for word in words[:size]] for name, words in stored.items()}
    lenders = {name: Lender(bound) for name, bound in bounds.items()}
    for name, kept in settings.items():
        if sorted(amount for amount in lenders[name].bound if amount is not None) != sorted(kept.values()):
            yield Violation(6, f"keeps {lenders[name].bound}, by its settings {dict(kept)}", f"pools field {name}")
            return
    for lending in lending_trees(pools) if known is not None and known[0] == pools.version else ():
        name, totals = f"t{pools.trees.index(lending)}", known[1].get(lending.name) if known else None
        expected = bounds_of(pools, lending, totals, inspection.resources)
        if list(lenders[name].bound) != expected:
            yield Violation(6, f"has {lenders[name].bound}, by the epoch {expected}", f"pools field {name}")
    keep(pools, lenders)
    for job in cell_state.jobs.values():
        if any(group.placed for group in job.groups):
            lane = lane_of(job.kind, job.precedence, job.spec)
            leaf = lane.pool or lane.user
            name = leaf if leaf in pools.leaves else ""
            tree = lenders.get(f"t{pools.trees.index(pools.tree_of(name))}")
            if tree is not None:
                above = [lenders[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)]
                Lent(above, tree).occupy(placed_amounts([job], size))
    for name, words in stored.items():
        if words[size:] != list(map(str, lenders[name].used)):
            yield Violation(6, f"occupied are {words[size:]}, by the jobs {lenders[name].used}", f"pools field {name}")


def machines_are_in_their_trees(
    inspection: Inspection, cell_state: CellState, register: Register
) -> Iterator[Violation]:
    """6: a machine is in the tree that formulas select by its attributes, also by the log; it runs its jobs alone."""
    if any(damage.key in ("pools", "static") for damage in inspection.damaged):
        return
    pools, assigned = _pools(inspection.pools), inspection.trees
    if not pools.divided:
        for index in sorted(assigned):
            yield Violation(6, f"is in tree {assigned[index]}, and trees divide no machines", f"machine {index}")
        return
    from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - numpy; few cells have several trees

    indices = sorted(inspection.described)
    selected = trees_of(pools, [inspection.described[index] for index in indices])
    for index, number in zip(indices, selected, strict=True):
        if index not in assigned:
            what = "is in no tree and takes no tasks, until a live scheduler or agent assigns it"
            yield Violation(6, what, f"machine {index}")
        elif assigned[index] != number:
            what = f"is in tree {assigned[index]}, by its attributes in {number} (places in the list of trees)"
            yield Violation(6, what, f"machine {index}")
        elif (known := register.tree_of(index)) not in (None, "-" if number is None else str(number)):
            yield Violation(6, f"is in tree {number}, by the log in {known}", f"machine {index}")
    for index in assigned.keys() - cell_state.rows.keys():
        yield Violation(6, "is in a tree and does not exist", f"machine {index}")
    for run in (run for runs in cell_state.runs.values() for run in runs if not run.leaving):
        job = cell_state.jobs.get(run.job)
        if job is not None and job.id not in cell_state.bare and run.machine in assigned:
            lane = lane_of(job.kind, job.precedence, job.spec)
            leaf = lane.pool or lane.user
            own = pools.tree_number(leaf if leaf in pools.leaves else "")
            if own != assigned[run.machine]:
                what = f"job {job.id} of tree {own} runs on machine {run.machine} of tree {assigned[run.machine]}"
                yield Violation(6, what, f"placement {run.placement}")


def epoch_follows_from_log(inspection: Inspection, cell_state: CellState, register: Register) -> Iterator[Violation]:
    """6: the published epoch is the one that the log names last, with its content."""
    known = register.epoch is not None or register.complete
    if inspection.version == cell_state.version and known and register.epoch != inspection.epoch:
        what = "number, version, digest, publishing version, author"
        yield Violation(6, f"is {inspection.epoch} ({what}), by the log {register.epoch}", "epoch")
    pools = inspection.epoch_totals[0] if inspection.epoch_totals else None
    if inspection.version == cell_state.version and register.epoch_pools not in (None, pools):
        yield Violation(6, f"is of version {pools} of the pools, by the log of {register.epoch_pools}", "epoch")


# The sums and indexes that the store keeps against machines and jobs (invariant 6 of the audit).


def sums_follow_from_records(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """6: machines are counted by shape, jobs are listed by submission, totals are those of all jobs."""
    if inspection.version != cell_state.version:
        return  # it changed during the reading
    size = cell_state.size
    rows = [row for row in cell_state.rows.values() if row[2] != MachineState.GONE]
    counts = Counter(Shape(MachineState(row[2]), row[3] % 2 == 1, tuple(row[4 : 4 + size])) for row in rows)
    for shape in sorted(counts.keys() | inspection.shapes.keys()):
        if counts[shape] != inspection.shapes.get(shape, 0):
            what = f"counts {inspection.shapes.get(shape, 0)} machines, there are {counts[shape]}"
            yield Violation(6, what, f"shapes {shape}")
    over = {row[0] for row in rows if any(map(int.__gt__, row[4 + size :], row[4 : 4 + size]))}
    unknown = set(inspection.over) - {row[0] for row in rows}
    if over - set(inspection.over) or unknown or len(set(inspection.over)) < len(inspection.over):
        what = f"lists the machines {inspection.over}, and {sorted(over)} hold more than they have"
        yield Violation(6, what, "shapes over")
    orders = {job.id: job.order for job in cell_state.jobs.values()}
    for job_id in sorted(orders.keys() | inspection.recent.keys()):
        if orders.get(job_id) != inspection.recent.get(job_id):
            what = (
                f"is at {inspection.recent.get(job_id)} of the index of submissions, its number is {orders.get(job_id)}"
            )
            yield Violation(6, what, f"recent {job_id}")
    yield from _totals(inspection, cell_state)


def waiters_follow_from_jobs(inspection: Inspection, cell_state: CellState, _: Register) -> Iterator[Violation]:
    """4: the jobs that wait for others are listed under these, and no others are."""
    expected = {
        f"{wait.job} {job.order:014} {job.id}"
        for job in cell_state.jobs.values() if job.state is JobState.HELD for wait in job.after
    }  # fmt: skip
    for member in sorted(expected ^ inspection.waiters.keys()):
        what = "is not listed, and its job waits" if member in expected else "is listed, and no job waits so"
        yield Violation(4, what, f"waiters {member}")
    for member, score in inspection.waiters.items():
        if score:
            yield Violation(4, f"has the score {score}, not 0", f"waiters {member}")


def _totals(inspection: Inspection, cell_state: CellState) -> Iterator[Violation]:
    """Check counters: jobs that are no longer kept ended, so a total has at least what those that are kept give."""
    least, now = totals_of(map(head_of, cell_state.jobs.values())), inspection.counters
    left = {name: now[name] - least[name] for name in sorted(TOTALS)}
    jobs = sum(left[f"jobs_{word}"] for word in ("finished", "failed", "stopped", "abandoned"))
    tasks = left["tasks_total"] - sum(left[f"tasks_{word}"] for word in ("finished", "failed", "stopped"))
    gone = now["jobs"] - len(cell_state.jobs)
    exact = ("jobs_held", "jobs_halted", "jobs_stopping", DELAYED, *(() if gone else sorted(TOTALS)))
    for name in sorted(TOTALS):
        if left[name] < 0 or (name in exact and left[name]):
            yield Violation(6, f"is {now[name]}, and the jobs that are kept have {least[name]}", f"meta {name}")
    if tasks or jobs > gone:
        what = f"of jobs that are no longer kept, {jobs} of {gone} ended, {tasks} tasks have not"
        yield Violation(6, what, "meta tasks_total")


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
