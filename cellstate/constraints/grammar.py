"""The grammar of constraints: ``platform == 'x86' and (zone in ['a', 'b'] or not has gpu)``.

Constraints are never executed; a fixed grammar parses them to a tree. A comparison with an attribute that a machine
does not have is false, and ``!=`` and ``not in`` are the negations ``not (… == …)`` and ``not (… in …)``: a machine
without the attribute satisfies them.
"""

import re
from functools import cache, lru_cache
from typing import cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import UnexpectedInput

from omega.cellstate.constraints import SHOWN, All, Compare, Either, Expression, Has, Not, OneOf, Value
from omega.cellstate.errors import BadInput

MOST_LETTERS = 4_000
MOST_DEPTH = 64
"""Maximum depth of parentheses and ``not``: trees are evaluated recursively."""

GRAMMAR = r"""
?start: either
?either: all ("or" all)*
?all: denied ("and" denied)*
?denied: "not" denied -> negated
       | "(" either ")" -> enclosed
       | NAME EQUAL (TEXT | NUMBER) -> compare
       | NAME ORDER NUMBER -> compare
       | NAME "in" "[" (TEXT | NUMBER) ("," (TEXT | NUMBER))* "]" -> one_of
       | NAME "not" "in" "[" (TEXT | NUMBER) ("," (TEXT | NUMBER))* "]" -> none_of
       | "has" NAME -> has
EQUAL: "==" | "!="
ORDER: "<=" | ">=" | "<" | ">"
NAME: /[A-Za-z_][\w.\/-]*/
TEXT: /'[^'\n]*'|"[^"\n]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /\s+/
"""

_WORDS = {
    "NAME": "an attribute", "HAS": "has", "LPAR": "(", "EQUAL": "==, !=", "ORDER": "<, <=, >, >=", "IN": "in",
    "NOT": "not", "TEXT": "a text in quotes", "NUMBER": "a number", "LSQB": "[", "RSQB": "]", "COMMA": "a comma",
    "AND": "and", "OR": "or", "RPAR": ")", "$END": "the end",
}  # fmt: skip
_HINTS = {
    "=": "write ==",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "'": "close the quote",
    '"': "close the quote",
}
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


class _Deep(Exception):
    """The maximum depth is exceeded."""


@v_args(inline=True)
class _Builder(Transformer[Token, tuple[Expression, int]]):
    """Builds (expression, depth) bottom up, so that no text exhausts the stack."""

    def _deeper(self, expression: Expression, depth: int) -> tuple[Expression, int]:
        if depth >= MOST_DEPTH:
            raise _Deep
        return expression, depth + 1

    def compare(self, name: Token, operator: Token, value: Token) -> tuple[Expression, int]:
        if operator == "!=":
            return Not(Compare(str(name), "==", _value(value))), 1
        return Compare(str(name), str(operator), _value(value)), 1

    def one_of(self, name: Token, *values: Token) -> tuple[Expression, int]:
        return OneOf(str(name), tuple(map(_value, values))), 1

    def none_of(self, name: Token, *values: Token) -> tuple[Expression, int]:
        return Not(OneOf(str(name), tuple(map(_value, values)))), 1

    def has(self, name: Token) -> tuple[Expression, int]:
        return Has(str(name)), 1

    def negated(self, part: tuple[Expression, int]) -> tuple[Expression, int]:
        return self._deeper(Not(part[0]), part[1])

    def enclosed(self, part: tuple[Expression, int]) -> tuple[Expression, int]:
        return self._deeper(part[0], part[1])

    def all(self, *parts: tuple[Expression, int]) -> tuple[Expression, int]:
        return self._deeper(All(tuple(part for part, _ in parts)), max(depth for _, depth in parts))

    def either(self, *parts: tuple[Expression, int]) -> tuple[Expression, int]:
        return self._deeper(Either(tuple(part for part, _ in parts)), max(depth for _, depth in parts))


def _value(token: Token) -> Value:
    return float(token) if token.type == "NUMBER" else str(token)[1:-1]


@cache
def _reader() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=_Builder())


def prepare() -> None:
    """Build the parser in advance; it takes about 50 ms."""
    _reader()


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse a constraint. Raises BadInput with the position (from 1) and the expected tokens."""
    if len(text) > MOST_LETTERS:
        raise BadInput(f"constraint {_shown(text)}: {len(text)} letters; the most is {MOST_LETTERS}")
    try:
        # The builder replaces the tree, which the parser's types do not express.
        expression, _ = cast("tuple[Expression, int]", _reader().parse(text))
    except UnexpectedInput as error:
        raise BadInput(f"constraint {_shown(text)}: {_reason(text, error)}") from None
    except _Deep:
        deep = f"nested more than {MOST_DEPTH} levels; write it flatter"
        raise BadInput(f"constraint {_shown(text)}: {deep}") from None
    return expression


def _shown(text: str) -> str:
    # A line break would split a message.
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else line[: SHOWN - 1] + "…")


def _reason(text: str, error: UnexpectedInput) -> str:
    start: int = len(text)
    found, expected, hint = "the end", set[str](), ""
    if isinstance(error, UnexpectedCharacters):
        start, expected = cast("int", error.pos_in_stream), set(error.allowed)
        found, hint = repr(text[start]), _HINTS.get(text[start], "")
    elif isinstance(error, UnexpectedToken):
        expected = set(error.expected)
        if error.token.type != "$END":
            start, found = error.token.start_pos or 0, repr(str(error.token))
            if error.token.type == "NAME" and "TEXT" in expected:
                hint = f"text needs quotes: '{error.token}'"
    wanted = [word for terminal, word in _WORDS.items() if terminal in _possible(text[:start], expected)]
    alternatives = ", ".join(wanted[:-1]) + " or " + wanted[-1] if len(wanted) > 1 else "".join(wanted)
    return f"position {start + 1}: expected {alternatives}, found {found}" + (f"; {hint}" if hint else "")


def _possible(before: str, expected: set[str]) -> set[str]:
    """Return the tokens that may follow; the parser's tables lack keywords that look like names, and reduced rules."""
    if {"NAME", "LPAR"} <= expected:
        return expected | {"HAS", "NOT"}
    if not expected <= {"AND", "OR", "RPAR", "$END"}:
        return expected
    outside = _QUOTED.sub("", before)
    return {"AND", "OR", "RPAR" if outside.count("(") > outside.count(")") else "$END"}
