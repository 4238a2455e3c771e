"""Agents on a server: leases of executors that run commands, last output of tasks, deadlines of drained machines."""

from collections.abc import Mapping, Sequence

from omega.cellstate.consumption import STREAM
from omega.cellstate.errors import Duplicate, Fenced, Refused
from omega.cellstate.health import HealthAnswer, HealthReport
from omega.cellstate.incarnations import check_member, check_nonce
from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.confirmation import confirmed
from omega.cellstate.redis.executors import RedisExecutors
from omega.cellstate.redis.health_records import read_health
from omega.cellstate.redis.scripts import AT_ONCE
from omega.cellstate.replies import Heartbeat, Housekept, Membership, executor_of
from omega.cellstate.task_output import ANSWER_MS, MOST_ASKED, OutputPart, OutputRequest
from omega.cellstate.task_progress import TaskProgress, pack_progress, unpack_progress
from omega.cellstate.transaction import Position

TAILS, TAIL_MS = 1_000, 24 * 3600 * 1000
"""Maximum number of outputs kept, and time after the newest at which they, and reports of progress, expire (ms)."""


class RedisAgents(RedisExecutors):
    """Operations of agents, and the requeueing after their loss."""

    @override
    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        member = check_member(executor_of(agent))
        values = {"member": member, "name": agent, "nonce": check_nonce(nonce), "lease_ms": lease_ms}
        while True:
            reply = self._run("register_agent", self._values(at_ms, member) | values, member=member)
            if reply[0] != b"lapsed":
                break
            if not self.store_older_than(lease_ms):
                raise Duplicate(f"agent {agent}: the last one of this name may still come back; try again in a moment")
            self.deregister_executor(Membership(member, int(reply[1])), at_ms, member)
        if reply[0] == b"taken":
            raise Duplicate(f"agent {agent}: another one lives under this name; choose another with --name, or stop it")
        if reply[0] == b"machine":
            raise Refused(f"agent {agent}: the machine of this name has another executor; choose another with --name")
        self._begin_to_execute()
        return Membership(member, int(reply[1]))

    @override
    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        values = {**membership._asdict(), "lease_ms": lease_ms, "index": "-" if machine is None else machine}
        reply = self._run("renew_executor", values, member=membership.member)
        if reply[0] == b"fenced":
            raise Fenced(f"{membership.member}: its lease lapsed; its tasks go elsewhere")
        self._check_whole(membership.member)
        _, agents, record, runs, version, tag, unsettled = reply
        self._see(Position(int(version), tag.decode()))
        state = MachineState(records.read_row(record, len(self.dimensions))[2]) if record else None
        listed = [] if machine is None else records.read_runs(machine, runs.decode())
        return Heartbeat(int(agents), state, listed, bool(unsettled))

    @override
    def read_live_schedulers(self) -> None:
        known = self._command(self.client.hkeys, self._prefix + "schedulers")
        self.may_wake(self._leases([name.decode() for name in known]))

    # Last output

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""
        texts, answers = [f"{machine} {placement}" for machine, placement in asked], list[bytes]()
        for start in range(0, len(texts), AT_ONCE):
            answers += self._run("start", {"dims": len(self.dimensions)}, texts[start : start + AT_ONCE])
        self._check_whole("executor")
        return [answer.decode() for answer in answers]

    @override
    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        rest: list[object] = []
        for field, text in tails.items():
            rest += [" ".join(map(str, field)), text]
        if rest:
            self._run("tail", {"most": TAILS, "expire_ms": TAIL_MS}, rest)

    @override
    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        values = {"machine": machine, "text": pack_progress(tasks), "expire_ms": TAIL_MS}
        self._run("progress", values, own={"progress": f"progress:{job_id}"})

    @override
    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        key = f"progress:{job_id}"
        known = ((b"%d" % machine, record) for machine, record in self._fields(key, machines) if record)
        return {int(machine): tasks for machine, tasks in self._readable(key, known, unpack_progress)}

    @override
    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        values = {
            "dims": len(self.dimensions), "job": report.job, "machine": report.machine, "max_down": report.max_down,
            "now": now_ms, "until_ms": now_ms + report.span_ms, "cursor": cursor,
        }  # fmt: skip
        tasks = [f"{placement} {task} {state}" for placement, task, state in report.tasks]
        _, after, *granted = self._run("health", values, tasks)
        pairs = (each.decode().split(" ") for each in granted)
        return HealthAnswer(frozenset((int(placement), int(task)) for placement, task in pairs), int(after))

    @override
    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if not due)

    @override
    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if due)

    def _health(self, job_id: str) -> tuple[tuple[int, ...], ...]:
        ((_, text),) = self._fields("health", [job_id])
        return self._record("health", job_id, read_health, text or b"") or ()

    @override
    def request_output(self, executor: int, request: OutputRequest) -> bool:
        values = {"most": MOST_ASKED, "message": request.message()}
        return bool(self._run("request_output", values, own={"box": f"box:{executor}"})[0] == b"ok")

    @override
    def answer_output(self, name: str, part: OutputPart) -> None:
        values = {"text": part.pack(), "expire_ms": ANSWER_MS}
        self._run("answer_output", values, own={"answer": f"answer:{name}"})

    @override
    def output_part(self, name: str) -> OutputPart | None:
        answer = self._command(self.client.get, f"{self._prefix}answer:{name}")
        return self._record("answer", name, OutputPart.unpack, answer) if answer is not None else None

    @override
    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        ((_, output),) = self._fields("output", [f"{job} {group} {task} {stream}"])
        return output

    @override
    def measured(self, job: str) -> list[bytes]:
        key, pattern = self._prefix + "output", f"{job} * {STREAM}"
        outputs = self._command(lambda: dict(self.client.hscan_iter(key, match=pattern, count=TAILS)))
        return [outputs[field] for field in sorted(outputs)]

    # Deadlines of drained machines

    @override
    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        if self.dry:
            return
        key, until = self._prefix + "drains", None if milliseconds is None else self.store_ms() + milliseconds
        call = ("HDEL", key, machine) if until is None else ("HSET", key, machine, until)
        self._command(confirmed, self.client, self._confirmation, *call)

    @override
    def deadlines(self) -> dict[int, int]:
        drains = self._hash("drains")
        now = self.store_ms() if drains else 0
        untils = self._readable("drains", drains.items(), int)
        return {int(machine): until - now for machine, until in untils if machine.isdecimal()}

    # Housekeeping; its time is the server's

    @override
    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        values = self._values(at_ms, by) | {"now": self.store_ms(), "most": most}
        _, ended, queued, more = self._run("housekeep", values, extra=self._hints())
        return Housekept(int(ended), int(queued), bool(more))

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when, in ms of the server's clock."""
        chores = self._command(self.client.zrange, self._prefix + "housekeeping", 0, -1, withscores=True)
        return {job_id.decode(): int(when) for job_id, when in chores}

    @override
    def placed_by(self) -> tuple[tuple[int, int], ...]:
        ticks = self._command(self.client.hget, self._prefix + "meta", "ticks")
        return self._record("meta", "ticks", _ticks, ticks or b"") or ()


def _ticks(text: bytes) -> tuple[tuple[int, int], ...]:
    pairs = (each.split(b":") for each in text.split())
    return tuple((int(at), int(last)) for at, last in pairs)
