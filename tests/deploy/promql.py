"""The metrics and labels that a PromQL expression names."""

import re
from collections.abc import Iterator

_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?(?!\w|\s*\()")
_RANGE = re.compile(r"\[[^\]]*\]|\b\d[\w.]*")
_LABEL = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_WORDS = frozenset(("and", "or", "unless", "bool", "offset", "inf", "nan"))


def selectors(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (metric, labels that its matchers name)."""
    text = _RANGE.sub(" ", _GROUPING.sub(" ", _STRING.sub("''", expression)))
    for name, matchers in _SELECTOR.findall(text):
        if name not in _WORDS:
            yield name, frozenset(_LABEL.findall(matchers))


def grouped_by(expression: str) -> frozenset[str]:
    """Return the labels by which an expression groups; ``le`` among them."""
    found = _GROUPING.findall(_STRING.sub("''", expression))
    return frozenset(word for each in found for word in re.split(r"[\s,]+", each.strip()) if word)
