"""Job files: YAML or JSON, one job or a list of them, read into `JobSpec`.

An error is one line with file, line, field and the allowed values. The form of
fields that only some schedulers and executors use (constraints, spread, locality, pool, …) is checked;
they are stored in `JobSpec.spec`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import ValidationError

from omega.cellstate.errors import BadInput, OmegaError
from omega.cellstate.model import After, JobSpec
from omega.cellstate.plain_text import all_printable, cleaned, problems
from omega.cellstate.resources import Dimensions, Resources, shown
from omega.cellstate.schema import POLICY
from omega.jobfile.document import MOST_ERRORS, Document, Path, joined, parse
from omega.jobfile.form import JobForm, Tasks, fields_at
from omega.jobfile.mapreduce import MapReduceForm
from omega.schedulers.job_fields import BadField, JobField, read_values

FindJob = Callable[[str], str]
"""Return the id of an existing job by name or id; raises Refused when there is none."""
Where = Callable[[str], str]
"""Return the place of a field of a job, for messages."""
FieldsOf = Callable[[str], Sequence[JobField] | None]
"""Return the fields that the policies of a kind declare; None when nobody knows them."""

MAPREDUCE = "mapreduce"
_BOUNDS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
_WANTED = {
    "string_type": "text; put it in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list; write [a, b]",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of fields",
    "too_short": "a list with something in it",
    "invalid_key": "text; put the name in quotes",
    "bool_type": "true or false",
}


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file's name, for messages, its text, and whether that is JSON (None: if the name ends in ``.json``).

    Only a `local` one, which a person has on this computer, may have jobs that name files of it.
    """

    name: str
    text: str
    is_json: bool | None = None
    local: bool = False
    document: Document | None = None
    """What the text has, where it was parsed already."""


def _nowhere(name: str) -> str:
    raise BadInput(f"{name!r} is not a job of this submission")


def load(
    files: Iterable[JobFile | JobSpec],
    dimensions: Dimensions,
    new_id: Callable[[], str],
    find_job: FindJob = _nowhere,
    fields_of: FieldsOf | None = None,
) -> list[JobSpec]:
    """Return the jobs of all `files`, in their order, except that a job comes after those that it waits for.

    Jobs can also be given as `JobSpec`. A job without an id gets one from `new_id`; `find_job` finds existing jobs that
    others wait for. With `fields_of` the fields under ``policy`` in files are checked and read, otherwise they stay as
    written.
    Raises BadInput for the first job with errors: ``FILE:LINE: FIELD: error; allowed values``, at most four of them.
    """
    read: list[JobSpec | tuple[Document, Path, JobForm, str]] = []
    taken: dict[tuple[str, str], Where] = {}
    own: dict[str, str] = {}
    for file in files:
        if isinstance(file, JobSpec):
            _take(file, partial(_named, file), taken)
            own |= {file.name: file.id, file.id: file.id}
            read.append(file)
            continue
        document = file.document or parse(file.name, file.text, is_json=file.is_json)
        for here, job in entries(document, local=file.local):
            if fields_of is not None:
                job.policy = _policy(document, here, job, fields_of(job.kind))
            _take(job, partial(_place, document, here), taken)
            job_id = new_id() if job.id is None else job.id
            own |= {job.name: job_id, job_id: job_id}
            read.append((document, here, job, job_id))
    specs = [
        each if isinstance(each, JobSpec) else _spec(*each[:3], dimensions, each[3], _after(*each[:3], own, find_job))
        for each in read
    ]
    return _in_order(specs)


def entries(document: Document, *, local: bool = False) -> Iterator[tuple[Path, JobForm]]:
    """Yield the jobs of a document, each with its place. Raises BadInput at the first one with errors."""
    listed = document.value if isinstance(document.value, list) else [document.value]
    if not listed:
        raise BadInput(f"{document.name}: no job in it; write at least name and tasks")
    for i, entry in enumerate(listed):
        here: Path = (i,) if isinstance(document.value, list) else ()
        if not local and isinstance(entry, dict) and entry.get("kind") == MAPREDUCE:
            what = "names files of the computer where it is submitted; use omega job submit there"
            raise BadInput(f"{document.where((*here, 'kind'))}: kind: a {MAPREDUCE} job {what}")
        yield here, _entry(document, here, entry)


def _after(document: Document, here: Path, job: JobForm, own: dict[str, str], find_job: FindJob) -> tuple[After, ...]:
    """Return the ids that a job waits for; `own` are jobs of the same submission by name and id."""
    try:
        asked = {own.get(wait.job) or find_job(wait.job): wait.outcome for wait in job.after}
    except OmegaError as error:
        raise BadInput(f"{document.where((*here, 'after'))}: after: {error}") from None
    return tuple(After(job_id, outcome == "any") for job_id, outcome in asked.items())


def _entry(document: Document, here: Path, entry: Any) -> JobForm:
    if not isinstance(entry, dict):
        raise BadInput(f"{document.where(here)}: {shown(entry)} is not a job; write fields such as name and tasks")
    for path, problem in () if document.printable or all_printable(entry) else problems(entry):
        raise BadInput(f"{document.where((*here, *path))}: {cleaned(_field((*here, *path)))}: {problem}")
    kind = MapReduceForm if entry.get("kind") == MAPREDUCE else JobForm
    try:
        return kind.model_validate(entry)
    except ValidationError as error:
        raise BadInput(_message(document, here, error.errors(include_url=False), kind)) from None


def _policy(document: Document, here: Path, job: JobForm, known: Sequence[JobField] | None) -> dict[str, Any]:
    try:
        return read_values(known, job.policy, job.kind)
    except BadField as error:
        at: Path = (*here, POLICY, error.name) if error.name else (*here, POLICY)
        raise BadInput(f"{document.where(at)}: {_field(here)}{'.' if here else ''}{error}") from None


def _named(job: JobSpec, _: str) -> str:
    return f"job {job.name}"


def _place(document: Document, here: Path, field: str) -> str:
    return document.where((*here, field))


def _take(job: JobForm | JobSpec, where: Where, taken: dict[tuple[str, str], Where]) -> None:
    """Refuse a name or an id that another job of the same submission has; `where` returns the place of a field."""
    for field, value in (("name", job.name), ("id", job.id)):
        if value is not None:
            other = taken.setdefault((field, value), where)
            if other is not where:
                raise BadInput(
                    f"{where(field)}: {field}: {value!r} is that of the job at {other(field)}; choose another"
                )


def _spec(
    document: Document, here: Path, job: JobForm, dimensions: Dimensions, job_id: str, after: tuple[After, ...]
) -> JobSpec:
    groups = job.groups(lambda place, tasks: _need(document, (*here, *place), tasks, dimensions))
    try:
        gang, least = job.gang
        return JobSpec(job_id, job.name, job.kind, groups, job.precedence, gang, job.spec(), after, least)
    except BadInput as error:
        raise BadInput(f"{document.where(here)}: {error}") from None


def _need(document: Document, here: Path, tasks: Tasks, dimensions: Dimensions) -> Resources:
    with suppress(BadInput):  # which says no place
        return dimensions.parse_need(tasks.resources)
    for name, amount in tasks.resources.items():
        try:
            dimensions.parse({name: amount})
        except BadInput as error:
            at: Path = (*here, "resources", name)
            raise BadInput(f"{document.where(at)}: {_field(at)}: {str(error).removeprefix(f'{name}: ')}") from None
    return dimensions.parse_need(tasks.resources)


# Messages


def _field(path: Path) -> str:
    """Return a path as text, such as ``tasks[0].count``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _message(document: Document, here: Path, errors: Sequence[Any], kind: type[JobForm]) -> str:
    """Return the first errors in one line, each with its place, and how many more there are.

    Unknown fields are reported first: a missing field may be misspelt.
    """
    ordered = sorted(errors, key=lambda error: bool(error["type"] != "extra_forbidden"))
    parts = []
    for error in ordered[:MOST_ERRORS]:
        path: Path = (*here, *(step for step in error["loc"] if step != "[key]"))
        parts.append(f"{document.where(path)}: {_field(path)}: {_reason(error, kind)}")
    return joined(parts, len(ordered))


def _reason(error: Any, job: type[JobForm]) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        *around, name = error["loc"]
        known = fields_at(tuple(around), job)
        near = get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        if "resources" in known and name in Dimensions().names:  # as every cell has them
            hint = f"did you mean resources: {{{name}: …}}? "
        return f"unknown field; {hint}allowed: {', '.join(known)}"
    if kind == "value_error":
        return str(context["error"]).replace(repr(value), shown(value))
    if kind in _BOUNDS:
        bound, relation = _BOUNDS[kind]
        return f"{shown(value)} is not allowed; want {relation} {context[bound]}"
    if kind in _WANTED:
        return f"{shown(value)} is not {_WANTED[kind]}"
    return f"{shown(value)}: {error['msg']}"


def _in_order(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Return jobs after those that they wait for, otherwise in their order. Raises BadInput for a cycle."""
    by_id = {spec.id: spec for spec in specs}
    graph = {spec.id: [wait.job for wait in spec.after if wait.job in by_id] for spec in specs}
    if not any(graph.values()):
        return list(specs)
    try:
        return [by_id[job_id] for job_id in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        circle = " waits for ".join(by_id[job_id].name for job_id in reversed(error.args[1]))
        raise BadInput(
            f"job {circle}: a cycle, none of them would ever start; remove one of these dependencies"
        ) from None
