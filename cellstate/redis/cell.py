"""The complete store: one cell on a server, its transactions, members and limits."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import redis

from omega.cellstate.errors import (
    Duplicate,
    Fenced,
)
from omega.cellstate.incarnations import check_member, check_nonce
from omega.cellstate.logged_settings import scheduler_text
from omega.cellstate.model import Limits, check_word
from omega.cellstate.override import override
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.agents import RedisAgents
from omega.cellstate.redis.digest import RedisDigest
from omega.cellstate.redis.jobs import RedisJobs
from omega.cellstate.redis.jobs_alike import read_runs
from omega.cellstate.redis.link import BulkStrings, Link
from omega.cellstate.redis.machines import RedisMachines
from omega.cellstate.redis.opening import RedisOpening
from omega.cellstate.redis.pools import RedisPools
from omega.cellstate.redis.scripts import script
from omega.cellstate.redis.shards import RedisShards
from omega.cellstate.redis.tasks import RedisTasks
from omega.cellstate.redis.trees import RedisTrees
from omega.cellstate.replies import Awaited, CommitRequest, Membership, PendingJob, PendingJobs, Reply
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Basis, Intake, Position, Transaction, forms_of

if TYPE_CHECKING:
    from omega.cellstate.primary import Damage, Reading

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
        self._sent: tuple[CommitRequest, dict[str, object], BulkStrings, list[str]] | None = None

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
            "request": _request(intake), "basis": basis.text,
        }  # fmt: skip
        packed = records.write_transactions(request.transactions)
        names = [*(f"box:{executor}" for executor in request.executors), *self._wakes()]
        kinds = self._known.setdefault("pending", set())
        if intake is not None:
            kinds.add(f"pending:{intake.kind}")
        names += sorted(kinds)
        if self._general_calls > 0:
            self._general_calls -= 1
            names += GENERAL_KEYS
        self._sent = request, values, packed, names
        self._command(self._launch)

    def _launch(self) -> None:
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        _, values, packed, names = self._sent
        commit, named = script("commit"), (str(values["member"]), *names)
        if named != self._commit_keys[0]:
            self._commit_keys = named, self._keys(commit, named[0], names)
        self._link.send(commit, self._commit_keys[1], commit.pack_arguments(values), packed, self._confirmation)

    def finish(self) -> Reply:
        """Return the reply of the commit in flight. After StoreError, `resend` sends it again without harm."""
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        request, values, _, names = self._sent
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
            if jobs := read_runs(ids, records_, specs, size):
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
