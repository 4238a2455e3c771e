"""The machines that satisfy a constraint: one table over an attribute's values, then one look-up for all machines."""

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.attributes import Attributes
from omega.cellstate.model import MACHINE
from omega.cellstate.pools import Pools
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import Relation, demands
from omega.schedulers.constraints.expressions import All, Compare, Either, Expression, Has, Not, OneOf, Value
from omega.schedulers.work import Work

Mask = NDArray[np.bool_]

_ORDERS: dict[str, Callable[[NDArray[np.float64], Value], Mask]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def holds(text: str, attributes: Attributes) -> Mask:
    """Return the machines that satisfy a constraint, without those never fetched. Cached until attributes change.

    Raises BadInput when the text is no constraint.
    """
    from omega.schedulers.constraints.grammar import parse  # noqa: PLC0415 - most processes parse no constraint

    expression = parse(text)
    return attributes.keep(("holds", text), lambda: evaluate(expression, attributes) & attributes.known)


def evaluate(expression: Expression, attributes: Attributes) -> Mask:
    """Return the machines for which an expression is true; a machine never fetched has no attributes."""
    match expression:
        case Compare(attribute, "==", value):
            return _carrying(attributes, attribute, _equal(attributes, attribute, (value,)))
        case Compare(attribute, order, value):
            table: Mask = _ORDERS[order](attributes.numbers(attribute), value)
            return _carrying(attributes, attribute, table)
        case OneOf(attribute, values):
            return _carrying(attributes, attribute, _equal(attributes, attribute, values))
        case Has(attribute):
            return attributes.codes(attribute) > 0
        case Not(part):
            return ~evaluate(part, attributes)
        case All(parts):
            return reduce(operator.and_, (evaluate(part, attributes) for part in parts))
        case Either(parts):
            return reduce(operator.or_, (evaluate(part, attributes) for part in parts))


def _carrying(attributes: Attributes, attribute: str, table: Mask) -> Mask:
    """Map codes to machines; code 0 marks machines without the attribute."""
    table[0] = False
    return table[attributes.codes(attribute)]


def _equal(attributes: Attributes, attribute: str, wanted: Sequence[Value]) -> Mask:
    """Return, by code, whether the attribute has one of the wanted values."""
    texts = {value for value in wanted if isinstance(value, str)}
    known = attributes.values(attribute)
    table = np.fromiter((value in texts for value in known), np.bool_, len(known))
    for number in wanted:
        if not isinstance(number, str):
            table |= attributes.numbers(attribute) == number
    return table


def kept_from_simulated(work: Work, snapshot: Snapshot) -> bool:
    """Return whether the job runs commands and some machines are simulated, which excludes them (semantics 31)."""
    return work.job.commands and bool(snapshot.simulated.any())


def permitted(work: Work, group: int, snapshot: Snapshot) -> Mask | None:
    """Return the machines that satisfy a group's demands, regardless of room and of its other tasks.

    None when all do; no machine when the demands are invalid.
    """
    wants = demands(work.job, group)
    if wants.fault:
        return np.zeros(snapshot.size, dtype=np.bool_)
    masks = [] if not wants.hard else [all_hold(wants.hard, snapshot.attributes)]
    masks += [related(relation, snapshot) for relation in wants.near if relation.required]
    masks += [~related(relation, snapshot) for relation in wants.apart]
    masks += [~snapshot.simulated] if kept_from_simulated(work, snapshot) else []
    if snapshot.pools.divided:
        tree = snapshot.pools.tree_of(snapshot.pools.pool_of(work.pool, work.user))
        masks.append(tree_machines(snapshot.pools, tree.name, snapshot))
    return reduce(operator.and_, masks) if masks else None


def tree_machines(pools: Pools, name: str, snapshot: Snapshot) -> Mask:
    """Return the machines of a pool tree.

    A machine that the formulas of several trees select belongs to the first of them; one that none selects to the tree
    without a formula, else to none.
    """

    def divide() -> dict[str, Mask]:
        rest = np.ones(snapshot.size, dtype=np.bool_)
        masks: dict[str, Mask] = {}
        for tree in pools.trees:
            if tree.machines:
                masks[tree.name] = holds(tree.machines, snapshot.attributes) & rest
                rest = rest & ~masks[tree.name]
        return {tree.name: masks.get(tree.name, rest) for tree in pools.trees}

    if not pools.divided:
        return np.ones(snapshot.size, dtype=np.bool_)
    formulas = tuple((tree.name, tree.machines) for tree in pools.trees)
    return snapshot.attributes.keep(("pool trees", formulas), divide)[name]


def all_hold(texts: tuple[str, ...], attributes: Attributes) -> Mask:
    """Return the machines that satisfy every constraint. Raises BadInput for an invalid one."""
    if len(texts) == 1:
        return holds(texts[0], attributes)
    every = tuple(holds(text, attributes) for text in texts)
    return attributes.keep(("all", texts), lambda: reduce(operator.and_, every))


def related(relation: Relation, snapshot: Snapshot) -> Mask:
    """Return the machines in the domains of the other job's running tasks."""
    there = np.fromiter(snapshot.others.get(relation.job, ()), np.int64)
    there = there[there < snapshot.size]
    if relation.domain == MACHINE:
        mask = np.zeros(snapshot.size, dtype=np.bool_)
        mask[there] = True
        return mask
    codes = snapshot.attributes.codes(relation.domain)
    table = np.zeros(len(snapshot.attributes.values(relation.domain)), dtype=np.bool_)
    table[codes[there]] = True
    table[0] = False  # machines without the attribute are in no domain
    return table[codes]
