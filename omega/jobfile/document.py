"""Reads YAML and JSON with the line number of every value."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from omega.cellstate.errors import BadInput
from omega.yaml_core import MERGE, MOST_DIGITS, TEXT, Loader

MOST_LETTERS = 64 << 20
"""Maximum size of a file in characters; split larger workloads."""
MOST_VALUES = 5_000_000
"""Maximum number of values in a file; an alias counts at each use."""
FREE_ALIASED, MOST_ALIASED = 20_000, 10
"""Maximum number of values repeated by aliases and merge keys: a constant, and a factor on the values written out."""
MOST_LETTERS_ONCE = 128 << 10
"""Maximum size of a file whose texts are short without a look at each of them."""
MOST_DEPTH = 20
"""Maximum depth of nested values; no file needs more than five levels."""

MOST_ERRORS = 4
"""Maximum number of errors in one message."""

_DEEP = "nested too deeply; no file needs more than five levels"

Path = tuple[str | int, ...]
"""Path to a value: field names and positions in lists."""


@dataclass(slots=True)
class Document:
    """A file's plain value, and the nodes with the line of every value (None: no lines available).

    `json`: the text of a file whose nodes are found when an error names the first line.
    """

    name: str
    value: Any
    root: "yaml.Node | None" = None
    json: str | None = None

    @property
    def printable(self) -> bool:
        """Whether no text in it can have a problem of `omega.cellstate.plain_text`: short and printable ASCII."""
        text = self.json or "\\"
        return len(text) <= MOST_LETTERS_ONCE and text.isascii() and "\\" not in text and "\x7f" not in text

    def where(self, path: Path) -> str:
        """Return ``FILE:LINE`` of a value, or of the nearest enclosing value that exists."""
        if self.json is not None:
            self.root, self.json = _lines(self.json), None
        if self.root is None:
            return self.name
        node, line = self.root, self.root.start_mark.line
        for step in path:
            inner = _step(node, step)
            if inner is None:
                break
            line, node = inner
        return f"{self.name}:{line + 1}"


def joined(errors: Sequence[str], number: int = 0) -> str:
    """Return errors as one line: the first four, and how many more there are, of `number` or of all."""
    left = max(number, len(errors)) - MOST_ERRORS
    more = f"; and {left} more" if left > 0 else ""
    return "; also ".join(errors[:MOST_ERRORS]) + more


def _step(node: Any, step: str | int) -> "tuple[int, yaml.Node] | None":
    """Return the line (from 0) of a field or an entry, and its node; None when the node has none such."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        value = node.value[step]
        return value.start_mark.line, value
    if isinstance(node, yaml.MappingNode):
        own = [pair for pair in node.value if pair[0].value == step]
        return (own[-1][0].start_mark.line, own[-1][1]) if own else None
    return None


class _Empty(Exception):
    """A file without a value."""


class _Twice(Exception):
    """A field that a mapping has twice."""


def parse(
    name: str, text: str, content: str = "a job, with at least name and tasks", *, is_json: bool | None = None
) -> Document:
    """Read a file's text as YAML or JSON; `is_json`: as JSON only (None: if its name ends in ``.json``).

    `content`: the expected content, for errors.

    Raises BadInput with the line of what cannot be read, of a field that is there twice, and for a
    file that is empty, too large, holds several documents or repeats too much by aliases.
    """
    if len(text) > MOST_LETTERS:
        raise BadInput(f"{name}: larger than {MOST_LETTERS >> 20} MiB; split it")
    try:
        only_json = name.endswith(".json") if is_json is None else is_json
        return _json(name, text) if only_json else _yaml(name, text)
    except _Twice:
        raise _found_twice(name, text) from None
    except _Empty:
        raise BadInput(f"{name}: empty; write {content}") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}:{error.lineno}: not readable as JSON: {error.msg}; fix it there") from None
    except yaml.YAMLError as error:
        raise BadInput(_unreadable(name, text, error)) from None
    except RecursionError:
        raise BadInput(f"{name}: {_DEEP}") from None
    except ValueError as error:  # text that is not Unicode
        raise BadInput(f"{name}: not readable as YAML or JSON: {error}; fix it there") from None


def _yaml(name: str, text: str, value: Any = None) -> Document:
    """Read YAML; `value` is what JSON of the same text holds."""
    _check_size(name, text)
    loader = Loader(text)
    try:
        root = _compose(name, loader)
        return Document(name, loader.construct_document(root) if value is None else value, root)
    finally:
        loader.dispose()


def _json(name: str, text: str) -> Document:
    """Read JSON. Lines are unknown in a file with tabs between values or some escapes, which are no YAML."""
    if text.count(",") >= MOST_VALUES:
        raise BadInput(f"{name}: more than {MOST_VALUES:,} values; split it")
    value = json.loads(text, parse_int=_json_integer, parse_constant=_json_constant, object_pairs_hook=_fields)
    _check_depth(name, value, MOST_DEPTH)
    return Document(name, value, json=text)


def _lines(text: str) -> "yaml.Node | None":
    """Return the nodes of JSON that was read; None where it is no YAML."""
    loader = Loader(text.replace("\t", " "))
    try:
        root: yaml.Node | None = loader.get_single_node()
    except (yaml.YAMLError, ValueError):
        return None
    finally:
        loader.dispose()
    return root


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Twice
    return fields


def _json_integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of more than {MOST_DIGITS} digits")
    return int(text)


def _json_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")


def _found_twice(name: str, text: str) -> BadInput:
    """Return the error for JSON in which a mapping has a field twice, with its lines where they are known."""
    try:
        if len(text) <= MOST_LETTERS_ONCE:
            with suppress(yaml.YAMLError):
                _yaml(name, text.replace("\t", " "))
        json.loads(text, object_pairs_hook=lambda pairs: _json_once(name, pairs))
    except BadInput as error:
        return error
    raise RuntimeError("no field is there twice")


def _json_once(name: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, value in pairs:
        if field in fields:
            raise BadInput(f"{name}: {field[:40]}: is there twice; keep one")
        fields[field] = value
    return fields


def _check_depth(name: str, value: Any, left: int) -> None:
    if left < 0:
        raise BadInput(f"{name}: {_DEEP}")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(each, dict | list):
            _check_depth(name, each, left - 1)


@dataclass(slots=True)
class _Open:
    """A list or mapping that has not ended: its anchor, the number of values before it, its height so far."""

    anchor: str | None
    before: int
    height: int = 1


def _check_size(name: str, text: str) -> None:
    """Reject input with unbounded nesting or alias growth before building it.

    libyaml composes nodes by recursion, and a full C stack ends the process; an alias repeats all that its anchor
    holds. Sizes are counted from the events alone, in memory proportional to the number of anchors.
    """
    anchors: dict[str | None, tuple[int, int]] = {}
    """Size and height of what each anchor names."""
    opened: list[_Open] = []
    written = aliased = 0
    for event in yaml.parse(text, Loader=Loader):
        line = f"{name}:{event.start_mark.line + 1}" if event.start_mark else name
        height = 0
        if isinstance(event, yaml.AliasEvent):
            if any(each.anchor == event.anchor for each in opened):
                raise BadInput(f"{line}: {str(event.anchor)[:40]} contains itself; write it out")
            size, height = anchors.get(event.anchor, (1, 0))
            aliased += size
        elif isinstance(event, yaml.ScalarEvent):
            written += 1
            anchors |= {event.anchor: (1, 0)} if event.anchor else {}
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append(_Open(event.anchor, written + aliased))
            written += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = opened.pop()
            height = ended.height
            anchors |= {ended.anchor: (written + aliased - ended.before, height)} if ended.anchor else {}
        if opened:
            opened[-1].height = max(opened[-1].height, height + 1)
        if len(opened) + height > MOST_DEPTH + 1:
            raise BadInput(f"{line}: {_DEEP}")
        if aliased > FREE_ALIASED + MOST_ALIASED * written:
            raise BadInput(f"{line}: aliases repeat more than {FREE_ALIASED:,} values; write less, or split the file")
        if written + aliased > MOST_VALUES:
            raise BadInput(f"{line}: more than {MOST_VALUES:,} values; split it")


def _compose(name: str, loader: Any) -> "yaml.Node":
    root: yaml.Node | None = loader.get_single_node()
    if root is None:
        raise _Empty(name)
    for node in _mappings(root):
        _check_fields(name, node)
    return root


def _mappings(root: "yaml.Node") -> "Iterator[yaml.MappingNode]":
    """Yield every mapping once, in the order of the text, however often it is aliased."""
    ahead, seen = [root], set()
    while ahead:
        node = ahead.pop()
        if isinstance(node, yaml.ScalarNode) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            ahead += [value for _, value in reversed(node.value)]
        else:
            ahead += reversed(node.value)


def _check_fields(name: str, node: "yaml.MappingNode") -> None:
    first: dict[str, int] = {}
    for key, _ in node.value:
        line, field = key.start_mark.line + 1, str(key.value) if isinstance(key, yaml.ScalarNode) else "it"
        if key.tag not in (TEXT, MERGE):
            raise BadInput(f"{name}:{line}: a field's name must be text; put {field[:40]} in quotes")
        if field in first and key.tag == TEXT:
            raise BadInput(f"{name}:{line}: {field[:40]}: is there twice (first on line {first[field]}); keep one")
        first[field] = line


def _unreadable(name: str, text: str, error: "yaml.YAMLError") -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    line = mark.line + 1 if mark is not None else None
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
    if "another document" in str(problem):
        problem = "several documents, write the jobs as one list"
    at = name if line is None else f"{name}:{line}"
    return f"{at}: not readable as YAML or JSON: {problem}; fix it there"
