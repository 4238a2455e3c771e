"""A cell on a server: its connection, existence and settings, and its parts."""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from omega.cellstate import keys
from omega.cellstate.addresses import safe_url
from omega.cellstate.connections import Pool
from omega.cellstate.durability import Durability
from omega.cellstate.errors import (
    BadInput,
    CellGone,
    NotFound,
    Refused,
    StoreError,
    Unreachable,
    Unreadable,
    Unsuitable,
)
from omega.cellstate.keys import ROLES
from omega.cellstate.lanes import Lane
from omega.cellstate.model import Limits
from omega.cellstate.pages import (
    DELAYED,
    OVER,
    TOTALS,
    CellSums,
    LaneSum,
    Shape,
    job_states,
    task_counts,
)
from omega.cellstate.redis import records
from omega.cellstate.redis.calls import Connection, load_scripts
from omega.cellstate.redis.cell_names import cells, forget, register
from omega.cellstate.redis.digest import RedisDigest
from omega.cellstate.redis.executors import RedisExecutors
from omega.cellstate.redis.jobs import RedisJobs
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.log import RedisLog
from omega.cellstate.redis.machines import RedisMachines
from omega.cellstate.redis.pools import RedisPools
from omega.cellstate.redis.schedulers import RedisSchedulers
from omega.cellstate.redis.scripts import Script, script
from omega.cellstate.redis.shards import RedisShards
from omega.cellstate.redis.tasks import RedisTasks
from omega.cellstate.refused_writes import StoreState, following, store_state
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect, info_of, translate

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools
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


LaneNumbers = tuple[Lane, tuple[int, ...]]


class RedisCell(Connection):
    """A cell on a server: operations by subject are in its parts. One object serves one thread.

    Times are milliseconds of the caller's clock; a cell has no clock except for the expiry of leases. `by` is the
    author of a change, for the log.
    """

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Use `create`, `open` or `connect` instead."""
        super().__init__(client, name, dimensions, url)
        self.pools = RedisPools(self)
        self.machines = RedisMachines(self, self.pools)
        self.jobs = RedisJobs(self, self.machines)
        self.executors = RedisExecutors(self, self.machines)
        self.tasks = RedisTasks(self)
        self.schedulers = RedisSchedulers(self, self.jobs)
        self.shards = RedisShards(self)
        self.log = RedisLog(self, self.jobs, self.machines, self.pools)
        self.digest = RedisDigest(self)

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
        cell.command(register, client, name)
        cell.command(confirm, cell.client, name, cell.durability)
        return cell

    @classmethod
    def open(cls, client: "redis.Redis", name: str, url: str = "", *, any_schema: bool = False) -> Self:
        """Open a cell; Refused when there is none, Unsuitable when an Omega of another schema wrote it.

        With `any_schema` it is opened all the same, to be counted and deleted. Raises BadInput for an invalid name: its
        keys might have no slot in common.
        """
        cell = cls(client, check_name(name), Dimensions(), url)
        cell.dimensions = Dimensions(tuple(cell.check_exists(any_schema=any_schema).split(",")))
        return cell

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

    def check_exists(self, *, any_schema: bool = False) -> str:
        """Return the names of its resources; Refused when there is no such cell (any more), Unsuitable as in `open`."""
        names = ("schema", "rules", "resources", "durability")
        schema, rules, resources, durability = self.command(self.client.hmget, self.prefix + "meta", names)
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

    def close(self) -> None:
        """Close the connections."""
        self.schedulers.close()
        self.executors.close()
        self.client.close()

    def _forget_versions(self) -> None:
        self.pools.forget_versions()

    # Existence, schema and durability

    def _create(
        self, durability: Durability, *, keep_jobs: int = 0, keep_ms: int = 0, change: bool = False
    ) -> list[str]:
        """Create the cell, or change the durability of an existing one; return the words of create.lua."""
        values = {
            "schema": keys.SCHEMA, "rules": keys.RULES, "resources": ",".join(self.dimensions.names),
            "keep_jobs": keep_jobs, "keep_ms": keep_ms, "change": int(change),
            "durability": durability.text if durability != Durability() else "",
        }  # fmt: skip
        return [word.decode() for word in self.run("create", values)]

    def _check_permitted(self, durability: Durability) -> None:
        """Raise Refused or Unsuitable when the server does not permit a durability."""
        if durability.replicas:
            check_replicas(self.command(self.client.info), self.name, durability)
        if durability.fsync:
            self._require_fsync(durability)

    def _require_fsync(self, durability: Durability) -> None:
        """Let each new connection check how the server syncs, if the durability needs it, from the next one on."""
        if isinstance(pool := self.client.connection_pool, Pool) and durability.fsync != (pool.requirement is not None):
            pool.require(self._check_connection if durability.fsync else None)
            self.command(self.client.ping)

    def _check_connection(self, connection: Any) -> None:
        self.unchecked = not syncs_each_write(connection)

    def set_durability(self, durability: Durability) -> None:
        """Change what a change needs before it is acknowledged; processes that have the cell open keep the old one.

        Raises Refused when too few replicas are connected, Unsuitable when the server does not sync as required.
        """
        self._check_permitted(durability)
        self._create(durability, change=True)
        self.check_exists()
        self.command(confirm, self.client, self.name, durability)

    def _read_durability(self, text: bytes | None) -> Durability:
        try:
            return Durability.parse((text or b"none").decode(errors="replace"))
        except BadInput as error:
            raise Unreadable(f"cell {self.name}: {error}; set it with omega cell durability") from error

    def _others(self) -> str:
        """Return the names of the cells on the store, for a message; a user of one cell may not read them."""
        try:
            return ", ".join(self.command(cells, self.client)) or "none"
        except StoreError:
            return "cells that this user may not list"

    def _unread(self) -> str:
        """Say that the store has cells of a development version, which this one does not read; "" without them."""
        try:
            if not self.command(self.client.exists, keys.UNREAD):
                return ""
        except StoreError:
            return ""
        delete = "valkey-cli --scan --pattern 'omega:{*' | xargs valkey-cli unlink omega:cells"
        return f", and cells that a version before schema 1 wrote, which this one does not read (delete them: {delete})"

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
        meta, *records = (self.prefix + name for name in ("meta", "schedulers", "agents"))
        with self.client.pipeline(transaction=True) as pipe:
            self.command(pipe.watch, meta, *records)
            schema, rules, durability = self.command(pipe.hmget, meta, "schema", "rules", "durability")
            self._check_schema(schema)
            if not keys.FIRST_RULES <= (had := self._number("rules", rules)) <= keys.RULES:
                raise Unsuitable(f"cell {self.name} {keys.other_rules(had)}")
            members = sorted(name.decode() for record in records for name in self.command(pipe.hkeys, record))
            live = [name for name in members if self.command(pipe.exists, f"{self.prefix}lease:{name}")]
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
        self.command(confirm, self.client, self.name, self._read_durability(durability))
        return had

    def delete(self) -> None:
        """Remove the cell and everything in it, a few hundred keys at a time."""
        self.command(forget, self.client, self.name)
        scan = self.client.scan_iter(match=self.prefix.replace("[", "\\[") + "*", count=500)
        while chunk := self.command(list, islice(scan, 500)):
            self.command(self.client.unlink, *chunk)
        self.command(confirm, self.client, self.name, self.durability, gone=True)

    # The server

    def account(self) -> str:
        """Return the connection's user of the server if it belongs to a person; "" for the default and for roles."""
        try:
            name: bytes | str = self.command(self.client.execute_command, "ACL WHOAMI")
        except Unreachable:
            raise
        except StoreError:
            return ""  # the user has no permission
        user = name if isinstance(name, str) else name.decode()  # redis-py decodes it with RESP2
        return "" if user in ("default", *(f"omega-{role}" for role in ROLES)) else user

    def store_run(self) -> str:
        """Return the id of the server's run; another run may have less data (semantics 16)."""
        return str(self.command(self.client.info, "server").get("run_id", ""))

    def refuses_writes(self) -> str:
        """Return why the server refuses writes, with the remedy; empty when it does not."""
        return self.store_state().refuses

    def store_state(self) -> StoreState:
        """Return the replicas and the memory of the server, and why it refuses writes."""
        return store_state(self.command(info_of, self.client), self.durability.replicas)

    # The cell as a whole

    def sums(self) -> CellSums:
        """Return sums over all machines and jobs, of one version; the store keeps them."""
        prefix, size = self.prefix, len(self.dimensions)
        with self.client.pipeline() as pipe:  # one transaction: all of one version
            pipe.hmget(prefix + "meta", "version", *sorted(TOTALS))
            pipe.hgetall(prefix + "shapes")
            pipe.hgetall(prefix + "lanes")
            pipe.hlen(prefix + "jobs")
            counters, shapes, lanes, stored = self.command(pipe.execute)
        version, *values = (int(value or 0) for value in counters)
        totals = dict(zip(sorted(TOTALS), values, strict=True))
        over = shapes.pop(OVER.encode(), b"").decode().split()
        lanes.pop(b"spare", None)
        known = [each for _, each in self.readable("lanes", lanes.items(), _lane, size)]
        together, pending = sum_of_lanes(known, size)
        return CellSums(
            version=version,
            shapes={Shape.named(field.decode()): int(count) for field, count in shapes.items()},
            over=self._over(over),
            jobs=job_states(totals, together),
            stored=int(stored),
            tasks=task_counts(totals, together.placed),
            delayed=totals[DELAYED],
            wanted=together.wanted,
            held=together.held,
            pending=pending,
        )

    def _over(self, indices: Iterable[str]) -> int:
        """Return how many of these machines hold more than they have."""
        size, count = len(self.dimensions), 0
        for index, row in self.fields("machines", list(indices)):
            for whole in self.whole_rows({index.encode(): row}, records.row_bytes(size)) if row else ():
                amounts = records.read_row(whole, size)[4:]
                count += any(used > has for has, used in zip(amounts[:size], amounts[size:], strict=True))
        return count


def _lane(record: bytes, size: int) -> LaneNumbers:
    *_, lane = records.lane_row(record, size)
    return lane, struct.unpack(f"<{7 + 2 * size}q", record[: 8 * (7 + 2 * size)])


def sum_of_lanes(lanes: Iterable[LaneNumbers], size: int) -> tuple[LaneSum, Mapping[str, int]]:
    """Return what lanes count together, and the number of pending jobs of each kind."""
    sums, pending = [0] * (3 + 2 * size), Counter[str]()
    for lane, numbers in lanes:
        sums = list(map(int.__add__, sums, numbers[4:]))
        pending[lane.kind] += numbers[2]
    *amounts, live, placed, running = sums
    together = LaneSum(live, running, placed, tuple(amounts[:size]), tuple(amounts[size:]))
    return together, {kind: count for kind, count in sorted(pending.items()) if count}


# Creation of a cell with the settings of another one, in one transaction.

ATTEMPTS = 40
"""Transactions that are tried, within some 10 s, while the slot of the cell moves or no server is its primary."""


@dataclass(frozen=True, slots=True)
class CellSettings:
    """What a person chose for a cell: `meta` has the fields `keys.SETTINGS`, `limits` are those of kinds."""

    meta: Mapping[str, bytes]
    limits: "Mapping[str, Limits]"
    pools: "Pools"

    def differs(self, other: "CellSettings") -> list[str]:
        """Return the names of the settings that are not equal."""
        fields = sorted(
            name for name in self.meta.keys() | other.meta.keys() if self.meta.get(name) != other.meta.get(name)
        )
        fields += ["limits"] if self.limits != other.limits else []
        return fields + (["pools"] if _plain(self.pools) != _plain(other.pools) else [])


def _plain(pools: "Pools") -> object:
    """Return pools without the numbers that a store gives them."""
    return {pool.name: replace(pool, number=0) for pool in pools.pools}, pools.trees


class CellByLikeness(RedisCell):
    """A cell that is read for its settings, or created with those of another one."""

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Collect no calls yet."""
        super().__init__(client, name, dimensions, url)
        self._collected: list[tuple[Script, list[object]]] | None = None

    def settings(self) -> CellSettings:
        """Return the settings, all of one version. Raises Refused, Unsuitable, Unreadable."""
        self.dimensions = Dimensions(tuple(self.check_exists().split(",")))
        names = sorted(keys.SETTINGS)
        with self.client.pipeline(transaction=True) as pipe:
            pipe.hmget(self.prefix + "meta", names)
            pipe.hgetall(self.prefix + "kinds")
            pipe.hgetall(self.prefix + "pools")
            values, kinds, pools = self.command(pipe.execute)
        limits = {kind: use.limits for kind, use in self.pools.read_kinds(kinds.items()).items()}
        if self.unreadable:
            (key, field), why = next(iter(self.unreadable.items()))
            raise Unreadable(f"cell {self.name}: its {key} {field!r} cannot be read ({why}); set it again")
        meta = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return CellSettings(meta, limits, self.pools.read({name.decode(): value for name, value in pools.items()}))

    def create_with(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        """Create the cell; return whether it is new. Refused when it exists with other settings.

        Another client sees the whole cell or none, also after an interruption.
        """
        self.dimensions = Dimensions(tuple(settings.meta["resources"].decode().split(",")))
        durability = self._read_durability(settings.meta.get("durability"))
        self._check_permitted(durability)
        new = bool(self.command(self._make, settings, at_ms, by))
        if not new and (other := self.settings().differs(settings)):
            raise Refused(f"cell {self.name}: exists with other {', '.join(other)}; choose another name")
        self._adopt(durability)
        self.command(register, self.client, self.name)
        self.command(confirm, self.client, self.name, durability)
        return new

    def _make(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        retry = Retry(
            ExponentialWithJitterBackoff(cap=0.5, base=0.01), ATTEMPTS, (redis.ConnectionError, redis.WatchError)
        )
        return bool(retry.call_with_retry(lambda: self._try(settings, at_ms, by), lambda _: None))

    def _try(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        meta = self.prefix + "meta"
        pipe: Any = self.client.pipeline(transaction=True)
        with pipe:
            pipe.watch(meta)
            if pipe.exists(meta):
                return False
            calls = self._calls(settings, at_ms, by)
            load_scripts(self.client, *(each for each, _ in calls))  # a missing one would leave out its part
            pipe.multi()
            first, *rest = calls
            _queue(pipe, [first])
            pipe.hset(meta, mapping=settings.meta)
            _queue(pipe, rest)
            try:
                pipe.execute()
            except redis.ResponseError as error:
                self.delete()
                raise translate(error, self.url) from error
        return True

    def _calls(self, settings: CellSettings, at_ms: int, by: str) -> list[tuple[Script, list[object]]]:
        """Return the calls of scripts, with keys and arguments, that make an empty cell have these settings."""
        self._collected = []
        try:
            known = {name: value.decode() for name, value in settings.meta.items()}
            self.run("create", {"schema": keys.SCHEMA, "rules": keys.RULES, "durability": "", **known, "change": 0})
            for kind, limits in settings.limits.items():
                self.pools.set_limits(kind, limits, at_ms, by)
            self.pools.set(settings.pools, None, at_ms, by)
            return self._collected
        finally:
            self._collected = None

    def run(
        self, name: str, values: Mapping[str, object], rest: Sequence[object] = (), *, member: str = "",
        extra: Iterable[str] = (), own: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        if self._collected is None:
            return super().run(name, values, rest, member=member, extra=extra, own=own)
        chosen = script(name)
        keys_of = self.keys_of(chosen, member, extra, own)
        self._collected.append((chosen, [len(keys_of), *keys_of, *chosen.pack_arguments(values, rest)]))
        return [b"ok", b"0"]


def _queue(pipe: Any, calls: Iterable[tuple[Script, list[object]]]) -> None:
    for chosen, words in calls:
        pipe.execute_command("EVALSHA", chosen.sha, *words)


def create_like(url: str, name: str, at_ms: int, by: str, *, like: str) -> tuple[RedisCell, bool]:
    """Create a cell with the settings of another one; return it, and whether it is new.

    Raises Refused when there is no such cell, or the new one exists with other settings; Unsuitable for a cell of
    another schema.
    """
    client = connect(url)
    try:
        check_name(name)
        settings = CellByLikeness(client, like, Dimensions(), url).settings()
        cell = CellByLikeness(client, name, Dimensions(), url)
        return cell, cell.create_with(settings, at_ms, by)
    except BaseException:
        client.close()
        raise
