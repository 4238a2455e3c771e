"""Messages of executors and the ends of tasks."""

from collections.abc import Sequence
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.errors import Unreachable
from omega.cellstate.model import MOST_ENDS
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.executors import RedisExecutors
from omega.cellstate.redis.link import BulkStrings, Link
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.task_ends import UNPLACING, FinishedRuns, TaskEnd
from omega.cellstate.transaction import Position

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
            values = self._values(at_ms, by) | {"now": now}
            reply = self._send_endings(self._script("end").pack_arguments(values), records.write_endings(part))
            ended = list(map(int, reply[2:]))
            if any(ended):
                self._see(Position(int(reply[1]), str(values["tag"])))
            counts += ended
        return counts

    def _send_endings(self, values: list[object], packed: BulkStrings) -> list[Any]:
        """Call end.lua, once more after a lost reply, and again with the further keys that it requests."""
        chosen, names, link = self._script("end"), self._hints(), self._ends
        while True:
            try:
                self._command(link.send, chosen, self._keys(chosen, "", names), values, packed, self._confirmation)
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
            pipe.hmget(f"{self._prefix}meta", "schema", "version")
            for entry in read:
                pipe.lrem(key, 1, entry)  # type: ignore[arg-type]
            pipe.lrange(key, 0, most - 1)
            if position:
                pipe.lindex(f"{self._prefix}changes", -1)
                pipe.hget(f"{self._prefix}meta", "version")
            (schema, before), *replies = self._command(pipe.execute)
        latest, version = replies[-2:] if position else (None, None)
        entries = replies[len(read)]
        self._check_messages(schema)
        self._check_whole("executor")
        if latest and before == version:  # else another client wrote in between
            self._see(Position(int(version), latest[:10].decode()))
        self._read[executor] = entries
        return list(entries)

    def _check_messages(self, schema: bytes | None) -> None:
        """Raise CellGone, as the scripts do, when there is no such cell or another version of Omega wrote it."""
        if schema != str(keys.SCHEMA).encode():
            raise translate(redis.ResponseError("NOCELL none" if schema is None else "SCHEMA another"), self.url)
