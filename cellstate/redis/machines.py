"""Machines on a server join, change and leave; ``lua/join.lua``, ``lua/machine.lua`` and ``lua/describe.lua``."""

from collections.abc import Mapping, Sequence
from typing import Any

from omega.cellstate.errors import Refused
from omega.cellstate.logged_settings import attributes_text
from omega.cellstate.machine_settings import MachineSettings
from omega.cellstate.model import MachineSpec, MachineState, check_state, merged
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.executors import RedisExecutors
from omega.cellstate.refusals import busy, excess

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
