"""Warnings about valid demands: attributes and domains that no machine has."""

from collections.abc import Iterator
from difflib import get_close_matches

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints.evaluation import holds
from omega.cellstate.constraints.expressions import attributes_in
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
            yield f"constraint {text}: matches no machine"
    relations = [("near", relation) for relation in wants.near] + [("apart_from", relation) for relation in wants.apart]
    domains = [(f"spread {spread}", spread.domain) for spread in wants.spread]
    domains += [(f"{field} {relation.job}", relation.domain) for field, relation in relations]
    for what, name in domains:
        if name not in there:
            yield f"{what}: {_unknown(name, there)}"


def _unknown(name: str, there: list[str]) -> str:
    near = get_close_matches(name, there, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    more = ", …" if len(there) > SHOWN else ""
    return f"no machine has the attribute {name}; {hint}known: {', '.join(there[:SHOWN])}{more}"
