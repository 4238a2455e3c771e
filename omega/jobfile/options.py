"""The job of identical tasks that the options of `omega job run` describe, also as directives of a script."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import dumps
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from omega.arrays import parse_array
from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cellstate.model import After, Gang, JobSpec, TaskGroup
from omega.cellstate.resources import Dimensions, memory_as_written
from omega.output_pattern import FIELDS, check_distinct, read_pattern
from omega.queries.job_fields import KindFields
from omega.queries.jobs import job_to_change
from omega.schedulers.constraints.demands import read_constraint, read_runner
from omega.schedulers.speculation import with_copies
from omega.submission import new_id

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

SCRIPTS = (".py", ".sh", ".rb", ".pl", ".js")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The values of the options, by their parameters; `words` are the command."""

    kind: str
    count: int
    cpu: str | None
    memory: str | None
    others: Mapping[str, str]
    duration: str | None
    environment: Mapping[str, str]
    directory: str | None
    runner: str | None
    image: str | None
    time_limit: str | None
    output: str | None
    error: str | None
    restart: int
    repeatable: bool
    speculation: str | None
    precedence: int
    user: str | None
    pool: str | None
    weight: float | None
    constraints: Sequence[str]
    own: Mapping[str, str]
    gang: bool
    gang_min: int | None
    strict_gang: bool
    simulate: bool
    waits: Sequence[str]
    array: str | None
    words: Sequence[str]

    def job(self, cell: "Cell", name: str) -> JobSpec:
        """Return the job of these options, with a new id. Raises BadInput, Refused."""
        if problem := self.incomplete:
            raise BadInput(problem)
        kind = self.kind
        about = {"environment": dict(self.environment), "user": self.user, "pool": self.pool, "weight": self.weight}
        about |= {"simulate": self.simulate, "policy": _policy(self.own, KindFields(cell), kind)}
        stated = _directory(self.directory, run=bool(self.words)) | {key: each for key, each in about.items() if each}
        together = Gang.STRICT if self.strict_gang else Gang.YES if self.gang or self.gang_min else Gang.NO
        after, said = _after(cell, self.waits)
        groups: tuple[TaskGroup, ...] = (self._group(cell),)
        least = self.gang_min or 0
        if self.speculation is not None:
            stated |= {"speculation": read_rules(self.speculation, kind, gang=together is not Gang.NO)}
            groups = with_copies(groups)
        return JobSpec(new_id(), name, kind, groups, self.precedence, together, stated | said, after, least)

    @property
    def incomplete(self) -> str:
        """Why an option needs another one: no runner can start the command, or no copy may; "" if none does."""
        wanted, complete = self.runner is not None or self.image is not None, self.runner is not None and self.words
        if wanted and not complete:
            return "--runner runs a command after --, and --image is for a --runner"
        twice = self.speculation is not None and self.words and not self.repeatable
        return "--speculation runs CMD twice, perhaps at once; add --repeatable if it may" if twice else ""

    def _group(self, cell: "Cell") -> TaskGroup:
        amounts = {name: text for name, text in (("cpu", self.cpu), ("memory", self.memory)) if text is not None}
        need = cell.dimensions.parse_need({**self.others, **amounts})
        fields, count = self._fields() | memory_as_written(amounts), self.count
        if self.array is not None:
            indices = parse_array(self.array)
            count, fields = indices.count, fields | {"array": indices.spec()}
        check_distinct([(count, fields)])
        return TaskGroup(need, count, 0 if self.duration is None else parse_duration(self.duration), fields)

    def _fields(self) -> dict[str, Any]:
        """Return the fields of a task group that only schedulers and executors read."""
        fields: dict[str, Any] = {"command": list(self.words)} if self.words else {}
        if self.time_limit is not None:
            fields["time_limit"] = parse_duration(self.time_limit)
        fields |= {name: read_pattern(text) for name in FIELDS if (text := getattr(self, name)) is not None}
        if self.restart:
            fields["restart"] = {"attempts": self.restart}
        if self.constraints:
            fields["constraints"] = [read_constraint(text) for text in self.constraints]
        if self.repeatable:
            fields["repeatable"] = True
        if self.runner is not None:
            fields["runner"] = read_runner(self.runner)
        return fields | ({"image": self.image} if self.image else {})


def read_rules(text: str, kind: str = "batch", *, gang: bool = False) -> dict[str, Any]:
    """Read --speculation, ``true`` or ``after=30m,factor=3``, as a job stores it. Raises BadInput as for a job file."""
    from omega.jobfile.reader import JobFile, load  # noqa: PLC0415 - imports pydantic

    pairs = [] if text == "true" else [pair.partition("=") for pair in text.split(",")]
    rules = {name.strip(): value if name.strip() == "after" else _number(value) for name, _, value in pairs}
    job = {"name": "x", "kind": kind, "gang": gang, "speculation": rules, "tasks": [{}]}
    try:
        (read,) = load([JobFile("", dumps(job))], Dimensions(), lambda: "x")
    except BadInput as error:
        raise BadInput(str(error).removeprefix(":1: ")) from None
    return dict(read.spec["speculation"])


def _number(text: str) -> int | float | str:
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text


def _policy(own: Mapping[str, str], fields: KindFields, kind: str) -> dict[str, Any]:
    """Return the values of --policy as in a job file: numbers and bools where the fields of the kind take them."""
    by_name = {each.name: each for each in fields.of(kind) or ()} if own else {}
    return {name: by_name[name].from_text(text) if name in by_name else text for name, text in own.items()}


def _directory(asked: str | None, *, run: bool) -> dict[str, str]:
    """Return the requested directory of the job, else of a job that runs a command the current one."""
    if asked is not None:
        return {"directory": str(Path(asked).absolute())}
    with suppress(FileNotFoundError):  # the current directory was removed
        return {"submitted_in": str(Path.cwd())} if run else {}
    return {}


def _after(cell: "Cell", waits: Sequence[str]) -> tuple[tuple[After, ...], dict[str, Any]]:
    """Return the dependencies of --after by ids, and as in a job file. Raises Refused for an unknown job."""
    if not waits:
        return (), {}
    asked = [(name.removesuffix(":ok").removesuffix(":any"), name.endswith(":any")) for name in waits]
    after = tuple(After(job_to_change(cell, name).id, any_end) for name, any_end in asked)
    return after, {"after": [{"job": name, "outcome": "any" if any_end else "ok"} for name, any_end in asked]}


def stem(words: Sequence[str]) -> str:
    """Return a name after a command: of ``python3 crunch.py -v`` it is ``crunch``, of ``sleep 30`` it is ``sleep``."""
    scripts = [word for word in words if PurePath(word).suffix in SCRIPTS]
    name = PurePath((scripts or words)[0]).stem
    cleaned = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return cleaned.strip("-")[:100] or "job"
