"""Machines of a cell on a server: read, joined, changed, assigned to pool trees."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from omega.cellstate.errors import (
    Refused,
)
from omega.cellstate.logged_settings import attributes_text
from omega.cellstate.model import (
    Described,
    Machine,
    MachineSettings,
    MachineSpec,
    MachineState,
    Run,
    busy,
    check_state,
    excess,
    merged,
)
from omega.cellstate.redis import records
from omega.cellstate.redis.calls import Connection
from omega.cellstate.redis.link import confirmed
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.pools import RedisPools

_CHUNK = 10_000
"""Approximate number of names of machines per chunk of a scan."""
_PAGE_CHUNK = 5_000
"""Machines per read: a few milliseconds of the server's time."""
_JOIN_CHUNK = 1_000


class RedisMachines(Part):
    """Machines, the runs on them, and what operators set of them."""

    def __init__(self, calls: Connection, pools: RedisPools) -> None:
        """Use the connection of the cell and other parts of it."""
        super().__init__(calls)
        self._pools = pools

    def all(self) -> list[Machine]:
        """Return every machine that is not gone, by index."""
        rows, _ = records.apart(self._calls.read_all()[1])
        latest = {int(row[0]): row for row in rows}
        static = self._calls.hash_of("static")
        size, machines = len(self._calls.dimensions), []
        for i, row in sorted(latest.items()):
            text = static.get(str(i).encode(), b"")
            machine = self._calls.record("static", str(i), records.read_machine, row, text, size)
            if machine is not None and machine.state is not MachineState.GONE:
                machines.append(machine)
        return machines

    def at(self, indices: Sequence[int]) -> list[Machine]:
        """Return the machines of these indices, in their order, without those that are gone or never existed."""
        size, machines = len(self._calls.dimensions), []
        rows, statics = (
            self._calls.fields("machines", indices, _PAGE_CHUNK),
            self._calls.fields("static", indices, _PAGE_CHUNK),
        )
        for (index, row), (_, static) in zip(rows, statics, strict=True):
            for whole in self._calls.whole_rows({b"%d" % index: row}, records.row_bytes(size)) if row else ():
                values = records.read_row(whole, size)
                machine = self._calls.record("static", str(index), records.read_machine, values, static or b"", size)
                if machine is not None and machine.state is not MachineState.GONE:
                    machines.append(machine)
        return machines

    def described(self, indices: Sequence[int]) -> list[Described]:
        """Return names and attributes of the given machines, also of gone ones; empty for those that never existed."""
        return [
            self._calls.record("static", str(index), records.read_described, static or b"") or ("", ())
            for index, static in self._calls.fields("static", indices)
        ]

    def count(self) -> int:
        """Return the number of machines that ever joined."""
        return int(self._calls.command(self._calls.client.hlen, self._calls.prefix + "names"))

    def index_of(self, name: str) -> int | None:
        """Return the index of a machine by its name."""
        index = self._calls.command(self._calls.client.hget, self._calls.prefix + "names", name)
        return None if index is None else int(index)

    def indices(self, names: Sequence[str]) -> dict[str, int]:
        """Return the indices of machines by name, also of gone ones; unknown names are left out."""
        return {name: int(index) for name, index in self._calls.fields("names", names) if index is not None}

    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        """Return the indices of at most `most` machines whose names begin so, also of gone ones; scans all names."""
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", prefix) + "*"
        scan = self._calls.client.hscan_iter(self._calls.prefix + "names", match=pattern, count=_CHUNK)
        return sorted(int(index) for _, index in self._calls.command(list, islice(scan, most)))

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """Return the runs on the given machines."""
        return [run for index, text in self._calls.fields("runs", indices) if text for run in self.runs_of(index, text)]

    def runs_of(self, index: int, text: bytes) -> list[Run]:
        return self._calls.record("runs", str(index), lambda: records.read_runs(index, text.decode())) or []

    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        """Return what operators set of machines."""
        return [self._settings(record or b"") for _, record in self._calls.fields("operator", indices)]

    def _settings(self, record: bytes) -> MachineSettings:
        """Read what operators set of a machine; an unreadable record is nothing, and is replaced (semantics 37)."""
        try:
            settings = records.read_settings(record)
        except records.UNREADABLE:
            return MachineSettings()
        fits = len(settings.amounts) in (0, len(self._calls.dimensions))
        return settings if fits else MachineSettings(attributes=settings.attributes)

    # Deadlines of drained machines

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        """Set the time (ms from now) at which a drained machine's tasks are evicted; None removes it."""
        if self._calls.dry:
            return
        key, until = (
            self._calls.prefix + "drains",
            None if milliseconds is None else self._calls.store_ms() + milliseconds,
        )
        call = ("HDEL", key, machine) if until is None else ("HSET", key, machine, until)
        self._calls.command(confirmed, self._calls.client, self._calls.confirmation, *call)

    def deadlines(self) -> dict[int, int]:
        """Return the drained machines with a deadline for their tasks, and milliseconds until it; below 0 when past."""
        drains = self._calls.hash_of("drains")
        now = self._calls.store_ms() if drains else 0
        untils = self._calls.readable("drains", drains.items(), int)
        return {int(machine): until - now for machine, until in untils if machine.isdecimal()}

    # Changes

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """Add machines, or bring them back; returns their indices.

        They are up when their executor lives, else offline. Refused while one has tasks of another executor. A machine
        that came back with other attributes may be in another pool tree, as after `set_machine_attributes`.
        What operators set of a machine stays: its state, amounts and attributes (semantics 36).
        """
        for machine in machines:
            self._calls.check_amounts(f"machine {machine.name}", machine.capacity)
        indices: list[int] = []
        for start in range(0, len(machines), _JOIN_CHUNK):
            chunk = machines[start : start + _JOIN_CHUNK]
            values, settings = {**self._calls.values(at_ms, executor), "executor": executor}, dict[str, bytes]()
            while True:  # until the settings of operators are those that the store has
                joining = [self._joining(machine, settings.get(machine.name, b"")) for machine in chunk]
                values["attributes"] = attributes_text((name, given) for name, _, given, _ in joining if given)
                rest = [
                    word for name, amounts, given, record in joining
                    for word in (f"{name} {amounts}", records.pack(given), record)
                ]  # fmt: skip
                reply = self._calls.run(
                    "join", values, rest, extra=self._calls.known_keys.get("box", set()) | self._calls.wakes()
                )
                if reply[0] != b"set":
                    break
                settings |= {name.decode(): record for name, record in zip(reply[1::2], reply[2::2], strict=True)}
            if reply[0] == b"busy":
                raise busy(reply[1].decode())
            self._refuse_excess(reply)
            indices += [int(index) for index in reply[3:]]
        self._pools.assign_trees(at_ms, executor)
        return indices

    def _joining(self, machine: MachineSpec, record: bytes) -> tuple[str, str, Mapping[str, str], bytes]:
        """Return name, amounts and attributes of a machine that joins, except for what operators set; and `record`."""
        amounts, attributes = self._settings(record).applied(machine.capacity, machine.attributes)
        return machine.name, " ".join(map(str, amounts)), attributes, record

    def _refuse_excess(self, reply: Sequence[Any]) -> None:
        if reply[0] == b"sum":
            raise excess(self._calls.name, self._calls.dimensions.names[int(reply[1]) - 1])

    def set_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the number of requeued tasks.

        When a machine is set down or removed, its tasks are pending again at once. While its executor lives they are
        also leaving, until it acknowledges their end or its lease expires (semantics 23). Setting a machine up makes it
        offline while its executor does not live. BadInput for `OFFLINE`.
        """
        return self._change(index, "state", str(int(check_state(state))), at_ms, by)

    def set_capacity(
        self, index: int, capacity: Sequence[int | None], at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over.

        None leaves an amount unchanged. The amounts given outlive the machine's executor (semantics 36).
        """
        self._calls.check_amounts(f"machine {index}", [amount or 0 for amount in capacity])
        words = [
            *("-" if amount is None else str(amount) for amount in capacity),
            *(f"{placement}*{count}" for placement, count in evict),
        ]
        return self._change(index, "capacity", " ".join(words), at_ms, by)

    def set_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Change attributes of a machine; None removes one. Refused when there is no such machine.

        The change outlives the machine's executor (semantics 36).

        Where this moves the machine to another pool tree, the tasks of other trees on it are evicted.
        """
        # Compare-and-set: concurrent changes are kept.
        while True:
            before = self._calls.command(self._calls.client.hget, self._calls.prefix + "static", str(index)) or b""
            name, _, packed = before.partition(b"\n")
            after = merged(records.unpack(packed), changes)
            _, _, own = (
                self._calls.command(self._calls.client.hget, self._calls.prefix + "operator", str(index)) or b""
            ).partition(b"\n")
            words = {"before": before, "after": name + b"\n" + records.pack(after), "count": len(after)}
            kept = self._settings(b"\n" + own).attributes
            words |= {"set_before": own, "set_after": records.pack({**kept, **changes})}
            words["settings"] = attributes_text([(name.decode(), after)])
            values = {**self._calls.values(at_ms, by), "index": index, **words}
            reply = self._calls.run("describe", values, extra=self._calls.wakes())
            if reply[0] == b"unknown":
                raise Refused(f"machine {index}: not in cell {self._calls.name}; see omega machine list")
            if reply[0] == b"ok":
                self._pools.assign_trees(at_ms, by)
                return

    def _change(self, index: int, action: str, change: str, at_ms: int, by: str) -> int:
        takes_off = action == "capacity" or int(change) >= MachineState.DOWN
        values = {**self._calls.values(at_ms, by), "index": index, "action": action, "change": change}
        values["now"] = self._calls.store_ms() if takes_off else 0
        reply = self._calls.run("machine", values, extra=self._calls.hints())
        if reply[0] == b"unknown":
            raise Refused(f"machine {index}: not in cell {self._calls.name}; see omega machine list")
        self._refuse_excess(reply)
        if reply[0] == b"over":
            raise Refused(f"machine {index}: holds more than the new capacity; name evictions or drain it first")
        return int(reply[2])
