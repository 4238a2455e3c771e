"""Cells on a server are created, opened, given a durability, and deleted."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Self

import redis

from omega.cellstate import keys
from omega.cellstate.addresses import safe_url
from omega.cellstate.connections import Pool
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, CellGone, NotFound, Refused, StoreError, Unreadable, Unsuitable
from omega.cellstate.override import override
from omega.cellstate.redis.calls import RedisCalls
from omega.cellstate.redis.cell_names import cells, forget, register
from omega.cellstate.redis.link import confirm
from omega.cellstate.refused_writes import following
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect, translate

# Requirements of the durability of a cell on its server: replicas that follow it, or files that are synced.

WANTED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
"""Settings of a server that syncs each write before it answers; the last one also while it rewrites its file."""


def check_replicas(facts: Mapping[str, Any], cell: str, durability: Durability) -> None:
    """Raise Refused when fewer replicas than a durability requires follow a server. `facts`: its INFO."""
    count = following(facts)
    if facts.get("role", "master") == "master" and count < durability.replicas:
        raise Refused(
            f"cell {cell}: durability {durability.text} needs {durability.replicas} connected replicas, and the store "
            f"has {count}; connect more"
        )


def syncs_each_write(connection: Any) -> bool:
    """Return whether a connection's user may read how its server syncs. Raises Unsuitable when it does otherwise."""
    try:
        settings, readable = _pairs(_asked(connection, "CONFIG", "GET", "*append*")), True
    except redis.ResponseError:  # CONFIG is forbidden to this user, or renamed
        lines = _text(_asked(connection, "INFO", "persistence")).split()
        settings, readable = {"appendonly": "yes" if "aof_enabled:1" in lines else "no"}, False
    for name, value in WANTED.items():
        if settings.get(name, value) != value:
            where = getattr(connection, "path", "") or f"{connection.host}:{connection.port}"
            raise Unsuitable(
                f"the store at {where} has {name} {settings[name]}, and the cell has durability fsync; set {name} "
                f"{value} there, or see omega cell durability"
            )
    return readable


def _asked(connection: Any, *words: str) -> Any:
    connection.send_command(*words)
    return connection.read_response()


def _pairs(reply: Any) -> dict[str, str]:
    """Return settings, which a server sends as a map (RESP3) or as a list (RESP2)."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


KEEP_JOBS = 10_000
KEEP_MS = 24 * 3600 * 1000


def check_name(name: str) -> str:
    """Return the name of a cell. Raises BadInput when it is invalid."""
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise BadInput(f"cell name {name!r}: use letters, digits, . _ -")
    if name == keys.ANY:
        raise BadInput(f"cell name {name!r}: --cell {name} stands for all cells; choose another name")
    return name


class RedisOpening(RedisCalls):
    """The existence of a cell and its settings; see `Cell` for the methods of the port."""

    @classmethod
    def create(
        cls, client: "redis.Redis", name: str, dimensions: Dimensions | None = None, *,
        keep_jobs: int = KEEP_JOBS, keep_ms: int = KEEP_MS, durability: Durability | None = None, url: str = "",
    ) -> Self:  # fmt: skip
        """Create a cell, or open one that has the same resources and durability (None: any); Refused with others.

        Refused and Unsuitable also for a durability that the server does not permit.
        """
        dimensions = dimensions or Dimensions()
        cell = cls(client, check_name(name), dimensions, url)
        resources = ",".join(dimensions.names)
        wanted = durability or Durability()
        cell._check_permitted(wanted)
        status, schema, known = cell._create(wanted, keep_jobs=keep_jobs, keep_ms=keep_ms)
        cell._check_schema(schema.encode())
        if status != "new":
            cell.check_exists()
        if status == "other":
            raise Refused(f"cell {name}: has resources {known}, not {resources}; open it without --resources")
        if status != "new" and durability is not None and cell.durability != durability:
            raise Refused(
                f"cell {name}: has durability {cell.durability.text}, not {durability.text}; change it with "
                f"omega --cell {name} cell durability {durability.text}"
            )
        cell._adopt(wanted if status == "new" else cell.durability)
        cell._command(register, client, name)
        cell._command(confirm, cell.client, name, cell.durability)
        return cell

    def _create(
        self, durability: Durability, *, keep_jobs: int = 0, keep_ms: int = 0, change: bool = False
    ) -> list[str]:
        """Create the cell, or change the durability of an existing one; return the words of create.lua."""
        values = {
            "schema": keys.SCHEMA, "rules": keys.RULES, "resources": ",".join(self.dimensions.names),
            "keep_jobs": keep_jobs, "keep_ms": keep_ms, "change": int(change),
            "durability": durability.text if durability != Durability() else "",
        }  # fmt: skip
        return [word.decode() for word in self._run("create", values)]

    def _check_permitted(self, durability: Durability) -> None:
        """Raise Refused or Unsuitable when the server does not permit a durability."""
        if durability.replicas:
            check_replicas(self._command(self.client.info), self.name, durability)
        if durability.fsync:
            self._require_fsync(durability)

    def _require_fsync(self, durability: Durability) -> None:
        """Let each new connection check how the server syncs, if the durability needs it, from the next one on."""
        if isinstance(pool := self.client.connection_pool, Pool) and durability.fsync != (pool.requirement is not None):
            pool.require(self._check_connection if durability.fsync else None)
            self._command(self.client.ping)

    def _check_connection(self, connection: Any) -> None:
        self.unchecked = not syncs_each_write(connection)

    @override
    def set_durability(self, durability: Durability) -> None:
        self._check_permitted(durability)
        self._create(durability, change=True)
        self.check_exists()
        self._command(confirm, self.client, self.name, durability)

    @classmethod
    def open(cls, client: "redis.Redis", name: str, url: str = "", *, any_schema: bool = False) -> Self:
        """Open a cell; Refused when there is none, Unsuitable when an Omega of another schema wrote it.

        With `any_schema` it is opened all the same, to be counted and deleted. Raises BadInput for an invalid name: its
        keys might have no slot in common.
        """
        cell = cls(client, check_name(name), Dimensions(), url)
        cell.dimensions = Dimensions(tuple(cell.check_exists(any_schema=any_schema).split(",")))
        return cell

    def check_exists(self, *, any_schema: bool = False) -> str:
        """Return the names of its resources; NotFound when there is no such cell, Unsuitable as in `open`."""
        names = ("schema", "rules", "resources", "durability")
        schema, rules, resources, durability = self._command(self.client.hmget, self._prefix + "meta", names)
        if schema is None:
            there = self._others()
            where = f"unknown cell {self.name!r} on {safe_url(self.url)}; it has: {there}{self._unread()}"
            raise NotFound(f"{where}; make one with omega cell create {self.name}")
        if not any_schema:
            self._check_schema(schema)
            if (had := self._number("rules", rules)) != keys.RULES:
                raise Unsuitable(f"cell {self.name} {keys.other_rules(had)}")
        if resources is None:
            raise Unreadable(f"cell {self.name}: names no resources; restore it from a backup")
        self._adopt(self._read_durability(durability))
        if not any_schema:
            self._require_fsync(self.durability)
        return str(resources.decode(errors="replace"))

    def _read_durability(self, text: bytes | None) -> Durability:
        try:
            return Durability.parse((text or b"none").decode(errors="replace"))
        except BadInput as error:
            raise Unreadable(f"cell {self.name}: {error}; set it with omega cell durability") from error

    def _others(self) -> str:
        """Return the names of the cells on the store, for a message; a user of one cell may not read them."""
        try:
            return ", ".join(self._command(cells, self.client)) or "none"
        except StoreError:
            return "cells that this user may not list"

    def _unread(self) -> str:
        """Say that the store has cells of a development version, which this one does not read; "" without them."""
        try:
            if not self._command(self.client.exists, keys.UNREAD):
                return ""
        except StoreError:
            return ""
        delete = "valkey-cli --scan --pattern 'omega:{*' | xargs valkey-cli unlink omega:cells"
        return f", and cells that a version before schema 1 wrote, which this one does not read (delete them: {delete})"

    def check_there(self) -> None:
        """Raise CellGone, for which processes wait, when there is no such cell now, or one with other resources.

        Connections are opened anew: where the address leads to another server now, all calls go there from now on.
        """
        if isinstance(pool := self.client.connection_pool, Pool):
            pool.open_anew()
        try:
            resources = self.check_exists()
        except (Refused, Unsuitable) as error:
            raise CellGone(str(error)) from error
        if resources != ",".join(self.dimensions.names):
            raise CellGone(f"cell {self.name}: has other resources now, {resources}; restart this process")

    @classmethod
    def connect(
        cls, url: str, name: str, *, timeout: float | None = 5.0, any_schema: bool = False, patient: bool = True
    ) -> Self:  # fmt: skip
        """Open the cell `name` on the store at `url`; see `open`, and for `patient` `server.connect`."""
        client = connect(url, timeout=timeout, patient=patient)
        try:
            return cls.open(client, name, url, any_schema=any_schema)
        except BaseException:
            client.close()
            raise

    def _check_schema(self, word: bytes | None) -> None:
        if (schema := self._number("schema", word)) != keys.SCHEMA:
            raise Unsuitable(f"cell {self.name}: {keys.other_schema(schema)}, or name another cell with --cell")

    def _number(self, name: str, word: bytes | None) -> int:
        """Read a number of ``meta``, which a cell of a development version may lack."""
        text = (word or b"0").decode(errors="replace")
        if not text.isdecimal():
            raise Unreadable(f"cell {self.name}: its {name} {text!r} is no number; restore it from a backup")
        return int(text)

    def upgrade(self) -> int:
        """Give the cell the rules of this Omega once no member lives; return the number that it had.

        A member has the rules that its cell has: scripts of others refuse to register it. Raises Refused with the names
        of those that live, or when one registers meanwhile; Unsuitable for a cell of another schema, or with
        newer rules or none.
        """
        meta, *records = (self._prefix + name for name in ("meta", "schedulers", "agents"))
        with self.client.pipeline(transaction=True) as pipe:
            self._command(pipe.watch, meta, *records)
            schema, rules, durability = self._command(pipe.hmget, meta, "schema", "rules", "durability")
            self._check_schema(schema)
            if not keys.FIRST_RULES <= (had := self._number("rules", rules)) <= keys.RULES:
                raise Unsuitable(f"cell {self.name} {keys.other_rules(had)}")
            members = sorted(name.decode() for record in records for name in self._command(pipe.hkeys, record))
            live = [name for name in members if self._command(pipe.exists, f"{self._prefix}lease:{name}")]
            if had < keys.RULES and live:
                what = f"cell {self.name} has rules number {had}, and {', '.join(live)} still run with them"
                raise Refused(f"{what}; stop them (the lease of a killed one expires after some seconds)")
            pipe.multi()
            pipe.hset(meta, "rules", str(keys.RULES))
            try:
                pipe.execute()
            except redis.WatchError as error:
                raise Refused(f"cell {self.name}: a process registered or left meanwhile; try again") from error
            except (redis.RedisError, OSError) as error:
                raise translate(error, self.url) from error
        self._command(confirm, self.client, self.name, self._read_durability(durability))
        return had

    def delete(self) -> None:
        """Delete the cell with all its keys, a few hundred at a time."""
        self._command(forget, self.client, self.name)
        scan = self.client.scan_iter(match=self._prefix.replace("[", "\\[") + "*", count=500)
        while chunk := self._command(list, islice(scan, 500)):
            self._command(self.client.unlink, *chunk)
        self._command(confirm, self.client, self.name, self.durability, gone=True)
