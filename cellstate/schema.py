"""The fields of a job's record, its task groups and its specification: tables that every reader and writer uses.

The scripts' codec is text that is generated here (`lua`; scripts include it as ``--@schema``). The Python codec
(cellstate/redis/job_records.py), which the audit uses too, is made of the same tables. A new field is one line here,
plus its use. Older records do not have it: that is a new schema number (keys.SCHEMA).

A record is bytes, numbers first: of how many resources it says the needs, the numbers of the job, those that change
first, and of each group its numbers and the need of a task, an amount of each resource. Then follow the texts: those of
the job, the fixed ones first, and those of each group. All numbers are unsigned and little-endian; a text has its
length in front. The fields of a section stand in the order of its table. A cell may have got resources after a record
was written: a reader adds amounts of 0.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Seen(Enum):
    """Which policies may decide by a field: jobs that differ in it are not alike for them (schedulers/work.py).

    A new field is seen by all until its table says otherwise.
    """

    ALL = "every policy"
    DECLARED = "a policy that declares that it reads the field, or declares nothing"
    OWN = "a policy that declares that it reads the field: each job has its own value"


class Field(NamedTuple):
    """A field: its name, its form and its meaning.

    Forms: ``1 2 4 8`` a number of so many bytes, ``?`` yes or no, ``c`` a count, ``a`` an amount, ``t`` a text of at
    most 255 bytes, ``T`` a longer one.
    """

    name: str
    form: str
    meaning: str
    seen: Seen = Seen.ALL


CHANGING = (
    Field("state", "1", "model.JobState", seen=Seen.DECLARED),
    Field("begun", "?", "an attempt to place it began: its first wait is over", seen=Seen.OWN),
    Field("commands", "?", "its tasks run commands, so that none is to be simulated"),
    Field("leaving", "?", "tasks of it are leaving a machine", seen=Seen.OWN),
    Field("size", "2", "number of groups", seen=Seen.DECLARED),
    Field("modified", "8", "version of the last change by a person", seen=Seen.OWN),
    Field("links", "T", "jobs that it waits for; whether jobs wait for it (lua/parts/links.lua)", seen=Seen.OWN),
)
"""Fields of a job that change after its submission."""

FIXED: tuple[Field, ...] = (
    Field("gang", "1", "model.Gang"),
    Field("bucket", "1", "model.bucket_of its id", seen=Seen.OWN),
    Field("precedence", "4", ""),
    Field("order", "8", "number of its submission", seen=Seen.OWN),
    Field("submitted", "8", "ms, by the clock of the submitter", seen=Seen.OWN),
    Field("gang_min", "2", "tasks of a gang that are placed together; 0: all of them"),
    Field("lane", "4", "number of its lane (lua/parts/lanes.lua)", seen=Seen.DECLARED),
    Field("name", "t", "empty when it is the id", seen=Seen.OWN),
    Field("kind", "t", "", seen=Seen.DECLARED),
    Field("submitter", "t", "author of its submission, as in the log", seen=Seen.DECLARED),
)
"""Fields of a job that never change after its submission."""

GROUP = (
    Field("duration", "a", "expected length of a task in ms", seen=Seen.DECLARED),
    Field("total", "c", "tasks", seen=Seen.DECLARED),
    Field("indices", "c", "indices given out: a task that is added gets the next one", seen=Seen.OWN),
    Field("unplaced", "c", "tasks that may be placed", seen=Seen.DECLARED),
    Field("placed", "c", "tasks that run", seen=Seen.DECLARED),
    Field("finished", "c", "", seen=Seen.DECLARED),
    Field("failed", "c", "", seen=Seen.DECLARED),
    Field("stopped", "c", "", seen=Seen.DECLARED),
    Field("delayed", "c", "tasks that were lost and are not placed again yet", seen=Seen.DECLARED),
    Field("budget", "2", "losses that a task survives; NEVER: it is placed at most once", seen=Seen.DECLARED),
    Field(
        "optional",
        "1",
        "1: a task that is evicted, lost or failed leaves the total; 2: COPIES; 4 more: REPLACED",
        seen=Seen.DECLARED,
    ),
    Field("waiting", "T", "the unplaced tasks, as ranges", seen=Seen.OWN),
    Field("runs", "T", '"placement@machine," each, "@machine," of the next id, "!…" leaving', seen=Seen.DECLARED),
    Field("rest", "T", '"losses#live!going" where there is any (lua/parts/losses.lua, placements.lua)', seen=Seen.OWN),
)
"""Fields of a task group. The needs of a task, an amount of each resource, follow the numbers."""


class SpecField(NamedTuple):
    """A field of a job's specification, which is stored as it was submitted."""

    name: str
    meaning: str
    seen: Seen = Seen.ALL


POLICY = "policy"
"""The field of a specification with the values of the fields that schedulers and policies declare, by name."""

SPEC = (
    SpecField("user", "whose use it counts for"),
    SpecField("pool", "whose use it counts for"),
    SpecField("weight", "its part among the jobs of its pool (job_demands.py)"),
    SpecField("groups", "the fields of its groups, those of GROUP_SPEC"),
    SpecField("verified", "whether the submitter's client says that its login has this user", seen=Seen.DECLARED),
    SpecField("vouched", "whether a service that authenticates users says that it is this one", seen=Seen.DECLARED),
    SpecField("simulate", "commands are not run: the record's `commands` has what placements need", seen=Seen.DECLARED),
    SpecField("expected_duration", "of a task, in seconds", seen=Seen.DECLARED),
    SpecField("after", "jobs that it waited for, as submitted", seen=Seen.DECLARED),
    SpecField("update", "how it is updated", seen=Seen.DECLARED),
    SpecField("speculation", "when its tasks get copies (schedulers/speculation.py)", seen=Seen.DECLARED),
    SpecField("targets", "what its update aims at, by group", seen=Seen.DECLARED),
    SpecField("version", "number, time and author of its version", seen=Seen.DECLARED),
    SpecField("versions", "the last versions before it (omega/versions.py)", seen=Seen.DECLARED),
    SpecField("on_abandon", "what happens to its running tasks when it is abandoned", seen=Seen.DECLARED),
    SpecField("environment", "variables of its commands", seen=Seen.DECLARED),
    SpecField("directory", "where its commands run", seen=Seen.DECLARED),
    SpecField("submission", "a digest of the jobs of its request, which an Idempotency-Key names", seen=Seen.DECLARED),
    SpecField("submitted_in", "the folder of its submission", seen=Seen.DECLARED),
    SpecField(POLICY, "fields that schedulers and policies declare (schedulers/job_fields.py)", seen=Seen.DECLARED),
    SpecField("logical_name", "of a job of Google's trace", seen=Seen.DECLARED),
    SpecField("annotations", "texts for people and tools, by name", seen=Seen.DECLARED),
    SpecField("mapreduce", "the plan of a MapReduce job", seen=Seen.DECLARED),
)
"""Fields of a job's specification; `JobSpec` refuses others. One that is not in the table is seen by all policies."""

GROUP_SPEC = (
    SpecField("constraints", "schedulers/constraints/demands.py"),
    SpecField("spread", "as constraints"),
    SpecField("different_machines", "as constraints"),
    SpecField("near", "as constraints"),
    SpecField("apart_from", "as constraints"),
    SpecField("runner", "as constraints: the machine must have it"),
    SpecField("image", "what its runner runs the command in", seen=Seen.DECLARED),
    SpecField("locality", "machines with its data, and how long to wait for them", seen=Seen.DECLARED),
    SpecField("name", "", seen=Seen.DECLARED),
    SpecField("command", "the record's `commands` has what placements need", seen=Seen.DECLARED),
    SpecField("array", "numbers of its tasks", seen=Seen.DECLARED),
    SpecField("restart", "of failed tasks", seen=Seen.DECLARED),
    SpecField("repeatable", "whether its command may run twice at once", seen=Seen.DECLARED),
    SpecField("health", "its liveness command, and when a task is unhealthy by it", seen=Seen.DECLARED),
    SpecField("time_limit", "of a task, in ms", seen=Seen.DECLARED),
    SpecField("grace", "time between the signals that end a task, in ms", seen=Seen.DECLARED),
    SpecField("keep_output", "bytes of output that are kept", seen=Seen.DECLARED),
    SpecField("output", "pattern of the file of its stdout", seen=Seen.DECLARED),
    SpecField("error", "as output, of its stderr", seen=Seen.DECLARED),
    SpecField("memory_bytes", "its memory where it is no number of whole MiB", seen=Seen.DECLARED),
)
"""Fields of the specification of a task group, as SPEC."""

COPIES = 2
"""In `optional`: the group has the copies of tasks of the group before it (lua/parts/copies.lua)."""
REPLACED = 4
"""Added to `optional`: an update replaced the group, so its failures are not its job's (cellstate/pages.py)."""
NEVER = 65_535
"""A budget of losses: none is survived, and no eviction either."""

_WIDTHS = {"?": 1, "t": 1, "T": 4, "c": 4, "a": 8}


def width(field: Field) -> int:
    """Bytes of a number, or of a text's length."""
    return _WIDTHS.get(field.form) or int(field.form)


def is_text(field: Field) -> bool:
    """Return whether a field has a length of its own."""
    return field.form in "tT"


def numbers(section: Sequence[Field]) -> list[Field]:
    """Return the fields of a section that are numbers."""
    return [field for field in section if not is_text(field)]


def texts(section: Sequence[Field]) -> list[Field]:
    """Return the fields of a section that are texts."""
    return [field for field in section if is_text(field)]


def blank(section: Sequence[Field]) -> dict[str, str | int]:
    """Return the fields of a section, empty or 0."""
    return {field.name: "" if is_text(field) else 0 for field in section}


def job_numbers() -> list[Field]:
    """Return the numbers of a job in the order of its record."""
    return [*numbers(CHANGING), *numbers(FIXED)]


def job_texts() -> list[Field]:
    """Return the texts of a job in the order of its record."""
    return [*texts(FIXED), *texts(CHANGING)]


# The scripts' codec

_FIELDS = """-- Generated from cellstate/schema.py: where the fields of a job's record are.
--@const {constants}

-- The texts of a job, in the order of their tables, and where they end.
local function read_texts(record)
  local size = byte(record, SIZE_AT) + 256 * byte(record, SIZE_AT + 1)
  return unpack_numbers('<{text}', record, HEAD_BYTES + 1 + size * (GROUP_BYTES + 8 * byte(record)))
end
"""

_LUA = """-- Generated from cellstate/schema.py: reads and writes the record of a job.
local GROUP = '<{group}' .. string.rep('I8', R)

-- The format and the bytes of a group of a record that says the needs of so many resources.
local function layout_of(resources)
  local layout = resources == R and GROUP or '<{group}' .. string.rep('I8', resources)
  return layout, GROUP_BYTES + 8 * resources
end

-- A job without its groups; the resources of its record, and where the texts of its groups begin.
local function read_head(id, record)
  local resources, {heads} = unpack_numbers('<I1{head}', record)
  local {texts}, at = read_texts(record)
  if name == '' then name = id end
  return {{
    id = id, {reads},
    groups = false, placed = 0, unplaced = 0, delayed = 0, lossy = false, was_complete = false, was_pending = false,
    touched = false, returned = false,
  }}, resources, at
end

local function write_head(j)
  return pack_numbers('<I1{head}', R, {writes})
end

-- The texts of a job of one group.
local function write_texts(j, g)
  local name = j.name ~= j.id and j.name or ''
  return pack_numbers('<{text}{group_text}', {writes_texts}, {writes_group})
end

local function write_group_texts(g) return pack_numbers('<{group_text}', {writes_group}) end
"""


def constants() -> str:
    """Return places of a group's numbers in the scripts' table of it, sizes, and offsets in a record (from 1)."""
    places = [f"{field.name.upper()} {i}" for i, field in enumerate(numbers(GROUP), 1)]
    head = job_numbers()
    at = {field.name: 2 + sum(map(width, head[:i])) for i, field in enumerate(head)}
    sizes = [
        f"HEAD_BYTES {1 + sum(map(width, head))}", f"GROUP_BYTES {sum(map(width, numbers(GROUP)))}",
        f"NEED {len(places)}", f"NEVER {NEVER}",
    ]  # fmt: skip
    offsets = ("leaving", "size", "lane")
    return ", ".join([*places, *sizes, *(f"{name.upper()}_AT {at[name]}" for name in offsets)])


def fields() -> str:
    """Return the constants of the scripts and what reads a record's texts alone."""
    return _FIELDS.format(constants=constants(), text=_format(job_texts()))


_SIMPLE = {"state", "begun", "commands", "leaving", "gang", "bucket", "submitted", "gang_min", "lane",
           "duration", "indices", "unplaced", "placed", "finished", "failed", "delayed", "optional"}  # fmt: skip
"""Numbers that the fast path takes of a job."""


def simple_job() -> tuple[str, str]:
    """Return lines of the fast path: the format of a `record` of one group up to its runs, and what reads it.

    It reads the numbers that are wanted, `bytes`, which are the need of a task, and all texts before the runs.
    """
    section, words = [*job_numbers(), *numbers(GROUP)], job_texts()
    codes = "".join(_format([each]) if each.name in _SIMPLE else "x" * width(each) for each in section)
    names = [each.name for each in section if each.name in _SIMPLE]
    variables = ", ".join([*names, "bytes", *(each.name for each in words), "waiting", "at_runs"])
    layout = f"local SIMPLE = '<x{codes}c' .. 8 * R .. '{_format(words)}I4c0'"
    return layout, f"local {variables} = unpack_numbers(SIMPLE, record)"


def lua() -> str:
    """Return the codec of the scripts, to be included by a script after ``binary``; `R` is the number of resources."""
    head, words = job_numbers(), job_texts()
    return _LUA.format(
        head=_format(head), group=_format(numbers(GROUP)), text=_format(words), group_text=_format(texts(GROUP)),
        heads=", ".join(field.name for field in head), texts=", ".join(field.name for field in words),
        reads=", ".join(f"{each.name} = {each.name}{' == 1' * (each.form == '?')}" for each in (*head, *words)),
        writes=", ".join(f"j.{each.name} and 1 or 0" if each.form == "?" else f"j.{each.name}" for each in head),
        writes_texts=", ".join(f"#{name}, {name}" for name in ("name", *(f"j.{each.name}" for each in words[1:]))),
        writes_group=", ".join(f"#g.{field.name}, g.{field.name}" for field in texts(GROUP)),
    )  # fmt: skip


def _format(section: Sequence[Field]) -> str:
    """Return the format of a section for the scripts' pack and unpack."""
    return "".join(f"I{width(field)}{'c0' * is_text(field)}" for field in section)
