"""Records of jobs, read and written: bytes in the order of the tables of cellstate/schema.py."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from struct import Struct, calcsize
from sys import intern
from typing import Any, NamedTuple

from omega.cellstate import ranges, schema
from omega.cellstate.model import (
    BUDGET,
    RUNS_CHUNK,
    After,
    Gang,
    GroupStatus,
    Job,
    JobSpec,
    JobState,
    TaskGroup,
    bucket_of,
    ordered,
    runs_commands,
)
from omega.cellstate.pages import Counts, JobHead, without_failures
from omega.cellstate.ranges import EMPTY
from omega.cellstate.redis.records import pack, unpack
from omega.cellstate.schema import AMOUNTS, CHANGING, COPIES, FIXED, GROUP, NEVER, REPLACED, Field
from omega.cellstate.tasks import Retried, TaskLoss

Fields = dict[str, Any]
"""A section's values by name: numbers, texts, booleans. A job's has ``groups`` as well, each of which has ``need``."""
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class _Section(NamedTuple):
    """A section of a record in one form: its numbers as a struct, the lengths of its texts, its names in order."""

    numbers: Struct
    texts: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, fields: Sequence[Field], form: int = 0) -> "_Section":
        codes = [
            {"?": "?", "h": "2s"}.get(field.form) or _CODES[schema.width(field, form)]
            for field in fields if not schema.is_text(field)
        ]  # fmt: skip
        texts = tuple(schema.width(field, form) for field in fields if schema.is_text(field))
        return cls(Struct("<" + "".join(codes)), texts, tuple(field.name for field in fields))

    def read(self, record: bytes, at: int) -> tuple[Fields, int]:
        values = list(self.numbers.unpack_from(record, at))
        at += self.numbers.size
        for width in self.texts:
            start = at + width
            at = start + int.from_bytes(record[at:start], "little")
            if at > len(record):
                raise ValueError("a record that ends within a text")
            values.append(record[start:at].decode())
        return dict(zip(self.names, values, strict=True)), at

    def write(self, values: Mapping[str, Any]) -> bytes:
        numbers = len(self.names) - len(self.texts)
        parts = [self.numbers.pack(*(values[name] for name in self.names[:numbers]))]
        for name, width in zip(self.names[numbers:], self.texts, strict=True):
            text = values[name].encode()
            parts += [len(text).to_bytes(width, "little"), text]
        return b"".join(parts)


_BLANK = schema.blank((*CHANGING, *FIXED))
_CHANGING, _FIXED = _Section.of(CHANGING), _Section.of(FIXED)
_GROUPS = [_Section.of(GROUP, form) for form in range(8)]
WIDEST = 7
"""The form that holds every count and amount."""


@lru_cache
def _need(dimensions: int, form: int) -> Struct:
    return Struct(f"<{dimensions}{_CODES[AMOUNTS[form // 4]]}")


def decode(record: bytes, dimensions: int) -> Fields:
    """Read a record's fields. Raises one of records.UNREADABLE for bytes that are none."""
    form = record[0]
    changing, at = _CHANGING.read(record, 1)
    fixed, at = _FIXED.read(record, at)
    fields = changing | fixed
    fields["bucket"] = fields["bucket"].decode()
    fields["groups"] = _whole_groups(record, at, changing["size"], form=form, dimensions=dimensions)
    return fields


def _whole_groups(record: bytes, at: int, size: int, *, form: int, dimensions: int) -> list[Fields]:
    """Read the groups of a record, which begin at `at` and must end where it ends."""
    groups: list[Fields] = []  # `list[Fields]()` takes a microsecond
    section, need = _GROUPS[form], _need(dimensions, form)
    for _ in range(size):
        group, at = section.read(record, at)
        group["need"] = need.unpack_from(record, at)
        groups.append(group)
        at += need.size
    if at != len(record) or not groups:
        raise ValueError(f"{len(record)} bytes, and its fields end at {at}")
    return groups


def leaves(group: Mapping[str, Any]) -> bool:
    """Return whether tasks of a group are leaving a machine."""
    return "!" in group["runs"] or group["rest"].partition("!")[2].strip(EMPTY) != ""


def encode(fields: Mapping[str, Any]) -> bytes:
    """Write a record; the inverse of `decode`."""
    groups = fields["groups"]
    most = max(max(group["duration"], *group["need"]) for group in groups)
    form = schema.form_of(max(group["indices"] for group in groups), most)
    changing = _CHANGING.write({**fields, "size": len(groups)})
    fixed = _FIXED.write({**fields, "bucket": fields["bucket"].encode()})
    return bytes([form]) + changing + fixed + b"".join(encode_group(group, form) for group in groups)


def encode_group(group: Mapping[str, Any], form: int = WIDEST) -> bytes:
    """Write a group in a record of that form."""
    return _GROUPS[form].write(group) + _need(len(group["need"]), form).pack(*group["need"])


# New jobs, as scripts take them


def new_job(spec: JobSpec, *, held: bool) -> tuple[bytes, bytes]:
    """Return the record and the opaque spec of a job for submit.lua, which fills in the numbers."""
    waits = "".join(f"<{wait.job}{'+' if wait.any_end else ''}" for wait in spec.after)
    whole = opaque(spec.spec, spec.groups)
    most = max(max(group.duration_ms, *group.need) for group in spec.groups)
    form = schema.form_of(max(group.count for group in spec.groups), most)
    links, commands = ("<*" if held else "") + waits, runs_commands(whole)
    changing = _CHANGING.write(_BLANK | {"size": len(spec.groups), "links": links, "commands": commands})
    fixed = _FIXED.write(_BLANK | {
        "gang": int(spec.gang), "gang_min": spec.gang_min, "bucket": f"{bucket_of(spec.id):02x}".encode(),
        "precedence": spec.precedence, "kind": spec.kind, "name": stored_name(spec.id, spec.name),
    })  # fmt: skip
    parts = ((tuple(g.need), g.count, g.duration_ms, g.optional, g.budget, g.once, g.copies) for g in spec.groups)
    groups = b"".join(_new_group_record(form, *each) for each in parts)
    return bytes([form]) + changing + fixed + groups, pack(whole)


@lru_cache(maxsize=4096)
def _new_group_record(form: int, need: tuple[int, ...], count: int, duration: int, *rest: Any) -> bytes:
    return encode_group(_new_group(TaskGroup(need, count, duration, {}, *rest), count), form)


def stored_name(job_id: str, name: str) -> str:
    """Return the name of a job as its record has it: empty when it is the id."""
    return "" if name == job_id else name


def new_group(group: TaskGroup) -> bytes:
    """Return the record of a group that has no tasks yet, as update.lua takes it."""
    return encode_group(_new_group(group, 0))


def _new_group(group: TaskGroup, count: int) -> Fields:
    waiting = EMPTY if count == 0 else "0" if count == 1 else f"0-{count - 1}"
    return {
        "duration": group.duration_ms, "total": count, "indices": count, "unplaced": count, "placed": 0,
        "finished": 0, "failed": 0, "stopped": 0, "delayed": 0, "budget": NEVER if group.once else group.budget,
        "optional": COPIES if group.copies else int(group.optional), "waiting": waiting, "runs": "", "rest": "",
        "need": tuple(group.need),
    }  # fmt: skip


def opaque(spec: Mapping[str, Any], groups: Sequence[TaskGroup]) -> dict[str, Any]:
    """Return a job's fields for schedulers and executors; empty when there are none."""
    whole: dict[str, Any] = dict(spec)
    if any(group.spec for group in groups):
        whole["groups"] = [dict(group.spec) for group in groups]
    return whole


# Jobs as the cell has them


@lru_cache(maxsize=4096)
def read_runs(text: str) -> tuple[tuple[int, int, bool], ...]:
    """Read (placement, machine, whether it leaves) of each run; one without an id has the id after the one before."""
    runs, placement = [], 0
    for item in text.split(",")[:-1]:
        first, _, machine = item.lstrip("!").partition("@")
        placement = int(first) if first else placement + 1
        runs.append((placement, int(machine), item[0] == "!"))
    return tuple(runs)


def _all_runs(text: str, apart: str | None, indices: int) -> tuple[tuple[int, int, bool], ...]:
    runs = () if apart is None or not text else read_runs(text)
    if indices <= RUNS_CHUNK:
        return runs
    return tuple(ordered(runs + (read_runs(apart) if apart else ()), indices))


def chunk_fields(job_id: str, record: bytes, dimensions: int) -> Iterator[tuple[int, str]]:
    """Yield the fields of ``placed`` with runs of a job: number of the group, field (lua/parts/placements.lua)."""
    if b"#" not in record:  # most jobs have their runs in the record
        return
    for number, group in enumerate(decode(record, dimensions)["groups"]):
        live, _, going = group["rest"].partition("#")[2].partition("!")
        for mark, chunks in (("", live), ("!", going)):
            for chunk in ranges.indices(chunks or EMPTY):
                yield number, f"{job_id} {number} {mark}{chunk}"


def _group(group: Fields, apart: str | None) -> GroupStatus:
    budget = group["budget"]
    replaced, optional = divmod(group["optional"], REPLACED)
    if optional > COPIES or replaced > (optional < COPIES):
        raise ValueError(f"a group is optional as {group['optional']}")
    once = budget == NEVER
    rest = group["rest"]
    return GroupStatus(
        need=group["need"], duration_ms=group["duration"], total=group["total"],
        unplaced=group["unplaced"] + group["delayed"], placed=group["placed"],
        finished=group["finished"], failed=group["failed"], stopped=group["stopped"], waiting=group["waiting"],
        runs=_all_runs(group["runs"], apart, group["indices"]), indices=group["indices"],
        optional=optional > 0, copies=optional == COPIES, replaced=replaced > 0,
        budget=BUDGET if once else budget, once=once, losses=_losses(rest) if rest else ()
    )  # fmt: skip


def _losses(rest: str) -> tuple[TaskLoss, ...]:
    """Read ``~tasks:count:due:placement~…#…``, with ``:failures:machine`` where there are any (losses.lua)."""
    _, *entries = rest.partition("#")[0].split("~")
    split = (entry.split(":") for entry in entries)
    return tuple(
        TaskLoss(tasks, int(count), int(due), int(placement), Retried(*map(int, retried)))
        for tasks, count, due, placement, *retried in split
    )


_Links = tuple[bool, tuple[After, ...], bool, str, bool]


def _links(text: str) -> _Links:
    """Read ``<ID…>*`` (lua/parts/links.lua): held, jobs it waits for, whether jobs wait for it, its gate, released."""
    links = re.findall("[<>][^<>]+", text)
    if "".join(links) != text or any(link[0] == ">" and link not in (">!", ">*") for link in links):
        raise ValueError(f"{text!r} is not a list of links")
    waits = [link[1:] for link in links if link[0] == "<"]
    after = tuple(After(name.rstrip("+"), name[-1] == "+") for name in waits if name[0] not in "*!")
    gate = next((name[1:] for name in waits if name[0] == "!"), "")
    return (
        "*" in waits,
        after,
        ">*" in links,
        gate,
        ">!" in links,
    )


_STATES, _GANGS = {int(state): state for state in JobState}, {int(gang): gang for gang in Gang}
"""Tables, because a call of an enumeration takes a tenth of the time that a job takes to read."""
_WANTED = ("state", "begun", "commands", "size", "modified", "gang", "precedence", "order", "submitted", "gang_min")
"""The numbers that a job has of its record."""


def _wanted(section: _Section) -> str:
    """Return the format of a section's numbers that skips those that are not wanted."""
    codes = re.findall(r"\d*[?a-zA-Z]", section.numbers.format[1:])
    return "".join(
        code if name in _WANTED else f"{calcsize(f'<{code}')}x"
        for name, code in zip(section.names, codes, strict=False)
    )


_HEAD = Struct(f"<B{_wanted(_CHANGING)}{_CODES[_CHANGING.texts[0]]}{_wanted(_FIXED)}{_CODES[_FIXED.texts[0]]}")
"""The form, the wanted numbers with the length of the links between them, the length of the lane: without links."""
_UNLINKED: _Links = False, (), False, "", False
LINKS_AT = 1 + _CHANGING.numbers.size
_AFTER_NAME = _FIXED.names[_FIXED.names.index("name") + 1 :]
_LANE_AT, _read_head, _new = _HEAD.size, _HEAD.unpack_from, object.__new__


class _LaneNumbers(dict[bytes, int]):
    """The numbers of lanes by their text."""

    def __missing__(self, text: bytes) -> int:
        if len(self) > 4096:
            self.clear()
        number = self[text] = int(text)
        return number


_LANES = _LaneNumbers()


def read_job(job_id: str, record: bytes, spec: bytes, dimensions: int, apart: Mapping[int, str] | None = None) -> Job:
    """Read a job's record: as `decode`, without a mapping per section, because schedulers read every job.

    `apart`: the runs of its groups that stand in chunks, by the group's number; None leaves all runs out. What follows
    the name is read once for jobs that are alike, and the job is made field by field: a call of its class takes longer
    than all the rest.
    """
    job = _new(Job)
    (form, state, job.begun, job.commands, size, job.modified, links, gang, job.precedence, job.order,
     job.submitted_ms, job.gang_min, width) = _read_head(record)  # fmt: skip
    job.held, job.after, job.awaited, job.gate, job.released = _UNLINKED
    if links:
        start = LINKS_AT + 4
        own = record[start : start + links].decode()
        job.held, job.after, job.awaited, job.gate, job.released = _links(own)
        record = record[:LINKS_AT] + bytes(4) + record[start + links :]
        *_, gang, job.precedence, job.order, job.submitted_ms, job.gang_min, width = _read_head(record)
    at = _LANE_AT + width
    lane, start = record[_LANE_AT:at], at + 1
    at = start + record[at]
    name, rest = record[start:at], record[at:]
    if apart is None:
        (job.kind, job.submitter, *_), groups = _rest(rest, size, form, dimensions)
    else:
        (job.kind, job.submitter, *_), at = _last_texts(rest)
        fields = _whole_groups(rest, at, size, form=form, dimensions=dimensions)
        groups = tuple(_group(group, apart.get(i, "")) for i, group in enumerate(fields))
    job.id, job.name, job.state, job.gang = job_id, name.decode() if name else job_id, _STATES[state], _GANGS[gang]
    job.groups, job.spec, job.lane = [*groups], unpack(spec) if spec else {}, _LANES[lane]
    return job


def read_exactly(job_id: str, record: bytes, spec: Mapping[str, Any], dimensions: int) -> tuple[Job, list[str]]:
    """Read a job without its runs, and the text of the runs in its record by group, for the audit.

    Raises one of records.UNREADABLE, also for a record that says the same in other bytes than `encode` writes.
    """
    job = decode(record, dimensions)
    groups, links = job["groups"], job["links"]
    widest = max(max(group["duration"], *group["need"]) for group in groups)
    form = schema.form_of(max(group["indices"] for group in groups), widest)
    if record[0] != form or any(record[at] > 1 for at in _FLAGS_AT):
        raise ValueError("is not written as records are")
    going = any(leaves(group) for group in groups)
    if job["leaving"] != going:
        raise ValueError(f"says that tasks {'leave' if job['leaving'] else 'do not leave'} machines")
    bucket = f"{bucket_of(job_id):02x}"
    if job["bucket"] != bucket:
        raise ValueError(f"its bucket is {job['bucket']}, that of its id {bucket}")
    held, after, awaited, gate, released = _links(links) if links else _UNLINKED
    read = Job(
        id=job_id, name=job["name"] or job_id, kind=intern(job["kind"]), precedence=job["precedence"],
        order=job["order"], state=_STATES[job["state"]], gang=_GANGS[job["gang"]], gang_min=job["gang_min"],
        submitted_ms=job["submitted"], groups=[_group(group, None) for group in groups], spec=spec,
        modified=job["modified"], held=held, gate=gate, released=released, after=after, awaited=awaited,
        begun=job["begun"], lane=int(job["lane"]), commands=job["commands"], submitter=intern(job["submitter"]),
    )  # fmt: skip
    return read, [group["runs"] for group in groups]


@lru_cache(maxsize=4096)
def _rest(text: bytes, size: int, form: int, dimensions: int) -> tuple[tuple[str, ...], tuple[GroupStatus, ...]]:
    """Read what follows the name of a job, without runs; the groups of jobs alike are the same objects."""
    texts, at = _last_texts(text)
    groups = _whole_groups(text, at, size, form=form, dimensions=dimensions)
    return texts, tuple(_group(group, None) for group in groups)


def _last_texts(text: bytes) -> tuple[tuple[str, ...], int]:
    """Return the fixed texts of a job after its name, and where its groups begin."""
    texts, at = list[str](), 0
    for _ in _AFTER_NAME:
        end = at + 1 + text[at]
        texts.append(text[at + 1 : end].decode())
        at = end
    return tuple(texts), at


def _place(section: _Section, fields: Sequence[Field], name: str, start: int) -> int:
    """Return where a number of a section stands that begins at `start`."""
    return start + _Section.of(fields[: section.names.index(name)]).numbers.size


_ORDER_AT = _place(_FIXED, FIXED, "order", 0)
MODIFIED_AT = _place(_CHANGING, CHANGING, "modified", 1)
BUCKET_AT, ORDER_AT, SUBMITTED_AT = (
    _place(_FIXED, FIXED, name, LINKS_AT + 4) for name in ("bucket", "order", "submitted")
)
"""Where the numbers of a job stand in its record, those of the fixed section in a record without links."""


_FLAGS_AT = [_place(_CHANGING, CHANGING, field.name, 1) for field in CHANGING if field.form == "?"]


def has_links(record: bytes) -> bool:
    """Return whether something holds a job back, or jobs wait for it."""
    return record[LINKS_AT : LINKS_AT + 4] != bytes(4)


def name_span(record: bytes) -> tuple[int, int]:
    """Return where the name begins and ends in a record without links. Raises ValueError for one with links."""
    if has_links(record):
        raise ValueError("a record with links")
    at = _LANE_AT + record[_LANE_AT - 1]
    return at + 1, at + 1 + record[at]


def read_order(record: bytes) -> int:
    """Read the position of a job's submission from its record, alone."""
    at = LINKS_AT + 4 + int.from_bytes(record[LINKS_AT : LINKS_AT + 4], "little") + _ORDER_AT
    if at + 8 > len(record):
        raise ValueError("a record that ends within its fixed fields")
    return int.from_bytes(record[at : at + 8], "little")


def read_head(job_id: str, record: bytes, dimensions: int) -> JobHead:
    """Read a job in short from its record."""
    job = decode(record, dimensions)
    total = unplaced = placed = finished = failed = stopped = 0
    wanted, copies, placed_copies, delayed = [0] * dimensions, 0, 0, 0
    for group in job["groups"]:
        if group["optional"] == COPIES:
            copies, placed_copies = copies + group["total"], placed_copies + group["placed"]
            continue
        if group["optional"] >= REPLACED:
            its = without_failures(job["kind"], group["total"], group["finished"], group["failed"])
            group["total"], group["finished"], group["failed"] = *its, 0
        waiting = group["unplaced"] + group["delayed"]
        total, unplaced, placed = total + group["total"], unplaced + waiting, placed + group["placed"]
        finished, failed = finished + group["finished"], failed + group["failed"]
        stopped, delayed = stopped + group["stopped"], delayed + group["delayed"]
        if waiting:
            for d, need in enumerate(group["need"]):
                wanted[d] += waiting * need
    counts = Counts(total=total, unplaced=unplaced, placed=placed, finished=finished, failed=failed, stopped=stopped)
    name, state = job["name"] or job_id, _STATES[job["state"]]
    return JobHead(
        job_id,
        name,
        job["kind"],
        job["precedence"],
        job["order"],
        state,
        counts,
        tuple(wanted),
        (copies, placed_copies),
        delayed,
    )
