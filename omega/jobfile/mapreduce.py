"""The fields of a MapReduce job in a job file: commands over shards of an input instead of task groups."""

import re
from collections.abc import Mapping
from dataclasses import replace
from glob import escape, glob, has_magic
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.model import BUDGET, MACHINE, TaskGroup
from omega.cellstate.resources import parse_amount, parse_bytes
from omega.jobfile.form import MOST_TASKS, Amount, Constraint, JobForm, Need, Replicas, Restart, Strict, Tasks
from omega.jobfile.values import Duration
from omega.mapreduce.plan import MapReducePlan, shards_of
from omega.schedulers.constraints.locality import MOST_PLACES, Place, field_of_all, read_locality, with_locality
from omega.schedulers.sizing import PLAN

LEAST_MEMORY_MIB = 96
"""Memory of a worker itself, which its commands and the sorting of a shard are added to."""
MOST_FILES = 10_000
NO_INPUT = "._"
"""First letters of the names of files in an input directory that are left out, as Hadoop does."""
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


class InputLocality(Strict):
    """Machines with the data of files, by name or pattern, and how long workers wait for shards of near machines."""

    paths: dict[str, Replicas] = Field(min_length=1)
    domains: list[str] | None = None
    wait: list[Duration] | None = None

    @model_validator(mode="after")
    def _valid(self) -> "InputLocality":
        for path, place in self.paths.items():
            try:
                read_locality({"machines": place.machines, "where": place.where, **self.near()})
            except BadInput as error:
                raise ValueError(f"{path}: {error}") from None
        try:
            read_locality(self.of_workers())
        except BadInput as error:  # too long together
            raise ValueError(str(error)) from None
        return self

    def near(self) -> dict[str, Any]:
        """Return the domains and the waits, as stored."""
        timed = {"domains": self.domains, "wait_ms": self.wait}
        return {name: value for name, value in timed.items() if value is not None}

    def of_workers(self) -> dict[str, Any] | None:
        """Return the locality of workers before the first shard is claimed, as stored."""
        return field_of_all((Place(0, 0, each.machines, each.where) for each in self.paths.values()), self.near())


class Input(Strict):
    """Files, by name or pattern, or numbers; and the size of a map shard: bytes, or a count of numbers."""

    files: list[str] = Field(default_factory=list)
    ranges: Annotated[Any, AfterValidator(_ranges)] = ranges.EMPTY
    shard: Annotated[Any, AfterValidator(_bytes)] = None
    locality: InputLocality | None = None

    @model_validator(mode="after")
    def _one(self) -> "Input":
        if bool(self.files) == (self.ranges != ranges.EMPTY):
            raise ValueError("want either files or ranges")
        if self.locality is not None and not self.files:
            raise ValueError("locality: is of files, and the input is ranges; leave it out")
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
        surplus = replace(workers, count=0, spec={**workers.spec, "name": "surplus"}, optional=True)
        if self.input.locality is None:
            return workers, surplus
        near = self.input.locality.of_workers()
        return tuple(
            replace(group, spec=with_locality({**group.spec, "spread": [MACHINE]}, near, waits=not group.optional))
            for group in (workers, surplus)
        )

    def spec(self) -> dict[str, Any]:
        """As JobForm.spec, with the plan. Raises BadInput for an input that cannot be read."""
        return {**super().spec(), PLAN: self.plan().write()}

    def plan(self) -> MapReducePlan:
        """Return the plan; file names are relative to the current directory."""
        output = _output(self.output)
        scratch = Path(self.scratch).absolute() if self.scratch else output / ".scratch"
        _check_directory("scratch", scratch)
        _check_memory(self.resources.get("memory"))
        numbers, files, locality = self.input.ranges, _found(self.input.files), self.input.locality
        size = self.input.shard or (SHARD_BYTES if files else SHARD_NUMBERS)
        files, places = (files, []) if locality is None else _by_place(files, locality.paths, size)
        plan = MapReducePlan(
            self.map.command,
            self.reduce.command,
            self.reduce.count or min(self.workers, MOST_SHARDS),
            size,
            str(output),
            str(scratch),
            files,
            numbers,
            [_root(pattern) for pattern in self.input.files],
            places,
            _left_out(self.input.files),
            {} if locality is None else locality.near(),
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


def _is_pattern(name: str) -> bool:
    """Return whether a name is a pattern: one of a file or directory that is there is that name, whatever it has."""
    return has_magic(name) and not Path(name).exists()


def _root(pattern: str) -> tuple[str, bool]:
    """Return the directory that holds all files of a pattern, and whether directories below it belong to it as well."""
    path = Path(pattern).absolute()
    if not _is_pattern(pattern):
        return str(path), False
    at = next(i for i, part in enumerate(path.parts) if has_magic(part))
    return str(Path(*path.parts[:at])), at < len(path.parts) - 1


def _by_place(
    files: list[tuple[str, int]], paths: Mapping[str, Replicas], size: int
) -> tuple[list[tuple[str, int]], list[Place]]:  # fmt: skip
    """Return the files in the order of their places, those without one last, and the places with their shards."""
    known, place_of = dict(files), dict[str, tuple[tuple[str, ...], str]]()
    for pattern, place in paths.items():
        found = [path for name in _matches(pattern, "input.locality") if (path := str(Path(name).absolute())) in known]
        if not found:
            raise BadInput(f"input.locality: {pattern!r} matches no file of the input; remove it or correct the name")
        where = tuple(sorted(set(place.machines))), place.where
        for path in found:
            place_of.setdefault(path, where)
    at = dict[tuple[tuple[str, ...], str], list[tuple[str, int]]]()
    for path, length in files:
        if path in place_of:
            at.setdefault(place_of[path], []).append((path, length))
    if len(at) > MOST_PLACES:
        raise BadInput(f"input.locality: {len(at):,} sets of machines, the most is {MOST_PLACES:,}; join some of them")
    places = [Place(len(own), shards_of(own, size), *place) for place, own in at.items()]
    others = [file for file in files if file[0] not in place_of]
    return [*chain.from_iterable(at.values()), *others], places


def _inside(directory: str) -> tuple[list[str], int, int]:
    """Return the files in a directory that are input, and the numbers of other files and of directories in it."""
    inside = sorted(Path(directory).iterdir())
    files = [each for each in inside if each.is_file()]
    paths = [str(each) for each in files if each.name[0] not in NO_INPUT]
    return paths, len(files) - len(paths), sum(each.is_dir() for each in inside)


def _left_out(patterns: list[str]) -> list[tuple[str, int, int]]:
    """Return the directories of the input of which not all is read, with the numbers of `_inside`."""
    named = (name for name in dict.fromkeys(patterns) if not _is_pattern(name) and Path(name).is_dir())
    counts = ((str(Path(name).absolute()), *_inside(name)[1:]) for name in named)
    return [each for each in counts if any(each[1:])]


def _matches(pattern: str, field: str = "input") -> list[str]:
    """Return the files of a pattern; of the name of a directory, the files in it whose names do not begin so."""
    if not _is_pattern(pattern) and Path(pattern).is_dir():
        paths, hidden, _ = _inside(pattern)
        if paths:
            return paths
        hint = f"write {escape(pattern)}/**/* for those below it"
        if hidden:
            hint = f"{hidden} begin with . or _, which are left out; name them"
        raise BadInput(f"{field}: {pattern!r} is a directory without files; {hint}")
    found = glob(pattern, recursive=True) if _is_pattern(pattern) else [pattern]  # noqa: PTH207 - absolute ones too
    names = sorted(name for name in found if Path(name).exists())
    if paths := [name for name in names if Path(name).is_file()]:
        return paths
    if names:
        raise BadInput(f"{field}: {pattern!r} matches directories only, such as {names[0]!r}; name the files in them")
    hint = "; the letter [ of a name is written [[] in a pattern" if "[" in pattern else ""
    raise BadInput(f"{field}: no file matches {pattern!r}; names are relative to the current directory{hint}")


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
