"""A cell on a fake server with executors, and a scheduler controlled by the test."""

import fakeredis

from omega.cellstate.model import Gang, Job, JobSpec, MachineSpec, Run, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.executors import RedisExecutors
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction
from omega.cellstate.verify import verify
from omega.live.simulated.executor import SimulatedExecutor
from tests.unit.schedulers.rig import LEASE_MS, Clock


class WaitingExecutors(RedisExecutors):
    """Executors whose wait for messages moves the clock instead of passing."""

    def __init__(self, cell: RedisCell, clock: Clock) -> None:
        super().__init__(cell, cell.machines)
        self.clock = clock

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        found = super().receive_lines(executor, most)
        if not found and wait_seconds:
            self.clock.pause(wait_seconds)
            found = super().receive_lines(executor, most)
        return found


class WaitingCell(RedisCell):
    def __init__(self, server: fakeredis.FakeServer, clock: Clock) -> None:
        super().__init__(fakeredis.FakeRedis(server=server), "c", Dimensions())
        self.executors = WaitingExecutors(self, clock)


class Yard:
    """Two machines of 1,000 for each executor, and a scheduler controlled by the test."""

    def __init__(self, *names: str, speed: float = 1.0) -> None:
        self.clock, self.server, self.speed = Clock(), fakeredis.FakeServer(), speed
        self.cell = RedisCell.create(fakeredis.FakeRedis(server=self.server), "c")
        self.member: Membership = self.cell.schedulers.register("batch/0", "n", LEASE_MS, 0)
        self.commits = 0
        self.executors = {name: self.executor(name) for name in names or ("a",)}
        for name, executor in self.executors.items():
            executor.join([MachineSpec(f"{name}{i}", (1_000, 1_000)) for i in range(2)])
            executor.serve("n")

    def executor(self, name: str = "a") -> SimulatedExecutor:
        return SimulatedExecutor(WaitingCell(self.server, self.clock), name, self.clock.now, speed=self.speed)

    def submit(self, name: str, tasks: int, amount: int = 100, *, seconds: float = 10.0, precedence: int = 0) -> str:
        group = TaskGroup((amount, amount), tasks, int(seconds * 1000))
        self.cell.jobs.submit([JobSpec(name, name, "batch", (group,), precedence, Gang.NO)], 0, "ada")
        return name

    def place(self, name: str, *claims: tuple[int, int], evict: tuple[tuple[int, int], ...] = ()) -> None:
        """Place (machine, tasks) of a job."""
        self.commits += 1
        made = tuple(Claim(machine, 0, count, seen=0, evict=evict) for machine, count in claims)
        transaction = Transaction(name, made, Mode.INCREMENTAL)
        reply = self.cell.schedulers.commit(CommitRequest(self.member, self.commits, [transaction], Position(), 0))
        assert reply.outcomes[0].accepted, reply.outcomes

    def run(self, name: str, tasks: int, machine: int = 0, **more: float) -> str:
        self.submit(name, tasks, **more)  # type: ignore[arg-type]
        self.place(name, (machine, tasks))
        return name

    def placed(self, name: str) -> Run:
        """Where a job's tasks are that are not leaving."""
        return next(run for run in self.cell.machines.runs(range(6)) if run.job == name and not run.leaving)

    def take_back(self, name: str, tasks: str = "*", how: EndKind = EndKind.EVICTED) -> None:
        run, reason = self.placed(name), "drain" if how is EndKind.EVICTED else ""
        self.cell.executors.end([TaskEnd(run.machine, run.placement, how, tasks, reason)], 0, "ada")

    def job(self, name: str) -> Job:
        found = self.cell.jobs.get(name)
        assert found is not None
        return found

    def counts(self, name: str) -> tuple[int, int, int]:
        """Tasks unplaced, placed, finished."""
        group = self.job(name).groups[0]
        return group.unplaced, group.placed, group.finished

    def leaving(self) -> list[str]:
        return [run.job for run in self.cell.machines.runs(range(6)) if run.leaving]

    def message(self, executor: SimulatedExecutor, *messages: str) -> None:
        """Put a message into an executor's mailbox, as the store does."""
        self.cell.client.rpush(f"omega:1:{{c}}:box:{executor.number}", *messages)

    def messages(self, executor: SimulatedExecutor) -> list[str]:
        """Return the messages in the mailbox without removing them."""
        found = self.cell.client.lrange(f"omega:1:{{c}}:box:{executor.number}", 0, -1)
        return [message.decode() for message in found]  # type: ignore[union-attr]

    def check(self) -> None:
        report = verify(self.cell)
        assert report.ok, report.violations


def steps(executor: SimulatedExecutor, number: int = 4, wait: float = 0.0) -> int:
    return sum(executor.step(wait) for _ in range(number))


def held_at_b(yard: Yard, *names: str, seconds: float = 0.0) -> None:
    """Jobs of one task that leave executor a's machines and are placed on b's."""
    for name in names:
        yard.run(name, 1, seconds=seconds)
        yard.take_back(name)
        yard.place(name, (2, 1))
