"""Warnings about valid demands: attributes and domains that no machine has."""

from collections.abc import Iterator
from difflib import get_close_matches

import numpy as np

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints import All, Compare, Expression, OneOf, attributes_in
from omega.cellstate.constraints.evaluation import evaluate, holds
from omega.cellstate.constraints.grammar import parse
from omega.schedulers.constraints.demands import Demands

SHOWN = 8
"""Maximum number of attributes in a message."""


def warnings(wants: Demands, attributes: Attributes) -> list[str]:
    """Return one line for each demand that no machine satisfies at present.

    The attributes must have been fetched. Invalid demands are refused earlier.
    """
    return list(dict.fromkeys(_warnings(wants, attributes)))


def _warnings(wants: Demands, attributes: Attributes) -> Iterator[str]:
    there = attributes.names()
    for text in (*wants.hard, *(preference.text for preference in wants.preferred)):
        for name in attributes_in(parse(text)):
            if name not in there:
                yield f"constraint {text}: {_unknown(name, there)}"
        if not holds(text, attributes).any():
            yield "; ".join([f"constraint {text}: matches no machine", *_missing(parse(text), attributes, there)])
    relations = [("near", relation) for relation in wants.near] + [("apart_from", relation) for relation in wants.apart]
    domains = [(f"spread {spread}", spread.domain) for spread in wants.spread]
    domains += [(f"{field} {relation.job}", relation.domain) for field, relation in relations]
    for what, name in domains:
        if name not in there:
            yield f"{what}: {_unknown(name, there)}"


def _missing(expression: Expression, attributes: Attributes, there: list[str]) -> Iterator[str]:
    """Yield the values that machines have of each attribute of which an expression asks for one that none has."""
    match expression:
        case All(parts):
            for part in parts:
                yield from _missing(part, attributes, there)
        case Compare(name, "==") | OneOf(name) if name in there and not evaluate(expression, attributes).any():
            codes = np.unique(attributes.codes(name)[attributes.known]).tolist()
            known = sorted(attributes.values(name)[code] for code in codes if code)
            more = ", …" if len(known) > SHOWN else ""
            yield f"known values of {name}: {', '.join(known[:SHOWN])}{more}"


def _unknown(name: str, there: list[str]) -> str:
    near = get_close_matches(name, there, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    more = ", …" if len(there) > SHOWN else ""
    return f"no machine has the attribute {name}; {hint}known: {', '.join(there[:SHOWN])}{more}"
