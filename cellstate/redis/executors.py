"""Executors on a server: their names and leases, mailboxes, and the ends of tasks."""

from collections.abc import Sequence
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.errors import (
    Duplicate,
    Fenced,
    HistoryCut,
    Refused,
    Unreachable,
    Unreadable,
)
from omega.cellstate.executors import (
    ExecutorRecord,
    agents_of,
    check_executor,
    check_member,
    check_nonce,
    is_agent,
    portions,
)
from omega.cellstate.model import (
    MOST_ENDS,
    MachineState,
)
from omega.cellstate.plain_text import plain_reason
from omega.cellstate.redis import records
from omega.cellstate.redis.calls import Connection
from omega.cellstate.redis.link import Link
from omega.cellstate.redis.machines import RedisMachines
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.scripts import AT_ONCE
from omega.cellstate.replies import Heartbeat, Membership, executor_of
from omega.cellstate.server import translate
from omega.cellstate.tasks import (
    UNPLACING,
    FinishedRuns,
    TaskEnd,
)
from omega.cellstate.transaction import Position

_CHUNK = 1_000
"""Number of machines brought up in one call."""
SEEING_RECEIPTS = 8
"""Of receipts without a pause, one in so many also reads the cell's version: the executor saw it (semantics 16)."""


class RedisExecutors(Part):
    """Agents and simulated executors: leases, mailboxes, ends of tasks."""

    def __init__(self, calls: Connection, machines: RedisMachines) -> None:
        """Use the connection of the cell and other parts of it."""
        super().__init__(calls)
        self._machines = machines
        self._partings: int | None = None
        """How often versions had been found lost when an executor registered with this object; None before."""
        self._ends = Link(calls.client, lambda: self._check_whole("executor"))
        self._read: dict[int, list[bytes]] = {}
        self._receipts = 0
        """How many receipts since the last one without messages."""

    def close(self) -> None:
        """Close the connection for ends."""
        self._ends.close()

    def register(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register a simulated executor, and bring its offline machines up; Duplicate while another lives.

        A successor takes over the runs on its machines. `renew_executor` renews the lease; `deregister_executor` gives
        up the name and the machines.
        """
        values = {"member": check_executor(executor), "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        while True:
            reply = self._calls.run("register_executor", self._calls.values(at_ms, executor) | values, member=executor)
            if reply[0] != b"lapsed":
                break
            self.deregister(Membership(executor, int(reply[1])), at_ms, executor)
        if reply[0] == b"taken":
            raise Duplicate(f"executor {executor}: another one lives under this name; stop it, or choose another name")
        self._begin_to_execute()
        membership = Membership(executor, int(reply[1]))
        self._bring_up(membership, at_ms)
        return membership

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor.

        An agent presenting the recorded nonce continues its incarnation and its tasks.
        """
        member = check_member(executor_of(agent))
        values = {"member": member, "name": agent, "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        while True:
            reply = self._calls.run("register_agent", self._calls.values(at_ms, member) | values, member=member)
            if reply[0] != b"lapsed":
                break
            if not self._calls.store_older_than(lease_ms):
                raise Duplicate(f"agent {agent}: the last one of this name may still come back; try again in a moment")
            self.deregister(Membership(member, int(reply[1])), at_ms, member)
        if reply[0] == b"taken":
            raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
        if reply[0] == b"machine":
            raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
        self._begin_to_execute()
        return Membership(member, int(reply[1]))

    def renew(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """Renew an executor's lease and return its machine's runs; Fenced when the lease expired.

        HistoryCut, here and from `end`, `may_start` and `receive`, once the store is found to have lost versions that
        this object saw: what the executor runs may be other tasks of the cell. Register again.
        """
        values = {**membership._asdict(), "lease_ms": lease_ms, "index": "-" if machine is None else machine}
        reply = self._calls.run("renew_executor", values, member=membership.member)
        if reply[0] == b"fenced":
            raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
        self._check_whole(membership.member)
        _, agents, record, runs, version, tag, unsettled = reply
        self._calls.see(Position(int(version), tag.decode()))
        state = MachineState(records.read_row(record, len(self._calls.dimensions))[2]) if record else None
        listed = [] if machine is None else records.read_runs(machine, runs.decode())
        return Heartbeat(int(agents), state, listed, bool(unsettled))

    def _begin_to_execute(self) -> None:
        """What this object calls from now on is refused once the store lost versions that it saw."""
        self._partings = self._calls.sightings.partings

    def _check_whole(self, executor: str) -> None:
        """Raise HistoryCut when the store lost versions that this executor saw, since it registered."""
        if self._partings is None:
            return
        self._calls.compare()
        if self._partings != self._calls.sightings.partings:
            raise HistoryCut(f"{executor}: the store lost versions of cell {self._calls.name}; it registers again")

    def confirm_runs(self, executor: str) -> None:
        """Record that an executor runs only tasks that the cell lists; after a cut new tasks wait for that."""
        self._calls.run("confirm_runs", {"member": executor})

    def _bring_up(self, membership: Membership, at_ms: int) -> None:
        offline = [index for index, state in self.machines_of(membership.member) if state is MachineState.OFFLINE]
        for start in range(0, len(offline), _CHUNK):
            values = self._calls.values(at_ms, membership.member) | membership._asdict()
            chunk = [str(index) for index in offline[start : start + _CHUNK]]
            reply = self._calls.run("online", values, chunk, member=membership.member, extra=self._calls.hints())
            if reply[0] == b"fenced":
                raise Fenced(f"executor {membership.member}: its lease lapsed; its tasks go elsewhere")

    def deregister(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent.

        The machines become offline unless they are drained or down; the machine of an agent that leaves becomes gone.
        """
        # For a simulated executor as many calls as its tasks need.

        def step(word: str, machines: Sequence[int] = ()) -> bool:
            name = membership.member.partition("/")[2] if is_agent(membership.member) else "-"
            own = membership._asdict() | {"name": name, "reaped": int(reaped), "step": word}
            words = [str(index) for index in machines]
            values = self._calls.values(at_ms, by) | own | {"now": self._calls.store_ms()}
            return bool(
                self._calls.run(
                    "deregister_executor", values, words, member=membership.member, extra=self._calls.hints()
                )[1]
            )

        if is_agent(membership.member):
            return step("whole")
        if not step("begin"):
            return False
        mine = [index for index, _ in self.machines_of(membership.member)]
        held = dict.fromkeys(mine, 0)
        for run in self._machines.runs(mine):
            held[run.machine] += 1
        return all(step("part", portion) for portion in portions(mine, list(held.values()))) and step("end")

    def reap(self, at_ms: int, by: str) -> list[str]:
        """Requeue the tasks of executors with expired leases; return their names. Any process may call it.

        Not within one lease of a start of the store: after an outage every lease has expired (semantics 17).
        """
        gone = {name: record for name, record in self.records().items() if not record.lives}
        return [
            name
            for name, record in gone.items()
            if self._calls.store_older_than(record.lease_ms)
            and self.deregister(Membership(name, record.incarnation), at_ms, by)
        ]

    def records(self) -> dict[str, ExecutorRecord]:
        """Return every live executor, agents (``agent/NAME``) included, by its name."""
        known = dict(
            self._calls.readable("agents", sorted(self._calls.hash_of("agents").items()), _incarnation_and_lease)
        )
        lives = self._calls.leases(list(known))
        numbers = {
            name: self._calls.record("executors", name, int, number or 0) or 0
            for name, number in self._calls.fields("executors", list(known))
        }
        serving = dict(self._calls.fields("serving", [str(number) for number in numbers.values()]))
        said = {name: (serving.get(str(number)) or b"").decode(errors="replace") for name, number in numbers.items()}
        return {
            name: ExecutorRecord(number, known[name][0], name in lives, known[name][1], said[name].partition(" ")[2])
            for name, number in numbers.items()
        }

    def agents(self) -> dict[str, ExecutorRecord]:
        """Return every registered agent by its name."""
        return agents_of(self.records())

    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        """Return index and state of every machine of an executor, also of gone ones, by index."""
        number = self.number(executor)
        _, rows = self._calls.read_all()
        latest = {int(row[0]): row for row in rows}
        return [(index, MachineState(int(row[2]))) for index, row in sorted(latest.items()) if int(row[3]) == number]

    def report_fitness(self, membership: Membership, machines: Sequence[int], reason: str, at_ms: int) -> None:
        """Record why an executor cannot start tasks, or that it can again (""); Fenced when its lease expired.

        Those of its machines that are up are unfit meanwhile: they take no claims and keep their tasks.
        """
        values = (
            self._calls.values(at_ms, membership.member)
            | membership._asdict()
            | {"reason": plain_reason(reason) or "-"}
        )
        words = [str(index) for index in machines]
        reply = self._calls.run("unfit", values, words, member=membership.member, extra=self._calls.hints())
        if reply[0] == b"fenced":
            raise Fenced(f"executor {membership.member}: its lease lapsed; its tasks go elsewhere")

    def number(self, executor: str) -> int:
        """Return the number of an executor's mailbox; Refused when it never joined a machine."""
        number = self._calls.command(self._calls.client.hget, self._calls.prefix + "executors", executor)
        if number is None:
            raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
        if (found := self._calls.record("executors", executor, int, number)) is None:
            raise Unreadable(f"executor {executor!r}: its number {number!r} is none; restore the cell from a backup")
        return found

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""
        texts, answers = [f"{machine} {placement}" for machine, placement in asked], list[bytes]()
        for start in range(0, len(texts), AT_ONCE):
            answers += self._calls.run("start", {"dims": len(self._calls.dimensions)}, texts[start : start + AT_ONCE])
        self._check_whole("executor")
        return [answer.decode() for answer in answers]

    # Mailboxes and ends

    def end(self, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
        """End tasks; returns for each ending the number of tasks it ended."""
        # As many calls as it takes to end MOST_ENDS at a time.
        loses = type(endings) is not FinishedRuns and any(ending.how in UNPLACING for ending in endings)
        now, counts = self._calls.store_ms() if loses else 0, list[int]()
        for start in range(0, len(endings), MOST_ENDS):
            part = endings[start : start + MOST_ENDS]
            values = self._calls.values(at_ms, by) | {"now": now, "body": records.write_endings(part)}
            reply = self._send_endings(self._calls.script("end").pack_arguments(values))
            ended = list(map(int, reply[2:]))
            if any(ended):
                self._calls.see(Position(int(reply[1]), str(values["tag"])))
            counts += ended
        return counts

    def _send_endings(self, values: list[object]) -> list[Any]:
        """Call end.lua, once more after a lost reply, and again with the further keys that it requests."""
        chosen, names, link = self._calls.script("end"), self._calls.hints(), self._ends
        while True:
            try:
                self._calls.command(
                    link.send, chosen, self._calls.keys_of(chosen, "", names), values, self._calls.confirmation
                )
                reply: list[Any] = self._calls.command(link.receive)
            except Unreachable:
                self._calls.command(link.again)
                reply = self._calls.command(link.receive)
            if reply[0] != b"keys":
                return reply
            names |= self._calls.learn(reply[1:])

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages for an executor, oldest first; waits up to `wait_seconds` for the first one.

        A message stays in the store until this object calls again, which acknowledges the previous result. So a lost
        reply, and a reader that ends, lose nothing (semantics 25); another object reads unacknowledged messages again.

        ``+ placement machine job group tasks duration_ms hold`` starts tasks, ``- placement machine tasks`` ends them,
        ``!`` marks dropped messages: read everything; ``? …`` asks for output (cellstate/tasks.py). `most` is the
        number of calls whose messages are read, which come together.
        """
        lines = self.receive_lines(executor, most, wait_seconds)
        return [message for line in lines for message in records.each_message(line)]

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages as `receive` does; placements of a job that follow one another may share a line.

        ``+ job group duration_ms hold placement`` is followed by machine and tasks of each. The first has
        this placement id, each further one the next. The last message of all may have more words behind ``!``.
        """
        entries = self._read_mailbox(executor, most)
        if not entries and wait_seconds > 0:
            key = f"{self._calls.prefix}box:{executor}"
            # The first message is moved to its own place: the call only waits for it.
            if self._calls.wait_at(key, wait_seconds):
                entries = self._read_mailbox(executor, most)
        return [line for entry in entries for line in entry.decode().split("\n")]

    def _read_mailbox(self, executor: int, most: int) -> list[bytes]:
        """Remove the entries that were read last, and read the next ones; a script costs the server four times as much.

        An entry is removed by its text, and no two are alike: a command sent again removes nothing (semantics 25).
        """
        key, read = f"{self._calls.prefix}box:{executor}", self._read.get(executor, ())
        self._receipts = self._receipts + 1 if read else 0
        position = not self._receipts % SEEING_RECEIPTS
        with self._calls.client.pipeline(transaction=False) as pipe:
            pipe.hmget(f"{self._calls.prefix}meta", "rules", "version")
            for entry in read:
                pipe.lrem(key, 1, entry)  # type: ignore[arg-type]
            pipe.lrange(key, 0, most - 1)
            if position:
                pipe.lindex(f"{self._calls.prefix}changes", -1)
                pipe.hget(f"{self._calls.prefix}meta", "version")
            (rules, before), *replies = self._calls.command(pipe.execute)
        latest, version = replies[-2:] if position else (None, None)
        entries = replies[len(read)]
        self._check_messages(rules, before)
        self._check_whole("executor")
        if latest and before == version:  # else another client wrote in between
            self._calls.see(Position(int(version), latest[:10].decode()))
        self._read[executor] = entries
        return list(entries)

    def _check_messages(self, rules: bytes | None, version: bytes | None) -> None:
        """Raise CellGone, as the scripts do, when there is no such cell or it has other rules."""
        if rules != str(keys.RULES).encode():
            said = "NOCELL none" if version is None else f"RULES {int(rules or 0)}"
            raise translate(redis.ResponseError(said), self._calls.url)


def _incarnation_and_lease(record: bytes) -> tuple[int, int]:
    incarnation, _, lease_ms = record.split(b" ")
    return int(incarnation), int(lease_ms)
