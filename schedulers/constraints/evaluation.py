"""Which machines a constraint holds for: one table over an attribute's values, then one look-up for all machines."""

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from cellstate.attributes import Attributes
from schedulers.constraints.expressions import All, Compare, Either, Expression, Has, Not, OneOf, Value
from schedulers.constraints.grammar import parse

Mask = NDArray[np.bool_]

_ORDERS: dict[str, Callable[[NDArray[np.float64], Value], Mask]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def holds(text: str, attributes: Attributes) -> Mask:
    """Machines for which a constraint holds; those never read are none of them. Kept until attributes change.

    Raises BadInput when the text is no constraint.
    """
    expression = parse(text)
    return attributes.keep(("holds", text), lambda: evaluate(expression, attributes) & attributes.known)


def evaluate(expression: Expression, attributes: Attributes) -> Mask:
    """Machines for which an expression is true; one never read has no attribute."""
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
    """From codes to machines; code 0 says that the machine does not have the attribute."""
    table[0] = False
    return table[attributes.codes(attribute)]


def _equal(attributes: Attributes, attribute: str, wanted: Sequence[Value]) -> Mask:
    """By code: whether the attribute's value is one of those wanted."""
    texts = {value for value in wanted if isinstance(value, str)}
    known = attributes.values(attribute)
    table = np.fromiter((value in texts for value in known), np.bool_, len(known))
    for number in wanted:
        if not isinstance(number, str):
            table |= attributes.numbers(attribute) == number
    return table
