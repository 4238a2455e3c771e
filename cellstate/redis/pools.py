"""Pools of a cell on a server: their settings and what those that carry limits hold; limits on kinds of jobs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import redis

from omega.cellstate.errors import Unreadable
from omega.cellstate.executors import portions
from omega.cellstate.job_demands import Demands, JobDemand, asked_by_leaves
from omega.cellstate.lanes import Lane
from omega.cellstate.logged_settings import pools_text
from omega.cellstate.model import (
    JobState,
    Limits,
    check_author,
    check_word,
    jobs_in_pool,
    pools_overtaken,
)
from omega.cellstate.redis import records
from omega.cellstate.redis.calls import Connection, with_scripts
from omega.cellstate.redis.job_records import MODIFIED_AT, decode
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.scripts import Script, script
from omega.cellstate.replies import (
    EpochMark,
    KindUse,
    Reply,
)
from omega.cellstate.resources import LARGEST
from omega.cellstate.schema import COPIES, REPLACED
from omega.cellstate.server import translate
from omega.cellstate.transaction import Position

if TYPE_CHECKING:
    from omega.cellstate.pools import Epoch, Pool, Pools
    from omega.cellstate.pools.records import PoolUse


_Demanded = dict[bytes, tuple[bytes, JobDemand | None]]
"""The records of jobs, with the demands read from them."""

# The modules of pools are imported where they are used: most commands of a cell need none of them.


class RedisPools(Part):
    """Pools, their published shares, and limits on kinds of jobs."""

    def __init__(self, calls: Connection) -> None:
        """Use the connection of the cell."""
        super().__init__(calls)
        self._demanded: tuple[Mapping[int, Lane], _Demanded] = {}, {}
        """The lanes by number and the jobs' records with their demands, as read last."""
        self._lenders: tuple[int, Pools | None] = -1, None
        """The version of the pools as read last for an epoch; the pools, if some lend in part."""

    def forget_versions(self) -> None:
        """Drop what is kept by the versions of records: they may be of other records now."""
        self._demanded, self._lenders = ({}, {}), (-1, None)

    def _pool_fields(self) -> dict[str, bytes]:
        try:
            return {name.decode(errors="replace"): value for name, value in self._calls.hash_of("pools").items()}
        except Unreadable as error:
            raise Unreadable(f"cell {self._calls.name}: its pools are of a wrong type; import them again") from error

    def get(self) -> "Pools":
        """Return the pools that operators configured."""
        # Raises Unreadable for a record that is none of a pool.
        return self.read(self._pool_fields())

    def read(self, fields: dict[str, bytes]) -> "Pools":
        from omega.cellstate.pools import Pools, PoolTree  # noqa: PLC0415
        from omega.cellstate.pools.records import unpack_pool, unpack_trees  # noqa: PLC0415

        try:
            trees = unpack_trees(fields["trees"]) if "trees" in fields else (PoolTree(),)
            pools = sorted((unpack_pool(data) for name, data in fields.items() if name[0] == "p"), key=_number)
            return Pools(tuple(pools), trees, int(fields.get("version", b"0")))
        except records.UNREADABLE as error:
            raise Unreadable(
                f"cell {self._calls.name}: its pools cannot be read ({error}); import them again"
            ) from error

    def set(self, pools: "Pools", check: int | None, at_ms: int, by: str) -> "Pools":
        """Replace the pools of the cell; returns them with their numbers and their version.

        With `check` None whatever their version is, and also when the record cannot be read.

        `check` is the version of the pools that the caller read: Overtaken when they were modified since. Refused when
        a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pools/rules.py. A pool that moves takes its running tasks along: its use counts below its new ancestors at once,
        and an ancestor above its limit takes nothing until the limit is met again. Equal pools change nothing.

        Tasks on machines of another tree than that of their pool are evicted (`AssignTrees`).
        """
        from omega.cellstate.pools import Pools  # noqa: PLC0415
        from omega.cellstate.pools.records import ALL, change  # noqa: PLC0415
        from omega.cellstate.pools.rules import check as check_pools  # noqa: PLC0415

        check_author(by)
        resources = self._calls.dimensions.names
        check_pools(pools, resources)
        try:
            fields = self._pool_fields()
            before, anew = self.read(fields), False
        except Unreadable:
            if check is not None:
                raise
            fields, before, anew = {}, Pools(), True
        check = before.version if check is None else check
        if check != before.version:
            raise pools_overtaken(self._calls.name, check, before.version)
        totals = self._last_totals() if any(pool.kept for pool in pools.pools) else {}
        changed = change(before, pools, int(fields.get("next", b"1")), resources, totals)
        if anew:
            inner = tuple(quote(name, safe="") for name in sorted(pools.by_name.keys() - pools.leaves))
            changed = replace(changed, closed=inner, moved=(ALL,), facts=("reset pools", *changed.facts))
        if not changed.facts:
            self._calls.await_replicas()  # they are as an earlier call left them
            return before
        bounds = {f"b{number}": words for number, words in changed.limits.items()} | dict(changed.lenders)
        values = self._calls.values(at_ms, by) | {
            "check": "*" if anew else check, "state": changed.state, "gone": " ".join(changed.gone),
            "closed": " ".join(changed.closed), "moved": " ".join(changed.moved), "lines": "\n".join(changed.facts),
            "bounds": ";".join(f"{field} {words}" for field, words in bounds.items()),
            "settings": pools_text(changed.pools),
        }  # fmt: skip
        rows = [word for pair in changed.rows.items() for word in pair]
        status, word = self._calls.run("pools", values, rows, extra=self._calls.wakes())
        if status == b"overtaken":
            raise pools_overtaken(self._calls.name, check, int(word))
        if status == b"jobs":
            raise jobs_in_pool(self._calls.name, unquote(word.decode()))
        if changed.pools.divided:
            self.assign_trees(at_ms, by)
        return Pools(changed.pools.pools, changed.pools.trees, int(word))

    def _last_totals(self) -> Mapping[str, tuple[int, ...]]:
        """Return the machines' amounts by tree at the published epoch; nothing when it cannot be read."""
        try:
            known = self.epoch()
        except Unreadable:
            return {}
        return known.totals if known is not None else {}

    def demands(self, since: Position) -> Demands:
        """Return what all live jobs hold and want, and machines changed since a position: both at one version."""
        # One transaction of plain reads, some milliseconds of the server's time.
        sync, size, before = script("sync"), len(self._calls.dimensions), b""
        keys = self._calls.keys_of(sync, "", ())
        full = False
        while True:
            values = sync.pack_arguments(self._calls.sync_values(since, None))
            pipe: Any = self._calls.client.pipeline(transaction=True)
            with pipe:
                pipe.execute_command("EVALSHA", sync.sha, len(keys), *keys, *values)
                pipe.hgetall(self._calls.prefix + "jobs")
                pipe.hgetall(self._calls.prefix + "lanes")
                answers = self._calls.command(self._with_scripts, pipe, sync)
            reply, jobs, lanes = answers
            position = Position(int(reply[1]), reply[2].decode())
            if reply[4] == b"delta" or (full and position == since):
                rows, _ = records.apart(records.read_rows(before + reply[5], size))
                named = [records.lane_demand(record, size) for number, record in lanes.items() if number != b"spare"]
                return Demands(Reply(position, full, rows), self._demands(jobs, lanes), asked_by_leaves(named))
            since, read = self._calls.read_all()
            full, before = True, read.tobytes()

    def _with_scripts(self, pipe: Any, chosen: Script) -> Any:
        """Return the replies of a transaction with a script; it is loaded when the server has not got it."""
        sent = list(pipe.command_stack)

        def execute() -> Any:
            pipe.command_stack = list(sent)
            return pipe.execute()

        return with_scripts(self._calls.client, execute, chosen)

    def _demands(self, jobs: Mapping[bytes, bytes], lanes: Mapping[bytes, bytes]) -> list[JobDemand]:
        """Read the demands of jobs from their records; a record that did not change since the last call is not read."""
        size, named = len(self._calls.dimensions), dict[int, Lane]()
        for number, record in lanes.items():
            if number != b"spare":
                named[int(number)] = records.lane_row(record, size)[2]
        before, known = self._demanded
        if any(named.get(number, lane) != lane for number, lane in before.items()):
            known = {}  # numbers of lanes are given to others
        now, changed = _Demanded(), list[bytes]()
        for job_id, record in jobs.items():
            read = known.get(job_id)
            if read is None or read[0] != record:
                name = job_id.decode(errors="replace")
                read = record, self._calls.record("jobs", name, read_demand, name, record, size, named)
                changed.append(job_id)
            now[job_id] = read
        self._add_specs(changed, now, known)
        self._demanded = named, now
        return sorted((demand for _, demand in now.values() if demand is not None), key=_order)

    def _add_specs(self, changed: Iterable[bytes], now: _Demanded, known: _Demanded) -> None:
        """Add the spec to each demand; it is read again after a change by a person only."""
        unread = dict[str, bytes]()
        for job_id in changed:
            record, demand = now[job_id]
            before, last = known.get(job_id, (b"", None))
            if demand is None:
                continue
            if last is not None and _modified(before) == _modified(record):
                now[job_id] = record, demand._replace(spec=last.spec)
            else:
                unread[demand.id] = job_id
        read = dict[bytes, Mapping[str, Any]]()
        for name, spec in self._calls.fields("specs", [*unread]):
            if spec:
                read[spec] = found = read.get(spec) or self._calls.record("specs", name, records.unpack, spec) or {}
                record, demand = now[unread[name]]
                now[unread[name]] = record, demand and demand._replace(spec=found)

    def epoch_mark(self) -> EpochMark:
        """Return number, time and versions of the last epoch, to detect a new or a due one."""
        with self._calls.client.pipeline(transaction=False) as pipe:
            pipe.hmget(self._calls.prefix + "epoch", "number", "at", "version", "published")
            pipe.hmget(self._calls.prefix + "meta", "version", "pools")
            pipe.hget(self._calls.prefix + "pools", "version")
            pipe.time()
            epoch, *others = self._calls.command(pipe.execute, raise_on_error=False)
        for error in (each for each in others if isinstance(each, redis.RedisError)):
            raise translate(error, self._calls.url)
        numbers = _numbers(epoch)
        number, at_ms, read, published = numbers or (0, 0, 0, 0)
        (version, state), pools, (seconds, micros) = others
        now = int(seconds) * 1000 + int(micros) // 1000
        return EpochMark(
            number=number, at_ms=at_ms, read=read, published=published, version=int(version or 0),
            pools_version=int(pools or 0), configured=int(state or 0) > 0, now_ms=now,
            readable=numbers is not None,
        )  # fmt: skip

    def epoch(self) -> "Epoch | None":
        """Return the published fair shares, if there are any (semantics 34)."""
        # Raises Unreadable for a record that is none.
        fields = self._calls.hash_of("epoch")
        if not fields:
            return None
        from omega.cellstate.pools.records import unpack_epoch  # noqa: PLC0415

        try:
            return unpack_epoch({name.decode(): value for name, value in fields.items()})
        except records.UNREADABLE as error:
            raise Unreadable(
                f"cell {self._calls.name}: its epoch cannot be read ({error}); the next one replaces it"
            ) from error

    def next_epoch(self) -> int:
        """Return the number of the next epoch, also when the record of the last one cannot be read."""
        # Without a readable record the number comes from the log, where every epoch has a fact.
        mark = self.epoch_mark()
        if mark.readable and mark.number:
            return mark.number + 1
        before, fact, oldest = "+", re.compile(rb"(?:^|\n)epoch (\d+) "), b""
        while entries := self._calls.command(
            self._calls.client.xrevrange, self._calls.prefix + "log", max=before, count=1_000
        ):
            for _, values in entries:
                for text in values.values():
                    if found := fact.findall(text):
                        return int(found[-1]) + 1
            oldest = entries[-1][0]
            before = "(" + oldest.decode()
        # Above each number that was given, as every epoch raised the version.
        return 1 if oldest in (b"", b"1-0") else mark.version + 1

    def publish_epoch(self, epoch: "Epoch", period_ms: int, at_ms: int) -> int:
        """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken.

        Nor is it within `period_ms` of the epoch before, or when the pools were changed since it was computed.
        """
        from omega.cellstate.pools.records import epoch_digest, pack_leaves, pack_shares  # noqa: PLC0415

        shares, leaves = pack_shares(epoch), pack_leaves(epoch)
        values = self._calls.values(at_ms, epoch.by) | {
            "number": epoch.number, "version": epoch.version, "pools_version": epoch.pools_version,
            "now": epoch.at_ms, "period": period_ms, "digest": epoch_digest(shares, leaves), "shares": shares,
            "totals": self._totals_of_lending_trees(epoch),
            "leaves": leaves,
        }  # fmt: skip
        status, version = self._calls.run("epoch", values)
        return int(version) if status == b"ok" else 0

    def _totals_of_lending_trees(self, epoch: "Epoch") -> str:
        """Return the totals of trees with pools that lend in part; the script compares the versions of the pools."""
        from omega.cellstate.pools.lending import words_of_totals  # noqa: PLC0415

        version, pools = self._lenders
        if version != epoch.pools_version:
            read = self.get()
            pools = read if any(pool.kept for pool in read.pools) else None
            self._lenders = read.version, pools
        return "" if pools is None else words_of_totals(pools, epoch.totals, self._calls.dimensions.names)

    def use(self) -> "dict[str, PoolUse]":
        """Return the use of pools that carry limits, by name."""
        from omega.cellstate.pools.records import read_use  # noqa: PLC0415

        fields, size = self._pool_fields(), len(self._calls.dimensions)
        named = {f"b{pool.number}": pool.name for pool in self.read(fields).pools}
        rows = sorted((len(name), name.encode(), value) for name, value in fields.items() if name in named)
        uses = self._calls.readable("pools", (row[1:] for row in rows), lambda row: read_use(row.decode(), size))
        return {named[field]: use for field, use in uses}

    # Pool trees of machines; ``lua/assign_trees.lua``

    def assign_trees(self, at_ms: int, by: str) -> int:
        """Assign the machines that are in no tree yet, and evict tasks of other trees; returns their number.

        A machine without an assigned tree takes no tasks. `join`, `set_machine_attributes` and `set_pools` leave
        machines so, then call this; a live process of the cell calls it for a caller that died in between.
        """
        evicted, assigned = 0, int(not self._calls.dry)
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
        with self._calls.client.pipeline(transaction=False) as pipe:
            pipe.hget(self._calls.prefix + "meta", "pools")
            pipe.hlen(self._calls.prefix + "static")
            pipe.hlen(self._calls.prefix + "trees")
            state, machines, assigned = self._calls.command(pipe.execute)
        if int(state or 0) < 2 or machines == assigned or not (pools := self.get()).divided:
            return None
        known = set(self._calls.command(self._calls.client.hkeys, self._calls.prefix + "trees"))
        there = self._calls.command(self._calls.client.hkeys, self._calls.prefix + "static")
        indices = sorted(int(index) for index in there if index not in known and index.isdigit())
        held = [(text or b"").count(b":") // 3 for _, text in self._calls.fields("runs", indices)]
        return (pools, list(portions(indices, held))) if indices else None

    def _assign(self, pools: "Pools", indices: list[int], at_ms: int, by: str) -> list[Any]:
        from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - most processes evaluate no formula

        statics = [static or b"" for _, static in self._calls.fields("static", indices)]
        described = [
            self._calls.record("static", str(index), records.read_described, static) or ("", ())
            for index, static in zip(indices, statics, strict=True)
        ]
        rest: list[object] = []
        for index, static, number in zip(indices, statics, trees_of(pools, described), strict=True):
            rest += [index, static, "-" if number is None else number]
        values = {**self._calls.values(at_ms, by), "version": pools.version}
        return self._calls.run("assign_trees", values, rest, extra=self._calls.hints())

    # Limits on kinds

    def kinds(self) -> dict[str, KindUse]:
        """Return limits and use of each kind that has limits or placed tasks."""
        size = len(self._calls.dimensions)
        with self._calls.client.pipeline() as pipe:
            pipe.hgetall(self._calls.prefix + "kinds")
            pipe.hgetall(self._calls.prefix + "lanes")
            limited, lanes = self._calls.command(pipe.execute)
        uses, without = self.read_kinds(limited.items()), KindUse.none(size)
        lanes.pop(b"spare", None)
        for _, (kind, jobs, used) in self._calls.readable("lanes", lanes.items(), records.lane_use, size):
            if jobs and kind.encode() not in limited:
                known = uses.get(kind, without)
                total = tuple(map(sum, zip(known.used, used, strict=True)))
                uses[kind] = known._replace(jobs=known.jobs + jobs, used=total)
        return dict(sorted(uses.items()))

    def limited_kinds(self) -> dict[str, KindUse]:
        """Return limits and use of each kind that has limits."""
        return dict(sorted(self.read_kinds(self._calls.hash_of("kinds").items()).items()))

    def read_kinds(self, kinds: Iterable[tuple[bytes, bytes]]) -> dict[str, KindUse]:
        return dict(self._calls.readable("kinds", kinds, _kind, len(self._calls.dimensions)))

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """Set the limits on all jobs of a kind together."""
        self._calls.check_amounts(
            f"kind {kind}", [0 if amount is None else amount for amount in limits.resources], 2**53
        )
        values = self._calls.values(at_ms, by) | {
            "kind": check_word("kind", kind),
            "limits": records.write_limits(limits),
        }
        self._calls.run("limit", values, extra=self._calls.wakes())


def _numbers(words: object) -> tuple[int, int, int, int] | None:
    """Return number, time and both versions of an epoch, 0 for missing ones; None when they cannot be read."""
    if isinstance(words, redis.RedisError):
        if "WRONGTYPE" in str(words):
            return None
        raise translate(words, "")
    if not isinstance(words, list):
        return None
    if all(word is None for word in words):
        return 0, 0, 0, 0
    if not all(word is not None and word.isdigit() and int(word) <= LARGEST for word in words):
        return None
    number, at_ms, read, published = map(int, words)
    return number, at_ms, read, published


def read_demand(job_id: str, record: bytes, size: int, lanes: Mapping[int, Lane]) -> JobDemand | None:
    """Return the use and demand of a live job from its record; None when it has neither."""
    job = decode(record, size)
    waits, groups, some = job["state"] != JobState.ACTIVE, [], False
    for group in job["groups"]:
        unplaced = 0 if group["optional"] == COPIES else group["unplaced"] + group["delayed"]
        placed = group["placed"]
        some = some or placed > 0 or (unplaced > 0 and not waits)
        groups.append((group["need"], unplaced, placed))
    if not some:
        return None
    least, gang, lane = job["gang_min"], job["gang"] > 0 and not job["gang_min"], lanes[job["lane"]]
    demand = JobDemand(job_id, lane, job["order"], gang, waits, tuple(groups), job["commands"], least=least)
    optional = tuple(at for at, group in enumerate(job["groups"]) if group["optional"] % REPLACED)
    return demand._replace(optional=optional) if optional else demand


def _modified(record: bytes) -> bytes:
    return record[MODIFIED_AT : MODIFIED_AT + 8]


def _order(demand: JobDemand) -> int:
    return demand.order


def _number(pool: "Pool") -> int:
    return pool.number


def _kind(text: bytes, size: int) -> KindUse:
    return KindUse(*records.read_kind(text.decode(), size))
