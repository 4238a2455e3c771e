"""The fields of a job's record, its task groups and its specification: tables that every reader and writer uses.

The scripts' codec is text that is generated here (`lua`; scripts include it as ``--@schema``). The Python codec
(cellstate/redis/job_records.py), which the audit uses too, is made of the same tables. A new field is one line here,
plus its use. Older records do not have it: that is a new schema number (keys.SCHEMA).

A record is bytes: form, the changing fields of the job, its fixed fields, then its groups. All numbers are unsigned and
little-endian; a text has its length in front. The fields of a section stand in the order of its table, numbers before
texts. The form is the width of the groups' counts and amounts: 1, 2, 4 or 8 bytes for counts, 4 or 8 for amounts.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Seen(Enum):
    """Which policies may decide by a field: jobs that differ in it are not alike for them (schedulers/seen_fields.py).

    A new field is seen by all until its table says otherwise.
    """

    ALL = "every policy"
    DECLARED = "a policy that declares that it reads the field, or declares nothing"
    OWN = "a policy that declares that it reads the field: each job has its own value"


class Field(NamedTuple):
    """A field: its name, its form and its meaning.

    Forms: ``1 2 4 8`` a number of so many bytes, ``?`` yes or no, ``c`` a count, ``a`` an amount, ``h`` two
    hexadecimal digits, ``t`` a text of at most 255 bytes, ``T`` a longer one.
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
    Field("bucket", "h", "model.bucket_of its id", seen=Seen.OWN),
    Field("precedence", "4", ""),
    Field("order", "8", "number of its submission", seen=Seen.OWN),
    Field("submitted", "8", "ms, by the clock of the submitter", seen=Seen.OWN),
    Field("gang_min", "2", "tasks of a gang that are placed together; 0: all of them"),
    Field("lane", "t", "number of its lane (lua/parts/lanes.lua)", seen=Seen.DECLARED),
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
"""Fields of a task group. The needs of a task, an amount of each resource, follow the texts."""


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

COUNTS, AMOUNTS = (1, 2, 4, 8), (4, 8)
"""Widths in bytes. The form of a record is the number of its counts' width plus 4 times that of its amounts'."""


def form_of(indices: int, amount: int) -> int:
    """Return the form of a record for its largest counts and amounts; counts never exceed the indices."""
    counts = next(i for i, width in enumerate(COUNTS) if indices < 1 << 8 * width)
    return counts + 4 * next(i for i, width in enumerate(AMOUNTS) if amount < 1 << 8 * width)


def width(field: Field, form: int) -> int:
    """Bytes of a number, or of a text's length, in a record of a form."""
    widths = {"?": 1, "h": 2, "t": 1, "T": 4, "c": COUNTS[form % 4], "a": AMOUNTS[form // 4]}
    return widths.get(field.form) or int(field.form)


def blank(section: Sequence[Field]) -> dict[str, str | int]:
    """Return the fields of a section, empty or 0."""
    return {field.name: "" if is_text(field) else 0 for field in section}


def bare(section: Sequence[Field]) -> int:
    """Bytes of a section of a job when all its texts are empty."""
    return sum(width(field, 0) for field in section)


def _numbers(section: Sequence[Field]) -> list[Field]:
    return [field for field in section if not is_text(field)]


def is_text(field: Field) -> bool:
    """Return whether a field has a length of its own."""
    return field.form in "tT"


# The scripts' codec

_LUA = """-- Generated from cellstate/schema.py: reads and writes the record of a job.
{constants}
local GROUP_FORMATS, whole_formats = {{ {groups} }}, {{}}
local function group_format(form)
  local whole = whole_formats[form]
  if not whole then
    whole = GROUP_FORMATS[form] .. string.rep(form < 4 and 'I4' or 'I8', R)
    whole_formats[form] = whole
  end
  return whole
end

-- A job without its groups; its form, and where its groups begin. fixed: the bytes of its fixed fields.
local function read_head(id, text)
  local form, {names}, at = unpack_numbers('<I1{changing}{fixed}', text)
  if name == '' then name = id end
  return {{
    id = id, fixed = sub(text, CHANGING_BYTES + #links, at - 1), {reads},
    groups = false, placed = 0, unplaced = 0, delayed = 0, lossy = false, was_complete = false, was_pending = false,
    touched = false, returned = false,
  }}, form, at
end

local function write_head(j, form)
  local name = j.name ~= j.id and j.name or ''
  return pack_numbers('<I1{changing}', form, {writes_changing})
    .. (j.fixed or pack_numbers('<{fixed}', {writes_fixed}))
end

-- Adds numbers and texts of a group to a table in the order of their constants, then its need and where it ends.
local function write_words(g, form)
  return pack_numbers(group_format(form), {words_of_group}, unpack(g, NEED + 1, NEED + R))
end
"""


def constants() -> str:
    """Return the constants of the scripts: places of a group's fields in its table, offsets in a record (from 1)."""
    places = [f"{field.name.upper()} {i}" for i, field in enumerate(GROUP, 1)]
    before = CHANGING[: [field.name for field in CHANGING].index("leaving")]
    offsets = [
        f"CHANGING_BYTES {2 + bare(CHANGING)}", f"LEAVING_AT {2 + bare(before)}", f"LINKS_AT {2 + bare(CHANGING[:-1])}",
        f"LANE_AT {2 + bare(CHANGING) + bare(_numbers(FIXED))}",
        f"SUBMITTED_AT {2 + bare(CHANGING) + bare(FIXED[: [field.name for field in FIXED].index('submitted')])}",
        f"GANG_MIN_AT {2 + bare(CHANGING) + bare(FIXED[: [field.name for field in FIXED].index('gang_min')])}",
        f"COUNTS_AT {bare(GROUP[:1])}", f"WAITING_AT {bare(_numbers(GROUP))}",
    ]  # fmt: skip
    return f"--@const {', '.join([*places, f'NEED {len(GROUP)}', f'NEVER {NEVER}', *offsets])}"


def texts() -> str:
    """Return lines of a script that find the fixed texts of a `record` after the first, and its `group`."""
    _, *names = (field.name for field in FIXED if is_text(field))
    pairs = zip(["LANE_AT", *names], [*names, "group"], strict=True)
    return "\n".join(f"local {name} = {before} + 1 + byte(record, {before})" for before, name in pairs)


def lua() -> str:
    """Return the codec of the scripts, to be included by a script after ``binary``; `R` is the number of resources."""
    both = (*CHANGING, *FIXED)
    return _LUA.format(
        constants=constants(),
        groups=", ".join(f"[{form}] = '<{_format(GROUP, form)}'" for form in range(len(COUNTS) * len(AMOUNTS))),
        names=", ".join(field.name for field in both), changing=_format(CHANGING, 0), fixed=_format(FIXED, 0),
        reads=", ".join(f"{field.name} = {field.name}{' == 1' if field.form == '?' else ''}" for field in both),
        writes_changing=", ".join(map(_write, CHANGING)), writes_fixed=", ".join(map(_write, FIXED)),
        words_of_group=", ".join(_place(field, i) for i, field in enumerate(GROUP, 1)),
    )  # fmt: skip


def _format(section: Sequence[Field], form: int) -> str:
    """Return the format of a section for the scripts' pack and unpack."""
    return "".join("c2" if field.form == "h" else f"I{width(field, form)}{'c0' * is_text(field)}" for field in section)


def _write(field: Field) -> str:
    name = "name" if field.name == "name" else f"j.{field.name}"
    return f"{name} and 1 or 0" if field.form == "?" else f"#{name}, {name}" if is_text(field) else name


def _place(field: Field, at: int) -> str:
    return f"#g[{at}], g[{at}]" if is_text(field) else f"g[{at}]"
