"""Reading YAML and JSON so that every value knows the line it stands on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from cellstate.errors import BadInput

MOST_LETTERS = 64 << 20
"""The largest file that is read; beyond it a workload should come in pieces."""
MOST_VALUES = 5_000_000
"""Values in a file, aliases counted as often as they are used."""
MOST_DEPTH = 20
"""How deep values may be nested; a job needs five levels."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_DEEP = "nested too deeply; a job needs five levels"

Path = tuple[str | int, ...]
"""The way to a value: field names and positions in lists."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's plain value, and the line of everything in it."""

    name: str
    value: Any
    lines: dict[Path, int]

    def where(self, path: Path) -> str:
        """``FILE:LINE`` of a value, or of the nearest thing around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}" if path in self.lines else self.name


def parse(name: str, text: str) -> Document:
    """Read a file's text; one named ``.json`` must be JSON.

    Raises BadInput with the line of what cannot be read, of a field that is there twice, and for a
    file that is empty, too large or holds several documents.
    """
    if len(text) > MOST_LETTERS:
        raise BadInput(f"{name}: larger than {MOST_LETTERS >> 20} MiB; split it")
    try:
        if name.endswith(".json"):
            value = json.loads(text)
            # JSON is YAML but for tabs, which stand only between values.
            return Document(name, value, _lines(name, text.replace("\t", " "))[1])
        return Document(name, *_lines(name, text, construct=True))
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}:{error.lineno}: not readable as JSON: {error.msg}; mend it there") from None
    except yaml.YAMLError as error:
        raise BadInput(_unreadable(name, error)) from None
    except RecursionError:
        raise BadInput(f"{name}: {_DEEP}") from None
    except (ValueError, TypeError) as error:  # a date of month 13; an unhashable key
        raise BadInput(f"{name}: not readable as YAML or JSON: {error}; mend it there") from None


def _check_depth(name: str, text: str) -> None:
    """Refuse what is nested without end: libyaml composes it by recursion, and a C stack that is full kills us."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH + 1:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise BadInput(f"{name}:{line}: {_DEEP}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _lines(name: str, text: str, *, construct: bool = False) -> tuple[Any, dict[Path, int]]:
    _check_depth(name, text)
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise BadInput(f"{name}: empty; write a job, with at least name and tasks")
        lines: dict[Path, int] = {}
        for path, line in _walk(name, root, ()):
            lines.setdefault(path, line)
            if len(lines) > MOST_VALUES:
                raise BadInput(f"{name}: more than {MOST_VALUES:,} values; split it")
        return loader.construct_document(root) if construct else None, lines
    finally:
        loader.dispose()


def _walk(name: str, found: "yaml.Node", path: Path) -> Iterator[tuple[Path, int]]:
    """Yield the line of every field and value; refuse fields that are there twice or are no text."""
    line = found.start_mark.line + 1
    if len(path) > MOST_DEPTH:
        raise BadInput(f"{name}:{line}: {_DEEP}")
    yield path, line
    if isinstance(found, yaml.SequenceNode):
        for i, value in enumerate(found.value):
            yield from _walk(name, value, (*path, i))
    elif isinstance(found, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in found.value:
            line, field = key.start_mark.line + 1, str(key.value)
            if key.tag not in (_TEXT, _MERGE):
                raise BadInput(f"{name}:{line}: a field's name must be text; put {field[:40]} in quotes")
            if field in first and key.tag == _TEXT:
                raise BadInput(f"{name}:{line}: {field}: is there twice (first on line {first[field]}); keep one")
            first[field] = line
            yield (*path, field), line
            yield from _walk(name, value, (*path, field))


def _unreadable(name: str, error: "yaml.YAMLError") -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    if "another document" in str(problem):
        problem, mark = "several documents, write the jobs as one list", getattr(error, "problem_mark", None)
    at = f"{name}:{mark.line + 1}" if mark is not None else name
    return f"{at}: not readable as YAML or JSON: {problem}; mend it there"
