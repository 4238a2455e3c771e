"""Fields of jobs that a policy or a scheduler declares for itself: ``policy: {deadline: 30m}`` in a job file.

A policy lists its fields in the class attribute `job_fields`, a scheduler in its own. Live schedulers publish the
fields of their kind, so that clients without the policy's package check jobs too (docs/job-fields.md).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields as fields_of, replace
from difflib import get_close_matches
from math import isfinite
from re import compile as pattern
from typing import TYPE_CHECKING, Any, NoReturn

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec
from omega.cellstate.plain_text import check_text
from omega.cellstate.resources import parse_bytes, shown
from omega.cellstate.schema import POLICY

if TYPE_CHECKING:
    from omega.schedulers.work import Work

UNKNOWN = "start a scheduler of it (omega scheduler run), or install its package here"
MOST_FIELDS = 64
"""Maximum number of fields of a kind."""
_NAME = pattern(r"[a-z][a-z0-9_]{0,31}")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise BadInput(f"{shown(value)} is not a number")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(f"{shown(value)} is not a duration; write for example 30s, 5m, 1h30m or 250ms")
    return parse_duration(value) / 1000


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return parse_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{shown(value)} is not a size; write for example 64Ki, 10Mi or 1Gi")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{shown(value)} is not text; put it in quotes")
    return check_text(value, "value")


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{shown(value)} is not true or false")
    return value


READERS: Mapping[str, Callable[[Any], Any]] = {
    "number": _number, "duration": _seconds, "size": _bytes, "text": _text, "bool": _bool, "choice": _text,
}  # fmt: skip
"""Conversion of a value by the type of its field. A converted value is converted to itself."""
BOUNDED = ("number", "duration", "size")
UNITS: Mapping[str, str] = {"duration": "s", "size": "bytes"}
"""Units of the values that policies get, by type."""


def written(form: str, value: Any) -> str:
    """Return a value of a field of this type as in a job file: ``1h30m``, ``64Ki``, ``true``."""
    if form == "duration":
        left, parts = round(value * 1000), []
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
            parts += [f"{left // size}{unit}"] if left >= size else []
            left %= size
        return "".join(parts) or "0s"
    if form == "size":
        unit, size = next(
            each for each in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("B", 1)) if not value % each[1]
        )
        return f"{value // size}{unit}"
    return str(value).lower() if form == "bool" else str(value)


@dataclass(frozen=True, slots=True)
class JobField:
    """A field of jobs that a policy declares: its name, its type, and help for the people who set it.

    Types: ``number``, ``duration`` (policies get seconds), ``size`` (bytes), ``text``, ``bool``, ``choice`` (one of
    `choices`). `default` is the value of jobs that leave the field out, written as in a job file; without one it is
    None. A job without a `required` field is refused. `least` and `most` bound numbers, durations and sizes, `unit` is
    that of a number.

    Raises BadInput for a declaration that makes no sense.
    """

    name: str
    type: str
    help: str
    _: KW_ONLY
    default: Any = None
    required: bool = False
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: Any = None
    most: Any = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(f"job field {shown(self.name)}: use a lower-case letter, then up to 31 letters, digits, _")
        if self.type not in READERS:
            self._wrong(f"type {shown(self.type)} is unknown; known: {', '.join(READERS)}")
        if (self.type == "choice") != bool(self.choices):
            self._wrong("choices belong to a field of type choice, and only to such a field")
        if self.required and self.default is not None:
            self._wrong("a required field has no default")
        object.__setattr__(self, "unit", UNITS.get(self.type, self.unit))
        object.__setattr__(self, "choices", tuple(self.choices))
        check_text(f"{self.help} {self.unit}", f"job field {self.name}: help")
        if self.type not in BOUNDED and not self.least is self.most is None:
            self._wrong(f"least and most bound a {', '.join(BOUNDED)}")
        convert: Mapping[str, Callable[[Any], Any]] = {"least": READERS[self.type], "most": READERS[self.type]}
        for name, read in {**convert, "default": self.read}.items():
            given = getattr(self, name)
            if given is not None:
                try:
                    object.__setattr__(self, name, read(given))
                except BadInput as error:
                    self._wrong(f"{name}: {error}")

    def _wrong(self, what: str) -> NoReturn:
        raise BadInput(f"job field {self.name}: {what}")

    def read(self, value: Any) -> Any:
        """Return a value as policies get it. Raises BadInput with the allowed values."""
        found = READERS[self.type](value)
        if self.choices and found not in self.choices:
            raise BadInput(f"{shown(value)} is not allowed; want {' or '.join(self.choices)}")
        if (self.least is not None and found < self.least) or (self.most is not None and found > self.most):
            raise BadInput(f"{shown(value)} is not allowed; want {' and '.join(self.bounds())}")
        return found

    def text(self, value: Any) -> str:
        """Return a stored value as in a job file; as it is where the field had another type then."""
        with suppress(BadInput):
            return written(self.type, self.read(value))
        return str(value)

    def from_text(self, text: str) -> Any:
        """Return the plain value that an option of a command means: a number or a bool where the field takes one."""
        if self.type == "bool":
            return {"true": True, "false": False}.get(text, text)
        if self.type in ("number", "size"):
            for read in (int, float):
                with suppress(ValueError):
                    return read(text)
        return text

    def bounds(self) -> list[str]:
        """Return the bounds of its values as text: ``at least 1s``."""
        known = (("at least", self.least), ("at most", self.most))
        return [f"{word} {written(self.type, bound)}" for word, bound in known if bound is not None]

    def about(self) -> str:
        """Return the declaration as one line of text."""
        kind = " or ".join(self.choices) or self.type
        kind += f" in {self.unit}" if self.unit and self.type not in UNITS else ""
        default = [] if self.default is None else [f"default {written(self.type, self.default)}"]
        return (
            f"{self.name} ({', '.join([kind, *self.bounds(), *default, *['required'] * self.required])}): {self.help}"
        )

    def of(self, work: "Work") -> Any:
        """Return the value of a job: a number of seconds, bytes or `unit`, a text or a bool; the default without one.

        A value that was stored when the field had another type counts as none.
        """
        own = work.job.spec.get(POLICY)
        if not own or self.name not in own:
            return self.default
        try:
            return self.read(own[self.name])
        except BadInput:
            return self.default

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as plain values, as schedulers publish it."""
        return {each.name: getattr(self, each.name) for each in fields_of(self)} | {"choices": list(self.choices)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "JobField":
        """Return a published declaration. Raises BadInput for one that this Omega cannot read."""
        try:
            return JobField(**values)
        except TypeError as error:
            raise BadInput(f"job field {shown(values.get('name'))}: published by another Omega: {error}") from None


def declared(*owners: object) -> tuple[JobField, ...]:
    """Return the fields that schedulers and policies declare in `job_fields`, each name once.

    Raises BadInput for two different fields of a name, and for what is no field.
    """
    found: dict[str, JobField] = {}
    for owner in owners:
        own = getattr(owner, "job_fields", ())
        if not isinstance(own, tuple | list) or not all(isinstance(each, JobField) for each in own):
            raise BadInput(f"{type(owner).__name__}: job_fields is not a list of omega.JobField")
        for each in own:
            if found.setdefault(each.name, each) != each:
                raise BadInput(f"{type(owner).__name__}: another policy declares a different field {each.name!r}")
    if len(found) > MOST_FIELDS:
        raise BadInput(f"{len(found)} job fields; the most is {MOST_FIELDS}")
    return tuple(found.values())


class BadField(BadInput):
    """A value that its kind's declaration refuses; `name` is the field, ``""`` for all of ``policy``."""

    def __init__(self, name: str, what: str) -> None:
        """Name the field and the problem."""
        super().__init__(f"{f'{POLICY}.{name}' if name else POLICY}: {what}")
        self.name = name


def read_values(known: Sequence[JobField] | None, given: Any, kind: str) -> dict[str, Any]:
    """Return the values of a job, as policies get them, by the declared fields of its kind; None: they are unknown.

    Raises BadField.
    """
    if not isinstance(given, Mapping):
        raise BadField("", f"{shown(given)} is not a mapping of fields")
    if known is None:
        if given:
            raise BadField("", f"the fields of kind {kind} are unknown: {UNKNOWN}")
        return {}
    by_name, values = {each.name: each for each in known}, {}
    for name in given:
        if name not in by_name:
            near = get_close_matches(str(name), by_name, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            fields = ", ".join(f"{each.name} ({each.type})" for each in known) or "none"
            raise BadField(str(name), f"unknown field; {hint}fields of kind {kind}: {fields}")
    for each in known:
        if each.name in given:
            try:
                values[each.name] = each.read(given[each.name])
            except BadInput as error:
                raise BadField(each.name, str(error)) from None
        elif each.required:
            raise BadField(each.name, f"is missing; every job of kind {kind} sets it: {each.help}")
    return values


def with_values(spec: JobSpec, known: Sequence[JobField] | None) -> JobSpec:
    """Return a job with its values as policies get them. Raises BadInput with the job's name."""
    given = spec.spec.get(POLICY, {})
    if not given and not known:
        return spec
    try:
        values = read_values(known, given, spec.kind)
    except BadField as error:
        raise BadInput(f"job {spec.name}: {error}") from None
    return spec if values == given else replace(spec, spec={**spec.spec, POLICY: values})


def merged(several: Iterable[Iterable[JobField]]) -> tuple[JobField, ...]:
    """Return the fields of several schedulers of one kind; of a name that they declare differently the first."""
    found: dict[str, JobField] = {}
    for fields in several:
        for each in fields:
            found.setdefault(each.name, each)
    return tuple(found.values())
