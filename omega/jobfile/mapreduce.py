"""The fields of a MapReduce job in a job file: commands over shards of an input instead of task groups."""

import re
from dataclasses import replace
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.model import BUDGET, TaskGroup
from omega.cellstate.resources import parse_amount, parse_bytes
from omega.jobfile.form import MOST_TASKS, Amount, Constraint, JobForm, Need, Restart, Strict, Tasks
from omega.jobfile.values import Duration
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.sizing.model import PLAN

LEAST_MEMORY_MIB = 96
"""Memory of a worker itself, which its commands and the sorting of a shard are added to."""
MOST_FILES = 10_000
MOST_SHARDS = 100_000
"""Maximum of maps and of reduces of a job: a claim reads the ranges of unclaimed ones."""
SHARD_BYTES = 8 << 20
SHARD_NUMBERS = 1_000
RESTART = Restart(attempts=3, factor=2.0, lost=BUDGET)
"""Number of restarts of a failed worker, which continues with its shard."""
WORKER = ["omega", "mapreduce", "worker"]
"""The command of the tasks of a MapReduce job."""

_RANGES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", re.ASCII)


def _bytes(value: Any) -> int:
    """Read the size of a map shard: bytes with or without a unit, or a count of numbers."""
    text = str(value).strip()
    try:
        size = parse_bytes(f"{text}B" if text.isdecimal() else text)
    except BadInput:
        size = 0
    if isinstance(value, bool) or not size:
        raise ValueError(f"{value!r} is not a size; write for example 8Mi, 64Mi or 100000")
    return size


def _ranges(value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not _RANGES.fullmatch(text):
        raise ValueError(f"{value!r} is not a range of numbers; write for example 0-999 or 0-9,20-29")
    pairs = ranges.spans(text)
    falling = any(last < first for first, last in pairs)
    if falling or any(after[0] <= before[1] for before, after in pairwise(pairs)):
        raise ValueError(f"{value!r}: numbers rise, and none stands there twice")
    return text


def _none(value: list[Tasks]) -> list[Tasks]:
    if value:
        raise ValueError("a job of kind mapreduce has workers, map and reduce instead")
    return value


class MapStage(Strict):
    """A mapper: text in, lines ``key<TAB>value`` out."""

    command: list[str] = Field(min_length=1)


class ReduceStage(MapStage):
    """A reducer, and the number of parts of the result (default: the number of requested workers)."""

    count: int | None = Field(None, ge=1, le=MOST_SHARDS)


class Input(Strict):
    """Files, by name or pattern, or numbers; and the size of a map shard: bytes, or a count of numbers."""

    files: list[str] = Field(default_factory=list)
    ranges: Annotated[Any, AfterValidator(_ranges)] = ranges.EMPTY
    shard: Annotated[Any, AfterValidator(_bytes)] = None

    @model_validator(mode="after")
    def _one(self) -> "Input":
        if bool(self.files) == (self.ranges != ranges.EMPTY):
            raise ValueError("want either files or ranges")
        return self


class MapReduceForm(JobForm):
    """A MapReduce job."""

    tasks: Annotated[list[Tasks], AfterValidator(_none)] = Field(default_factory=list)
    workers: int = Field(1, ge=1, le=MOST_TASKS)
    resources: dict[str, Amount] = Field(default_factory=dict)
    constraints: list[Constraint] = Field(default_factory=list)
    duration: Duration = 0
    input: Input
    map: MapStage
    reduce: ReduceStage
    output: str = Field(min_length=1)
    scratch: str | None = None

    def groups(self, need: Need) -> tuple[TaskGroup, ...]:
        """Return the group of requested workers and the empty group of surplus workers that a scheduler may add."""
        tasks = Tasks(
            name="workers",
            count=self.workers,
            resources=self.resources,
            command=WORKER,
            duration=self.duration,
            constraints=self.constraints,
            restart=RESTART,
        )
        workers = replace(tasks.group(need((), tasks)), once=self.requeue == "never")
        return workers, replace(workers, count=0, spec={**workers.spec, "name": "surplus"}, optional=True)

    def spec(self) -> dict[str, Any]:
        """As JobForm.spec, with the plan. Raises BadInput for an input that cannot be read."""
        return {**super().spec(), PLAN: self.plan().write()}

    def plan(self) -> MapReducePlan:
        """Return the plan; file names are relative to the current directory."""
        output = _output(self.output)
        scratch = Path(self.scratch).absolute() if self.scratch else output / ".scratch"
        _check_directory("scratch", scratch)
        _check_memory(self.resources.get("memory"))
        numbers, files = self.input.ranges, _found(self.input.files)
        plan = MapReducePlan(
            self.map.command,
            self.reduce.command,
            self.reduce.count or min(self.workers, MOST_SHARDS),
            self.input.shard or (SHARD_BYTES if files else SHARD_NUMBERS),
            str(output),
            str(scratch),
            files,
            numbers,
            [_root(pattern) for pattern in self.input.files],
        )
        if root := plan.reads(plan.output):  # its files would become input of the next run
            pattern = next(each for each in self.input.files if _root(each)[0] == root)
            raise BadInput(f"output: {output} is within the input {pattern}; name a directory outside it")
        if plan.maps > MOST_SHARDS:
            raise BadInput(f"input: {plan.maps} shards, the most is {MOST_SHARDS}; make shard larger")
        return plan


def _output(name: str) -> Path:
    """Return the output directory. Raises BadInput when it cannot be one, or holds a result."""
    output = Path(name).absolute()
    _check_directory("output", output)
    if any(output.glob("part-*")):
        raise BadInput(f"output: {output} holds the result of an earlier run; remove it or name another directory")
    return output


def _check_directory(field: str, path: Path) -> None:
    """Raise BadInput when a path is no directory here, and cannot become one."""
    for each in (path, *path.parents):
        if each.exists():
            if not each.is_dir():
                raise BadInput(f"{field}: {each} is not a directory; name a directory for the job's files")
            return


def _check_memory(amount: Any) -> None:
    """Raise BadInput for a memory limit below what a worker takes for itself."""
    if amount is not None and 0 < parse_amount("memory", amount) < LEAST_MEMORY_MIB:
        raise BadInput(
            f"resources.memory: {amount} is too little for a worker, which takes {LEAST_MEMORY_MIB}Mi for itself; "
            "add what the commands and the largest shard need"
        )


def _root(pattern: str) -> tuple[str, bool]:
    """Return the directory that holds all files of a pattern, and whether directories below it belong to it as well."""
    path = Path(pattern).absolute()
    if not has_magic(pattern):
        return str(path), False
    at = next(i for i, part in enumerate(path.parts) if has_magic(part))
    return str(Path(*path.parts[:at])), at < len(path.parts) - 1


def _matches(pattern: str) -> list[str]:
    """Return the files of a pattern; of the name of a directory, the files in it that are not hidden."""
    if not has_magic(pattern) and Path(pattern).is_dir():
        inside = (each for each in sorted(Path(pattern).iterdir()) if each.name[0] not in "._")
        if paths := [str(each) for each in inside if each.is_file()]:
            return paths
        raise BadInput(f"input: {pattern!r} is a directory without files; write {pattern}/**/* for those below it")
    names = sorted(glob(pattern, recursive=True))  # noqa: PTH207 - absolute patterns too
    if paths := [name for name in names if Path(name).is_file()]:
        return paths
    if names:
        raise BadInput(f"input: {pattern!r} matches directories only, such as {names[0]!r}; name the files in them")
    raise BadInput(f"input: no file matches {pattern!r}; names are relative to the current directory")


def _found(patterns: list[str]) -> list[tuple[str, int]]:
    """Return the files that match the patterns, each once, and their sizes."""
    names: dict[str, int] = {}
    for pattern in patterns:
        paths = _matches(pattern)
        for name in paths:
            path = Path(name).absolute()
            try:
                with path.open("rb"):
                    names[str(path)] = path.stat().st_size
            except OSError as error:
                raise BadInput(f"input: {path}: {error.strerror}; give files that can be read") from None
    if len(names) > MOST_FILES:
        raise BadInput(f"input: {len(names)} files, the most is {MOST_FILES}; join them")
    return list(names.items())
