"""The fields of a job's record and of its task groups: one table, from which every reader and writer of it is made.

The scripts' codec is text that is generated here (`lua`; scripts include it as ``--@schema``). The Python codec
(cellstate/redis/job_records.py), which the audit and the migration of older records use too, is made of the same
tables. A new field is one line here, plus its use. Older records do not have it: that is a new schema number
(keys.SCHEMA) and a step in cellstate/backup/upgrade.py.

A record is bytes: form, the changing fields of the job, its fixed fields, then its groups. All numbers are unsigned and
little-endian; a text has its length in front. The fields of a section stand in the order of its table, numbers before
texts. The form is the width of the groups' counts and amounts: 1, 2, 4 or 8 bytes for counts, 4 or 8 for amounts.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Field(NamedTuple):
    """A field: its name, its form and its meaning.

    Forms: ``1 2 4 8`` a number of so many bytes, ``?`` yes or no, ``c`` a count, ``a`` an amount, ``h`` two
    hexadecimal digits, ``t`` a text of at most 255 bytes, ``T`` a longer one.
    """

    name: str
    form: str
    meaning: str


CHANGING = (
    Field("state", "1", "model.JobState"),
    Field("begun", "?", "an attempt to place it began: its first wait is over"),
    Field("commands", "?", "its tasks run commands, so that none is to be simulated"),
    Field("leaving", "?", "tasks of it are leaving a machine"),
    Field("size", "2", "number of groups"),
    Field("modified", "8", "version of the last change by a person"),
    Field("links", "T", "jobs that it waits for and that wait for it (lua/parts/links.lua)"),
)
"""Fields of a job that change after its submission."""

FIXED: tuple[Field, ...] = (
    Field("gang", "1", "model.Gang"),
    Field("bucket", "h", "model.bucket_of its id"),
    Field("precedence", "4", ""),
    Field("order", "8", "number of its submission"),
    Field("submitted", "8", "ms, by the clock of the submitter"),
    Field("lane", "t", "number of its lane (lua/parts/lanes.lua)"),
    Field("name", "t", "empty when it is the id"),
    Field("kind", "t", ""),
    Field("submitter", "t", "author of its submission, as in the log"),
)
"""Fields of a job that never change after its submission."""

GROUP = (
    Field("duration", "a", "expected length of a task in ms"),
    Field("total", "c", "tasks"),
    Field("indices", "c", "indices given out: a task that is added gets the next one"),
    Field("unplaced", "c", "tasks that may be placed"),
    Field("placed", "c", "tasks that run"),
    Field("finished", "c", ""),
    Field("failed", "c", ""),
    Field("stopped", "c", ""),
    Field("delayed", "c", "tasks that were lost and are not placed again yet"),
    Field("budget", "2", "losses that a task survives; NEVER: it is placed at most once"),
    Field("optional", "?", "a task that is evicted, lost or failed is dropped from the total"),
    Field("waiting", "T", "the unplaced tasks, as ranges"),
    Field("runs", "T", '"placement@machine," each, "@machine," of the next id, "!placement@machine," leaving'),
    Field("rest", "T", '"losses#live!going" where there is any (lua/parts/losses.lua, placements.lua)'),
)
"""Fields of a task group. The needs of a task, an amount of each resource, follow the texts."""

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
