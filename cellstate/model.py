"""The data types of a cell: machine, job, task group, run, limits.

Identical tasks of a job form a *task group*; those that one claim placed on one machine form a *run*. A run has a
cell-wide placement id, and (placement id, task index) identifies one placement permanently: a task placed again has a
new id (semantics 1).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from re import compile as pattern
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput, OmegaError, Overtaken, Refused
from omega.cellstate.plain_text import MOST_BYTES, MOST_STARTED, check_text, check_texts, size_of
from omega.cellstate.resources import LARGEST, LARGEST_COUNT, MOST_TOGETHER, Resources, largest_sum, shown
from omega.cellstate.schema import GROUP_SPEC, SPEC
from omega.cellstate.tasks import TaskLoss

# The size of a gang, and of its minimum (semantics 8).


def check_gang(name: str, least: int, total: int, *, most: int, gang: bool) -> None:
    """Refuse a minimum without a gang or above its tasks, and more tasks together than the `most` of a transaction.

    `least`: the minimum, 0 for all `total` tasks. Raises BadInput.
    """
    if least and not gang:
        raise BadInput(f"job {name}: gang_min {least} without a gang; set gang")
    if not 0 <= least <= total:
        raise BadInput(f"job {name}: a gang of at least {least} tasks; want 1 to its {total}")
    if (least or total) > most:
        which = f"at least {least}" if least else f"{total}"
        raise BadInput(f"job {name}: a gang of {which} tasks; the most in one transaction is {most}")


# Groups for copies of slow tasks (semantics 41): which jobs may have them.


class _Group(Protocol):
    @property
    def need(self) -> Resources: ...
    @property
    def copies(self) -> bool: ...
    @property
    def optional(self) -> bool: ...
    @property
    def once(self) -> bool: ...


def check_copies(name: str, groups: Sequence[_Group], *, gang: bool) -> None:
    """Refuse a job whose groups for copies do not fit. Raises BadInput."""
    for at, group in enumerate(groups):
        if not group.copies:
            continue
        if gang:
            raise BadInput(f"job {name}: is a gang, and copies are placed one by one: tasks of a gang get none")
        original = groups[at - 1] if at else group
        if original.copies or tuple(original.need) != tuple(group.need):
            raise BadInput(f"job {name}: a group for copies follows the group of the tasks, with the same need")
        if original.optional or original.once:
            raise BadInput(f"job {name}: tasks of an optional or an at-most-once group get no copies")


# The fields of a submitted job and of its task groups that only schedulers and executors read: those of `schema`.

_JOB, _GROUP = (frozenset(field.name for field in table) for table in (SPEC, GROUP_SPEC))


def check_spec(spec: Mapping[str, Any], job: str) -> None:
    """Refuse fields that jobs do not have, and texts that are not plain, in the job of a name. Raises BadInput."""
    if spec:
        _check(spec, _JOB, f"job {job}")


def check_starts(spec: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], job: str) -> None:
    """Refuse commands that no program starts with: what the kernel limits is words, NAME=value, and all together.

    Raises BadInput, with the field.
    """
    around = 0
    for name, value in (spec.get("environment") or {}).items():
        size = size_of(f"{name}={value}")
        if size > MOST_BYTES:
            raise BadInput(
                f"job {job}: environment.{name}: {size:,} bytes with its name; the most is {MOST_BYTES:,}: put it into "
                "a file that the command reads"
            )
        around += size + PER_WORD
    places = [("", spec), *((f"tasks[{number}].", each) for number, each in enumerate(groups))]
    for place, command in (found for before, said in places for found in _commands(said, before)):
        size = around + sum(size_of(str(word)) + PER_WORD for word in command)
        if size > MOST_STARTED:
            raise BadInput(
                f"job {job}: {place}: {size:,} bytes with the environment; the most is {MOST_STARTED:,}: put some of "
                "it into a file that the command reads"
            )


PER_WORD = 9
"""Bytes that a word takes beyond its letters: its end and a pointer to it."""


def _commands(value: Any, field: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the commands within the fields of a job, with their places."""
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name == "command" and isinstance(each, list | tuple):
            yield f"{field}{name}", each
        elif name != "groups" and isinstance(each, Mapping):
            yield from _commands(each, f"{field}{name}.")


def check_group_spec(spec: Mapping[str, Any]) -> None:
    """Refuse fields that task groups do not have, and texts that are not plain. Raises BadInput."""
    if spec:
        _check(spec, _GROUP, "task group")


def _check(spec: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if not known.issuperset(spec):
        first = min(map(str, spec.keys() - known))
        raise BadInput(f"{what}: {shown(first)} is no field; a policy declares its own (policy, docs/job-fields.md)")
    check_texts(spec, what)


# What operators set of a machine: it belongs to the machine and outlives the executor.


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """What operators set of a machine, which its executor does not change (semantics 36).

    `amounts`: by resource, None where the executor decides; empty for none. `attributes`: None for a removed one.
    """

    amounts: tuple[int | None, ...] = ()
    attributes: Mapping[str, str | None] = field(default_factory=dict)

    def applied(self, capacity: Resources, attributes: Mapping[str, str]) -> tuple[Resources, dict[str, str]]:
        """Return what a machine has whose executor states `capacity` and `attributes`."""
        own = self.amounts or (None,) * len(capacity)
        amounts = tuple(has if wanted is None else wanted for wanted, has in zip(own, capacity, strict=True))
        return amounts, {name: text for name, text in {**attributes, **self.attributes}.items() if text is not None}


MOST_CLAIMS = 5_000
"""Maximum number of claims of a transaction and of tasks of a gang: about 60 ms of the server's time (semantics 11)."""
MOST_ENDS = 2_000
"""Maximum number of endings in one call of a script; more are sent in several calls."""
MOST_STOPS = 1_000
"""Maximum number of running tasks that one call of a resize stops; the rest in the next call."""
RUNS_CHUNK = 256
"""Runs with a last task index below this are in their job's record, others in chunks (lua/parts/placements.lua)."""
MOST_GROUPS = 500
"""Maximum number of task groups of a job, including those of earlier updates."""
MOST_WAITS = 1_000
"""Maximum number of jobs that a job waits for."""
BUDGET = 10
"""Default number of losses that a task survives (semantics 26)."""
MOST_BUDGET = 1_000
BUCKETS = 32
"""Number of buckets, which are hashes of job ids; members of a kind share the buckets."""
MOST_PRECEDENCE = 1_000_000
MOST_AUTHOR = 128
"""Maximum length of an executor's name and of the author of a change in the log."""

_ID = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_KIND = pattern(r"[a-z][a-z0-9_-]{0,31}")
_WORDS = {
    "id": (_ID, "1 to 64 letters, digits, . _ -"),
    "name": (_NAME, "1 to 128 letters, digits, . _ / -"),
    "kind": (_KIND, "a lower-case letter, then up to 31 letters, digits, _ -"),
}

Pairs = tuple[tuple[str, str], ...]
Described = tuple[str, Pairs]
"""The constant part of a machine in the store: its name and its attributes."""


def bucket_of(job_id: str) -> int:
    """Return the bucket (0 to 31) of a job: a hash of its id."""
    return crc32(job_id.encode()) % BUCKETS


MACHINE = "machine"
"""The attribute that every machine has: its name."""


class MachineState(IntEnum):
    """State of a machine. `DRAINED` keeps its tasks and takes no new ones.

    `OFFLINE` is `UP` without a live executor (semantics 31), `UNFIT` with one that says that it cannot start tasks: it
    keeps its tasks. Executors enter and leave these states; people set the others.
    """

    UP = 0
    DRAINED = 1
    DOWN = 2
    GONE = 3
    OFFLINE = 4
    UNFIT = 5


class JobState(IntEnum):
    """State of a job for scheduling; `DONE` once it has no unplaced and no placed tasks."""

    ACTIVE = 0
    HELD = 1
    STOPPED = 2
    ABANDONED = 3
    DONE = 4


class Gang(IntEnum):
    """Whether tasks are placed together; `STRICT` also evicts every member when one is evicted (semantics 8)."""

    NO = 0
    YES = 1
    STRICT = 2


class TakeOver(NamedTuple):
    """How a group grows that takes over the tasks of older groups of its job under their numbers.

    Its new tasks are first those that these groups lose in the same call, then `again`, ended tasks of theirs as
    ranges, and then tasks with numbers that none of these groups has given out.
    """

    older: tuple[int, ...] = ()
    again: str = ranges.EMPTY

    def text(self) -> str:
        """Return it as the script reads it."""
        return f"{','.join(map(str, self.older)) or ranges.EMPTY} {self.again}"


NOTHING_TAKEN = TakeOver()
"""New tasks have the next numbers."""


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine as it joins: capacity in the cell's dimensions, attributes for constraints."""

    name: str
    capacity: Resources
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(f"machine name {shown(self.name)}: use 1 to 128 letters, digits, . _ / -")
        if self.attributes:
            check_texts(self.attributes, f"machine {self.name}: attributes")


def check_state(state: MachineState) -> MachineState:
    """Return a state that a person may set; raises BadInput for `OFFLINE` and `UNFIT`."""
    if state in (MachineState.OFFLINE, MachineState.UNFIT):
        name = state.name.lower()
        raise BadInput(f"machine state {name}: executors enter and leave it; set up, drained, down or gone")
    return state


def merged(attributes: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return attributes with some changed; None removes one. Raises BadInput for text that is not plain."""
    check_texts(changes, "attributes")
    return {name: value for name, value in {**attributes, **changes}.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as stored. `number` is its sequence number, `index` its row."""

    index: int
    name: str
    number: int
    state: MachineState
    executor: int
    capacity: Resources
    allocated: Resources
    attributes: Mapping[str, str]

    @property
    def over(self) -> bool:
        """Whether more is allocated than the machine has (it came back smaller)."""
        return any(a > c for a, c in zip(self.allocated, self.capacity, strict=True))


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Identical tasks of a job. `duration_ms` is their duration on simulated machines.

    `spec` has the fields that only schedulers and executors read (name, command, constraints, …): plain values that
    MessagePack can encode. An `optional` group may be empty, and its tasks are given up first: an evicted, lost or
    failed one is dropped from the total (semantics 4: surplus MapReduce workers). A task that was lost more than
    `budget` times fails; with `once` a lost or evicted task fails and is never placed again (semantics 26). A group for
    `copies`, which begins empty, has the copies of slow tasks of the group before it (semantics 41).
    """

    need: Resources
    count: int
    duration_ms: int = 0
    spec: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    budget: int = BUDGET
    once: bool = False
    copies: bool = False

    def __post_init__(self) -> None:
        check_group_spec(self.spec)
        if self.copies and (self.count or self.optional):
            raise BadInput("a task group for copies begins empty, and is not optional beside that")
        if not 0 <= self.budget <= MOST_BUDGET:
            raise BadInput(f"a task group: {self.budget} losses; want 0 to {MOST_BUDGET}")


class After(NamedTuple):
    """A job waits until another one, by its id, finished; with `any_end`, until it ended in any state."""

    job: str
    any_end: bool = False


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as submitted. `spec` as in TaskGroup (user, pool, environment, …)."""

    id: str
    name: str
    kind: str
    groups: tuple[TaskGroup, ...]
    precedence: int = 0
    gang: Gang = Gang.NO
    spec: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[After, ...] = ()
    """Jobs that it waits for before it is placed: submitted earlier, or earlier in the same call."""
    gang_min: int = 0
    """Tasks of a gang that are placed together (semantics 8); 0: all."""

    def __post_init__(self) -> None:
        for word, value in (("id", self.id), ("name", self.name), ("kind", self.kind)):
            check_word(word, value)
        if not 0 <= self.precedence <= MOST_PRECEDENCE:
            raise BadInput(f"job {self.name}: precedence {self.precedence} is not within 0 to {MOST_PRECEDENCE}")
        if not self.total or any(group.count < (not (group.optional or group.copies)) for group in self.groups):
            raise BadInput(f"job {self.name}: wants at least one task in every group")
        if not all(_ID.fullmatch(wait.job) for wait in self.after) or len(self.after) > MOST_WAITS:
            raise BadInput(f"job {self.name}: waits for at most {MOST_WAITS} jobs, named by their ids")
        check_spec(self.spec, self.name)
        check_starts(self.spec, [group.spec for group in self.groups if not group.copies], self.name)
        check_copies(self.name, self.groups, gang=self.gang > 0)
        if self.gang or self.gang_min:
            check_gang(self.name, self.gang_min, self.total, most=MOST_CLAIMS, gang=self.gang > 0)

    @property
    def total(self) -> int:
        """Number of tasks of the job."""
        groups = self.groups
        return groups[0].count if len(groups) == 1 else sum(group.count for group in groups)

    def check_numbers(self) -> None:
        """Refuse a job with tasks, durations or a sum of needs beyond the ranges of exact numbers (semantics 12)."""
        groups, total = self.groups, self.total
        if total > LARGEST_COUNT:
            raise BadInput(f"job {self.name}: {total} tasks; the most is {LARGEST_COUNT}")
        for group in groups:
            if group.count < 0 or not 0 <= group.duration_ms <= LARGEST:
                raise BadInput(
                    f"job {self.name}: a group's tasks are from 0 to {LARGEST_COUNT}, its duration from 0 to {LARGEST}"
                )
        one = groups[0] if len(groups) == 1 else None
        most = max(one.need or (0,)) * one.count if one else largest_sum((each.need, each.count) for each in groups)
        if most > MOST_TOGETHER:
            raise BadInput(
                f"job {self.name}: its tasks together need {most} of a resource; the most is {MOST_TOGETHER}: count it"
                " in a larger unit, or submit fewer tasks"
            )


def check_word(field: str, value: str) -> str:
    """Return the id, name or kind of a job. Raises BadInput when it is invalid."""
    form, wanted = _WORDS[field]
    if not form.fullmatch(value):
        raise BadInput(f"job {field} {shown(value)}: use {wanted}")
    return value


def check_author(name: str) -> str:
    """Return the name of an executor or of the author of a change. Raises BadInput when it is not plain."""
    if not 0 < len(name) <= MOST_AUTHOR:
        raise BadInput(f"name {shown(name)}: use 1 to {MOST_AUTHOR} letters")
    return check_text(name, "name")


def runs_commands(spec: Mapping[str, Any]) -> bool:
    """Return whether a job's tasks run commands, so that none of them may be simulated (semantics 31).

    `spec` has the fields for schedulers and executors: the job's own and, as ``groups``, those of its groups.
    """
    groups = spec.get("groups") or ()
    return not spec.get("simulate") and any(isinstance(group, Mapping) and group.get("command") for group in groups)


def aims(spec: Mapping[str, Any]) -> list[int] | None:
    """Return the groups that an updated job's spec aims at; the others are replaced. None: there was no update."""
    targets = spec.get("targets")
    return None if targets is None else [row[0] for row in targets]


@dataclass(frozen=True, slots=True)
class Run:
    """Tasks of one group placed together on one machine: ``tasks`` are ranges such as ``0-9,12``."""

    placement: int
    job: str
    machine: int
    group: int
    tasks: str
    leaving: bool = False


@dataclass(slots=True, kw_only=True)
class GroupStatus:
    """Counts of a task group; ``unplaced + placed + finished + failed + stopped = total`` (semantics 4).

    Not to be changed: groups of jobs that are alike may be one object.
    """

    need: Resources
    duration_ms: int = 0
    total: int
    unplaced: int
    placed: int = 0
    finished: int = 0
    failed: int = 0
    stopped: int = 0
    waiting: str
    """The unplaced tasks that may be placed, as ranges, ``-`` when there are none; without delayed tasks."""
    runs: tuple[tuple[int, int, bool], ...] = ()
    """(placement id, machine index, leaving) of every run."""
    optional: bool = False
    """Whether a task that is evicted, lost or failed is dropped from the total."""
    copies: bool = False
    """Whether it has the copies of tasks of the group before it (semantics 41); it is optional too."""
    replaced: bool = False
    """Whether an update replaced it: its failed tasks were run again, so they are not those of its job."""
    indices: int = 0
    """Number of indices given out: an added task gets the next one, none is given out twice."""
    budget: int = BUDGET
    """Number of losses that a task survives."""
    once: bool = False
    """Whether a task is placed at most once."""
    losses: tuple[TaskLoss, ...] = ()

    @property
    def delayed(self) -> int:
        """Unplaced tasks that were lost and are delayed."""
        return sum(ranges.count(loss.tasks) for loss in self.losses if loss.due_ms) if self.losses else 0

    @property
    def ready(self) -> int:
        """Unplaced tasks that may be placed now."""
        return self.unplaced - self.delayed if self.losses else self.unplaced


def ordered(runs: Iterable[tuple[int, int, bool]], indices: int) -> Iterable[tuple[int, int, bool]]:
    """Return runs of a group with `indices` indices in order of placement, live ones first, where chunks mix them."""
    return runs if indices <= RUNS_CHUNK else sorted(runs, key=lambda run: (run[2], run[0]))


@dataclass(slots=True, kw_only=True)
class Job:
    """A job as stored; `order` counts submissions, `spec` is as submitted. Jobs that are alike may share `groups`.

    `modified` is its modify index: the cell's version at the last change by a person (submit, hold, release,
    resize, update, stop), for compare-and-set.
    """

    id: str
    name: str
    kind: str
    precedence: int = 0
    order: int
    state: JobState = JobState.ACTIVE
    gang: Gang = Gang.NO
    gang_min: int = 0
    """Number of tasks of a gang that are placed together; 0: all of them."""
    submitted_ms: int = 0
    groups: list[GroupStatus]
    spec: Mapping[str, Any] = field(default_factory=dict)
    modified: int = 0
    held: bool = False
    """Whether a person holds it."""
    gate: str = ""
    released: bool = False
    """Why its scheduler's gate holds it, "" for not; whether a person released it: then no gate holds it again."""
    after: tuple[After, ...] = ()
    """Jobs that it still waits for; for a job stopped because of them, those that can no longer satisfy it."""
    awaited: bool = False
    """Ids of the jobs that wait for it."""
    begun: bool = False
    """Whether its first wait is over: nothing was placed at an attempt, or tasks were taken off again unfinished."""
    lane: int = 0
    """The number of its lane (cellstate/lanes.py); 0 where there is no store."""
    commands: bool = False
    """Whether its tasks run commands, so that no simulated machine takes them."""
    submitter: str = ""
    """Author of its submission in the log."""

    @property
    def unplaced(self) -> int:
        """Number of unplaced tasks."""
        return sum(group.unplaced for group in self.groups)

    @property
    def placed(self) -> int:
        """Number of placed tasks."""
        return sum(group.placed for group in self.groups)

    @property
    def whole(self) -> bool:
        """Whether all its unplaced tasks are placed in one transaction: a gang without a minimum."""
        return self.gang is not Gang.NO and not self.gang_min

    @property
    def lacks(self) -> int:
        """Number of its unplaced tasks that one transaction must place: all of a gang, or what its minimum lacks."""
        return max(0, min((self.gang_min or MOST_TOGETHER) - self.placed, self.unplaced)) if self.gang else 0

    @property
    def together(self) -> int:
        """Number of its placed tasks that an eviction of one of them ends, 0 for that task alone (semantics 8)."""
        return 0 if self.gang is not Gang.STRICT or 0 < self.gang_min < self.placed else self.placed

    @property
    def pending(self) -> bool:
        """Whether it needs a scheduler (invariant 4): not while all its unplaced tasks are delayed.

        A gang without a minimum is not pending while any of them is: it is placed as a whole (semantics 8).
        """
        if self.state not in (JobState.ACTIVE, JobState.HELD):
            return False
        delayed = self.whole and any(group.delayed for group in self.groups)
        return not delayed and any(group.ready for group in self.groups)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on all jobs of one kind together; None means no limit (semantics 9)."""

    resources: tuple[int | None, ...]
    jobs: int | None = None
    precedence: tuple[int, int] = (0, MOST_PRECEDENCE)


# Messages for refused changes of a job; the store and the cell in memory return the same statuses.


def refusal(cell: str, job_id: str, status: str, job: Job | None = None) -> OmegaError:
    """Return the error for the status of a script that changes a job: ``unknown``, or why `job` is unchanged."""
    if job is None:
        return Refused(f"job {job_id}: not in cell {cell}; see omega job list")
    if status == "moved":
        return Overtaken(
            f"job {job_id}: modified concurrently, its modify index is now {job.modified}; read it again and retry"
        )
    said = {
        "ended": "has ended; submit it again",
        "group": f"has {len(job.groups)} task groups, numbered from 0; see omega job status {job_id}",
        "few": "more tasks have ended than it shall have; ask for at least as many",
        "often": f"was updated too often ({len(job.groups)} task groups); submit it again",
        "lane": "keeps its user, its pool and its expected_duration; to change them, submit it again",
        "large": "would have more tasks, or would have had, or need more of a resource, than are counted exactly;"
        f" the most is {LARGEST_COUNT} tasks and {MOST_TOGETHER} of a resource",
        "many": f"a gang of more than {MOST_CLAIMS} tasks; that is the most in one transaction",
    }
    return Refused(f"job {job_id}: {said[status]}")


def excess(cell: str, resource: str) -> OmegaError:
    """Return the error for machines with a sum of a resource beyond the exact range of sums."""
    return Refused(
        f"cell {cell}: its machines would have more than {MOST_TOGETHER} of {resource} together; count it in a larger "
        "unit"
    )


def busy(machine: str) -> Refused:
    """Return the error for a machine that cannot join under another executor yet."""
    return Refused(
        f"machine {machine}: tasks of its last executor are still on it; drain it first, or try again when they left"
    )


def pools_overtaken(cell: str, read: int, now: int) -> Overtaken:
    """Return the error for a change of pools based on an older version of them."""
    return Overtaken(
        f"cell {cell}: its pools were modified concurrently, their version is now {now}, not {read}; read them"
        " again and retry"
    )


def jobs_in_pool(cell: str, pool: str) -> Refused:
    """Return the error for a change that would leave live jobs in a pool that can hold none."""
    return Refused(
        f"pool {pool}: has live jobs, so it can neither be removed nor get pools below it; let them end or stop them:"
        f" omega job list --cell {cell}"
    )
