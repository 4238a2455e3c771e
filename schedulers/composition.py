"""A scheduler composed in a TOML file: policies by name, with their parameters.

    kind = "cold"                 # its job type
    jobs_per_call = 4                     # any other field of a Scheduler that is a number, a word or a table

    [placement]
    policy = "best-fit"           # what `omega scheduler policies` lists
    apart = 2

A policy is a dataclass: its public fields are its parameters, their annotations the schema. Every error names the file,
the line and the field.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from omega.cellstate.errors import BadInput
from omega.schedulers import registry
from omega.schedulers.gates import Gate
from omega.schedulers.policies import Ordering, Placement, Preemption, Sizing
from omega.schedulers.scheduler import Scheduler

PROTOCOLS: Mapping[str, type] = {
    "ordering": Ordering,
    "placement": Placement,
    "preemption": Preemption,
    "sizing": Sizing,
    "gate": Gate,
}
"""The axes of a decision, and the base of each axis's policies."""
POLICY = "policy"
KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TABLE = re.compile(r"\s*\[+\s*([^\[\]#]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field that a file may set: its annotation and its default (MISSING: required)."""

    name: str
    hint: Any
    default: Any

    @property
    def type(self) -> str:
        """Return the annotation for messages: ``float``, ``placement``, ``fine | coarse``."""
        return " | ".join(_words(self.hint))


def _words(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, UnionType):
        return [word for each in get_args(hint) if each is not NoneType for word in _words(each)]
    axis = axis_of(hint)
    if axis is not None:
        return [axis]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [each.name.lower() for each in hint]
    return [hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")]


def axis_of(hint: Any) -> str | None:
    """Return the axis of policies that a field takes; None for other fields."""
    return next((axis for axis, protocol in PROTOCOLS.items() if hint is protocol), None)


def parameters(of: Any) -> list[Parameter]:
    """Return the parameters of a policy or a Scheduler: its public fields that hold no state."""
    if not is_dataclass(of):
        return []
    hints = get_type_hints(of)
    found = []
    for each in fields(of):
        if each.init and not each.name.startswith("_") and each.name not in ("rng", "instruments"):
            default = each.default if each.default_factory is MISSING else each.default_factory()
            found.append(Parameter(each.name, hints[each.name], default))
    return found


def read(path: Path) -> Scheduler:
    """Return the scheduler that a file describes. Raises BadInput with file, line and field."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"scheduler file {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return compose(str(path), text)


def compose(name: str, text: str) -> Scheduler:
    """Return the scheduler that a text describes; `name` is the file's name in errors. Raises BadInput."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name}: not readable as TOML: {error}; fix it there") from None
    scheduler = _Reading(name, dict(_lines(text))).build(Scheduler, "a scheduler", table, ())
    if not isinstance(scheduler, Scheduler):
        raise TypeError(scheduler)
    return scheduler


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Return the line of each table and field; fields of an inline table have the line of the table."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.match(line):
            table = _dotted(found[1])
            yield table, number
        elif found := _KEY.match(line):
            yield (*table, *_dotted(found[1])), number


def _dotted(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Conversion of one file's values to policies; every error has its place in the file."""

    name: str
    lines: Mapping[tuple[str, ...], int]

    def wrong(self, path: tuple[str, ...], what: str) -> BadInput:
        """Return the error ``FILE:LINE: field: what``, with the line of the closest enclosing field that has one."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        where = f"{self.name}:{self.lines[near]}" if near else self.name
        return BadInput(f"{where}: {'.'.join(path)}: {what}" if path else f"{where}: {what}")

    def build(self, make: Any, called: str, table: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        """Make a dataclass from a table."""
        known = {each.name: each for each in parameters(make)}
        given = {}
        for name, value in table.items():
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
                raise self.wrong((*path, name), f"no parameter of {called}; {hint}")
            given[name] = self.value(known[name].hint, value, (*path, name))
        missing = [each.name for each in known.values() if each.default is MISSING and each.name not in given]
        if missing:
            raise self.wrong((*path, missing[0]), "is missing")
        if make is Scheduler and not KIND.fullmatch(given["kind"]):
            raise self.wrong((*path, "kind"), f"{given['kind']!r} is no kind of job; want a lower-case word")
        try:
            return make(**given)
        except (BadInput, TypeError, ValueError) as error:
            raise self.wrong(path, f"{called}: {error}") from None

    def value(self, hint: Any, value: Any, path: tuple[str, ...]) -> Any:
        """Convert a value to the type of a field's annotation."""
        if get_origin(hint) in (Union, UnionType):
            hints = [each for each in get_args(hint) if each is not NoneType]
            if len(hints) == 1:
                return self.value(hints[0], value, path)
        axis = axis_of(hint)
        if axis is not None:
            return self.policy(axis, value, path)
        if isinstance(hint, type) and issubclass(hint, Enum):
            names = {each.name.lower(): each for each in hint}
            if value not in names:
                raise self.wrong(path, f"{value!r} is not allowed; want {' or '.join(names)}")
            return names[value]
        if is_dataclass(hint) and isinstance(value, dict):
            return self.build(hint, path[-1], value, path)
        return self.literal(hint, value, path)

    def literal(self, hint: Any, value: Any, path: tuple[str, ...]) -> Any:
        """Convert a number, a text, or a list or table of these."""
        try:
            return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            said = error.errors()[0]["msg"].lower()
            raise self.wrong(path, f"{value!r} is not allowed: {said}") from None
        except (PydanticUserError, TypeError):
            raise self.wrong(path, f"cannot be set in a file (it is a {hint})") from None

    def policy(self, axis: str, value: Any, path: tuple[str, ...]) -> Any:
        """Return the policy of a name, or of a table with name and parameters."""
        table = {POLICY: value} if isinstance(value, str) else value
        if not isinstance(table, dict) or not isinstance(table.get(POLICY), str):
            raise self.wrong(path, f'want the name of a policy, or a table with policy = "…" ({axis})')
        name = table[POLICY]
        try:
            found = registry.offer(axis, name).load()
        except BadInput as error:
            raise self.wrong((*path, POLICY) if isinstance(value, dict) else path, str(error)) from None
        rest = {key: each for key, each in table.items() if key != POLICY}
        return self.build(found, f"{axis} {name!r}", rest, path)
