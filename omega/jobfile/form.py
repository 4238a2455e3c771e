"""The fields of a job file and their valid values."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from omega.arrays import Array, parse_array
from omega.cellstate.errors import BadInput
from omega.cellstate.job_demands import LEAST_WEIGHT, MOST_WEIGHT
from omega.cellstate.model import BUDGET, MOST_BUDGET, MOST_PRECEDENCE, Gang, TaskGroup, check_word
from omega.cellstate.resources import Resources, memory_as_written, parse_bytes
from omega.jobfile.speculation import Copied, may_be_copied, read_copied
from omega.jobfile.values import STRICT, Duration, reading
from omega.output_pattern import check_distinct, read_pattern
from omega.schedulers.constraints.demands import FIELDS, read_constraint, read_relations, read_runner, read_spread
from omega.schedulers.constraints.locality import read_locality
from omega.schedulers.rolling import HEALTHY_AFTER_MS, PROGRESS_DEADLINE_MS
from omega.schedulers.speculation import with_copies
from omega.upkeep import HEALTH_FAILURES, HEALTH_INTERVAL_MS, HEALTH_TIMEOUT_MS

MOST_TASKS = 10_000_000
"""Tasks in one group."""
MOST_RESTARTS = 1_000
LEAST_HEALTH_MS = 100
LEAST_LOG, MOST_LOG = 4 << 10, 1 << 30
"""Minimum and maximum size of a task's stored output, in bytes."""
UNCHANGED = ("name", "command", "time_limit", "keep_output", "image", "repeatable", "output", "error")
"""Fields of a group that are passed on unchanged, times in milliseconds."""

GANGS: Mapping[bool | str, Gang] = {False: Gang.NO, True: Gang.YES, "strict": Gang.STRICT}

_POOL = re.compile(r"[\w.-]+(?:/[\w.-]+)*")


def _rule_of_job(field: str) -> Callable[[str], str]:
    """Return a validator of one field of a job that uses the rules of layer 0."""

    def check(value: str) -> str:
        try:
            return check_word(field, value)
        except BadInput as error:
            raise ValueError(str(error).removeprefix(f"job {field} ")) from None

    return check


def _pool_path(value: str) -> str:
    if not _POOL.fullmatch(value.strip()):
        raise ValueError(f"{value!r} is not a path of pools; write for example analytics/adhoc")
    return value.strip()


def _amount(value: Any) -> str | int | float:
    """Accept a possible amount; the cell's dimensions validate it later."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not an amount; write for example 500m, 2, 256Mi or 1Gi")  # noqa: TRY004 - pydantic's
    return value


def _bytes(value: Any) -> int:
    try:
        size = parse_bytes(value if isinstance(value, str) else str(value))
    except BadInput:
        raise ValueError(f"{value!r} is not a size; write for example 64Ki, 10Mi or 1Gi") from None
    if not LEAST_LOG <= size <= MOST_LOG:
        raise ValueError(f"{value!r} is not allowed; want 4Ki to 1Gi")
    return size


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not a whole path; write for example /data, as it is on the machines")
    return value


def _image(value: str) -> str:
    if not value or value.startswith("-"):
        raise ValueError(f"{value!r} is no image; write for example alpine:3")
    return value


def _variable(value: str) -> str:
    if not value or "=" in value:
        raise ValueError(f"{value!r} is not the name of a variable; write one without =")
    return value


class Together(NamedTuple):
    """How the tasks of a job are placed together: its gang, and the minimum of it (0: all of them)."""

    gang: Gang = Gang.NO
    least: int = 0


def _gang(value: Any) -> Together:
    if isinstance(value, dict):
        least, strict = value.get("min"), value.get("strict", False)
        if not (
            isinstance(least, int) and not isinstance(least, bool) and least > 0
            and isinstance(strict, bool) and value.keys() <= {"min", "strict"}
        ):  # fmt: skip
            raise ValueError(f"{value!r} is not allowed; write for example {{min: 6}} or {{min: 6, strict: true}}")
        return Together(Gang.STRICT if strict else Gang.YES, least)
    if not isinstance(value, bool | str) or value not in GANGS:
        raise ValueError(f"{value!r} is not allowed; write true, false, strict or {{min: 6}}")
    return Together(GANGS[value])


def _array(value: Any) -> Array:
    """Read ``0-99``, ``1-10:2,15``, or ``{range: 1-10, step: 2}``."""
    said = value if isinstance(value, dict) else {"range": value}
    text, step = said.get("range"), said.get("step")
    stepped = step is None or type(step) is int
    if not isinstance(text, str) or not stepped or set(said) - {"range", "step"}:
        raise ValueError(f"{value!r} is not an array; write 0-99, 3,20,37, or range: 1-10 with step: 2")
    return parse_array(text, step)


def _waits(value: Any) -> Any:
    """Accept a name as a job that must finish, and one entry as a list of one."""
    entries = value if isinstance(value, list) else [value]
    return [{"job": entry} if isinstance(entry, str) else entry for entry in entries]


Variable = Annotated[str, AfterValidator(_variable)]
Size = Annotated[int, BeforeValidator(_bytes)]
Amount = Annotated[Any, AfterValidator(_amount)]
Constraint = Annotated[Any, AfterValidator(reading(read_constraint, as_written=True))]
Domain = Annotated[Any, AfterValidator(reading(read_spread, as_written=True))]
Near = Annotated[Any, AfterValidator(reading(partial(read_relations, "near"), as_written=True))]
Apart = Annotated[Any, AfterValidator(reading(partial(read_relations, "apart_from"), as_written=True))]
Pattern = Annotated[str, AfterValidator(reading(read_pattern))]
Runner = Annotated[str, AfterValidator(reading(read_runner))]
Image = Annotated[str, AfterValidator(_image)]
PoolPath = Annotated[str, AfterValidator(_pool_path)]


class Strict(BaseModel):
    """Base of the models of this file."""

    model_config = STRICT


class Wait(Strict):
    """A job that another one waits for: until it finished (``ok``), or ended in any state (``any``)."""

    job: str = Field(min_length=1)
    outcome: Literal["ok", "any"] = "ok"


class Health(Strict):
    """When a new task of an update counts as healthy: it stays up, and is ready: a command beside it exits with 0."""

    command: list[str] = Field(default_factory=list)
    grace: Duration = 0
    healthy_after: Duration = HEALTHY_AFTER_MS


class Update(Strict):
    """How a running job is updated: maximum number of tasks of a group down at once, and time without progress."""

    max_down: int = Field(1, ge=1, le=MOST_TASKS)
    progress_deadline: Duration = PROGRESS_DEADLINE_MS
    health: Health = Health()


class Replicas(Strict):
    """Machines with some data, by name or by a constraint."""

    machines: list[str] = Field([], validation_alias=AliasChoices("machines", "nodes"))
    where: str = ""


class Locality(Replicas):
    """Machines with a group's data, and how long to wait for them and for those near."""

    domains: list[str] | None = None
    wait: list[Duration] | None = None

    @model_validator(mode="after")
    def _valid(self) -> Self:
        try:
            read_locality(self.spec())
        except BadInput as error:
            raise ValueError(str(error)) from None
        return self

    def spec(self) -> dict[str, Any]:
        """Return the stored field (`schedulers/constraints/locality.py`)."""
        named = {name: value for name in ("machines", "where") if (value := getattr(self, name))}
        timed = {"domains": self.domains, "wait_ms": self.wait}
        return named | {name: value for name, value in timed.items() if value is not None}


def _restart(value: Any) -> Any:
    """Read `restart: never`: no restart of a failed task, on no machine."""
    return {"attempts": 0, "elsewhere": False} if value == "never" else value


class Restart(Strict):
    """Restarts of a failed task on its machine, then elsewhere, and the number of losses that a task survives.

    What is left out follows from the kind (`omega.upkeep.restarts`).
    """

    attempts: int = Field(0, ge=0, le=MOST_RESTARTS)
    delay: Duration = 0
    factor: float = Field(1.0, ge=1, le=10)
    interval: Duration = 0
    elsewhere: bool = False
    lost: int = Field(BUDGET, ge=0, le=MOST_BUDGET)


class Liveness(Strict):
    """A command run beside a task, and when the task is unhealthy by it: the fields of Kubernetes' liveness probes."""

    command: list[str] = Field(min_length=1)
    interval: Duration = HEALTH_INTERVAL_MS
    timeout: Duration = HEALTH_TIMEOUT_MS
    failures: int = Field(HEALTH_FAILURES, ge=1, le=MOST_RESTARTS)
    grace: Duration = 0

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        for name in ("interval", "timeout"):
            if getattr(self, name) < LEAST_HEALTH_MS:
                raise ValueError(f"{name}: {getattr(self, name)} ms is too short; want at least {LEAST_HEALTH_MS} ms")
        return self


class Tasks(Strict):
    """A group of identical tasks."""

    name: str = ""
    count: int = Field(1, ge=1, le=MOST_TASKS)
    resources: dict[str, Amount] = Field(default_factory=dict)
    command: list[str] = Field(default_factory=list)
    runner: Runner | None = None
    image: Image = ""
    duration: Duration = 0
    constraints: list[Constraint] = Field(default_factory=list)
    spread: list[Domain] = Field(default_factory=list)
    different_machines: bool = False
    near: Near = None
    apart_from: Apart = None
    locality: Locality | None = None
    restart: Annotated[Restart | None, BeforeValidator(_restart)] = None
    health: Liveness | None = None
    time_limit: Duration = 0
    repeatable: bool = False
    grace: Duration | None = None
    keep_output: Size = 0
    output: Pattern | None = None
    error: Pattern | None = None
    array: Annotated[Any, AfterValidator(reading(_array))] = None

    @model_validator(mode="after")
    def _counted_once(self) -> Self:
        if self.array is not None:
            if "count" in self.model_fields_set and self.count != self.array.count:
                raise ValueError(f"count {self.count} and an array of {self.array.count}; leave count out")
            if self.array.count > MOST_TASKS:
                raise ValueError(f"an array of {self.array.count} tasks; the most is {MOST_TASKS}")
            self.count = self.array.count
        return self

    @model_validator(mode="after")
    def _run_by(self) -> Self:
        if self.runner is not None and not self.command:
            raise ValueError("runner: runs commands; write a command too")
        if self.image and self.runner is None:
            raise ValueError("image: is for a runner; write the runner too, such as podman")
        return self

    def group(self, need: Resources) -> TaskGroup:
        """Return the task group for the submission."""
        budget = BUDGET if self.restart is None else self.restart.lost
        return TaskGroup(need, self.count, self.duration, self.spec(), budget=budget)

    def spec(self) -> dict[str, Any]:
        """Return the group's fields for schedulers and executors, for `TaskGroup.spec`."""
        fields = {name: value for name in (*UNCHANGED, *FIELDS) if (value := getattr(self, name))}
        if self.locality is not None:
            fields["locality"] = self.locality.spec()
        if self.restart is not None:
            stated = self.restart.model_dump(exclude_unset=True)
            fields["restart"] = {name: value for name, value in stated.items() if (name, value) != ("lost", BUDGET)}
        if self.health is not None:
            fields["health"] = self.health.model_dump()
        if self.grace is not None:
            fields["grace"] = self.grace
        fields |= memory_as_written(self.resources)
        if self.array is not None:
            fields["array"] = self.array.spec()
        return fields


Need = Callable[[tuple[str | int, ...], Tasks], Resources]


class JobForm(Strict):
    """A job."""

    name: Annotated[str, AfterValidator(_rule_of_job("name"))]
    id: Annotated[str, AfterValidator(_rule_of_job("id"))] | None = None
    kind: Annotated[str, AfterValidator(_rule_of_job("kind"))] = "batch"
    precedence: int = Field(0, ge=0, le=MOST_PRECEDENCE)
    pool: PoolPath | None = None
    weight: float | None = Field(None, ge=LEAST_WEIGHT, le=MOST_WEIGHT)
    gang: Annotated[Any, AfterValidator(_gang)] = Together()
    tasks: list[Tasks] = Field(min_length=1)
    user: str | None = None
    expected_duration: Duration | None = None
    environment: dict[Variable, str] = Field(default_factory=dict)
    directory: Annotated[str, AfterValidator(_absolute)] | None = None
    after: Annotated[list[Wait], BeforeValidator(_waits)] = Field(default_factory=list)
    update: Update | None = None
    simulate: bool = False
    on_abandon: Literal["stop", "keep"] = "stop"
    requeue: Literal["always", "never"] = "always"
    policy: dict[str, Any] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    speculation: Annotated[Copied | None, BeforeValidator(read_copied), AfterValidator(may_be_copied)] = None

    @model_validator(mode="after")
    def _writes_apart(self) -> Self:
        try:
            check_distinct((tasks.count, {"output": tasks.output, "error": tasks.error}) for tasks in self.tasks)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return self

    def groups(self, need: Need) -> tuple[TaskGroup, ...]:
        """Return its task groups; `need` reads the resources of one, given its position in the job."""
        once = self.requeue == "never"
        groups = (tasks.group(need(("tasks", i), tasks)) for i, tasks in enumerate(self.tasks))
        stored = tuple(replace(group, once=True) if once else group for group in groups)
        return stored if self.speculation is None else with_copies(stored)

    def spec(self) -> dict[str, Any]:
        """Return the job's fields for schedulers and executors, for `JobSpec.spec`."""
        names = ("pool", "weight", "user", "environment", "directory", "simulate", "policy", "annotations")
        fields = {name: value for name in names if (value := getattr(self, name))}
        if self.expected_duration is not None:
            fields["expected_duration"] = self.expected_duration / 1000
        fields |= {"update": self.update.model_dump()} if self.update else {}
        fields |= {"speculation": self.speculation.spec()} if self.speculation else {}
        fields |= {"on_abandon": "keep"} if self.on_abandon == "keep" else {}
        return fields | ({"after": [wait.model_dump() for wait in self.after]} if self.after else {})


def fields_at(path: tuple[str | int, ...], job: type[JobForm] = JobForm) -> list[str]:
    """Return the fields allowed in the mapping at a path within a job."""
    model: type[BaseModel] | None = job
    for name in path:
        if isinstance(name, str) and model is not None:
            model = _within(model.model_fields[name].annotation) if name in model.model_fields else None
    return list(model.model_fields) if model else []


def _within(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation: ``list[Tasks]``, ``Locality | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for each in get_args(annotation) if (model := _within(each))), None)
