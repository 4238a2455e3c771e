"""Constraints over the attributes of machines: their grammar, and the machines that satisfy one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import nan

# A constraint as a tree of plain values.

Value = str | float
"""Quoted text is compared with an attribute's text, a number with an attribute's number."""
SHOWN = 60
"""Maximum number of characters of a constraint in a message."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def number_of(text: str) -> float:
    """Return the number in an attribute's value, NaN when it is none."""
    return float(text) if _NUMBER.fullmatch(text) else nan


@dataclass(frozen=True, slots=True)
class Compare:
    """``attribute operator value``; the operator is one of ``== != < <= > >=``, the last four with numbers."""

    attribute: str
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """``attribute in [value, …]``."""

    attribute: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Has:
    """``has attribute``."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Not:
    """``not part``; also represents ``not in`` and ``!=``."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class All:
    """``part and part …``."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """``part or part …``."""

    parts: tuple["Expression", ...]


Expression = Compare | OneOf | Has | Not | All | Either


def attributes_in(expression: Expression) -> Iterator[str]:
    """Yield the attributes of an expression in its order, with repetitions."""
    match expression:
        case Not(part):
            yield from attributes_in(part)
        case All(parts) | Either(parts):
            for part in parts:
                yield from attributes_in(part)
        case _:
            yield expression.attribute
