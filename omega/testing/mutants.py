"""Mutants of a plug-in: its source with one place changed, as a mistake would change it.

A contract that is worth its name fails for them. The places are those of the functions and methods of the file; tests,
docstrings, default values and what runs on import are left alone.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

CLOCK = '__import__("time").time()'
DICE = '__import__("random")'
RESOURCES = 2
"""The resources that a mutant considers; cells may have more."""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",), ast.Is: ("is not",), ast.IsNot: ("is",),
}  # fmt: skip
_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "//", ast.BitAnd: "|",
    ast.BitOr: "&",
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """A changed source: the line of the change, the text there before and after."""

    line: int
    before: str
    after: str
    source: str


class _Edit(NamedTuple):
    """A part of the source, and what replaces it."""

    node: ast.AST
    text: str


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a source, in the order of its lines. Raises SyntaxError for a source that is no Python."""
    lines = source.encode().splitlines(keepends=True)
    made: dict[str, Mutant] = {}
    for function, own in _scopes(ast.parse(source)):
        for node in _inside(function) if own else [function]:
            for edit in _edits(node, own=own):
                mutant = _changed(lines, edit)
                made.setdefault(mutant.source, mutant)
    made.pop(source, None)
    return sorted(made.values(), key=lambda each: each.line)


def drawn(source: str, number: int, seed: int = 0) -> list[Mutant]:
    """Return so many mutants, drawn with a seed; all when there are no more."""
    found = mutants(source)
    return sorted(Random(f"mutants/{seed}").sample(found, min(number, len(found))), key=lambda each: each.line)


def _scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Yield functions and methods (True), and the declarations of classes (False)."""
    for item in tree.body:
        if isinstance(item, _FUNCTIONS) and not item.name.startswith("test"):
            yield item, True
        elif isinstance(item, ast.ClassDef) and not item.name.startswith("Test"):
            for each in item.body:
                yield each, isinstance(each, _FUNCTIONS)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a function's body, without what describes it: docstring, annotations, defaults."""
    left = list(getattr(function, "body", []))
    if left and isinstance(left[0], ast.Expr) and isinstance(left[0].value, ast.Constant):
        left.pop(0)
    while left:
        node = left.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "args") or isinstance(node, ast.Call):
                left += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def _edits(node: ast.AST, *, own: bool) -> Iterator[_Edit]:
    """Yield the changes of one part; of a class's declarations (`own` False) only those of truth values."""
    if not own:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield _Edit(value, str(not value.value))
        return
    for edits in _OPERATORS:
        yield from edits(node)


def _comparison(node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        for other in _COMPARISONS[type(node.ops[0])]:
            yield _Edit(node, f"{left} {other} {right}")


def _logic(node: ast.AST) -> Iterator[_Edit]:
    """Exchange `and` and `or`, leave out one condition, drop a `not`; choose one side of a conditional expression."""
    if isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.Or) else " or "
        yield _Edit(node, f"({word.join(f'({ast.unparse(each)})' for each in node.values)})")
        same = " or " if isinstance(node.op, ast.Or) else " and "
        for i in range(len(node.values)):
            rest = [f"({ast.unparse(each)})" for j, each in enumerate(node.values) if j != i]
            yield _Edit(node, f"({same.join(rest)})")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield _Edit(node, f"({ast.unparse(node.operand)})")
    elif isinstance(node, ast.IfExp):
        yield _Edit(node, f"({ast.unparse(node.body)})")
        yield _Edit(node, f"({ast.unparse(node.orelse)})")


def _arithmetic(node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = ast.unparse(node.left), ast.unparse(node.right)
        yield _Edit(node, f"(({left}) {_OPERATIONS[type(node.op)]} ({right}))")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _Edit(node, str(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield _Edit(node, str(node.value + 1))
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield _Edit(node, ast.unparse(node.value))


def _guard(node: ast.AST) -> Iterator[_Edit]:
    """Remove a condition: always, or never."""
    if isinstance(node, ast.If | ast.While):
        yield _Edit(node.test, "False")
        if isinstance(node, ast.If):
            yield _Edit(node.test, "True")
    elif isinstance(node, ast.comprehension):
        yield from (_Edit(each, "True") for each in node.ifs)


def _statement(node: ast.AST) -> Iterator[_Edit]:
    """Drop a call such as `take`, an update, an assignment to an attribute, or a jump."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if called or stored or isinstance(node, ast.AugAssign | ast.Continue | ast.Break):
        yield _Edit(node, "pass")


def _call(node: ast.AST) -> Iterator[_Edit]:
    """Exchange functions, leave out a field of a new object, and consider the first resources alone."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _Edit(node.func, _CALLS[node.func.id])
    if isinstance(node.func, ast.Name) and node.func.id == "zip":
        yield _Edit(node, f"list({ast.unparse(node)})[:{RESOURCES}]")
    if ast.unparse(node.func).rpartition(".")[2][:1].isupper():
        for i, word in enumerate(node.keywords):
            if word.arg not in ("seen", None):  # a claim without `seen` is completed by the scheduler
                rest = [each for j, each in enumerate(node.keywords) if j != i]
                yield _Edit(node, ast.unparse(ast.Call(node.func, node.args, rest)))


def _source_of_time_and_dice(node: ast.AST) -> Iterator[_Edit]:
    """Read the wall clock, and draw from a generator of its own."""
    if isinstance(node, ast.Attribute) and node.attr == "now" and isinstance(node.ctx, ast.Load):
        yield _Edit(node, CLOCK)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in ("now", "rng"):
        yield _Edit(node, CLOCK if node.id == "now" else DICE)


_OPERATORS: Sequence[Callable[[ast.AST], Iterator[_Edit]]] = (
    _comparison, _logic, _arithmetic, _guard, _statement, _call, _source_of_time_and_dice,
)  # fmt: skip


def _changed(lines: Sequence[bytes], edit: _Edit) -> Mutant:
    """Return the source with an edit; positions of the syntax tree count bytes."""
    node, text = edit
    first, last = getattr(node, "lineno", 1) - 1, (getattr(node, "end_lineno", None) or 1) - 1
    start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
    whole, new = b"".join(lines[first : last + 1]), b"\n" * (last - first)
    after = lines[first][:start] + text.encode() + lines[last][end:].rstrip(b"\r\n")
    source = b"".join((*lines[:first], after, new or b"", b"\n", *lines[last + 1 :])).decode()
    return Mutant(first + 1, " ".join(whole.decode().split()), " ".join(after.decode().split()), source)
