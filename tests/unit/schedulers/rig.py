"""A live scheduler taken apart: a cell on a fake server, a clock that only moves when somebody waits,
a connection that fails when told to.
"""

from collections.abc import Callable
from copy import copy as copied
from typing import Any

import fakeredis
import redis

from omega.cellstate.keys import prefix
from omega.cellstate.model import Gang, Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.link import Link
from omega.cellstate.redis.schedulers import RedisSchedulers
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from omega.cellstate.verify import verify
from omega.schedulers.instruments import Figures
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.loop import Answer, Arrived, Commit, Effect, Receive, attempts
from omega.schedulers.presets import batch
from omega.schedulers.scheduler import Scheduler

LEASE_MS = 600_000
"""Longer than any test takes: a lease ends when the test ends it."""
FIRST = 2
"""The incarnation of the scheduler when it begins; the executor of its machines came before it."""


class Clock:
    """Wall clock and sleep in one. `at` holds what happens when so much has been slept."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float] = []
        self.at: list[tuple[float, Callable[[], object]]] = []

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
        for due in [due for due in self.at if due[0] <= self.seconds]:
            self.at.remove(due)
            due[1]()

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        self.at.append((self.seconds + seconds, happens))


class FaultyLink(Link):
    """Loses what `faults` says, in order: ``send`` fails before the store hears of it, ``reply`` after it acted."""

    def __init__(self, client: "redis.Redis") -> None:
        super().__init__(client)
        self.faults: list[str] = []
        self.sent = 0

    def _transmit(self) -> None:
        if self.faults[:1] == ["send"]:
            self._lose()
        self.sent += 1
        super()._transmit()

    def receive(self) -> Any:
        if self.faults[:1] == ["reply"]:
            self._lose()
        return super().receive()

    def _lose(self) -> None:
        self.faults.pop(0)
        self.close()
        raise redis.ConnectionError("cut by the test")


class PatientCell(RedisCell):
    """A cell whose waits move the clock instead of passing."""

    def __init__(self, client: "redis.Redis", clock: Clock) -> None:
        super().__init__(client, "c", Dimensions())
        self.clock, self.link = clock, FaultyLink(client)
        self.schedulers = PatientSchedulers(self)


class PatientSchedulers(RedisSchedulers):
    def __init__(self, cell: PatientCell) -> None:
        super().__init__(cell, cell.jobs)
        self._link, self.clock = cell.link, cell.clock

    def wait_for_work(self, member: str, seconds: float) -> str:
        key = f"{prefix(self._calls.name)}wake:{member}"
        token = self._calls.command(self._calls.client.lpop, key)
        if token is None:
            self.clock.pause(seconds)
            token = self._calls.command(self._calls.client.lpop, key)
        return "" if token is None else str(token.decode())


def spec(job_id: str, count: int = 1, need: tuple[int, int] = (100, 100), gang: Gang = Gang.NO, **more: Any) -> JobSpec:
    return JobSpec(job_id, job_id, "batch", (TaskGroup(need, count),), gang=gang, **more)


class Rig:
    """One live scheduler step by step, and `other`, the connection for changes by all other clients."""

    def __init__(
        self,
        *machines: tuple[int, int],
        scheduler: Scheduler | None = None,
        pipelined: bool = True,
        server: fakeredis.FakeServer | None = None,
        member: str = "batch/0",
        connect: Callable[[], "redis.Redis"] | None = None,
    ) -> None:
        """`connect` opens a client of a real server, instead of a fake one."""
        self.clock, self.server = Clock(), server or fakeredis.FakeServer()
        connect = connect or (lambda: fakeredis.FakeRedis(server=self.server))
        self.client = connect()
        self.other = RedisCell.create(connect(), "c")
        self.join(*machines)
        self.cell = PatientCell(self.client, self.clock)
        self.scheduler = scheduler or batch("rig")
        self.figures, self.commits = Figures(), 0
        self.scheduler.instruments.append(self.figures)
        now, pause = self.clock.now, self.clock.pause
        self.live = LiveDriver(self.cell, self.scheduler, member, now, pause, lease_ms=LEASE_MS, pipelined=pipelined)
        self.begin()

    def begin(self) -> None:
        """Start the attempt loop."""
        self.loop = attempts(self.scheduler)
        self.effect: Effect = next(self.loop)
        self.answers: list[tuple[Effect, Answer]] = []

    # The scheduler

    def step(self) -> Answer:
        answer = self.live.answer(self.effect)
        self.answers.append((copied(self.effect), answer))  # the loop uses it again
        self.effect = self.loop.send(answer)
        return answer

    def until(self, reached: Callable[[], bool], most: int = 2_000) -> None:
        for _ in range(most):
            if reached():
                return
            self.step()
        raise AssertionError(f"not reached in {most} effects; {self.counts()}")

    def until_placed(self, *job_ids: str) -> None:
        self.until(lambda: all(self.left(job_id) == 0 for job_id in job_ids))
        self.rest()

    def until_commit(self) -> Commit:
        """Up to a commit that claims something, not sent yet."""
        self.until(lambda: isinstance(self.effect, Commit) and bool(self.effect.transactions))
        assert isinstance(self.effect, Commit)
        return self.effect

    def rest(self) -> None:
        """Until nothing is in flight, nothing has arrived and nothing queued is due: the next thing is to wait."""
        live = self.live
        self.until(
            lambda: (
                isinstance(self.effect, Receive)
                and (self.effect.until is None or self.effect.until > self.clock.seconds)
                and not (live._jobs or live._renewed)
            )
        )

    def arrived(self) -> list[Arrived]:
        return [answer for _, answer in self.answers if isinstance(answer, Arrived)]

    # Other clients

    def join(self, *machines: tuple[int, int]) -> None:
        there = len(self.other.machines.all())
        self.other.executors.register("simulated", "n", 600_000, 0)
        self.other.machines.join(
            "simulated", [MachineSpec(f"m{there + i}", amounts) for i, amounts in enumerate(machines)], 0
        )

    def submit(self, *jobs: JobSpec) -> list[str]:
        self.other.schedulers.members()  # the schedulers to notify
        self.other.jobs.submit(jobs, int(self.clock.seconds * 1000), "ada")
        return [job.id for job in jobs]

    def foreign(self, job_id: str, machine: int, count: int, mode: Mode = Mode.INCREMENTAL) -> Verdict:
        """Another scheduler places tasks."""
        membership = self.other.schedulers.register("batch/foreign", "nonce", LEASE_MS, 0)
        self.commits += 1
        transaction = Transaction(job_id, (Claim(machine, 0, count),), mode)
        reply = self.other.schedulers.commit(CommitRequest(membership, self.commits, [transaction], Position(), 0))
        return reply.outcomes[0].claims[0][1]

    def end(self, *job_ids: str, how: EndKind = EndKind.FINISHED) -> None:
        """End everything that runs of some jobs."""
        runs = [run for run in self.other.machines.runs(range(len(self.other.machines.all()))) if run.job in job_ids]
        reason = "drain" if how is EndKind.EVICTED else ""
        self.other.executors.end(
            [TaskEnd(run.machine, run.placement, how, "*", reason) for run in runs], 0, "simulated"
        )

    def expire(self, member: str = "batch/0") -> None:
        """The lease ends."""
        assert self.other.client.delete(f"{prefix('c')}lease:{member}") == 1

    def job(self, job_id: str) -> Job:
        job = self.other.jobs.get(job_id)
        assert job is not None
        return job

    def left(self, job_id: str) -> int:
        return self.job(job_id).unplaced

    def placed(self, job_id: str) -> int:
        return sum(group.placed for group in self.job(job_id).groups)

    def counts(self) -> dict[str, tuple[int, int]]:
        """(unplaced, placed) by job."""
        return {job.id: (job.unplaced, sum(group.placed for group in job.groups)) for job in self.other.jobs.all()}

    def facts(self, word: str) -> list[tuple[str, ...]]:
        """Lines of the log that begin with a word, but for the executor's."""
        found = [fact.event[1:] for fact in self.other.log.facts(most=100_000) if fact.event[0] == word]
        return [words for words in found if words[0] != "simulated"]

    def check(self) -> None:
        """Every invariant of the cell holds, and the copy is the store's."""
        report = verify(self.other)
        assert report.ok, report.violations
        self.rest()
        self.live.snapshot.apply(self.other.schedulers.sync(self.live.snapshot.position))
        rows = self.other.schedulers.sync(Position()).rows
        size = len(self.other.dimensions)
        for row in rows:
            free = (row[4 : 4 + size] - row[4 + size :]).tolist() if row[2] == 0 else [-1] * size
            assert [int(room[row[0]]) for room in self.live.snapshot.room] == free
