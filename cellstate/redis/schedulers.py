"""Schedulers of a cell on a server: their leases, transactions, full and partial reads, and the queue."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from omega.cellstate.errors import Duplicate, Fenced
from omega.cellstate.executors import check_member, check_nonce
from omega.cellstate.lanes import Lane
from omega.cellstate.logged_settings import scheduler_text
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.calls import Connection
from omega.cellstate.redis.jobs import RedisJobs
from omega.cellstate.redis.link import Link
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.scripts import script
from omega.cellstate.replies import (
    CommitRequest,
    Membership,
    PendingJob,
    PendingJobs,
    Reply,
    Waits,
    may_hold,
)
from omega.cellstate.resources import Resources
from omega.cellstate.transaction import Basis, Intake, Position, Transaction, forms_of

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


class RedisSchedulers(Part):
    """Members, commits, reads of what changed, the queue."""

    def __init__(self, calls: Connection, jobs: RedisJobs) -> None:
        """Use the connection of the cell and other parts of it."""
        super().__init__(calls)
        self._jobs = jobs
        self._link = Link(calls.client)
        self._commit_keys: tuple[tuple[str, ...], list[str]] = (), []
        """The keys of the last commit, by their dependencies: most commits have the same keys."""
        self._general_calls = 0
        """How many further commits give the keys of the general path."""
        self._sent: tuple[CommitRequest, dict[str, object], list[str]] | None = None

    def close(self) -> None:
        """Close the connection for commits."""
        self._link.close()

    # Transactions

    def begin(self, request: CommitRequest) -> None:
        """Send a commit without waiting; `finish` returns its reply. One may be in flight."""
        membership, since, intake = request.membership, request.since, request.intake
        basis = request.basis or Basis(since.version, request.at_ms)
        if forms := forms_of(request.transactions):
            basis = basis._replace(forms=forms)
        values: dict[str, object] = {
            **self._calls.values(request.at_ms, membership.member),
            "member": membership.member, "number": request.number, "incarnation": membership.incarnation,
            "since": since.version, "since_tag": since.tag,
            "request": _request(intake), "basis": basis.text, "body": records.write_transactions(request.transactions),
        }  # fmt: skip
        names = [*(f"box:{executor}" for executor in request.executors), *self._calls.wakes()]
        kinds = self._calls.known_keys.setdefault("pending", set())
        if intake is not None:
            kinds.add(f"pending:{intake.kind}")
        names += sorted(kinds)
        if self._general_calls > 0:
            self._general_calls -= 1
            names += GENERAL_KEYS
        self._sent = request, values, names
        self._calls.command(self._launch)

    def _launch(self) -> None:
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        _, values, names = self._sent
        commit, named = script("commit"), (str(values["member"]), *names)
        if named != self._commit_keys[0]:
            self._commit_keys = named, self._calls.keys_of(commit, named[0], names)
        self._link.send(commit, self._commit_keys[1], commit.pack_arguments(values), self._calls.confirmation)

    def finish(self) -> Reply:
        """Return the reply of the commit in flight. After StoreError, `resend` sends it again without harm."""
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        request, values, names = self._sent
        while True:
            reply = self._calls.command(self._link.receive)
            if type(reply) is bytes:
                reply = _columns_of(reply, values["tag"])
            if reply[0] != b"keys":
                break
            learned = self._calls.learn(reply[1:])
            names += sorted(learned)
            # A call that then asks for a mailbox or a queue left the fast path for that alone.
            self._general_calls = 0 if learned.isdisjoint(GENERAL_KEYS) else GENERAL_CALLS
            self._calls.command(self._launch)
        if reply[0] in (b"fenced", b"stale"):
            self._sent = None
            name, incarnation = request.membership
            raise Fenced(f"scheduler {name}: incarnation {incarnation} may no longer commit; register again")
        # A full read may follow, and fail: until it is done the commit can be sent again.
        answer = self._reply(reply, request.intake, request.transactions)
        self._sent = None
        return answer

    def resend(self) -> None:
        """Send the commit in flight once more, on a new connection (semantics 14)."""
        self._link.close()
        self._calls.command(self._launch)

    def commit(self, request: CommitRequest) -> Reply:
        """Validate transactions in order and apply accepted claims. Fenced when the caller may not commit."""
        self.begin(request)
        return self.finish()

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """Return the machines changed since a position; with `intake` also the next jobs of a scheduler."""
        extra = [f"pending:{intake.kind}"] if intake else []
        return self._reply(self._calls.run("sync", self._calls.sync_values(since, intake), extra=extra), intake)

    def _reply(self, reply: list[Any], intake: Intake | None, transactions: Sequence[Transaction] = ()) -> Reply:
        _, version, tag, outcomes, mode, text = reply[:6]
        position, full = Position(int(version), tag.decode()), mode == b"full"
        if full:
            self._calls.look_back()
        self._calls.see(position)
        size = len(self._calls.dimensions)
        full = full or len(text) % records.row_bytes(size) != 0  # the change list is damaged; read everything
        position, rows = self._calls.read_all(position) if full else (position, records.read_rows(text, size))
        rows, lanes = records.apart(rows)
        answer = Reply(position, full, rows, records.read_outcomes(outcomes, transactions), lanes=lanes)
        if intake is not None and intake.most:
            answer.arrivals = int(reply[6])
            answer.counts = [None if count == "-" else int(count) for count in reply[7].decode().split(",") if count]
            answer.read_jobs = partial(self._read_jobs, reply)
        return answer

    def _read_jobs(self, reply: list[Any]) -> Sequence[PendingJob]:
        """Read the jobs of a reply, without those that cannot be read."""
        size, read = len(self._calls.dimensions), job_records.read_job
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
                    self._jobs.read(job_id, record, spec)  # it is noted
                else:
                    pending.append(_new(PendingJob, (int(arrival), job)))
        return pending

    # The queue

    def lanes(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[int, Lane]]:
        """Return the serials and names of existing lanes (None: all)."""
        chosen: Iterable[tuple[bytes, bytes]]
        if numbers is None:
            chosen = self._calls.lane_records()
        else:
            fields = self._calls.fields("lanes", [str(number) for number in numbers])
            chosen = ((field.encode(), record) for field, record in fields if record)
        rows = self._calls.readable("lanes", chosen, records.lane_row, len(self._calls.dimensions))
        return {int(number): (serial, lane) for number, (_, serial, lane) in rows}

    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        """Return ids of pending jobs by kind, in the order of becoming pending; at most `most` of each kind."""
        queues = {}
        for key in self._calls.command(
            list, self._calls.client.scan_iter(match=self._calls.prefix + "pending:*", count=500)
        ):
            if most is None:
                pairs = self._calls.command(dict, self._calls.client.zscan_iter(key, count=2000)).items()
            else:
                pairs = self._calls.command(self._calls.client.zrange, key, 0, most - 1, withscores=True)
            arrived = sorted((int(score) & (1 << 33) - 1, member.decode()[2:]) for member, score in pairs)
            queues[key.decode().removeprefix(self._calls.prefix + "pending:")] = [job_id for _, job_id in arrived]
        return queues

    def queue_depths(self) -> dict[str, int]:
        """Return the number of pending jobs of each kind."""
        keys = self._calls.command(
            list, self._calls.client.scan_iter(match=self._calls.prefix + "pending:*", count=500)
        )
        start = len(self._calls.prefix) + len("pending:")
        return {key.decode()[start:]: self._calls.command(self._calls.client.zcard, key) for key in sorted(keys)}

    # Members

    def register(
        self, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
    ) -> Membership:  # fmt: skip
        """Register a scheduler's name; Duplicate when a live one has it. `settings`: of the scheduler, for the log."""
        own: dict[str, object] = {"member": check_member(member), "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        own["settings"] = scheduler_text(settings or {})
        values = self._calls.values(at_ms, member) | own
        reply = self._calls.run("register_scheduler", values, member=member)
        if reply[0] == b"taken":
            raise Duplicate(f"scheduler {member}: another one runs under this name; choose another or stop it")
        return Membership(member, int(reply[1]))

    def renew(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease and store `figures`; return the live members. Fenced when it expired."""
        known = self._calls.command(self._calls.client.hkeys, self._calls.prefix + "schedulers")
        leases = {f"lease:{name.decode()}" for name in known}
        values = {**membership._asdict(), "lease_ms": lease_ms, "figures": records.pack(dict(figures))}
        reply = self._calls.run("renew_scheduler", values, member=membership.member, extra=leases)
        if reply[0] == b"fenced":
            raise Fenced(f"scheduler {membership.member}: its lease lapsed; register again")
        self._calls.live_members = sorted(reply[i].decode() for i in range(1, len(reply), 2) if int(reply[i + 1]))
        return self._calls.live_members

    def deregister(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """Deregister, or remove a member with an expired lease."""
        values = self._calls.values(at_ms, membership.member) | membership._asdict() | {"reaped": int(reaped)}
        return bool(self._calls.run("deregister_scheduler", values, member=membership.member)[1])

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Return every registered scheduler: incarnation, whether its lease holds, its last figures."""
        known, figures = self._calls.hash_of("schedulers"), self._calls.hash_of("stats")
        incarnations = list(self._calls.readable("schedulers", sorted(known.items()), _incarnation))
        with self._calls.client.pipeline(transaction=False) as pipe:
            for name, _ in incarnations:
                pipe.exists(f"{self._calls.prefix}lease:{name}")
            held = self._calls.command(pipe.execute)
        members = {
            name: (incarnation, bool(alive), self._figures(name, figures.get(name.encode(), b"")))
            for (name, incarnation), alive in zip(incarnations, held, strict=True)
        }
        self._calls.live_members = [name for name, (_, alive, _) in members.items() if alive]
        return members

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the last figures of every scheduler, also of those that left."""
        stats = sorted(self._calls.hash_of("stats").items())
        return {name.decode(): self._figures(name.decode(), data) for name, data in stats}

    def _figures(self, member: str, data: bytes) -> dict[str, Any]:
        return self._calls.record("stats", member, records.unpack, data) or {}

    def wait_for_work(self, member: str, seconds: float) -> str:
        """Wait for work for this scheduler, at most `seconds`; sync afterwards. Returns its token, ``""`` without any.

        With the token ALONE no other scheduler was told of room that tasks left: what this one leaves is to be handed
        on. The token is read before it is removed, so a lost reply does not lose it (semantics 25).
        """
        key = f"{self._calls.prefix}wake:{member}"
        if token := self._calls.wait_at(key, seconds):
            self._calls.command(self._calls.client.delete, key)
        return token

    def rouse(self, member: str) -> None:
        """Notify a waiting scheduler without new work."""
        self._calls.command(self._calls.client.rpush, f"{self._calls.prefix}wake:{member}", "1")

    def set_blocked(self, member: str, waits: Waits | None) -> None:
        """Set what a scheduler's blocked jobs wait for; None: it has none.

        If there are some, freed room and changed machines notify it. Clients that free room must know the live members
        (`may_wake`).
        """
        hset, prefix = self._calls.client.hset, self._calls.prefix
        if waits is None:
            self._calls.command(self._calls.client.hdel, prefix + "asleep", member)
            return
        if waits.lanes:
            self._calls.command(hset, prefix + "owners", mapping=dict.fromkeys(waits.lanes, member))
        least = ",".join(map(str, waits.least)) or "-"
        self._calls.command(hset, prefix + "asleep", member, " ".join((least, *waits.awaited)))

    def hand_on(self, member: str, room: Sequence[Resources]) -> list[str]:
        """Notify the other schedulers with blocked jobs of room that one left on machines; return whom it may help."""
        told = list[str]()
        for name, text in self._calls.hash_of("asleep").items():
            other, least = name.decode(), text.decode().partition(" ")[0]
            needs = () if least == "-" else tuple(map(int, least.split(",")))
            if other != member and other in self._calls.live_members and may_hold(room, needs):
                told.append(other)
        if told:
            pipe = self._calls.client.pipeline(transaction=False)
            for other in told:
                pipe.rpush(f"{self._calls.prefix}wake:{other}", "1")
                pipe.ltrim(f"{self._calls.prefix}wake:{other}", 0, 0)
            self._calls.command(pipe.execute)
        return sorted(told)

    def may_wake(self, members: Iterable[str]) -> None:
        """Set the live schedulers, which later calls notify."""
        self._calls.live_members = sorted(members)

    def read_live(self) -> None:
        """Read the live schedulers, which later calls notify."""
        known = self._calls.command(self._calls.client.hkeys, self._calls.prefix + "schedulers")
        self.may_wake(self._calls.leases([name.decode() for name in known]))


def _incarnation(record: bytes) -> int:
    return int(record.partition(b" ")[0])
