"""The primary records of a cell, read from its keys; what is not of the form of its key is noted.

A key has its reader here by its name: those of hashes take one field at a time. Keys that follow from others
(cellstate/derive.py) are not read, but for what no others give: marks of lanes, arrivals, limits of kinds.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import unpack
from typing import TYPE_CHECKING, Any

from omega.cellstate import keys, ranges
from omega.cellstate.cuts import read_cut
from omega.cellstate.digest.history import History
from omega.cellstate.digest.hours import Hour, Position
from omega.cellstate.digest.results import unpack_results
from omega.cellstate.durability import Durability
from omega.cellstate.executors import check_executor, check_member
from omega.cellstate.lanes import BUCKET_SPAN, Lane
from omega.cellstate.model import Job
from omega.cellstate.pools.records import EPOCH_FIELDS, EPOCH_NUMBERS, unpack_epoch, unpack_pool, unpack_trees
from omega.cellstate.primary import ChangeEntry, Damage, EpochMade, LaneMark, Mail, Primary, Reading, Runs
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.image import Image, read_image
from omega.cellstate.shards import PHASES, TRIES
from omega.cellstate.tasks import OutputPart, unpack_progress

if TYPE_CHECKING:
    from omega.cellstate.redis.calls import Connection

_UNREAD = frozenset({"log"})
_NUMBER = r"(?:0|[1-9]\d*)"
_RUNS = re.compile(r"( !?\d+:[^: ]+:\d+:[\d,-]+)*")
_CHUNK_RUNS = re.compile(r"(!?(\d+)?@\d+,)*")
_SCHEDULER = re.compile(
    r"(\d+) [A-Za-z0-9._-]{1,64} \d+(?: (\w+))?\n(|(\+|\d+ \d+(,\d+ \d+)*)(;(\+|\d+ \d+(,\d+ \d+)*))*)"
)
_AGENT, _LAPSING = re.compile(r"(\d+) [A-Za-z0-9._-]{1,64} \d+"), re.compile(r"\d+ ! \d+")
_MESSAGE_WORDS = {"+": 8, "-": 4, "!": 1, "?": 7}
"""Words of a message by its first one, as records.messages has them."""
_FORMS: Mapping[str, tuple[str, str, str]] = {
    "asleep": (r"[a-z].*", r"(-|\d+(,\d+)*)( \S+)*", "amounts and names of jobs"),
    "directories": (r"/.*", r"\S+ \d+", "a claim of a directory"),
    "drains": (_NUMBER, _NUMBER, "a time"),
    "executors": (r".+", _NUMBER, "a number"),
    "health": (r".+", r"( \d+:\d+:\d+:\d+)+", "a record of the health of tasks"),
    "owners": (_NUMBER, r"[a-z].*", "the name of a scheduler"),
    "operator": (_NUMBER, r"(?s)(-|\d+)( (-|\d+))*\n.*", "amounts and attributes"),
    "output": (r"\S+ \d+ \d+ (stdout|stderr|usage)", r"(?s).*", "output"),
    "trees": (_NUMBER, rf"-|{_NUMBER}", "the number of a tree"),
    "unsettled": (r"agent/.+", r"1", "1"),
    "updates": (r".+", r"(?s)rolling|stalled .*", "rolling, nor stalled with a reason"),
    "chosen": (r"", r"[\w.-]+", "the name of a cell"),
    "confirmed": (r"", r"", "empty"),
    "durations": (r"", rf"{_NUMBER}( {_NUMBER}){{2}}", "three numbers"),
    "lease": (r"", _NUMBER, "an incarnation"),
    "settling": (r"", _NUMBER, "the id of a placement"),
}  # fmt: skip
"""Fields and values of keys that are text, and what a value is."""
_EXPIRING = ("answer", "chosen", "confirmed", "durations", "lease", "progress", "settling")


def _want(fits: object, what: str) -> None:
    if not fits:
        raise ValueError(what)


def _number(text: bytes | str) -> int:
    word = text.decode() if isinstance(text, bytes) else text
    _want(re.fullmatch(_NUMBER, word), f"{word!r} is not a number")
    return int(word)


def read_records(cell: "Connection", told: Callable[[str], object] = str) -> Reading | None:
    """Read a cell; None when it changes faster than it can be read. Raises errors of the client."""
    number = 0

    def read(more: int) -> None:
        nonlocal number
        number += more
        told(f"{number:,} records")

    image = read_image(cell, 0, _UNREAD, read)
    if image is None:
        return None
    seconds, micros = cell.client.time()
    primary = primary_of(image, int(seconds) * 1000 + int(micros) // 1000)
    return Reading(primary, {**image.hashes, **image.zsets, **image.lists})


def unusable(cell: "Connection") -> list[Damage]:
    """Return keys of another type than a cell's, and counters that are no numbers: scripts fail on them."""
    client: Any = cell.client
    prefix = keys.prefix(cell.name)
    names = sorted(key.decode(errors="replace") for key in client.scan_iter(match=prefix.replace("[", "\\[") + "*"))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name)
        types = pipe.execute()
    found = list[Damage]()
    for name, there in zip(names, types, strict=True):
        key = name.removeprefix(prefix)
        kind = keys.TYPES.get(key.partition(":")[0])
        if kind is not None and there.decode() not in (kind, "none"):  # it may have expired meanwhile
            found.append(Damage(key, "", f"is a {there.decode()}, not a {kind}"))
    if found:
        return found
    image = Image(cell=cell.name, resources=cell.dimensions.names, schema=0, at_ms=0)
    image.hashes |= {key: client.hgetall(prefix + key) for key in ("meta", "cuts")}
    read = primary_of(image, 0)
    missing = [Damage("meta", name, "is missing") for name in ("version", "floor", "rules") if name not in read.meta]
    return [*(damage for damage in read.damaged if damage.key in image.hashes), *missing]


def primary_of(image: Image, now_ms: int) -> Primary:
    """Read the records of an image, which loses large keys that nothing else needs. `now_ms`: the server's clock."""
    reading = _Reading(image, now_ms)
    reading.read()
    return reading.primary


class _Reading:
    def __init__(self, image: Image, now_ms: int) -> None:
        self.image = image
        self.primary = Primary(
            resources=image.resources, version=image.version, placements=image.placements, first=image.first,
            length=image.length, now_ms=now_ms, aged=frozenset(image.aged),
        )  # fmt: skip

    def read(self) -> None:
        image, primary = self.image, self.primary
        primary.runs = Runs(self._runs())
        self._machines()
        self._changes(image.lists.pop("changes", []))
        for key in sorted({*image.hashes, *image.zsets, *image.lists, *image.strings, *image.others}):
            self._key(key)
        primary.listed_chunks = set()
        primary.recorded = Runs(self._jobs())
        pending = {job.id for job in primary.jobs.values() if job.pending}
        primary.arrivals = {job: arrival for job, arrival in primary.arrivals.items() if job in pending}

    def _guard(self, key: str, field: str, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except records.UNREADABLE as error:
            self.primary.damaged.append(Damage(key, field, str(error) or type(error).__name__))
            return None

    def _key(self, key: str) -> None:
        name, _, own = key.partition(":")
        image = self.image
        if name not in keys.TYPES:
            self.primary.damaged.append(Damage(key, "", "is no key of a cell (cellstate/keys.py)"))
            return
        if name in _EXPIRING and key not in image.expiries:
            self.primary.damaged.append(Damage(key, "", "never expires"))
        whole = getattr(self, f"_whole_{name}", None)
        if whole is not None:
            content = next(each[key] for each in (image.hashes, image.lists, image.zsets, image.strings) if key in each)
            self._guard(key, "", whole, own, content)
            return
        each = getattr(self, f"_{name}_field", None)
        if each is None and name not in _FORMS:
            return  # it follows from others, or is read elsewhere
        fields = image.hashes[key].items() if key in image.hashes else [(b"", image.strings[key])]
        for field, value in fields:
            text = field.decode(errors="replace")
            self._guard(key, text, self._formed, name, own or text, text, value, each)

    def _formed(self, name: str, own: str, field: str, value: bytes, read: Callable[[str, Any], None] | None) -> None:
        form = _FORMS.get(name)
        if form is None:
            if read is not None:
                read(own, value)
            return
        of_field, of_value, what = form
        text = value.decode("latin-1" if name in ("operator", "output") else "utf-8")
        _want(re.fullmatch(of_field, field), f"{field!r} is no field of it")
        _want(re.fullmatch(of_value, text), f"{text!r} is not {what}")
        if read is not None:
            read(own, value if name == "operator" else text)

    # Machines

    def _runs(self) -> Iterator[tuple[int, str, int, int, str, bool]]:
        stored, machines = self.image.hashes["runs"], self.image.hashes["machines"].keys()
        for field in stored.keys() - machines:
            name = field.decode(errors="replace")
            self.primary.damaged.append(Damage("runs", name, "belongs to no machine"))
        while stored:
            field, value = stored.popitem()
            yield from self._guard("runs", field.decode(errors="replace"), _runs_of, field, value) or ()

    def _machines(self) -> None:
        width, form = records.row_bytes(self.primary.size), f"<{4 + 2 * self.primary.size}q"
        stored = self.image.hashes["machines"]
        while stored:
            field, value = stored.popitem()
            index = self._guard("machines", field.decode(errors="replace"), _row_index, field, value, width)
            if index is not None:
                self.primary.rows[index] = list(unpack(form, value))
        self.primary.rows = dict(sorted(self.primary.rows.items()))

    def _static_field(self, field: str, value: bytes) -> None:
        name, _, packed = value.partition(b"\n")
        if packed:
            words = records.unpack(packed).items()
            _want(all(isinstance(word, str) for pair in words for word in pair), "attributes are not text")
        self.primary.described[_number(field)] = records.read_described(value) if packed else (name.decode(), ())

    def _operator_field(self, field: str, value: bytes) -> None:
        settings = records.read_settings(value)
        _want(len(settings.amounts) == self.primary.size, "has not an amount for each resource")
        words = [*settings.attributes, *(text for text in settings.attributes.values() if text is not None)]
        _want(all(isinstance(word, str) for word in words), "attributes are not text")
        self.primary.settings[int(field)] = settings

    def _drains_field(self, field: str, value: str) -> None:
        self.primary.deadlines[int(field)] = int(value)

    def _trees_field(self, field: str, value: str) -> None:
        self.primary.trees[int(field)] = None if value == "-" else int(value)

    # Jobs

    def _jobs(self) -> Iterator[tuple[int, str, int, int, str, bool]]:
        """Read the jobs; yields the runs that their records name."""
        stored, specs, jobs = self.image.hashes["jobs"], self.image.hashes["specs"], list[Job]()
        while stored:
            key, record = stored.popitem()
            job_id = key.decode(errors="replace")
            spec = self._guard("specs", job_id, self._spec, job_id, specs.pop(key, b""))
            read = self._guard("jobs", job_id, self._job, job_id, record, spec or {})
            if read is not None:
                jobs.append(read[0])
                yield from read[1]
        for key, value in specs.items():
            self._guard("specs", key.decode(errors="replace"), self._spec, key.decode(errors="replace"), value)
        self.primary.jobs = {job.id: job for job in sorted(jobs, key=lambda job: job.order)}
        self.image.hashes["specs"] = {}

    def _job(self, job_id: str, record: bytes, spec: Mapping[str, Any]) -> tuple[Job, list[Any]]:
        size = self.primary.size
        job, texts = job_records.read_exactly(job_id, record, spec, size)
        for status in job.groups:
            _check_set(status.waiting)
        if self.primary.listed_chunks is not None:
            self.primary.listed_chunks.update(field for _, field in job_records.chunk_fields(job_id, record, size))
        runs = [
            (placement, job_id, machine, group, ranges.EMPTY, leaving)
            for group, text in enumerate(texts) if text
            for placement, machine, leaving in _listed_runs(text)
        ]  # fmt: skip
        return job, runs

    def _spec(self, job_id: str, value: bytes) -> dict[str, Any]:
        if not value:
            return {}
        spec = records.unpack(value)
        groups = spec.get("groups", [])
        good = isinstance(groups, list) and all(isinstance(group, dict) for group in groups)
        _want(good, "groups are not mappings")
        self.primary.described_groups[job_id] = len(groups)
        return spec

    def _whole_pending(self, kind: str, content: Mapping[bytes, float]) -> None:
        for member, score in content.items():
            name = member.decode(errors="replace")
            arrival = score % BUCKET_SPAN
            if len(name) < 3 or arrival != int(arrival):
                what = "is not a bucket and the id of a job, at a whole number"
                self.primary.damaged.append(Damage(f"pending:{kind}", name, what))
                continue
            self.primary.arrivals[name[2:]] = int(arrival)

    def _whole_done(self, _: str, content: Sequence[bytes]) -> None:
        for at, entry in enumerate(content):
            self._guard("done", str(at), self._done_entry, entry)

    def _done_entry(self, entry: bytes) -> None:
        job, version = entry.decode().split(" ")
        self.primary.done.append((job, _number(version)))

    def _updates_field(self, job: str, value: str) -> None:
        self.primary.updates[job] = value

    def _health_field(self, job: str, value: str) -> None:
        self.primary.health[job] = tuple(tuple(map(int, each.split(":"))) for each in value.split())

    def _whole_outputs(self, _: str, content: Sequence[bytes]) -> None:
        self.primary.listed_outputs += [field.decode(errors="replace") for field in content]

    def _output_field(self, field: str, _: str) -> None:
        self.primary.outputs.add(field)

    def _history_field(self, job: str, value: bytes) -> None:
        History.unpack(value)
        self.primary.histories.add(job)

    def _results_field(self, field: str, value: bytes) -> None:
        job, _, place = field.partition(" ")
        if place:
            group, chunk = map(int, place.split(" "))
            self.primary.chunks[job, group, chunk] = [result.state for result in unpack_results(value, 0)]

    def _usage_field(self, field: str, value: bytes) -> None:
        if field == "position":
            self.primary.position = Position.unpack(value)
            return
        int(field)
        Hour.unpack(value)

    def _whole_shards(self, job: str, content: Mapping[bytes, bytes]) -> None:
        self.primary.shards[job] = contradiction({name.decode(): value.decode() for name, value in content.items()})

    @staticmethod
    def _progress_field(_: str, value: bytes) -> None:
        unpack_progress(value)

    # Lanes, limits, pools

    def _lanes_field(self, field: str, value: bytes) -> None:
        if field == "spare":
            _want(re.fullmatch(r"(\d+ )+", value.decode()), f"{value.decode()!r} is not a list of numbers")
            self.primary.spare_lanes = list(map(int, value.split()))
            return
        _, serial, _, arrival = unpack("<4q", value[:32])
        name = value[8 * (7 + 2 * self.primary.size) :].decode()
        Lane.named(name)
        self.primary.lanes[_number(field)] = LaneMark(serial, arrival, name)

    def _kinds_field(self, kind: str, value: bytes) -> None:
        self.primary.limits[kind], *_ = records.read_kind(value.decode(), self.primary.size)

    def _pools_field(self, field: str, value: bytes) -> None:
        if field == "trees":
            unpack_trees(value)
        elif re.fullmatch(rf"p{_NUMBER}", field):
            number = unpack_pool(value).number
            _want(number == int(field[1:]), f"is pool number {number}")
        elif field in ("version", "next"):
            _number(value)
        else:
            return
        self.primary.pools[field] = value

    def _whole_epoch(self, _: str, content: Mapping[bytes, bytes]) -> None:
        fields = {name.decode(): value for name, value in content.items()}
        _want(fields.keys() == {*EPOCH_FIELDS, "shares", "leaves"}, f"has the fields {sorted(fields)}")
        for name in EPOCH_NUMBERS:
            _number(fields[name])
        by, epoch = check_member(fields["by"].decode()), unpack_epoch(fields)
        made = EpochMade(epoch.number, epoch.version, fields["digest"].decode(), epoch.published, by)
        self.primary.epoch, self.primary.epoch_totals = made, (epoch.pools_version, epoch.totals)

    # Members

    def _executors_field(self, name: str, value: str) -> None:
        self.primary.executors[name] = int(value)

    def _serving_field(self, field: str, value: bytes) -> None:
        self.primary.serving[_number(field)] = _holder(value.decode().partition(" ")[0])

    def _schedulers_field(self, name: str, value: bytes) -> None:
        parts = _SCHEDULER.fullmatch(value.decode())
        _want(parts, "not incarnation, nonce, number and outcomes")
        if parts:
            self.primary.members[check_member(name)] = int(parts[1])
            if parts[2]:
                self.primary.answers[name] = parts[2], parts[3]

    def _agents_field(self, name: str, value: bytes) -> None:
        if _LAPSING.fullmatch(value.decode()):
            _holder(name)  # its machines are being given up, which is in the log
            return
        parts = _AGENT.fullmatch(value.decode())
        _want(parts, "not incarnation, nonce and length of lease")
        self.primary.members[_holder(name)] = int(parts[1]) if parts else 0

    def _lease_field(self, member: str, value: str) -> None:
        self.primary.leases[_holder(member)] = int(value)

    @staticmethod
    def _stats_field(name: str, value: bytes) -> None:
        check_member(name)
        records.unpack(value)

    @staticmethod
    def _asleep_field(name: str, _: str) -> None:
        check_member(name)

    @staticmethod
    def _whole_wake(member: str, content: Sequence[bytes]) -> None:
        check_member(member)
        _want(all(token in (b"1", b"alone") for token in content), f"{content} are not tokens")

    def _whole_box(self, executor: str, content: Sequence[bytes]) -> None:
        messages = [message.split(" ") for line in content for message in records.messages(line.decode())]
        for words in messages:
            _want(_MESSAGE_WORDS.get(words[0]) == len(words) and all(words), f"{' '.join(words)!r} is no message")
        self.primary.mailboxes[_number(executor)] = [
            Mail(int(words[1]), int(words[2]), words[5], words[3], words[4], int(words[6]))
            if words[0] == "+" else Mail(int(words[1]), int(words[2]), words[3])
            for words in messages if words[0] in "+-"
        ]  # fmt: skip

    @staticmethod
    def _whole_answer(_: str, content: bytes) -> None:
        OutputPart.unpack(content)

    def _settling_field(self, _: str, value: str) -> None:
        _want(int(value) <= self.primary.placements, f"{value!r} is a later placement")

    # Counters and versions

    def _meta_field(self, field: str, value: bytes) -> None:
        text, primary = value.decode(), self.primary
        _want(field in keys.META, "no such counter; cellstate/keys.py lists them")
        primary.meta.add(field)
        if field == "resources":
            _want(re.fullmatch(r"[a-z][\w-]*(,[a-z][\w-]*)*", text), "not a list of names")
        elif field == "ticks":
            _want(re.fullmatch(r"\d+:\d+( \d+:\d+)*", text), "not a list of times and placement ids")
            primary.ticks = [(int(at), int(last)) for at, last in (word.split(":") for word in text.split())]
        elif field == "durability":
            _want(Durability.parse(text) != Durability(), "is left out where there is none")
        else:
            primary.counters[field] = _number(text)
            wanted = {"schema": keys.SCHEMA, "rules": keys.RULES}.get(field, int(text))
            _want(int(text) == wanted, f"is {value!r}, not {wanted}")

    def _changes(self, entries: Sequence[bytes]) -> None:
        counters = [self.image.hashes["meta"].get(name, b"") for name in (b"version", b"floor")]
        if not all(word.isdigit() for word in counters):
            return  # reported with the counter
        version, floor = map(int, counters)
        if len(entries) != version - floor:
            what = f"has {len(entries)} entries for the versions from {floor + 1} to {version}"
            self.primary.damaged.append(Damage("changes", "", what))
        for number, entry in enumerate(entries, floor + 1):
            self._guard("changes", str(number), self._change, number, entry)

    def _change(self, version: int, entry: bytes) -> None:
        tag = entry[:10].decode()
        _want(re.fullmatch(r"[a-z0-9]{10}", tag), f"tag {tag!r} is not ten letters and digits")
        rows, lanes = records.apart(records.read_rows(entry[10:], self.primary.size))
        self.primary.changes.append(ChangeEntry(version, tag, rows, lanes))

    def _whole_times(self, _: str, content: Sequence[bytes]) -> None:
        pairs = [(_number(version), _number(at_ms)) for version, at_ms in (entry.split(b" ") for entry in content)]
        versions, times = [version for version, _ in pairs], [at_ms for _, at_ms in pairs]
        _want(versions == sorted(set(versions)), f"its versions {versions} do not rise")
        _want(times == sorted(times), "its times do not rise")
        _want(not versions or versions[-1] <= self.primary.version, f"{versions[-1:]} is a later version")

    @staticmethod
    def _cuts_field(field: str, value: bytes) -> None:
        if field in ("last", "lost"):
            int(value)
            return
        cut = read_cut(int(field), value.decode())
        _want(cut.agreed < cut.first_lost <= cut.seen, "its versions do not rise")


def _holder(name: str) -> str:
    """Return the name of a lease's holder: a scheduler, an agent or a simulated executor."""
    return check_member(name) if "/" in name else check_executor(name)


def _row_index(field: bytes, value: bytes, width: int) -> int:
    index = int.from_bytes(value[:8], "little")
    _want(len(value) == width, f"{len(value)} bytes, not {width}")
    _want(_number(field) == index, f"is the record of machine {index}")
    return index


def _check_set(tasks: str) -> None:
    """Raise ValueError unless a text is a set of tasks, ascending."""
    if not tasks.isdecimal():
        pieces = ranges.spans(tasks)
        _want(all(first <= last for first, last in pieces), f"{tasks!r} is no ascending set of tasks")


def _runs_of(field: bytes, value: bytes) -> list[tuple[int, str, int, int, str, bool]]:
    """Read the running and leaving tasks of a machine."""
    machine, text, runs = _number(field), value.decode(), []
    _want(_RUNS.fullmatch(text), f"{text!r} is not a list of runs")
    for item in text.split():
        placement, job, group, tasks = item.split(":")
        _check_set(tasks)
        leaving = placement[0] == "!"
        runs.append((int(placement[leaving:]), job, machine, int(group), tasks, leaving))
    return runs


def _listed_runs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Read (placement, machine, whether it leaves) of each run; one without an id has the id after the one before."""
    _want(_CHUNK_RUNS.fullmatch(text), f"{text!r} is not a list of runs")
    placement = 0
    for item in text.split(",")[:-1]:
        first, _, machine = item.lstrip("!").partition("@")
        placement = int(first) if first else placement + 1
        yield placement, int(machine), item[0] == "!"


# Shards of a MapReduce job (lua/parts/shards.lua)

_PHASE = re.compile(r"(\d+) (\S+) (\d+) (\d+)")
_FINISHED = re.compile(r"([mr])(0|[1-9]\d*)")
_HELD = re.compile(r" (\d+):(\d+):(\d+):(\d+)")
_FAILURES = re.compile(r" (map|reduce):(\d+):(\d+):(\d+):([\d,]+)")
_COUNTS = re.compile(r" (\d+):(\d+)")
_OTHERS = ("held", "failures", "failed", "machines", "levels")


def contradiction(fields: Mapping[str, str]) -> str:
    """Return the first contradiction in the shards of a job, "" when there is none. Raises ValueError if unreadable."""
    if not fields:
        return ""
    finished: dict[str, set[int]] = {phase: set() for phase in PHASES}
    for name, mark in fields.items():
        shard = _FINISHED.fullmatch(name)
        if shard and re.fullmatch(r"\d+-\d+", mark):
            finished[next(phase for phase in PHASES if phase[0] == shard[1])].add(int(shard[2]))
        elif name not in (*PHASES, *_OTHERS):
            raise ValueError(f"{name} is no field of it, or {mark!r} does not say who finished it")
    held = _all(_HELD, fields.get("held", ""))
    running = _running(fields)
    for phase in PHASES:
        total, waiting, done, _ = _read_phase(fields, phase)
        working = [int(shard) for *_, shard in held] if phase == running else []
        if sorted([*ranges.indices(waiting), *working, *finished[phase]]) != list(range(total)):
            return f"of the {total} shards of {phase} not each one waits, is worked on or is finished"
        if done != len(finished[phase]):
            return f"{done} shards of {phase} count as done and {len(finished[phase])} are"
    for name, what in (("machines", "failures on a machine"), ("levels", "maps of a level of locality")):
        numbers = [number for number, _ in _all(_COUNTS, fields.get(name, ""))]
        if len(set(numbers)) != len(numbers):
            return f"the {what} are counted twice"
    near = sum(int(count) for _, count in _all(_COUNTS, fields.get("levels", "")))
    if near > len(finished[PHASES[0]]):
        return f"{near} maps have a level of locality and {len(finished[PHASES[0]])} are done"
    return _failures(fields, _all(_FAILURES, fields.get("failures", "")))


def _all(pattern: "re.Pattern[str]", text: str) -> list[tuple[str, ...]]:
    matches = pattern.findall(text)
    if "".join(" " + ":".join(words) for words in matches) != text:
        raise ValueError(f"{text!r} is no list of {pattern.pattern.strip()}")
    return matches


def _read_phase(fields: Mapping[str, str], phase: str) -> tuple[int, str, int, int]:
    words = _PHASE.fullmatch(fields.get(phase, ""))
    if words is None:
        raise ValueError(f"{phase} is {fields.get(phase)!r}, not total, waiting, done, milliseconds")
    return int(words[1]), words[2], int(words[3]), int(words[4])


def _running(fields: Mapping[str, str]) -> str:
    total, _, done, _ = _read_phase(fields, PHASES[0])
    return PHASES[1] if done == total else PHASES[0]


def _failures(fields: Mapping[str, str], failures: list[tuple[str, ...]]) -> str:
    if len({(phase, shard) for phase, shard, *_ in failures}) != len(failures):
        return "the failures of a shard are counted twice"
    if any(len(where.split(",")) > int(count) for _, _, count, _, where in failures):
        return "a shard failed on more machines than it failed"
    spent = {f"{phase} {shard}" for phase, shard, count, *_ in failures if int(count) >= TRIES}
    failed = fields.get("failed")
    if (failed is not None or spent) and failed not in spent:
        return f"it failed at {failed or 'nothing'}; tried too often were {', '.join(sorted(spent)) or 'none'}"
    return ""
