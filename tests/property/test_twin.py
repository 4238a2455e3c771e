"""The twin and the scripts, fed the same random history, agree on every answer and every record (invariant 6)."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings, strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from omega.cellstate.model import MOST_PRECEDENCE, Gang, JobSpec, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.ranges import span_text
from omega.cellstate.replies import CommitRequest, Membership, Waits, awaited_of
from omega.cellstate.resources import Resources
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Basis, Claim, Detection, Mode, Position, Transaction
from tests.property.assertions import Assertions
from tests.property.books import Books
from tests.property.executor_changes import ExecutorChanges
from tests.property.job_changes import JobChanges, amounts
from tests.property.losses import Losses, often
from tests.property.pool_changes import PoolChanges
from tests.property.worlds import EVERY_BUCKET, HALF, KEEP_MS, LEASE_MS, MEMBERS, UP, World, Worlds, endings_of

SCALES = (1, 1_000, 4_900_000_000_000)
"""Small amounts, and ones whose sums pass 10^14 (semantics 12)."""
DISTURBANCES = (
    "machine", "machine", "member", "agent", "executor", "limit", "stop", "stop", "tend", "loss", "hold", "resize",
    "update", "pools", "speculate", "speculate", "health",
)  # fmt: skip
ENDS = (EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.STOPPED, EndKind.EVICTED)
SIZES = (10, 10, 8, 9), (12, 20, 5, 14), (6, 4, 9, 3), (4, 6, 4, 8), (20, 12, 20, 6), (2, 3, 3, 2)
capacities = st.sampled_from(SIZES)


class Twins(Losses, JobChanges, ExecutorChanges, PoolChanges, Assertions):
    """Two schedulers and two executors at work on three cells at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.numbers = dict.fromkeys(MEMBERS, 0)
        self.last: dict[str, tuple[Any, ...]] = {}
        self.scale = 1
        self.jobs = 0

    def tick(self, most: int = 3) -> int:
        self.now += most
        self.worlds.now = self.now
        return self.now

    def scaled(self, vector: Resources) -> Resources:
        return tuple(amount * self.scale for amount in vector[: len(self.twin.dimensions)])

    # Choices

    def machine(self, data: st.DataObject) -> int:
        fine = [m.index for m in self.twin.M.values() if m.state is UP and any(m.allocated)]
        fine += [m.index for m in self.twin.M.values() if m.state is UP and all(m.capacity)]
        return data.draw(st.sampled_from([*fine * 5, *self.twin.M, len(self.twin.M)]), "machine")

    def some_job(self, data: st.DataObject) -> str:
        waiting = [job_id for ids in self.twin.schedulers.pending().values() for job_id in ids]
        return data.draw(st.sampled_from([*waiting * 4, *self.twin.J, "absent"]), "job")

    def victims(self, data: st.DataObject, machine: int) -> tuple[tuple[int, int], ...]:
        placements = [run.placement for run in self.twin.machines.runs([machine])] * 3 + [99]
        chosen = st.tuples(st.sampled_from(placements), st.integers(1, 4))
        return tuple(data.draw(st.lists(chosen, min_size=1, max_size=4), "victims"))

    def claim(self, data: st.DataObject, name: str, group: int, count: int, *, evicting: bool) -> Claim:
        machine = self.machine(data)
        row = self.worlds.first.copies[name].get(machine)
        here = self.twin.M.get(machine)
        seen = row[1] if row and data.draw(often) else here.number if here else 0
        return Claim(machine, group, count, seen=seen, evict=self.victims(data, machine) if evicting else ())

    def covering(self, data: st.DataObject, name: str) -> Transaction:
        """A transaction that claims everything its job still wants."""
        job_id = self.some_job(data)
        job = self.twin.jobs.get(job_id)
        evicting = not data.draw(st.integers(0, 2), "evicting")
        detection = data.draw(st.sampled_from(Detection))
        claims: list[Claim] = []
        for number, group in enumerate(job.groups if job else ()):
            left = group.unplaced
            while left > 0:
                count = data.draw(st.integers(1, left), "count")
                claims.append(self.claim(data, name, number, count, evicting=evicting))
                left -= count
        mode = Mode.GANG if job and job.gang else data.draw(st.sampled_from(Mode))
        asserted = self.asserted(data) if evicting else None
        return Transaction(job_id, tuple(claims) or (Claim(0, 0, 1),), mode, detection, asserted)

    def random(self, data: st.DataObject, name: str) -> Transaction:
        """A transaction that may be anything."""
        claims = []
        for _ in range(data.draw(st.integers(1, 4), "claims")):
            group, count = data.draw(st.sampled_from([0, 0, 0, 1, 2])), data.draw(st.sampled_from([1, 2, 3, 1, 0]))
            claims.append(self.claim(data, name, group, count, evicting=not data.draw(st.integers(0, 2))))
        mode, detection = data.draw(st.sampled_from(Mode)), data.draw(st.sampled_from(Detection))
        return Transaction(self.some_job(data), tuple(claims), mode, detection, self.asserted(data))

    # The beginning

    @initialize(
        scale=st.sampled_from(SCALES),
        sizes=st.lists(capacities, min_size=2, max_size=4),
        resources=st.sampled_from([2, 2, 1, 3, 4]),
    )
    def begin(self, scale: int, sizes: list[Resources], resources: int) -> None:
        self.worlds = Worlds(resources=resources)
        self.twin = self.worlds.twin
        self.books = Books(self.twin)
        self.scale = scale
        machines = [MachineSpec(f"m{i}", self.scaled(size)) for i, size in enumerate(sizes)]
        self.worlds.do(lambda world: world.cell.executors.register("e0", "first", LEASE_MS, 0))
        self.worlds.do(lambda world: world.cell.machines.join("e0", machines, 0))
        for name in MEMBERS:
            self.register_scheduler(name, "first")

    # Jobs

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        words = data.draw(st.sampled_from([{}, {}, {"restart": [1, {"a": None}]}]), "words")
        jobs = []
        for _ in range(data.draw(st.integers(1, 3), "jobs")):
            self.jobs += 1
            number = self.jobs if data.draw(often) else data.draw(st.integers(1, self.jobs))
            name = number if data.draw(often) else 1
            groups = data.draw(st.lists(st.tuples(amounts, st.integers(1, 5)), min_size=1, max_size=2), "groups")
            spare = data.draw(st.sampled_from([False, False, False, True]), "the last group is optional")
            budget, once = data.draw(st.sampled_from([(10, False), (10, False), (1, False), (0, False), (10, True)]))
            tasks = tuple(
                TaskGroup(self.scaled(need), count, 5, words, optional=spare and i == 1, budget=budget, once=once)
                for i, (need, count) in enumerate(groups)
            )
            copied = not once and not spare and len(tasks) == 1 and data.draw(often)
            if copied:
                tasks += (TaskGroup(tasks[0].need, 0, 5, words, copies=True),)
            kind, precedence = data.draw(st.sampled_from(["batch", "service"])), data.draw(st.integers(0, 3))
            gang = Gang.NO if copied else data.draw(st.sampled_from([Gang.NO, Gang.NO, *Gang]))
            extra = {**({"policy": words} if words else {}), "user": f"u{number % 3}", "pool": "p q"[: number % 2]}
            least = data.draw(st.sampled_from([0, 1, 2, 3]), "minimum") if gang else 0
            least = min(least, sum(group.count for group in tasks))
            spec = JobSpec(f"j{number}", f"n{name}", kind, tasks, precedence, gang, extra, self.waits(data), least)
            jobs.append(spec)
        at, held = self.tick(), data.draw(st.integers(0, 40)) == 17
        self.worlds.do(lambda world: world.cell.jobs.submit(jobs, at, "ada", held=held))

    def stop(self, data: st.DataObject) -> None:
        job_id, at = self.some_job(data), self.tick()
        state = data.draw(st.sampled_from([JobState.STOPPED, JobState.ABANDONED]))
        keep = state is JobState.ABANDONED and data.draw(st.booleans())
        self.worlds.do(lambda world: world.cell.jobs.stop(job_id, at, "ada", state, keep=keep))

    # Transactions

    def find_work(self, data: st.DataObject) -> None:
        if sum(map(len, self.twin.schedulers.pending().values())) < 2:
            self.submit(data)

    def commit(self, name: str, transactions: list[Transaction], data: st.DataObject) -> None:
        if name not in self.twin.scheduler_members or not self.twin.scheduler_members[name].lives:
            self.register_scheduler(name, f"nonce{self.tick()}")
        self.numbers[name] += data.draw(st.integers(1, 2))
        back = data.draw(st.sampled_from([0, 0, 0, 1, 3, -1]), "positions back; -1: a tag the store does not know")
        self.last[name] = self.numbers[name], transactions, self.tick(), back, data.draw(st.integers(0, 3))
        self.carry_out(name, first=True)

    @rule(name=st.sampled_from(MEMBERS), data=st.data())
    def commit_whole(self, name: str, data: st.DataObject) -> None:
        self.find_work(data)
        self.commit(name, [self.covering(data, name) for _ in range(data.draw(st.integers(1, 3)))], data)

    @rule(name=st.sampled_from(MEMBERS), data=st.data())
    def commit_more(self, name: str, data: st.DataObject) -> None:
        self.find_work(data)
        self.commit(name, [self.covering(data, name) for _ in range(data.draw(st.integers(1, 3)))], data)

    @rule(name=st.sampled_from(MEMBERS), data=st.data())
    def commit_random(self, name: str, data: st.DataObject) -> None:
        self.find_work(data)
        self.commit(name, [self.random(data, name) for _ in range(data.draw(st.integers(0, 4)))], data)

    def carry_out(self, name: str, *, first: bool) -> None:
        number, transactions, at, back, most = self.last[name]

        def operation(world: World) -> tuple[Any, ...]:
            known = world.positions[name]
            since = Position(known[-1].version, "elsewhere-") if back < 0 else known[max(0, len(known) - 1 - back)]
            asked = world.intake(name, most, EVERY_BUCKET)
            basis = Basis(known[0].version, at - 1) if number % 2 else None
            reply = world.cell.schedulers.commit(
                CommitRequest(world.memberships[name], number, transactions, since, at, intake=asked, basis=basis)
            )
            return world.take(name, reply, latest=since == known[-1])

        status, answer = self.worlds.do(operation)
        if status == "ok" and first:
            self.books.saw_commit(transactions, answer[4])

    @rule(name=st.sampled_from(MEMBERS), most=st.integers(0, 3), owned=st.sampled_from([EVERY_BUCKET, HALF]))
    def sync(self, name: str, most: int, owned: str) -> None:
        def operation(world: World) -> tuple[Any, ...]:
            asked = world.intake(name, most, owned)
            reply = world.cell.schedulers.sync(world.positions[name][-1], asked)
            world.took(name, reply)
            result = world.take(name, reply, latest=True)
            assert world.copies[name] == world.store_rows(), "delta and full read give the same"
            return result

        self.worlds.do(operation)

    # Tasks

    @precondition(lambda self: any(m.runs for m in self.twin.M.values()))
    @rule(data=st.data(), leaving=st.booleans(), whole=st.booleans())
    def end(self, data: st.DataObject, leaving: bool, whole: bool) -> None:
        there = endings_of(self.twin, leaving=leaving) or [TaskEnd(0, 1, EndKind.FINISHED)]
        endings = []
        late = [
            TaskEnd(index, loss.placement, EndKind.FINISHED, span_text(loss.tasks), "", j.id)
            for j in self.twin.J.values() for g in j.groups for loss in g.losses for index in [0]
        ]  # fmt: skip
        for ending in data.draw(st.lists(st.sampled_from(there + late * (not leaving)), min_size=1, max_size=4)):
            how = EndKind.LEFT if leaving else data.draw(st.sampled_from(ENDS))
            part = "*" if whole else data.draw(st.sampled_from([ending.tasks, "0", "1-2", "0,2", "7"]))
            placement = ending.placement + (not data.draw(often))
            endings.append(
                TaskEnd(
                    ending.machine, placement, how, part, "fair-share" if how is EndKind.EVICTED else "", ending.job
                )
            )
        if endings[0].how in (EndKind.EVICTED, EndKind.STOPPED) and data.draw(st.booleans(), "acknowledged"):
            endings.append(endings[0]._replace(how=EndKind.LEFT, tasks="*", job=self.some_job(data)))
        at = self.tick()
        jobs = {each.placement: each.job for each in endings if each.job and each.how is not EndKind.LEFT}
        jobs |= {run.placement: run.job for run in self.twin.machines.runs(list(self.twin.M))}
        status, counts = self.worlds.do(lambda world: world.cell.executors.end(endings, at, "e0"))
        assert status == "ok"
        self.books.saw_end(endings, jobs, counts)

    @rule(data=st.data())
    def empty_a_machine(self, data: st.DataObject) -> None:
        index, at = self.machine(data), self.tick()
        endings = [e for leaving in (True, False) for e in endings_of(self.twin, leaving=leaving) if e.machine == index]
        jobs = {run.placement: run.job for run in self.twin.machines.runs([index])}
        _, counts = self.worlds.do(lambda world: world.cell.executors.end(endings, at, "e0"))
        self.books.saw_end(endings, jobs, counts)

    # What happens more rarely

    disturbances: tuple[str, ...] = DISTURBANCES

    @rule(data=st.data())
    def disturb(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(self.disturbances), "what")
        if what == "machine":
            self.change_machine(data)
        elif what == "member":
            self.change_member(data)
        elif what == "agent":
            self.change_agent(data)
        elif what == "executor":
            self.change_executor(data)
        elif what == "limit":
            self.limit(data)
        elif what == "pools":
            self.change_pools(data)
        elif what == "loss":
            self.lose(data)
        elif what == "speculate":
            self.speculate(data)
        elif what == "health":
            self.report_health(data)
        elif what == "tend":
            at, most = self.tick(data.draw(st.sampled_from([3, 500, 700_000]))), data.draw(st.integers(1, 3))
            self.housekeep(at, most)
        elif what in ("hold", "resize", "update"):
            self.alter(data, what)
        else:
            self.stop(data)

    def change_machine(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["join", "state", "capacity", "repair", "attributes"]))
        index, at, wanted = self.machine(data), self.tick(), self.scaled(data.draw(capacities))
        if what in ("join", "attributes"):
            self.books.at_most = 2  # with other attributes it may be in another tree, by a change of its own
        if what == "join":
            executor = data.draw(st.sampled_from(["e0", "e1"]))
            names = data.draw(st.lists(st.sampled_from(["m0", "m1", "m2", "m5"]), min_size=1, max_size=3))
            attributes = data.draw(st.sampled_from([{}, {"rack": "r1"}]))
            machines = [MachineSpec(name, wanted, attributes) for name in names]
            self.worlds.do(lambda world: world.cell.machines.join(executor, machines, at))
        elif what == "attributes":
            changes = data.draw(st.dictionaries(st.sampled_from(["rack", "gpu"]), st.sampled_from(["r1", "r2", None])))
            self.worlds.do(lambda world: world.cell.machines.set_attributes(index, changes, at, "ada"))
        elif what == "state":
            state = data.draw(st.sampled_from([UP, UP, *MachineState]))
            self.worlds.do(lambda world: world.cell.machines.set_state(index, state, at, "ada"))
        else:
            victims = self.victims(data, index)
            if what == "repair" and index in self.twin.M:
                wanted = self.twin.M[index].capacity
            self.worlds.do(lambda world: world.cell.machines.set_capacity(index, wanted, at, "ada", victims))

    def register_scheduler(self, name: str, nonce: str) -> None:
        def operation(world: World) -> tuple[bool, Membership]:
            before = world.memberships.get(name)
            after = world.memberships[name] = world.cell.schedulers.register(name, nonce, LEASE_MS, at)
            return before == after, after

        at = self.tick()
        status, answer = self.worlds.do(operation)
        if status == "ok" and not answer[0]:
            self.numbers[name] = 0
            self.last.pop(name, None)

    def change_member(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["lapse", "leave", "reap", "enlist", "renew"]))
        name, at = data.draw(st.sampled_from(MEMBERS)), self.tick()
        if what == "lapse" and name in self.twin.scheduler_members and self.twin.scheduler_members[name].lives:
            for world in self.worlds.all:
                world.expire_lease(name)
        elif what == "enlist":
            self.register_scheduler(name, "first" if at % 2 else "second")
        elif what == "renew":
            self.worlds.do(
                lambda world: world.cell.schedulers.renew(world.memberships[name], LEASE_MS, {"waits": [at]})
            )
        else:
            self.worlds.do(
                lambda world: world.cell.schedulers.deregister(world.memberships[name], at, reaped=what == "reap")
            )

    def limit(self, data: st.DataObject) -> None:
        resources = len(self.twin.dimensions)
        most = data.draw(st.tuples(*[st.none() | st.integers(0, 20)] * resources))
        jobs = data.draw(st.sampled_from([None, None, 3, 2, 1, 0]))
        precedence = data.draw(st.sampled_from([(0, MOST_PRECEDENCE), (0, 3), (1, 2)]))
        bound = tuple(None if amount is None else amount * self.scale for amount in most)
        limits = Limits(bound, jobs, precedence) if data.draw(st.booleans()) else Limits((None,) * resources)
        kind, at = data.draw(st.sampled_from(["batch", "service"])), self.tick()
        self.worlds.do(lambda world: world.cell.pools.set_limits(kind, limits, at, "ada"))

    @rule(
        name=st.sampled_from(MEMBERS),
        what=st.sampled_from(["resend", "late", "start", "box", "wake", "asleep", "hand on", "time"]),
    )
    def ask(self, name: str, what: str) -> None:
        if what == "resend" and name in self.last:
            version = self.twin.version
            self.carry_out(name, first=False)
            assert self.twin.version == version
        elif what == "late" and name in self.last:
            stands = self.last[name]
            self.last[name] = (stands[0] - 1, *stands[1:])
            self.carry_out(name, first=False)
            self.last[name] = stands
        elif what == "start":
            asked = [(run.machine, run.placement) for run in self.twin.machines.runs(list(self.twin.M))] + [(99, 1)]
            self.worlds.do(lambda world: world.cell.executors.may_start(asked))
        elif what == "box":
            self.worlds.do(lambda world: world.cell.executors.receive(1))
        elif what == "wake":
            self.worlds.do(lambda world: world.cell.schedulers.wait_for_work(name, 0.01))
        elif what == "asleep":
            awaited = awaited_of([f"n{self.now % 7}"] if self.now % 11 else map(str, range(70)))
            lanes = tuple(number for number in range(1, 9) if self.now % (number + 2) == 0)
            waits = Waits(awaited, (self.now % 3, 1) if self.now % 5 else (), lanes) if self.now % 3 else None
            self.worlds.do(lambda world: world.cell.schedulers.set_blocked(name, waits))
        elif what == "hand on":
            room = [(self.now % 4, 1), (1, self.now % 3)][: self.now % 3]
            self.worlds.do(lambda world: world.cell.schedulers.hand_on(name, room))
        else:
            at = self.tick(KEEP_MS // 3)
            self.worlds.do(lambda world: world.cell.jobs.retire(at, 3))

    @invariant()
    def holds(self) -> None:
        self.books.look()

    def teardown(self) -> None:
        self.worlds.compare()


class CopiedTwins(Twins):
    """Little but jobs with copies, and what bears on these: pools with limits, health, holds, losses."""

    disturbances = ("speculate",) * 8 + ("pools",) * 4 + ("health", "hold", "loss", "tend", "update", "machine")

    @rule(name=st.sampled_from(MEMBERS), data=st.data())
    def place_copies(self, name: str, data: st.DataObject) -> None:
        """A copy is requested, where there is an original, and placed, also beside its original."""
        self.speculate(data)
        waiting = [
            (job.id, number)
            for job in self.twin.J.values()
            for number, group in enumerate(job.groups)
            if group.copies and group.unplaced
        ]
        for job_id, number in waiting[:2]:
            claim = self.claim(data, name, number, 1, evicting=not data.draw(st.integers(0, 3)))
            self.commit(name, [Transaction(job_id, (claim,))], data)
            self.books.check_numbers()


# The same histories every time, also in the long form: it has a seed for each part.
SHORT = settings(
    max_examples=12, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
SEEDS = 10
EXAMPLES = max(1, int(os.environ.get("EXAMPLES", "1000")) // SEEDS)
LONG = settings(SHORT, derandomize=False, database=None, max_examples=EXAMPLES, stateful_step_count=60)


@pytest.mark.parametrize("machine", [Twins, CopiedTwins])
def test_twin_and_scripts_agree(machine: type[Twins]) -> None:
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.chaos
@pytest.mark.parametrize("machine", [Twins, CopiedTwins])
@pytest.mark.parametrize("number", range(int(os.environ.get("SEED", "0")), int(os.environ.get("SEED", "0")) + SEEDS))
def test_twin_and_scripts_agree_in_long_histories(
    number: int, machine: type[Twins], record_property: Callable[[str, object], None]
) -> None:
    """Some ten minutes with the default of EXAMPLES; another SEED begins with other histories."""
    before = Worlds.operations
    run_state_machine_as_test(seed(number)(type("Twins", (machine,), {})), settings=LONG)
    done = Worlds.operations - before
    record_property("operations", done)
    assert done > 30 * EXAMPLES
