"""Executors on a server: their names and leases, and the state of their machines."""

from collections.abc import Sequence

from omega.cellstate.errors import Duplicate, Fenced, HistoryCut
from omega.cellstate.executors import ExecutorRecord, agents_of, is_agent, portions
from omega.cellstate.incarnations import check_executor, check_nonce
from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.plain_text import plain_reason
from omega.cellstate.redis.reads import RedisReads
from omega.cellstate.replies import Membership

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
