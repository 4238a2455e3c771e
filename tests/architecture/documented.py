"""The rule that everything public says what it is for."""

import ast
from collections.abc import Iterator

from tests.architecture.sources import Source

FEWEST_WORDS = 2  # a full stop or a repeated name is no documentation
UNDESCRIBED = ("overload", "override", "setter", "deleter")
"""Decorators of functions whose description stands elsewhere."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def says_something(item: ast.Module | Definition) -> bool:
    """Whether the docstring has words."""
    return len([word for word in (ast.get_docstring(item) or "").split() if word.strip(".…-_")]) >= FEWEST_WORDS


def described_elsewhere(item: Definition) -> bool:
    """Whether a decorator says that another definition carries the docstring."""
    return any(ast.unparse(decorator).split(".")[-1] in UNDESCRIBED for decorator in item.decorator_list)


def public(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, Definition]]:
    """(dotted name, definition) of public classes, functions and methods; what is inside functions is private."""
    for item in body:
        if isinstance(item, ast.If | ast.Try):
            yield from public(item.body, within)
        elif isinstance(item, Definition) and not item.name.startswith("_"):
            yield within + item.name, item
            if isinstance(item, ast.ClassDef):
                yield from public(item.body, f"{within}{item.name}.")


def undocumented(source: Source) -> Iterator[str]:
    """Every public module, class, function and method has a docstring with words in it."""
    if not says_something(source.tree):
        yield f"{source.path}:1: module {source.path} has no docstring; say what it holds in a sentence"
    for name, item in public(source.tree.body):
        if not says_something(item) and not described_elsewhere(item):
            yield f"{source.path}:{item.lineno}: {name} has no docstring; say what it gives, with units and errors"
        elif (ast.get_docstring(item) or "").startswith("See "):
            yield f"{source.path}:{item.lineno}: {name} refers to another docstring; say it, or decorate with override"
