"""The complete store: one cell on a server, its transactions, members and limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from omega.cellstate import keys, ranges
from omega.cellstate.errors import (
    Duplicate,
    Fenced,
    Refused,
    Unreadable,
)
from omega.cellstate.executors import check_member, check_nonce
from omega.cellstate.logged_settings import scheduler_text
from omega.cellstate.model import Limits, check_word
from omega.cellstate.override import override
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.calls import load_scripts
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.digest import RedisDigest
from omega.cellstate.redis.executors import RedisAgents, RedisMachines, RedisTasks, RedisTrees
from omega.cellstate.redis.jobs import RedisJobs
from omega.cellstate.redis.link import Link, confirm
from omega.cellstate.redis.opening import RedisOpening, check_name
from omega.cellstate.redis.pools import RedisPools
from omega.cellstate.redis.reads import RedisReads
from omega.cellstate.redis.scripts import Script, script
from omega.cellstate.replies import Awaited, CommitRequest, Membership, PendingJob, PendingJobs, Reply
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.server import connect, translate
from omega.cellstate.shards import (
    KEPT_MS,
    LEARNT_MS,
    MOST_IN_A_ROW,
    RETRY_MS,
    TRIES,
    UNSENT_MS,
    Errand,
    PhaseCount,
    Progress,
    ShardDurations,
    Worker,
)
from omega.cellstate.transaction import Basis, Intake, Position, Transaction, forms_of

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools
    from omega.cellstate.primary import Damage, Reading

# The shards of MapReduce jobs on a server: claimed, ended, counted.


class RedisShards(RedisReads):
    """Operations of MapReduce workers."""

    @override
    def claim_shard(
        self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
    ) -> Errand:  # fmt: skip
        values = {
            "dims": len(self.dimensions), "job": job_id, "maps": maps, "reduces": reduces, "at": at_ms,
            "most": MOST_IN_A_ROW, "near": " ".join(near), "expire_ms": KEPT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}"}
        what, *more = self._run("claim_shard", values | worker._asdict(), own=own)
        shard = int(more[0]) if more else -1
        return Errand(what.decode(), shard, more[1].decode() if len(more) > 1 else "")

    @override
    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None, level: int | None = None,
    ) -> bool:  # fmt: skip
        values = {
            "dims": len(self.dimensions), "phase": phase, "shard": shard, "at": failed_ms or 0,
            "level": "" if level is None else level,
            "how": "done" if failed_ms is None else "failed", "milliseconds": min(max(0, milliseconds), LARGEST),
            "most": TRIES, "wait_ms": RETRY_MS, "expire_ms": KEPT_MS, "learnt_ms": LEARNT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}", "durations": f"durations:{name}"}
        return bool(self._run("end_shard", values | worker._asdict(), own=own)[0] == b"ok")

    @override
    def claim_directory(self, path: str, job_id: str, *, expire_ms: int) -> str | None:
        now = self.store_ms()
        values = {
            "dims": len(self.dimensions), "job": job_id, "path": quote(path), "keeps": int(expire_ms > 0),
            "ends_at": 0 if expire_ms > UNSENT_MS else now + expire_ms, "now": now,
        }  # fmt: skip
        _, *holder = self._run("claim_directory", values)
        return holder[0].decode() if holder else None

    @override
    def directories(self) -> dict[str, str]:
        fields = self._hash("directories").items()
        return {unquote(path.decode()): value.decode().partition(" ")[0] for path, value in fields}

    @override
    def progress(self, job_id: str) -> Progress | None:
        fields = ("map", "reduce", "held", "failed", "machines", "levels")
        maps, reduces, held, failed, machines, levels = (
            (value or b"").decode() for _, value in self._fields(f"shards:{job_id}", fields)
        )
        if not maps:
            return None
        counts, unclaimed = (_phase(maps), _phase(reduces)), maps.split(" ")[1]
        return Progress(*counts, _held(held), failed, _counts(machines), _counts(levels), unclaimed)

    @override
    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        marks = self._fields(f"shards:{job_id}", [f"{phase[0]}{shard}" for shard in range(count)])
        return [None if mark is None else mark.decode() for _, mark in marks]

    @override
    def durations(self, name: str) -> ShardDurations | None:
        text = self._command(self.client.get, f"{self._prefix}durations:{name}")
        return None if text is None else ShardDurations(*map(int, text.split()))


def _held(text: str) -> tuple[tuple[int, int, int], ...]:
    """Read a list " machine:placement:task:shard"."""
    claims = (each.split(":") for each in text.split())
    return tuple(sorted((int(placement), int(task), int(shard)) for _, placement, task, shard in claims))


def _counts(text: str) -> tuple[tuple[int, int], ...]:
    """Read a list " number:count"."""
    pairs = (each.split(":") for each in text.split())
    return tuple(sorted((int(number), int(count)) for number, count in pairs))


def _phase(text: str) -> PhaseCount:
    total, waiting, done, milliseconds = text.split(" ")
    return PhaseCount(total=int(total), waiting=ranges.count(waiting), done=int(done), milliseconds=int(milliseconds))


_new = tuple.__new__
"""Makes pending jobs, without a call of their class."""
GENERAL_KEYS = ("done", "history", "housekeeping", "jobnames", "kinds", "lanenames", "placed", "recent", "results",
                "waiters")  # a table # fmt: skip
"""Keys of a commit that only its general path needs."""
GENERAL_CALLS = 64
"""Commits that give these keys after one that needed them: where limits hold each one needs them."""


def _request(intake: Intake | None) -> str:
    """Return what a commit requests, ``most owned kind lane:after:count,…``; empty for nothing."""
    if intake is None or not intake.most:
        return ""
    lanes = ",".join(f"{lane}:{after}:{count}" for lane, after, count in intake.lanes) or "-"
    return f"{intake.most} {intake.owned} {intake.kind} {lanes}"


def _columns_of(reply: bytes, tag: object) -> list[Any]:
    """Return the short reply to a commit, ``version outcomes`` and the delta after a line feed, as the long one."""
    version, _, rest = reply.partition(b" ")
    outcomes, _, text = rest.partition(b"\n")
    return [b"ok", version, str(tag).encode(), outcomes, b"delta", text]


class RedisCell(
    RedisOpening, RedisTasks, RedisAgents, RedisMachines, RedisJobs, RedisShards, RedisPools, RedisTrees, RedisDigest
):  # fmt: skip
    """A cell on a server. One object serves one thread; see `Cell` for the methods of the port."""

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Use `create`, `open` or `connect` instead."""
        super().__init__(client, name, dimensions, url)
        self._link = Link(self.client)
        self._commit_keys: tuple[tuple[str, ...], list[str]] = (), []
        """The keys of the last commit, by their dependencies: most commits have the same keys."""
        self._general_calls = 0
        """How many further commits give the keys of the general path."""
        self._sent: tuple[CommitRequest, dict[str, object], list[str]] | None = None

    @override
    def unusable(self) -> "list[Damage]":
        from omega.cellstate.redis.primary_records import unusable  # noqa: PLC0415 - only the audit needs it

        return cast("list[Damage]", self._command(unusable, self))

    @override
    def read_records(self, told: Callable[[str], object] = str) -> "Reading | None":
        from omega.cellstate.redis.primary_records import read_records  # noqa: PLC0415 - as above

        return cast("Reading | None", self._command(read_records, self, told))

    # Transactions

    def begin(self, request: CommitRequest) -> None:
        """Send a commit without waiting; `finish` returns its reply. One may be in flight."""
        membership, since, intake = request.membership, request.since, request.intake
        basis = request.basis or Basis(since.version, request.at_ms)
        if forms := forms_of(request.transactions):
            basis = basis._replace(forms=forms)
        values: dict[str, object] = {
            **self._values(request.at_ms, membership.member), "member": membership.member, "number": request.number,
            "incarnation": membership.incarnation, "since": since.version, "since_tag": since.tag,
            "request": _request(intake), "basis": basis.text, "body": records.write_transactions(request.transactions),
        }  # fmt: skip
        names = [*(f"box:{executor}" for executor in request.executors), *self._wakes()]
        kinds = self._known.setdefault("pending", set())
        if intake is not None:
            kinds.add(f"pending:{intake.kind}")
        names += sorted(kinds)
        if self._general_calls > 0:
            self._general_calls -= 1
            names += GENERAL_KEYS
        self._sent = request, values, names
        self._command(self._launch)

    def _launch(self) -> None:
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        _, values, names = self._sent
        commit, named = script("commit"), (str(values["member"]), *names)
        if named != self._commit_keys[0]:
            self._commit_keys = named, self._keys(commit, named[0], names)
        self._link.send(commit, self._commit_keys[1], commit.pack_arguments(values), self._confirmation)

    def finish(self) -> Reply:
        """Return the reply of the commit in flight. After StoreError, `resend` sends it again without harm."""
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        request, values, names = self._sent
        while True:
            reply = self._command(self._link.receive)
            if type(reply) is bytes:
                reply = _columns_of(reply, values["tag"])
            if reply[0] != b"keys":
                break
            learned = self._learn(reply[1:])
            names += sorted(learned)
            # A call that then asks for a mailbox or a queue left the fast path for that alone.
            self._general_calls = 0 if learned.isdisjoint(GENERAL_KEYS) else GENERAL_CALLS
            self._command(self._launch)
        if reply[0] in (b"fenced", b"stale"):
            self._sent = None
            name, incarnation = request.membership
            raise Fenced(f"scheduler {name}: incarnation {incarnation} may no longer commit; register again")
        # A full read may follow, and fail: until it is done the commit can be sent again.
        answer = self._reply(reply, request.intake, request.transactions)
        self._sent = None
        return answer

    def resend(self) -> None:
        """Send the commit in flight again, on a new connection (semantics 14)."""
        self._link.close()
        self._command(self._launch)

    @override
    def commit(self, request: CommitRequest) -> Reply:
        self.begin(request)
        return self.finish()

    @override
    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        extra = [f"pending:{intake.kind}"] if intake else []
        return self._reply(self._run("sync", self._since(since, intake), extra=extra), intake)

    def _reply(self, reply: list[Any], intake: Intake | None, transactions: Sequence[Transaction] = ()) -> Reply:
        _, version, tag, outcomes, mode, text = reply[:6]
        position, full = Position(int(version), tag.decode()), mode == b"full"
        if full:
            self.look_back()
        self._see(position)
        size = len(self.dimensions)
        full = full or len(text) % records.row_bytes(size) != 0  # the change list is damaged; read everything
        position, rows = self._read_all(position) if full else (position, records.read_rows(text, size))
        rows, lanes = records.apart(rows)
        answer = Reply(position, full, rows, records.read_outcomes(outcomes, transactions), lanes=lanes)
        if intake is not None and intake.most:
            answer.arrivals = int(reply[6])
            answer.counts = [None if count == "-" else int(count) for count in reply[7].decode().split(",") if count]
            answer.read_jobs = partial(self._read_jobs, reply)
        return answer

    def _read_jobs(self, reply: list[Any]) -> Sequence[PendingJob]:
        """Read the jobs of a reply, without those that cannot be read."""
        size, read = len(self.dimensions), job_records.read_job
        names, arrivals, records_, specs = (reply[8 + i :: 4] for i in range(4))
        if records_ and all(records_):
            ids = b" ".join(names).decode().split(" ")
            with suppress(*records.UNREADABLE):
                jobs = [read(*each, size) for each in zip(ids, records_, specs, strict=True)]
                return PendingJobs(arrivals, jobs)
        pending: list[PendingJob] = []
        for name, arrival, record, spec in zip(names, arrivals, records_, specs, strict=True):
            if record:
                job_id = name.decode()
                try:
                    job = read(job_id, record, spec, size)
                except records.UNREADABLE:
                    self._job(job_id, record, spec)  # it is noted
                else:
                    pending.append(_new(PendingJob, (int(arrival), job)))
        return pending

    # Members

    @override
    def register_scheduler(
        self, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
    ) -> Membership:  # fmt: skip
        own: dict[str, object] = {"member": check_member(member), "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        own["settings"] = scheduler_text(settings or {})
        values = self._values(at_ms, member) | own
        reply = self._run("register_scheduler", values, member=member)
        if reply[0] == b"taken":
            raise Duplicate(f"scheduler {member}: another one runs under this name; choose another or stop it")
        return Membership(member, int(reply[1]))

    def renew_scheduler(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease and store `figures`; return the live members. Fenced when it expired."""
        known = self._command(self.client.hkeys, self._prefix + "schedulers")
        leases = {f"lease:{name.decode()}" for name in known}
        values = {**membership._asdict(), "lease_ms": lease_ms, "figures": records.pack(dict(figures))}
        reply = self._run("renew_scheduler", values, member=membership.member, extra=leases)
        if reply[0] == b"fenced":
            raise Fenced(f"scheduler {membership.member}: its lease lapsed; register again")
        self._members = sorted(reply[i].decode() for i in range(1, len(reply), 2) if int(reply[i + 1]))
        return self._members

    @override
    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        values = self._values(at_ms, membership.member) | membership._asdict() | {"reaped": int(reaped)}
        return bool(self._run("deregister_scheduler", values, member=membership.member)[1])

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Wait for work for this scheduler, at most `seconds`; sync afterwards.

        The token is read before it is removed, so a lost reply does not lose it (semantics 25).
        """
        key = f"{self._prefix}wake:{member}"
        if not self._wait_at(key, seconds):
            return False
        self._command(self.client.delete, key)
        return True

    @override
    def rouse(self, member: str) -> None:
        self._command(self.client.rpush, f"{self._prefix}wake:{member}", "1")

    @override
    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        key = self._prefix + "asleep"
        if blocked:
            self._command(self.client.hset, key, member, " ".join(awaited) or "-")
        else:
            self._command(self.client.hdel, key, member)

    # Limits

    @override
    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        self._check(f"kind {kind}", [0 if amount is None else amount for amount in limits.resources], 2**53)
        values = self._values(at_ms, by) | {"kind": check_word("kind", kind), "limits": records.write_limits(limits)}
        self._run("limit", values, extra=self._wakes())

    def close(self) -> None:
        """Close the connections."""
        self._link.close()
        self._ends.close()
        self.client.close()


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
            pipe.hmget(self._prefix + "meta", names)
            pipe.hgetall(self._prefix + "kinds")
            pipe.hgetall(self._prefix + "pools")
            values, kinds, pools = self._command(pipe.execute)
        limits = {kind: use.limits for kind, use in self._kinds(kinds.items()).items()}
        if self.unreadable:
            (key, field), why = next(iter(self.unreadable.items()))
            raise Unreadable(f"cell {self.name}: its {key} {field!r} cannot be read ({why}); set it again")
        meta = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return CellSettings(meta, limits, self._read_pools({name.decode(): value for name, value in pools.items()}))

    def create_with(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        """Create the cell; return whether it is new. Refused when it exists with other settings.

        Another client sees the whole cell or none, also after an interruption.
        """
        self.dimensions = Dimensions(tuple(settings.meta["resources"].decode().split(",")))
        durability = self._read_durability(settings.meta.get("durability"))
        self._check_permitted(durability)
        new = bool(self._command(self._make, settings, at_ms, by))
        if not new and (other := self.settings().differs(settings)):
            raise Refused(f"cell {self.name}: exists with other {', '.join(other)}; choose another name")
        self._adopt(durability)
        self._command(register, self.client, self.name)
        self._command(confirm, self.client, self.name, durability)
        return new

    def _make(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        retry = Retry(
            ExponentialWithJitterBackoff(cap=0.5, base=0.01), ATTEMPTS, (redis.ConnectionError, redis.WatchError)
        )
        return bool(retry.call_with_retry(lambda: self._try(settings, at_ms, by), lambda _: None))

    def _try(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        meta = self._prefix + "meta"
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
            self._run("create", {"schema": keys.SCHEMA, "rules": keys.RULES, "durability": "", **known, "change": 0})
            for kind, limits in settings.limits.items():
                self.set_limits(kind, limits, at_ms, by)
            self.set_pools(settings.pools, None, at_ms, by)
            return self._collected
        finally:
            self._collected = None

    @override
    def _run(
        self, name: str, values: Mapping[str, object], rest: Sequence[object] = (), *, member: str = "",
        extra: Iterable[str] = (), own: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        if self._collected is None:
            return super()._run(name, values, rest, member=member, extra=extra, own=own)
        chosen = script(name)
        keys_of = self._keys(chosen, member, extra, own)
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
