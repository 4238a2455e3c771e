"""Executors on a server: their names and leases, and the state of their machines."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import redis

from omega.cellstate import keys
from omega.cellstate.errors import Duplicate, Fenced, HistoryCut, Refused, Unreachable
from omega.cellstate.executors import (
    ExecutorRecord,
    agents_of,
    check_executor,
    check_member,
    check_nonce,
    is_agent,
    portions,
)
from omega.cellstate.logged_settings import attributes_text
from omega.cellstate.model import (
    MOST_ENDS,
    MachineSettings,
    MachineSpec,
    MachineState,
    busy,
    check_state,
    excess,
    merged,
)
from omega.cellstate.override import override
from omega.cellstate.plain_text import plain_reason
from omega.cellstate.redis import records
from omega.cellstate.redis.link import Link, confirmed
from omega.cellstate.redis.reads import RedisReads
from omega.cellstate.redis.records import read_health
from omega.cellstate.redis.scripts import AT_ONCE
from omega.cellstate.replies import Heartbeat, Housekept, Membership, executor_of
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.tasks import (
    ANSWER_MS,
    MOST_ASKED,
    STREAM,
    UNPLACING,
    FinishedRuns,
    HealthAnswer,
    HealthReport,
    OutputPart,
    OutputRequest,
    TaskEnd,
    TaskProgress,
    pack_progress,
    unpack_progress,
)
from omega.cellstate.transaction import Position

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools

_CHUNK = 1_000
"""Number of machines brought up in one call."""


class RedisExecutors(RedisReads):
    """Registration of simulated executors, and deregistration of all."""

    _partings: int | None = None
    """How often versions had been found lost when an executor registered with this object; None before."""

    @override
    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        values = {"member": check_executor(executor), "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        while True:
            reply = self._run("register_executor", self._values(at_ms, executor) | values, member=executor)
            if reply[0] != b"lapsed":
                break
            self.deregister_executor(Membership(executor, int(reply[1])), at_ms, executor)
        if reply[0] == b"taken":
            raise Duplicate(f"executor {executor}: another one lives under this name; stop it, or choose another name")
        self._begin_to_execute()
        membership = Membership(executor, int(reply[1]))
        self._bring_up(membership, at_ms)
        return membership

    def _begin_to_execute(self) -> None:
        """What this object calls from now on is refused once the store lost versions that it saw."""
        self._partings = self.sightings.partings

    def _check_whole(self, executor: str) -> None:
        """Raise HistoryCut when the store lost versions that this executor saw, since it registered."""
        if self._partings is None:
            return
        if self._opened != self._pool.opened:
            self._reopened()
        if self._partings != self.sightings.partings:
            raise HistoryCut(f"{executor}: the store lost versions of cell {self.name}; it registers again")

    @override
    def confirm_runs(self, executor: str) -> None:
        self._run("confirm_runs", {"member": executor})

    def _bring_up(self, membership: Membership, at_ms: int) -> None:
        offline = [index for index, state in self.machines_of(membership.member) if state is MachineState.OFFLINE]
        for start in range(0, len(offline), _CHUNK):
            values = self._values(at_ms, membership.member) | membership._asdict()
            chunk = [str(index) for index in offline[start : start + _CHUNK]]
            reply = self._run("online", values, chunk, member=membership.member, extra=self._hints())
            if reply[0] == b"fenced":
                raise Fenced(f"executor {membership.member}: its lease lapsed; its tasks go elsewhere")

    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        """Return index and state of every machine of an executor, also of gone ones, by index."""
        number = self.executor_number(executor)
        _, rows = self._read_all()
        latest = {int(row[0]): row for row in rows}
        return [(index, MachineState(int(row[2]))) for index, row in sorted(latest.items()) if int(row[3]) == number]

    @override
    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        # For a simulated executor as many calls as its tasks need.

        def step(word: str, machines: Sequence[int] = ()) -> bool:
            name = membership.member.partition("/")[2] if is_agent(membership.member) else "-"
            own = membership._asdict() | {"name": name, "reaped": int(reaped), "step": word}
            words = [str(index) for index in machines]
            values = self._values(at_ms, by) | own | {"now": self.store_ms()}
            return bool(
                self._run("deregister_executor", values, words, member=membership.member, extra=self._hints())[1]
            )

        if is_agent(membership.member):
            return step("whole")
        if not step("begin"):
            return False
        mine = [index for index, _ in self.machines_of(membership.member)]
        held = dict.fromkeys(mine, 0)
        for run in self.runs(mine):
            held[run.machine] += 1
        return all(step("part", portion) for portion in portions(mine, list(held.values()))) and step("end")

    @override
    def executor_records(self) -> dict[str, ExecutorRecord]:
        known = dict(self._readable("agents", sorted(self._hash("agents").items()), _incarnation_and_lease))
        lives = self._leases(list(known))
        numbers = {
            name: self._record("executors", name, int, number or 0) or 0
            for name, number in self._fields("executors", list(known))
        }
        serving = dict(self._fields("serving", [str(number) for number in numbers.values()]))
        said = {name: (serving.get(str(number)) or b"").decode(errors="replace") for name, number in numbers.items()}
        return {
            name: ExecutorRecord(number, known[name][0], name in lives, known[name][1], said[name].partition(" ")[2])
            for name, number in numbers.items()
        }

    @override
    def report_fitness(self, membership: Membership, machines: Sequence[int], reason: str, at_ms: int) -> None:
        values = self._values(at_ms, membership.member) | membership._asdict() | {"reason": plain_reason(reason) or "-"}
        words = [str(index) for index in machines]
        reply = self._run("unfit", values, words, member=membership.member, extra=self._hints())
        if reply[0] == b"fenced":
            raise Fenced(f"executor {membership.member}: its lease lapsed; its tasks go elsewhere")

    @override
    def agents(self) -> dict[str, ExecutorRecord]:
        return agents_of(self.executor_records())

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """Requeue the tasks of executors with expired leases; return their names. Any process may call it.

        Not within one lease of a start of the store: after an outage every lease has expired (semantics 17).
        """
        gone = {name: record for name, record in self.executor_records().items() if not record.lives}
        return [
            name
            for name, record in gone.items()
            if self.store_older_than(record.lease_ms)
            and self.deregister_executor(Membership(name, record.incarnation), at_ms, by)
        ]

    def store_older_than(self, milliseconds: int) -> bool:
        """Return whether the server has been up for so long, and the cell was not restored recently."""
        if self._command(self.client.exists, self._prefix + "settling"):
            return False
        return int(self._command(self.client.info, "server")["uptime_in_seconds"]) * 1000 > milliseconds

    def _leases(self, members: list[str]) -> set[str]:
        """Return those of the members that hold their lease, with one command when all do."""
        keys = [f"{self._prefix}lease:{member}" for member in members]
        if not keys or self._command(self.client.exists, *keys) == len(keys):
            return set(members)
        return {name for name, key in zip(members, keys, strict=True) if self._command(self.client.exists, key)}

    def store_ms(self) -> int:
        """Return the server's clock, which all agents share, in milliseconds since 1970."""
        seconds, micros = self._command(self.client.time)
        return int(seconds) * 1000 + int(micros) // 1000


def _incarnation_and_lease(record: bytes) -> tuple[int, int]:
    incarnation, _, lease_ms = record.split(b" ")
    return int(incarnation), int(lease_ms)


# Agents on a server: leases of executors that run commands, last output of tasks, deadlines of drained machines.

TAILS, TAIL_MS = 1_000, 24 * 3600 * 1000
"""Maximum number of outputs kept, and time after the newest at which they, and reports of progress, expire (ms)."""


class RedisAgents(RedisExecutors):
    """Operations of agents, and the requeueing after their loss."""

    @override
    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        member = check_member(executor_of(agent))
        values = {"member": member, "name": agent, "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        while True:
            reply = self._run("register_agent", self._values(at_ms, member) | values, member=member)
            if reply[0] != b"lapsed":
                break
            if not self.store_older_than(lease_ms):
                raise Duplicate(f"agent {agent}: the last one of this name may still come back; try again in a moment")
            self.deregister_executor(Membership(member, int(reply[1])), at_ms, member)
        if reply[0] == b"taken":
            raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
        if reply[0] == b"machine":
            raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
        self._begin_to_execute()
        return Membership(member, int(reply[1]))

    @override
    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        values = {**membership._asdict(), "lease_ms": lease_ms, "index": "-" if machine is None else machine}
        reply = self._run("renew_executor", values, member=membership.member)
        if reply[0] == b"fenced":
            raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
        self._check_whole(membership.member)
        _, agents, record, runs, version, tag, unsettled = reply
        self._see(Position(int(version), tag.decode()))
        state = MachineState(records.read_row(record, len(self.dimensions))[2]) if record else None
        listed = [] if machine is None else records.read_runs(machine, runs.decode())
        return Heartbeat(int(agents), state, listed, bool(unsettled))

    @override
    def read_live_schedulers(self) -> None:
        known = self._command(self.client.hkeys, self._prefix + "schedulers")
        self.may_wake(self._leases([name.decode() for name in known]))

    # Last output

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""
        texts, answers = [f"{machine} {placement}" for machine, placement in asked], list[bytes]()
        for start in range(0, len(texts), AT_ONCE):
            answers += self._run("start", {"dims": len(self.dimensions)}, texts[start : start + AT_ONCE])
        self._check_whole("executor")
        return [answer.decode() for answer in answers]

    @override
    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        rest: list[object] = []
        for field, text in tails.items():
            rest += [" ".join(map(str, field)), text]
        if rest:
            self._run("tail", {"most": TAILS, "expire_ms": TAIL_MS}, rest)

    @override
    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        values = {"machine": machine, "text": pack_progress(tasks), "expire_ms": TAIL_MS}
        self._run("progress", values, own={"progress": f"progress:{job_id}"})

    @override
    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        key = f"progress:{job_id}"
        known = ((b"%d" % machine, record) for machine, record in self._fields(key, machines) if record)
        return {int(machine): tasks for machine, tasks in self._readable(key, known, unpack_progress)}

    @override
    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        values = {
            "dims": len(self.dimensions), "job": report.job, "machine": report.machine, "max_down": report.max_down,
            "now": now_ms, "until_ms": now_ms + report.span_ms, "cursor": cursor,
        }  # fmt: skip
        tasks = [f"{placement} {task} {state}" for placement, task, state in report.tasks]
        _, after, *granted = self._run("health", values, tasks)
        pairs = (each.decode().split(" ") for each in granted)
        return HealthAnswer(frozenset((int(placement), int(task)) for placement, task in pairs), int(after))

    @override
    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if not due)

    @override
    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if due)

    def _health(self, job_id: str) -> tuple[tuple[int, ...], ...]:
        ((_, text),) = self._fields("health", [job_id])
        return self._record("health", job_id, read_health, text or b"") or ()

    @override
    def request_output(self, executor: int, request: OutputRequest) -> bool:
        values = {"most": MOST_ASKED, "message": request.message()}
        return bool(self._run("request_output", values, own={"box": f"box:{executor}"})[0] == b"ok")

    @override
    def answer_output(self, name: str, part: OutputPart) -> None:
        values = {"text": part.pack(), "expire_ms": ANSWER_MS}
        self._run("answer_output", values, own={"answer": f"answer:{name}"})

    @override
    def output_part(self, name: str) -> OutputPart | None:
        answer = self._command(self.client.get, f"{self._prefix}answer:{name}")
        return self._record("answer", name, OutputPart.unpack, answer) if answer is not None else None

    @override
    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        ((_, output),) = self._fields("output", [f"{job} {group} {task} {stream}"])
        return output

    @override
    def measured(self, job: str) -> list[bytes]:
        key, pattern = self._prefix + "output", f"{job} * {STREAM}"
        outputs = self._command(lambda: dict(self.client.hscan_iter(key, match=pattern, count=TAILS)))
        return [outputs[field] for field in sorted(outputs)]

    # Deadlines of drained machines

    @override
    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        if self.dry:
            return
        key, until = self._prefix + "drains", None if milliseconds is None else self.store_ms() + milliseconds
        call = ("HDEL", key, machine) if until is None else ("HSET", key, machine, until)
        self._command(confirmed, self.client, self._confirmation, *call)

    @override
    def deadlines(self) -> dict[int, int]:
        drains = self._hash("drains")
        now = self.store_ms() if drains else 0
        untils = self._readable("drains", drains.items(), int)
        return {int(machine): until - now for machine, until in untils if machine.isdecimal()}

    # Housekeeping; its time is the server's

    @override
    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        values = self._values(at_ms, by) | {"now": self.store_ms(), "most": most}
        _, ended, queued, more = self._run("housekeep", values, extra=self._hints())
        return Housekept(int(ended), int(queued), bool(more))

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when, in ms of the server's clock."""
        chores = self._command(self.client.zrange, self._prefix + "housekeeping", 0, -1, withscores=True)
        return {job_id.decode(): int(when) for job_id, when in chores}

    @override
    def placed_by(self) -> tuple[tuple[int, int], ...]:
        ticks = self._command(self.client.hget, self._prefix + "meta", "ticks")
        return self._record("meta", "ticks", _ticks, ticks or b"") or ()


def _ticks(text: bytes) -> tuple[tuple[int, int], ...]:
    pairs = (each.split(b":") for each in text.split())
    return tuple((int(at), int(last)) for at, last in pairs)


# Machines on a server join, change and leave; ``lua/join.lua``, ``lua/machine.lua`` and ``lua/describe.lua``.

_JOIN_CHUNK = 1_000


class RedisMachines(RedisExecutors):
    """Add and change machines."""

    @override
    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        for machine in machines:
            self._check(f"machine {machine.name}", machine.capacity)
        indices: list[int] = []
        for start in range(0, len(machines), _JOIN_CHUNK):
            chunk = machines[start : start + _JOIN_CHUNK]
            values, settings = {**self._values(at_ms, executor), "executor": executor}, dict[str, bytes]()
            while True:  # until the settings of operators are those that the store has
                joining = [self._joining(machine, settings.get(machine.name, b"")) for machine in chunk]
                values["attributes"] = attributes_text((name, given) for name, _, given, _ in joining if given)
                rest = [
                    word for name, amounts, given, record in joining
                    for word in (f"{name} {amounts}", records.pack(given), record)
                ]  # fmt: skip
                reply = self._run("join", values, rest, extra=self._known.get("box", set()) | self._wakes())
                if reply[0] != b"set":
                    break
                settings |= {name.decode(): record for name, record in zip(reply[1::2], reply[2::2], strict=True)}
            if reply[0] == b"busy":
                raise busy(reply[1].decode())
            self._refuse_excess(reply)
            indices += [int(index) for index in reply[3:]]
        self.assign_trees(at_ms, executor)
        return indices

    def _joining(self, machine: MachineSpec, record: bytes) -> tuple[str, str, Mapping[str, str], bytes]:
        """Return name, amounts and attributes of a machine that joins, except for what operators set; and `record`."""
        amounts, attributes = self._settings(record).applied(machine.capacity, machine.attributes)
        return machine.name, " ".join(map(str, amounts)), attributes, record

    @override
    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        return [self._settings(record or b"") for _, record in self._fields("operator", indices)]

    def _settings(self, record: bytes) -> MachineSettings:
        """Read what operators set of a machine; an unreadable record is nothing, and is replaced (semantics 37)."""
        try:
            settings = records.read_settings(record)
        except records.UNREADABLE:
            return MachineSettings()
        fits = len(settings.amounts) in (0, len(self.dimensions))
        return settings if fits else MachineSettings(attributes=settings.attributes)

    def _refuse_excess(self, reply: Sequence[Any]) -> None:
        if reply[0] == b"sum":
            raise excess(self.name, self.dimensions.names[int(reply[1]) - 1])

    @override
    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        return self._change(index, "state", str(int(check_state(state))), at_ms, by)

    @override
    def set_machine_capacity(
        self, index: int, capacity: Sequence[int | None], at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        self._check(f"machine {index}", [amount or 0 for amount in capacity])
        words = [
            *("-" if amount is None else str(amount) for amount in capacity),
            *(f"{placement}*{count}" for placement, count in evict),
        ]
        return self._change(index, "capacity", " ".join(words), at_ms, by)

    @override
    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        # Compare-and-set: concurrent changes are kept.
        while True:
            before = self._command(self.client.hget, self._prefix + "static", str(index)) or b""
            name, _, packed = before.partition(b"\n")
            after = merged(records.unpack(packed), changes)
            _, _, own = (self._command(self.client.hget, self._prefix + "operator", str(index)) or b"").partition(b"\n")
            words = {"before": before, "after": name + b"\n" + records.pack(after), "count": len(after)}
            kept = self._settings(b"\n" + own).attributes
            words |= {"set_before": own, "set_after": records.pack({**kept, **changes})}
            words["settings"] = attributes_text([(name.decode(), after)])
            values = {**self._values(at_ms, by), "index": index, **words}
            reply = self._run("describe", values, extra=self._wakes())
            if reply[0] == b"unknown":
                raise Refused(f"machine {index}: not in cell {self.name}; see omega machine list")
            if reply[0] == b"ok":
                self.assign_trees(at_ms, by)
                return

    def _change(self, index: int, action: str, change: str, at_ms: int, by: str) -> int:
        takes_off = action == "capacity" or int(change) >= MachineState.DOWN
        values = {**self._values(at_ms, by), "index": index, "action": action, "change": change}
        values["now"] = self.store_ms() if takes_off else 0
        reply = self._run("machine", values, extra=self._hints())
        if reply[0] == b"unknown":
            raise Refused(f"machine {index}: not in cell {self.name}; see omega machine list")
        self._refuse_excess(reply)
        if reply[0] == b"over":
            raise Refused(f"machine {index}: holds more than the new capacity; name evictions or drain it first")
        return int(reply[2])


# The pool trees of machines on a server; ``lua/assign_trees.lua``.


class RedisTrees(RedisReads):
    """Assigns machines to trees; see `Cell` for the methods of the port."""

    @override
    def assign_trees(self, at_ms: int, by: str) -> int:
        evicted, assigned = 0, int(not self.dry)
        while assigned and (unassigned := self._unassigned()):
            pools, indices = unassigned
            assigned = 0
            for portion in indices:
                reply = self._assign(pools, portion, at_ms, by)
                if reply[0] == b"overtaken":
                    assigned = 1  # by the pools as they are now
                    break
                assigned, evicted = assigned + int(reply[1]), evicted + int(reply[2])
        return evicted

    def _unassigned(self) -> "tuple[Pools, list[list[int]]] | None":
        """Return the pools and, in portions, the machines without an assigned tree; None when there are none."""
        with self.client.pipeline(transaction=False) as pipe:
            pipe.hget(self._prefix + "meta", "pools")
            pipe.hlen(self._prefix + "static")
            pipe.hlen(self._prefix + "trees")
            state, machines, assigned = self._command(pipe.execute)
        if int(state or 0) < 2 or machines == assigned or not (pools := self.pools()).divided:
            return None
        known = set(self._command(self.client.hkeys, self._prefix + "trees"))
        there = self._command(self.client.hkeys, self._prefix + "static")
        indices = sorted(int(index) for index in there if index not in known and index.isdigit())
        held = [(text or b"").count(b":") // 3 for _, text in self._fields("runs", indices)]
        return (pools, list(portions(indices, held))) if indices else None

    def _assign(self, pools: "Pools", indices: list[int], at_ms: int, by: str) -> list[Any]:
        from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - most processes evaluate no formula

        statics = [static or b"" for _, static in self._fields("static", indices)]
        described = [
            self._record("static", str(index), records.read_described, static) or ("", ())
            for index, static in zip(indices, statics, strict=True)
        ]
        rest: list[object] = []
        for index, static, number in zip(indices, statics, trees_of(pools, described), strict=True):
            rest += [index, static, "-" if number is None else number]
        values = {**self._values(at_ms, by), "version": pools.version}
        return self._run("assign_trees", values, rest, extra=self._hints())


# Messages of executors and the ends of tasks.

SEEING_RECEIPTS = 8
"""Of receipts without a pause, one in so many also reads the cell's version: the executor saw it (semantics 16)."""


class RedisTasks(RedisExecutors):
    """The mailboxes of executors, and the calls that end tasks."""

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Use the cell `name` over `client`; `url` is for messages."""
        super().__init__(client, name, dimensions, url)
        self._ends = Link(self.client, lambda: self._check_whole("executor"))
        self._read: dict[int, list[bytes]] = {}
        self._receipts = 0
        """How many receipts since the last one without messages."""

    @override
    def end(self, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
        # As many calls as it takes to end MOST_ENDS at a time.
        loses = type(endings) is not FinishedRuns and any(ending.how in UNPLACING for ending in endings)
        now, counts = self.store_ms() if loses else 0, list[int]()
        for start in range(0, len(endings), MOST_ENDS):
            part = endings[start : start + MOST_ENDS]
            values = self._values(at_ms, by) | {"now": now, "body": records.write_endings(part)}
            reply = self._send_endings(self._script("end").pack_arguments(values))
            ended = list(map(int, reply[2:]))
            if any(ended):
                self._see(Position(int(reply[1]), str(values["tag"])))
            counts += ended
        return counts

    def _send_endings(self, values: list[object]) -> list[Any]:
        """Call end.lua, once more after a lost reply, and again with the further keys that it requests."""
        chosen, names, link = self._script("end"), self._hints(), self._ends
        while True:
            try:
                self._command(link.send, chosen, self._keys(chosen, "", names), values, self._confirmation)
                reply: list[Any] = self._command(link.receive)
            except Unreachable:
                self._command(link.again)
                reply = self._command(link.receive)
            if reply[0] != b"keys":
                return reply
            names |= self._learn(reply[1:])

    @override
    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        lines = self.receive_lines(executor, most, wait_seconds)
        return [message for line in lines for message in records.each_message(line)]

    @override
    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        entries = self._read_mailbox(executor, most)
        if not entries and wait_seconds > 0:
            key = f"{self._prefix}box:{executor}"
            # The first message is moved to its own place: the call only waits for it.
            if self._wait_at(key, wait_seconds):
                entries = self._read_mailbox(executor, most)
        return [line for entry in entries for line in entry.decode().split("\n")]

    def _read_mailbox(self, executor: int, most: int) -> list[bytes]:
        """Remove the entries that were read last, and read the next ones; a script costs the server four times as much.

        An entry is removed by its text, and no two are alike: a command sent again removes nothing (semantics 25).
        """
        key, read = f"{self._prefix}box:{executor}", self._read.get(executor, ())
        self._receipts = self._receipts + 1 if read else 0
        position = not self._receipts % SEEING_RECEIPTS
        with self.client.pipeline(transaction=False) as pipe:
            pipe.hmget(f"{self._prefix}meta", "rules", "version")
            for entry in read:
                pipe.lrem(key, 1, entry)  # type: ignore[arg-type]
            pipe.lrange(key, 0, most - 1)
            if position:
                pipe.lindex(f"{self._prefix}changes", -1)
                pipe.hget(f"{self._prefix}meta", "version")
            (rules, before), *replies = self._command(pipe.execute)
        latest, version = replies[-2:] if position else (None, None)
        entries = replies[len(read)]
        self._check_messages(rules, before)
        self._check_whole("executor")
        if latest and before == version:  # else another client wrote in between
            self._see(Position(int(version), latest[:10].decode()))
        self._read[executor] = entries
        return list(entries)

    def _check_messages(self, rules: bytes | None, version: bytes | None) -> None:
        """Raise CellGone, as the scripts do, when there is no such cell or it has other rules."""
        if rules != str(keys.RULES).encode():
            said = "NOCELL none" if version is None else f"RULES {int(rules or 0)}"
            raise translate(redis.ResponseError(said), self.url)
