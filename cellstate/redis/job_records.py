"""Records of jobs, read and written: bytes in the order of the tables of cellstate/schema.py."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from sys import intern
from typing import Any

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
from omega.cellstate.schema import CHANGING, COPIES, FIXED, GROUP, NEVER, REPLACED, Field
from omega.cellstate.tasks import Retried, TaskLoss

Fields = dict[str, Any]
"""The values of a job by name: numbers, texts, booleans; and its ``groups``, each of which has ``need`` as well."""

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_NUMBERS, _TEXTS = schema.job_numbers(), schema.job_texts()
_GROUP_NUMBERS, _GROUP_TEXTS = schema.numbers(GROUP), schema.texts(GROUP)
_WANTED = ("state", "begun", "commands", "size", "modified", "gang", "precedence", "order", "submitted", "gang_min",
           "lane")  # fmt: skip
"""The numbers that a job has of its record, in the order of their tables."""


def _codes(fields: Sequence[Field], wanted: Sequence[str] = ()) -> str:
    """Return the format of numbers; of those that are not wanted, their bytes are passed over."""
    codes = ("?" if field.form == "?" else _CODES[schema.width(field)] for field in fields)
    sizes = (f"{schema.width(field)}x" for field in fields)
    named = zip(fields, codes, sizes, strict=True)
    return "".join(code if not wanted or field.name in wanted else size for field, code, size in named)


_HEAD, _JOB = Struct(f"<B{_codes(_NUMBERS)}"), Struct(f"<B{_codes(_NUMBERS, _WANTED)}")
"""The number of resources, then the numbers of a job: all, and those that are wanted."""
_NAMES, _GROUP_NAMES = [field.name for field in _NUMBERS], [field.name for field in _GROUP_NUMBERS]
_HEAD_BYTES = _HEAD.size
_WIDTHS, _GROUP_WIDTHS = tuple(map(schema.width, _TEXTS)), tuple(map(schema.width, _GROUP_TEXTS))
"""Bytes of the lengths of texts."""


@lru_cache
def _group_struct(resources: int) -> Struct:
    return Struct(f"<{_codes(_GROUP_NUMBERS)}{resources}Q")


def _read_texts(record: bytes, at: int, widths: Sequence[int]) -> tuple[list[str], int]:
    found = list[str]()
    for width in widths:
        start = at + width
        at = start + int.from_bytes(record[at:start], "little")
        if at > len(record):
            raise ValueError("a record that ends within a text")
        found.append(record[start:at].decode())
    return found, at


def _write_texts(values: Mapping[str, Any], fields: Sequence[Field]) -> bytes:
    texts = [(values[field.name].encode(), schema.width(field)) for field in fields]
    return b"".join([len(text).to_bytes(width, "little") + text for text, width in texts])


def decode(record: bytes, dimensions: int) -> Fields:
    """Read a record's fields. Raises one of records.UNREADABLE for bytes that are none."""
    resources, *numbers = _HEAD.unpack_from(record)
    fields: Fields = dict(zip(_NAMES, numbers, strict=True))
    end = _HEAD_BYTES + fields["size"] * _group_struct(resources).size
    texts, at = _read_texts(record, end, _WIDTHS)
    fields |= zip((field.name for field in _TEXTS), texts, strict=True)
    fields["groups"] = _groups(record[_HEAD_BYTES:end], record[at:], resources, dimensions)
    return fields


def _groups(numbers: bytes, texts: bytes, resources: int, dimensions: int) -> list[Fields]:
    """Read the groups of a record: their numbers, and their texts, which must end where it ends."""
    if resources > dimensions or not numbers:
        raise ValueError(f"a record of {resources} resources and {len(numbers)} bytes of groups")
    groups, at, more = list[Fields](), 0, (0,) * (dimensions - resources)
    for values in _group_struct(resources).iter_unpack(numbers):
        group: Fields = dict(zip(_GROUP_NAMES, values, strict=False))
        found, at = _read_texts(texts, at, _GROUP_WIDTHS)
        group["waiting"], group["runs"], group["rest"] = found
        group["need"] = values[len(_GROUP_NAMES) :] + more
        groups.append(group)
    if at != len(texts):
        raise ValueError(f"{len(texts)} bytes of texts, and they end at {at}")
    return groups


def encode(fields: Mapping[str, Any]) -> bytes:
    """Write a record; the inverse of `decode`."""
    groups = fields["groups"]
    values = {**fields, "size": len(groups)}
    head = _HEAD.pack(len(groups[0]["need"]), *[values[name] for name in _NAMES])
    numbers, texts = zip(*map(_encode_group, groups), strict=True)
    return b"".join((head, *numbers, _write_texts(fields, _TEXTS), *texts))


def _encode_group(group: Mapping[str, Any]) -> tuple[bytes, bytes]:
    need = group["need"]
    numbers = _group_struct(len(need)).pack(*[group[name] for name in _GROUP_NAMES], *need)
    return numbers, _write_texts(group, _GROUP_TEXTS)


def leaves(group: Mapping[str, Any]) -> bool:
    """Return whether tasks of a group are leaving a machine."""
    return "!" in group["runs"] or group["rest"].partition("!")[2].strip(EMPTY) != ""


# New jobs, as scripts take them

_BLANK = schema.blank((*CHANGING, *FIXED))


def new_job(spec: JobSpec, at_ms: int, by: str, *, held: bool) -> tuple[bytes, bytes]:
    """Return the record and the opaque spec of a job for submit.lua, which fills in the numbers that it gives."""
    waits = "".join(f"<{wait.job}{'+' if wait.any_end else ''}" for wait in spec.after)
    whole = opaque(spec.spec, spec.groups)
    fields = _BLANK | {
        "links": ("<*" if held else "") + waits, "commands": runs_commands(whole), "gang": int(spec.gang),
        "gang_min": spec.gang_min, "bucket": bucket_of(spec.id), "precedence": spec.precedence, "kind": spec.kind,
        "name": stored_name(spec.id, spec.name), "submitted": at_ms, "submitter": by,
        "groups": [_new_group(group, group.count) for group in spec.groups],
    }  # fmt: skip
    return encode(fields), pack(whole)


def stored_name(job_id: str, name: str) -> str:
    """Return the name of a job as its record has it: empty when it is the id."""
    return "" if name == job_id else name


def new_group(group: TaskGroup) -> bytes:
    """Return the record of a group that has no tasks yet, as update.lua takes it."""
    return b"".join(_encode_group(_new_group(group, 0)))


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
_UNLINKED: _Links = False, (), False, "", False


def _links(text: str) -> _Links:
    """Read ``<ID…>*`` (lua/parts/links.lua): held, jobs it waits for, whether jobs wait for it, its gate, released."""
    if not text:
        return _UNLINKED
    links = re.findall("[<>][^<>]+", text)
    if "".join(links) != text or any(link[0] == ">" and link not in (">!", ">*") for link in links):
        raise ValueError(f"{text!r} is not a list of links")
    waits = [link[1:] for link in links if link[0] == "<"]
    after = tuple(After(name.rstrip("+"), name[-1] == "+") for name in waits if name[0] not in "*!")
    gate = next((name[1:] for name in waits if name[0] == "!"), "")
    return "*" in waits, after, ">*" in links, gate, ">!" in links


_STATES, _GANGS = {int(state): state for state in JobState}, {int(gang): gang for gang in Gang}
"""Tables, because a call of an enumeration takes a tenth of the time that a job takes to read."""
_SIZES = [_group_struct(resources).size for resources in range(256)]
"""Bytes of the numbers of a group, by the resources that its record says."""
_read_numbers, _new = _JOB.unpack_from, object.__new__


def read_job(job_id: str, record: bytes, spec: bytes, dimensions: int, apart: Mapping[int, str] | None = None) -> Job:
    """Read a job's record: as `decode`, without a mapping per section, because schedulers read every job.

    `apart`: the runs of its groups that stand in chunks, by the group's number; None leaves all runs out. What is not
    the job's own is read once for jobs that are alike, and the job is made field by field: a call of its class takes
    longer than all the rest.
    """
    job = _new(Job)
    (resources, state, job.begun, job.commands, size, job.modified, gang, job.precedence, job.order, job.submitted_ms,
     job.gang_min, job.lane) = _read_numbers(record)  # fmt: skip
    end = _HEAD_BYTES + size * _SIZES[resources]
    start = end + 1
    at = start + record[end]
    name, numbers, texts = record[start:at], record[_HEAD_BYTES:end], record[at:]
    shared, groups = _shared(numbers, texts, resources, dimensions)
    job.kind, job.submitter, (job.held, job.after, job.awaited, job.gate, job.released), at = shared
    if apart is not None:
        whole = _groups(numbers, texts[at:], resources, dimensions)
        groups = tuple(_group(group, apart.get(i, "")) for i, group in enumerate(whole))
    job.id, job.name, job.state, job.gang = job_id, name.decode() if name else job_id, _STATES[state], _GANGS[gang]
    job.groups, job.spec = [*groups], unpack(spec) if spec else {}
    return job


@lru_cache(maxsize=4096)
def _shared(
    numbers: bytes, texts: bytes, resources: int, dimensions: int
) -> tuple[tuple[str, str, _Links, int], tuple[GroupStatus, ...]]:
    """Read what jobs that are alike share: the texts after the name and where they end, the groups without runs."""
    (kind, submitter, *_, links), at = _read_texts(texts, 0, _WIDTHS[1:])
    groups = _groups(numbers, texts[at:], resources, dimensions)
    return (kind, submitter, _links(links), at), tuple(_group(group, None) for group in groups)


def read_exactly(job_id: str, record: bytes, spec: Mapping[str, Any], dimensions: int) -> tuple[Job, list[str]]:
    """Read a job without its runs, and the text of the runs in its record by group, for the audit.

    Raises one of records.UNREADABLE, also for a record that says the same in other bytes than `encode` writes.
    """
    fields = decode(record, dimensions)
    groups = fields["groups"]
    if any(record[at] > 1 for at in _FLAGS_AT):
        raise ValueError("is not written as records are")
    if fields["leaving"] != any(leaves(group) for group in groups):
        raise ValueError(f"says that tasks {'leave' if fields['leaving'] else 'do not leave'} machines")
    if fields["bucket"] != bucket_of(job_id):
        raise ValueError(f"its bucket is {fields['bucket']}, that of its id {bucket_of(job_id)}")
    held, after, awaited, gate, released = _links(fields["links"])
    read = Job(
        id=job_id, name=fields["name"] or job_id, kind=intern(fields["kind"]), precedence=fields["precedence"],
        order=fields["order"], state=_STATES[fields["state"]], gang=_GANGS[fields["gang"]],
        gang_min=fields["gang_min"], submitted_ms=fields["submitted"],
        groups=[_group(group, None) for group in groups], spec=spec, modified=fields["modified"], held=held, gate=gate,
        released=released, after=after, awaited=awaited, begun=fields["begun"], lane=fields["lane"],
        commands=fields["commands"], submitter=intern(fields["submitter"]),
    )  # fmt: skip
    return read, [group["runs"] for group in groups]


def _place(name: str) -> int:
    """Return where a number of the head stands."""
    return Struct(f"<B{_codes(_NUMBERS[: _NAMES.index(name)])}").size


_FLAGS_AT = [_place(field.name) for field in _NUMBERS if field.form == "?"]
MODIFIED_AT, _ORDER_AT = _place("modified"), _place("order")


def read_order(record: bytes) -> int:
    """Read the position of a job's submission from its record, alone."""
    if len(record) < _HEAD_BYTES:
        raise ValueError("a record that ends within its numbers")
    return int.from_bytes(record[_ORDER_AT : _ORDER_AT + 8], "little")


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
