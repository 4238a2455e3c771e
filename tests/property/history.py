"""A random history of a cell: most calls of a scheduler or an executor do something, so much happens in few calls."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.model import After, Gang, JobSpec, JobState, Limits, MachineSpec, MachineState, Run, TaskGroup
from omega.cellstate.override import override
from omega.cellstate.pools import ROOT, Pool, Pools, PoolTree
from omega.cellstate.replies import Budget, CommitRequest, Original
from omega.cellstate.resources import Resources
from omega.cellstate.tasks import EndKind, HealthOf, HealthReport, HealthState, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from tests.property.gathering import gather
from tests.property.worlds import EVERY_BUCKET, LEASE_MS, MEMBERS, World, Worlds

NEEDS = ((1, 1, 0, 2), (2, 1, 1, 0), (1, 3, 2, 1), (0, 1, 3, 1), (4, 4, 1, 2), (0, 0, 0, 0))
"""Amounts of a task in four resources; a cell with fewer takes the first of them."""
EXECUTORS, NAMES = ("e0", "e1"), ("m0", "m1", "m2", "m3")
CALLS: tuple[tuple[str, int], ...] = (
    ("submit", 14), ("place", 40), ("end", 30), ("leave", 12), ("lose", 8), ("tear", 4), ("tend", 8), ("resize", 6),
    ("hold", 4), ("update", 4), ("stop", 3), ("machine", 6), ("limit", 2), ("executor", 4), ("member", 3), ("again", 2),
    ("look", 3),
)  # fmt: skip
"""What may happen, and how often."""


class History:
    """Calls drawn from a seeded generator, made on every cell at once."""

    calls = CALLS

    def __init__(self, worlds: Worlds, rng: Random) -> None:
        self.worlds, self.twin, self.rng = worlds, worlds.twin, rng
        self.jobs = self.number = 0
        self.last: tuple[int, list[Transaction], int] | None = None
        for executor in EXECUTORS:
            self.register(executor, "first")
        self.resources = len(worlds.twin.dimensions)
        machines = [MachineSpec(name, self.size()) for name in NAMES]
        self.do(lambda world: world.cell.machines.join("e0", machines, 0))
        self.register_scheduler("first")

    def run(self, calls: int) -> None:
        """Make so many calls; compare all records every 25th."""
        words, weights = [word for word, _ in self.calls], [weight for _, weight in self.calls]
        for call, word in enumerate(self.rng.choices(words, weights, k=calls), 1):
            getattr(self, word)()
            if call % 25 == 0:
                self.worlds.compare()

    def do(self, operation: Callable[[World], Any]) -> tuple[str, Any]:
        return self.worlds.do(operation)

    def amounts(self, choices: Sequence[Resources]) -> Resources:
        """One of the choices, in the resources of the cell."""
        return self.rng.choice(choices)[: self.resources]

    def size(self) -> Resources:
        return self.amounts([(8, 8, 12, 5), (12, 6, 4, 30), (5, 20, 9, 9), (30, 30, 20, 40)])

    def tick(self, most: int = 5) -> int:
        self.worlds.now += self.rng.randint(1, most)
        return self.worlds.now

    def often(self) -> bool:
        return self.rng.random() < 0.85

    def a_job(self) -> str:
        waiting = [job_id for ids in self.twin.schedulers.pending().values() for job_id in ids]
        return self.rng.choice([*waiting * 3, *self.twin.J, "absent"])

    def a_part(self, tasks: str) -> str:
        """All of the tasks, or some."""
        numbers = ranges.indices(tasks)
        if self.rng.random() < 0.4:
            return self.rng.choice(["*", tasks])
        return gather(sorted(self.rng.sample(numbers, self.rng.randint(1, len(numbers)))))

    def runs(self, *, leaving: bool) -> list[Run]:
        return [run for run in self.twin.machines.runs(list(self.twin.M)) if run.leaving == leaving]

    # Jobs

    def submit(self) -> None:
        rng = self.rng
        self.jobs += 1
        gang = rng.choice([Gang.NO] * 4 + [Gang.YES, Gang.STRICT, Gang.STRICT])
        groups = tuple(
            TaskGroup(
                self.amounts(NEEDS), rng.randint(1, 4 if gang else 9), rng.choice([0, 5]),
                optional=i > 0 and rng.random() < 0.4, budget=rng.choice([10, 10, 1, 0]), once=rng.random() < 0.1,
            )
            for i in range(rng.choice([1, 1, 2]))
        )  # fmt: skip
        after = tuple(After(job, rng.random() < 0.5) for job in list(self.twin.J)[-2:] if rng.random() < 0.12)
        extra = {"user": rng.choice(["u1", "u2"]), "pool": rng.choice(["", "p"])}
        name = f"j{self.jobs}"
        job = JobSpec(name, name, rng.choice(["batch", "batch", "service"]), groups, rng.randint(0, 3),
                      gang, extra, after, self.minimum(gang, groups))  # fmt: skip
        at, held = self.tick(), rng.random() < 0.05
        self.do(lambda world: world.cell.jobs.submit([job], at, "ada", held=held))

    def minimum(self, gang: Gang, groups: Sequence[TaskGroup]) -> int:
        """How many tasks of a gang must be placed together; 0: all of them."""
        total = sum(group.count for group in groups)
        return self.rng.randint(1, total) if gang and self.rng.random() < 0.4 else 0

    def resize(self) -> None:
        job_id, at, rng = self.a_job(), self.tick(), self.rng
        groups = self.twin.J[job_id].groups if job_id in self.twin.J else []
        totals = {g.number: max(0, g.total + rng.randint(-4, 3)) for g in groups if self.often()} or {0: 3}
        seen = {g.number: g.total for g in groups} if rng.random() < 0.3 else None
        self.do(lambda world: world.cell.jobs.resize(job_id, totals, at, "ada", None, seen))

    def hold(self) -> None:
        held, at = [j.id for j in self.twin.J.values() if "*" in j.waits], self.tick()
        if held and self.often():
            self.do(lambda world: world.cell.jobs.release(held[0], at, "ada"))
        else:
            job_id = self.a_job()
            self.do(lambda world: world.cell.jobs.hold(job_id, at, "ada"))

    def update(self) -> None:
        job_id, at, rng = self.a_job(), self.tick(), self.rng
        if rng.random() < 0.5:
            reason = rng.choice(["", "its tasks fail"])
            self.do(lambda world: world.cell.jobs.settle(job_id, reason, at, "batch/0"))
            return
        spec = self.twin.J[job_id].spec if job_id in self.twin.J else {}
        groups = [TaskGroup((1, 1, 1, 1)[: self.resources], 0, 7)] * rng.randint(0, 1)
        extra = {**spec, "turn": rng.randint(0, 3)}
        self.do(lambda world: world.cell.jobs.update(job_id, groups, extra, at, "ada"))

    def stop(self) -> None:
        job_id, at = self.a_job(), self.tick()
        state, keep = self.rng.choice(
            [(JobState.STOPPED, False), (JobState.ABANDONED, False), (JobState.ABANDONED, True)]
        )
        self.do(lambda world: world.cell.jobs.stop(job_id, at, "ada", state, keep=keep))

    # Placements

    def transaction(self, job_id: str) -> Transaction:
        rng = self.rng
        job = self.twin.jobs.get(job_id)
        up = [m.index for m in self.twin.M.values() if m.state is MachineState.UP] or [0]
        claims = []
        for number, group in enumerate(job.groups if job else ()):
            left = group.unplaced
            while left > 0 and (self.often() or (job and job.gang)):
                count = rng.randint(1, left)
                machine = rng.choice(up if self.often() else [*self.twin.M, 99])
                claims.append(self.claim(machine, number, count + (rng.random() < 0.05)))
                left -= count
        if job and job.gang_min and len(claims) > 1 and rng.random() < 0.5:
            del claims[rng.randrange(len(claims)) :]
        gang = bool(job and job.gang) if self.often() else rng.random() < 0.5
        detection = rng.choice([Detection.FINE, Detection.FINE, Detection.COARSE])
        whole = tuple(claims) or (Claim(0, rng.randint(0, 1), 1),)
        return Transaction(job_id, whole, Mode.GANG if gang else Mode.INCREMENTAL, detection)

    def claim(self, machine: int, group: int, count: int) -> Claim:
        rng, row = self.rng, self.twin.M.get(machine)
        seen = row.number if row and self.often() else 0
        there = [run.placement for run in self.twin.machines.runs([machine])] if row else []
        victims = rng.choices([*there * 4, 99], k=rng.randint(1, 4)) if rng.random() < 0.35 else []
        return Claim(machine, group, count, seen=seen, evict=tuple((victim, rng.randint(1, 4)) for victim in victims))

    def place(self, jobs: Sequence[str] = ()) -> None:
        """Claim for the given jobs, or for one to three chosen ones."""
        self.number += 1
        chosen = jobs or [self.a_job() for _ in range(self.rng.choice([1, 1, 2, 3]))]
        self.last = self.number, [self.transaction(job_id) for job_id in chosen], self.tick()
        self.commit()

    def commit(self) -> None:
        if self.last is None:
            return
        number, transactions, at = self.last
        name = MEMBERS[0]

        def operation(world: World) -> Any:
            asked = world.intake(name, 3, EVERY_BUCKET)
            since = world.positions[name][-1] if self.worlds.now % 5 else Position()
            reply = world.cell.schedulers.commit(
                CommitRequest(world.memberships[name], number, transactions, since, at, intake=asked)
            )
            return world.take(name, reply, latest=since == world.positions[name][-1])

        self.do(operation)

    def again(self) -> None:
        """The last call is sent again, or an older one."""
        self.commit()
        if self.last and self.rng.random() < 0.5:
            self.last = max(0, self.last[0] - 1), *self.last[1:]  # numbers begin with 1
            self.commit()

    # Tasks

    def endings(self, *, leaving: bool, hows: list[EndKind]) -> list[TaskEnd]:
        there = self.runs(leaving=leaving)
        chosen = self.rng.choices(there, k=self.rng.randint(1, 3)) if there else []
        return [
            TaskEnd(run.machine if self.often() else 0, run.placement, self.rng.choice(hows), self.a_part(run.tasks),
                   "drain", run.job if self.often() else "")
            for run in chosen
        ]  # fmt: skip

    def end_all(self, endings: list[TaskEnd]) -> None:
        at = self.tick()
        self.do(lambda world: world.cell.executors.end(endings, at, "e0"))

    def end(self) -> None:
        self.end_all(
            self.endings(
                leaving=False,
                hows=[EndKind.FINISHED, EndKind.FINISHED, EndKind.FAILED, EndKind.EVICTED, EndKind.STOPPED],
            )
        )

    def leave(self) -> None:
        self.end_all(self.endings(leaving=True, hows=[EndKind.LEFT]))

    def lose(self) -> None:
        """Some are lost; of these, some are reported late, before or after they are queued again."""
        lost = self.endings(leaving=False, hows=[EndKind.LOST, EndKind.RETRIED])
        self.end_all(lost)
        if self.rng.random() < 0.5:
            self.tend()
        told = [each._replace(how=self.rng.choice([EndKind.FINISHED, EndKind.FAILED])) for each in lost]
        if self.rng.random() < 0.5:
            self.end_all(told)

    def tear(self) -> None:
        """A gang loses a member, which is delayed, gets another one back, and is claimed too early."""
        gangs = [run for run in self.runs(leaving=False) if self.twin.J[run.job].gang]
        if not gangs:
            return
        job_id = self.rng.choice(gangs).job
        members = [(run, task) for run in gangs if run.job == job_id for task in ranges.indices(run.tasks)]
        chosen = self.rng.sample(members, min(2, len(members)))
        for how, (run, task) in zip((EndKind.EVICTED, EndKind.LOST), chosen, strict=False):
            self.end_all([TaskEnd(run.machine, run.placement, how, gather([task]), "drain", job_id)])
        self.place([job_id])

    def tend(self) -> None:
        at, most = self.tick(self.rng.choice([5, 2_000, 700_000])), self.rng.choice([1, 2, 1_000])
        self.do(lambda world: world.cell.jobs.housekeep(at, "batch/0", most))
        if self.rng.random() < 0.3:
            self.do(lambda world: world.cell.jobs.retire(at, 2))

    # Machines, executors, schedulers

    def machine(self) -> None:
        rng, index, at = self.rng, self.rng.choice([*self.twin.M, 99]), self.tick()
        size = self.size()
        what = rng.choice(["join", "state", "state", "capacity", "attributes"])
        if what == "join":
            specs = [MachineSpec(name, size) for name in rng.sample(NAMES, 2)]
            executor = rng.choice(EXECUTORS)
            self.do(lambda world: world.cell.machines.join(executor, specs, at))
        elif what == "state":
            state = rng.choice([MachineState.UP] * 4 + [MachineState.DRAINED, MachineState.DOWN, MachineState.GONE])
            self.do(lambda world: world.cell.machines.set_state(index, state, at, "ada"))
        elif what == "capacity":
            victims = tuple((run.placement, rng.randint(1, 3)) for run in self.twin.machines.runs([index]))
            self.do(lambda world: world.cell.machines.set_capacity(index, size, at, "ada", victims))
        else:
            changes = {"rack": rng.choice(["r1", "r2", None])}
            self.do(lambda world: world.cell.machines.set_attributes(index, changes, at, "ada"))

    def limit(self) -> None:
        rng, at = self.rng, self.tick()

        def bound(most: Sequence[int | None]) -> tuple[int | None, ...]:
            return (*most, None, None, None)[: self.resources]

        limits = rng.choice(
            [Limits(bound((None,)))] * 3
            + [Limits(bound((9, None, None, 7))), Limits(bound((None,)), 2), Limits(bound((20, 5, 9)), 3, (0, 2))]
        )
        self.do(lambda world: world.cell.pools.set_limits("batch", limits, at, "ada"))

    def register(self, name: str, nonce: str) -> None:
        def operation(world: World) -> Any:
            world.memberships[name] = world.cell.executors.register(name, nonce, LEASE_MS, at)
            return world.memberships[name]

        at = self.tick()
        self.do(operation)

    def executor(self) -> None:
        name, at, nonce = self.rng.choice(EXECUTORS), self.tick(), self.rng.choice(["first", "second"])
        if self.rng.random() < 0.4:
            if self.rng.random() < 0.7 and name in self.twin.registered:
                self.do(lambda world: world.expire_lease(name))
            reaped = self.rng.random() < 0.7
            self.do(lambda world: world.cell.executors.deregister(world.memberships[name], at, "x", reaped=reaped))
            self.do(lambda world: world.cell.executors.renew(world.memberships[name], LEASE_MS, None))
        for each in EXECUTORS:
            if self.often():
                self.register(each, nonce)

    def register_scheduler(self, nonce: str) -> None:
        def operation(world: World) -> Any:
            before = world.memberships.get(MEMBERS[0])
            world.memberships[MEMBERS[0]] = world.cell.schedulers.register(MEMBERS[0], nonce, LEASE_MS, at)
            return before == world.memberships[MEMBERS[0]]

        at = self.tick()
        if self.do(operation) == ("ok", False):
            self.number, self.last = 0, None

    def member(self) -> None:
        name, at = MEMBERS[0], self.tick()
        if self.rng.random() < 0.5 and name in self.twin.scheduler_members:
            self.do(lambda world: world.expire_lease(name))
            self.commit()
        reaped = self.rng.random() < 0.5
        self.do(lambda world: world.cell.schedulers.deregister(world.memberships[name], at, reaped=reaped))
        self.register_scheduler(self.rng.choice(["first", "second"]))

    def look(self) -> None:
        asked = [(run.machine, run.placement) for run in self.twin.machines.runs(list(self.twin.M))]
        self.do(lambda world: world.cell.executors.may_start([*asked, (0, 1), (99, 1)]))
        since = self.rng.randint(0, self.twin.version)

        def operation(world: World) -> Any:
            seen = world.cell.log.changed_records(since, 6)
            return (
                seen.version,
                seen.seen,
                sorted(seen.rows.tolist()),
                sorted(map(str, seen.jobs)),
                sorted(map(str, seen.runs)),
            )

        self.do(operation)


class CopiedHistory(History):
    """Jobs with copies of their tasks beside gangs with minimums, in pools that change, with losses and health."""

    calls = (
        ("submit", 10), ("place", 14), ("copy", 30), ("end", 10), ("leave", 8), ("lose", 5), ("tear", 3), ("tend", 6),
        ("hold", 4), ("resize", 3), ("update", 2), ("stop", 2), ("machine", 3), ("pools", 14), ("health", 6),
    )  # fmt: skip
    copied = changed = 0
    """Copies that were placed, and changes of pools while some were."""

    @override
    def size(self) -> Resources:
        return (60, 60, 60, 60)[: self.resources]

    @override
    def submit(self) -> None:
        """A job with copies, or any job."""
        if self.rng.random() < 0.3:
            super().submit()
            return
        self.jobs += 1
        name, need, at = f"j{self.jobs}", self.amounts(NEEDS[:4]), self.tick()
        groups = TaskGroup(need, self.rng.randint(1, 6), 5), TaskGroup(need, 0, 5, copies=True)
        extra = {"user": self.rng.choice(["u1", "u2"]), "pool": self.rng.choice(["", "p", "q"])}
        job = JobSpec(name, name, "batch", groups, self.rng.randint(0, 3), spec=extra)
        self.do(lambda world: world.cell.jobs.submit([job], at, "ada"))

    def copy(self) -> None:
        """Copies of running tasks are requested and placed, mostly on another machine."""
        rng = self.rng
        with_copies = [job.id for job in self.twin.J.values() if any(group.copies for group in job.groups)]
        runs = [run for run in self.runs(leaving=False) if run.job in with_copies and run.group == 0]
        if not runs:
            self.place(with_copies[-1:])
            return
        run = rng.choice(runs)
        originals = [Original(run.machine, run.placement, task) for task in ranges.indices(run.tasks)[:3]]
        at, budget = self.tick(), Budget(rng.randint(1, 6), 20)
        self.do(lambda world: world.cell.jobs.speculate(run.job, originals, budget, at, "batch/0"))
        job = self.twin.jobs.get(run.job)
        waiting = job.groups[1].unplaced if job else 0
        if waiting:
            others = [m.index for m in self.twin.M.values() if m.index != run.machine]
            machine = rng.choice(others) if others and self.often() else run.machine
            self.number += 1
            transaction = Transaction(run.job, (Claim(machine, 1, waiting),))
            self.last = self.number, [transaction], self.tick()
            self.commit()
        self.copied += self.placed_copies()

    def placed_copies(self) -> int:
        return sum(group.placed for job in self.twin.J.values() for group in job.groups if group.copies)

    def pools(self) -> None:
        """Pools get limits, weights, users, a parent or a second tree, also while copies run in them."""
        rng, known = self.rng, self.twin.pools.get()
        second = rng.choice([(), (PoolTree("racks", "has rack"),)])
        made = []
        for name in ("top", "p", "q"):
            bound = {what: rng.randint(1, 14) for what in ("tasks", "cpu", "jobs") if rng.random() < 0.5}
            parent = rng.choice([ROOT, "top"]) if name != "top" else ROOT
            tree = "racks" if second and parent == ROOT and rng.random() < 0.2 else ""
            weight, users = rng.choice([1.0, 2.0]), rng.choice([(), ("u1",)]) if name == "p" else ()
            made.append(Pool(name, parent, limits=bound, users=users, tree=tree, weight=weight))
        pools = Pools(tuple(made), (PoolTree(), *second))
        check, at = known.version, self.tick()
        answer, _ = self.do(lambda world: world.cell.pools.set(pools, check, at, "ada"))
        self.changed += answer == "ok" and self.placed_copies() > 0
        self.do(lambda world: world.cell.pools.use())

    def health(self) -> None:
        """An agent reports the tasks of a job on its machine."""
        runs = self.runs(leaving=False)
        if runs:
            run, states = self.rng.choice(runs), list(HealthState)
            tasks = [HealthOf(run.placement, task, self.rng.choice(states)) for task in ranges.indices(run.tasks)]
            down, at = self.rng.randint(0, 2), self.tick()
            said = HealthReport(job=run.job, machine=run.machine, tasks=tasks, max_down=down, span_ms=5)
            self.do(lambda world: world.cell.tasks.report_health(said, at))
            self.do(lambda world: sorted(world.cell.tasks.ready(run.job)))
