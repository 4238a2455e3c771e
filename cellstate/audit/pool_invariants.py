"""Pools against the log, their rules, and the jobs in them (invariant 6 of the audit)."""

from collections.abc import Iterator
from operator import add

from omega.cellstate.audit.reading import CellState, placed_amounts
from omega.cellstate.audit.register import Register
from omega.cellstate.audit.rules import Violation
from omega.cellstate.errors import BadInput
from omega.cellstate.inspection import Inspection
from omega.cellstate.lanes import lane_of
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
        check(pools, _names(pools, cell_state.size))
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


def _names(pools: Pools, size: int) -> list[str]:
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
