"""Machines that satisfy a constraint: one table over an attribute's values, then one look-up for all machines."""

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints import All, Compare, Either, Expression, Has, Not, OneOf, Value

Mask = NDArray[np.bool_]

_ORDERS: dict[str, Callable[[NDArray[np.float64], Value], Mask]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def holds(text: str, attributes: Attributes) -> Mask:
    """Return the machines that satisfy a constraint, without those never fetched. Cached until attributes change.

    Raises BadInput when the text is no constraint.
    """
    from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most processes parse no constraint

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


def all_hold(texts: tuple[str, ...], attributes: Attributes) -> Mask:
    """Return the machines that satisfy every constraint. Raises BadInput for an invalid one."""
    if len(texts) == 1:
        return holds(texts[0], attributes)
    every = tuple(holds(text, attributes) for text in texts)
    return attributes.keep(("all", texts), lambda: reduce(operator.and_, every))
