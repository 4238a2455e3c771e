"""One word for one thing: the words this project does not use, what it says instead, and where they are right."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from tests.architecture.sources import Source

INSTEAD = {
    "node": "machine",
    "host": "machine",
    "pod": "task",
    "slot": "task",
    "priority": "precedence",
    "allocation": "placement",
    "cluster": "cell",
}
EMPTY_NAMES = ("utils", "util", "helpers", "helper", "common", "misc", "base", "manager")
"""Names of modules and folders that say nothing and so collect everything."""

PHRASES = (
    # What may stand, and why.
    (r"(?:Redis|Valkey|Dask) Clusters?", "the products are called so"),
    (r"cluster mode", "a setting of the server"),
    (r"hash slots?", "the server's word for a share of its keys"),
    (r"__slots__|slots=True", "Python's word for a class without a dictionary"),
    (r"cluster(?: |-)(?:schedul\w+|management|manager|operating system)", "what the field calls such systems"),
    (r"(?:large |compute )+clusters", "from the title of the Omega paper"),
    (r"clusters? [A-D]\b(?:(?:, | and |, and | or )[A-D]\b)*", "the papers' names for the measured cells"),
    (r"cluster[- ]?(?:data|usage|trace)s?", "the titles of published traces"),
    (r"(?:Google|Alibaba|Facebook|Yahoo|Hadoop|YARN|Mesos)(?:'s)? clusters?", "published traces are of such clusters"),
    (r"priority queues?", "the data structure's name"),
    (r"host (?:name|and port)s?|host:port", "part of a network address"),
    (r"localhost|hostname", "words of the network"),
)
PLACES = (
    # In which files, which word (all with *), and why.
    ("tests/architecture/*", "*", "the rules name what they refuse, and `node` is a word of the ast module"),
    ("*google2011*", "priority", "a column of the published trace"),
    ("tests/unit/omega/workload/*", "priority", "a column of the published trace"),
    ("*google2011*", "cluster", "the trace's own name"),
    ("omega/trial.py", "cluster", "what the papers call the cells that it simulates, and an argument so named"),
)

_ALLOWED = re.compile("|".join(f"(?:{phrase})" for phrase, _ in PHRASES), re.IGNORECASE)
_PROSE = re.compile(r"\b(node|host|pod|slot|cluster|allocation|priorit(?:y|ie))s?\b", re.IGNORECASE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LUA_STRING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def singular(word: str) -> str:
    """`Priorities` → `priority`, `nodes` → `node`."""
    word = word.lower()
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("ie"):  # the stem of a plural as the prose pattern leaves it
        return word[:-2] + "y"
    return word.removesuffix("s") if word.removesuffix("s") in INSTEAD else word


def in_prose(text: str) -> list[str]:
    """The refused words in a line of text, those in an allowed phrase left out."""
    return [singular(found[1]) for found in _PROSE.finditer(_ALLOWED.sub("", text))]


def in_name(name: str) -> list[str]:
    """The refused words in an identifier: `node_count`, `NodeCount`; dunder names are Python's."""
    if name.startswith("__"):
        return []
    return [word for part in _PARTS.findall(name) if (word := singular(part)) in INSTEAD]


def defined(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, name) of what the module itself names: classes, functions, arguments, variables, attributes."""
    for item in nodes:
        if isinstance(item, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield item.lineno, item.name
        elif isinstance(item, ast.arg):
            yield item.lineno, item.arg
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            yield item.lineno, item.id
        elif isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
            yield item.lineno, item.attr
        elif isinstance(item, ast.alias) and item.asname:
            yield item.lineno, item.asname


def prose(source: Source) -> Iterator[tuple[int, str]]:
    """(line, text) of docstrings, strings that stand alone under an attribute, and comments."""
    for item in source.nodes:
        if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str):
            first, last = item.lineno, item.end_lineno or item.lineno
            yield from ((number, source.lines[number - 1]) for number in range(first, last + 1))
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found_words(source: Source) -> Iterator[tuple[int, str]]:
    """(line, word) of every refused word in the file."""
    if not source.is_python:
        for number, line in enumerate(source.lines, 1):
            yield from ((number, word) for word in in_prose(_LUA_STRING.sub("", line).replace("_", " ")))
        return
    for number, name in defined(source.nodes):
        yield from ((number, word) for word in in_name(name))
    for number, text in prose(source):
        yield from ((number, word) for word in in_prose(text))


def banned_words(source: Source) -> Iterator[str]:
    """Names, docstrings and comments use this project's words."""
    allowed = {word for files, word, _ in PLACES if fnmatchcase(source.path, files)}
    if "*" in allowed:
        return
    for number, word in sorted(set(found_words(source))):
        if word not in allowed:
            yield f"{source.path}:{number}: {word!r}; write {INSTEAD[word]!r} (exceptions: tests/architecture/words.py)"


def empty_names(source: Source) -> Iterator[str]:
    """No module or folder is named after nothing, or with a refused word."""
    path = PurePosixPath(source.path)
    for name in (*path.parts[:-1], path.stem.removeprefix("test_")):
        if name.strip("_").lower() in EMPTY_NAMES:
            yield f"{source.path}:1: a file named {name!r}; name it after the idea it holds"
        for word in in_name(name):
            if not any(fnmatchcase(source.path, files) and word == named for files, named, _ in PLACES):
                yield f"{source.path}:1: {word!r} in the file's name; write {INSTEAD[word]!r}"
