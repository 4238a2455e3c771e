"""What the simulator asks of the twin gives what the port gives: the same outcomes, the same records in the end."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omega.cellstate.errors import OmegaError
from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.commit import carry_out
from omega.cellstate.memory.tasks import end_block
from omega.cellstate.model import After, Gang, Job, JobSpec, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.packing import packed
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Detection, Mode, Outcome, Placed, Position, Transaction
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.simulated_store import MemoryStore
from tests.property.worlds import KEEP_JOBS, KEEP_MS, RESOURCES

MEMBER = "batch/0"
sizes = st.sampled_from([(12, 12, 8, 9), (6, 9, 9, 5), (20, 30, 25, 40), (4, 4, 6, 3), (3, 0, 2, 1)])
needs = st.sampled_from([(1, 1, 2, 1), (1, 0, 1, 2), (2, 1, 0, 1), (0, 0, 0, 0), (5, 5, 3, 2)])
"""Amounts in four resources; a cell with fewer takes the first of them."""
one_or_two = st.sampled_from([1, 1, 2])


def unnumbered(jobs: Iterable[Job]) -> list[Job]:
    """Jobs without their modify index: the simulator spends no version on a transaction that places nothing."""
    return [replace(job, modified=0) for job in jobs]


def answer(call: Callable[[], Job]) -> Any:
    """What a change of a job leaves, or the name of its error."""
    try:
        return unnumbered([call()])
    except OmegaError as error:
        return type(error).__name__


class Simulated(RuleBasedStateMachine):
    """A cell asked through the port, and one asked as the simulator asks."""

    placements: ClassVar[int] = 0
    """Placements in all histories."""
    blocks: ClassVar[int] = 0
    """Placements that were noted as blocks in all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: list[Placed] = []
        self.number = self.now = self.jobs = 0
        self.broken = False

    def tick(self) -> int:
        self.now += 7
        return self.now

    def both(self, call: Any) -> Any:
        first, second = map(call, self.cells)
        assert first == second, (first, second)
        return first

    @initialize(some=st.lists(sizes, min_size=2, max_size=5), keep=st.sampled_from([0, 0, KEEP_JOBS]),
                counted=st.sampled_from([False, False, True]), resources=st.sampled_from([2, 2, 1, 3, 4]))  # fmt: skip
    def begin(self, some: list[Resources], keep: int, counted: bool, resources: int) -> None:
        dimensions = Dimensions(RESOURCES[:resources])
        self.copy, self.late = PackedSnapshot(resources), PackedSnapshot(resources, numbered=False)
        self.port = MemoryCell("c", dimensions, keep_jobs=keep, keep_ms=KEEP_MS)
        self.store = MemoryStore("c", dimensions)
        self.quick = self.store.cell
        self.quick.keep_jobs, self.quick.keep_ms = keep, KEEP_MS
        self.quick.counted = self.port.counted = counted
        self.cells = (self.port, self.quick)
        self.position = Position()
        self.rows: dict[int, list[int]] = {}
        machines = [MachineSpec(f"m{i}", size[:resources]) for i, size in enumerate(some)]
        self.both(lambda cell: cell.executors.register("e0", "n", 1, 0))
        self.both(lambda cell: cell.machines.join("e0", machines, 0))
        self.membership = self.both(lambda cell: cell.schedulers.register(MEMBER, "n", 1, 0))

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self.jobs += 1
        resources = len(self.port.dimensions)
        groups = [
            TaskGroup(
                data.draw(needs)[:resources], data.draw(st.integers(1, 6)), optional=i == 1 and data.draw(st.booleans())
            )
            for i in range(data.draw(one_or_two))
        ]
        gang, precedence = data.draw(st.sampled_from([Gang.NO, Gang.NO, *Gang])), data.draw(st.integers(0, 2))
        live = [job.id for job in self.port.jobs.all() if job.state is JobState.ACTIVE]
        after: tuple[After, ...] = ()
        if live and data.draw(st.integers(0, 3)) == 2:
            after = (After(data.draw(st.sampled_from(live)), data.draw(st.booleans())),)
        least = min(data.draw(st.sampled_from([0, 0, 1, 2, 3])), sum(group.count for group in groups)) if gang else 0
        name = f"j{self.jobs}"
        spec = JobSpec(name, name, "batch", tuple(groups), precedence, gang, after=after, gang_min=least)
        at = self.tick()
        self.both(lambda cell: cell.jobs.submit([spec], at, "ada"))

    def shape(self, data: st.DataObject, job: str) -> Transaction:
        """A transaction of any shape."""
        size, j = len(self.port.M), self.port.J[job]
        group = data.draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
        left = j.groups[group].unplaced if group < len(j.groups) else 1
        many = data.draw(st.sampled_from([max(1, left)] * 3 + [1, left + 1]))
        machines = data.draw(st.lists(st.integers(0, size - 1), min_size=many, max_size=many))
        seen = [self.port.M[machine].number - (data.draw(st.integers(0, 9)) == 7) for machine in machines]
        mode, detection = data.draw(st.sampled_from(Mode)), data.draw(st.sampled_from(Detection))
        if data.draw(st.booleans(), "singles"):
            singles = ClaimColumns(machines, group=group, seen=data.draw(st.sampled_from([seen, seen, None])))
            return Transaction(job, singles, mode, detection)
        runs = [run.placement for run in self.port.machines.runs(machines[:1])] + [99]
        victims = ((data.draw(st.sampled_from(runs)), 2),) if data.draw(st.integers(0, 3)) == 2 else ()
        count = data.draw(st.sampled_from([1, 1, 2, left or 1, 0]))
        claims = [
            Claim(machine, group, count, seen=at, evict=victims) for machine, at in zip(machines, seen, strict=True)
        ]
        return Transaction(job, tuple(claims), mode, detection)

    def all_unplaced(self, data: st.DataObject, job: str) -> Transaction:
        """All that one group still wants, seen as it is or, rarely, on one machine as it was."""
        j, size = self.port.J[job], len(self.port.M)
        group = next((g.number for g in j.groups if g.unplaced), 0)
        left = max(1, j.groups[group].unplaced)
        machines = data.draw(st.lists(st.integers(0, size - 1), min_size=left, max_size=left))
        seen = [self.port.M[machine].number for machine in machines]
        seen[-1] -= data.draw(st.integers(0, 5)) == 3
        mode = Mode.GANG if j.gang else data.draw(st.sampled_from(Mode))
        claims: ClaimColumns | tuple[Claim, ...] = ClaimColumns(machines, group=group, seen=seen)
        if data.draw(st.booleans(), "as claims"):
            claims = tuple(claims)
        elif data.draw(st.booleans(), "in one"):
            claims = (Claim(machines[0], group, left, seen=seen[0]),)
        return Transaction(job, claims, mode, data.draw(st.sampled_from(Detection)))

    def carry_out(self, data: st.DataObject, shape: Any) -> None:
        queue = [job for ids in self.port.schedulers.pending().values() for job in ids]
        if not queue:
            self.submit(data)
            queue = [f"j{self.jobs}"]
        job = data.draw(st.sampled_from([*queue * 5, *self.port.J]), "job")
        transaction, at = shape(data, job), self.tick()
        self.number += 1
        first = self.port.placements + 1
        same = transaction._replace(claims=tuple(transaction.claims))
        expected = self.port.schedulers.commit(
            CommitRequest(self.membership, self.number, [same], Position(), at)
        ).outcomes[0]
        outcome, found = carry_out(self.quick, transaction, at, MEMBER)
        placed = list(found)
        Simulated.blocks += bool(self.quick.blocks)
        self.broken = outcome != expected
        assert outcome == expected
        self.check_placed(transaction, outcome, placed, first)
        self.placed += placed

    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        self.carry_out(data, self.all_unplaced)

    @rule(data=st.data())
    def place_more(self, data: st.DataObject) -> None:
        self.carry_out(data, self.all_unplaced)

    @rule(data=st.data())
    def place_anything(self, data: st.DataObject) -> None:
        self.carry_out(data, self.shape)

    def check_placed(self, transaction: Transaction, outcome: Outcome, placed: Sequence[Placed], first: int) -> None:
        """The placements named are those that were made, in order."""
        told = [
            (placement, machine, count)
            for part in placed
            for placement, machine, count in zip(
                part.placements, part.machines, part.counts or [1] * len(part.machines), strict=True
            )
        ]
        pairs = zip(transaction.claims, outcome.claims, strict=True)
        made = [(claim.machine, count) for claim, (count, _) in pairs if count]
        assert sorted(told) == [(first + i, machine, count) for i, (machine, count) in enumerate(made)]
        assert sum(part.tasks for part in placed) == outcome.placed

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        at, placed = self.tick(), self.placed.pop(data.draw(st.integers(0, len(self.placed) - 1)))
        expected = sum(self.port.executors.end(placed.endings(), at, "e0"))
        assert end_block(self.quick, placed, at) == expected

    @precondition(lambda self: self.placed)
    @rule(data=st.data(), how=st.sampled_from(EndKind))
    def end_some(self, data: st.DataObject, how: EndKind) -> None:
        """Ends of other sorts reach into what is noted as a block."""
        ending: TaskEnd = data.draw(st.sampled_from(data.draw(st.sampled_from(self.placed)).endings()))
        at = self.tick()
        self.both(lambda cell: cell.executors.end([ending._replace(how=how)], at, "e0"))

    @rule(data=st.data(), what=st.sampled_from(["state", "size", "limit", "stop", "hold", "hold", "resize"]))
    def disturb(self, data: st.DataObject, what: str) -> None:
        index, at = data.draw(st.integers(0, len(self.port.M) - 1)), self.tick()
        if what == "size":
            machine = MachineSpec(f"m{index}", data.draw(sizes)[: len(self.port.dimensions)])
            self.both(lambda cell: cell.machines.join("e0", [machine], at))
        elif what == "state" and self.port.M[index].state is not MachineState.GONE:
            given = [each for each in MachineState if each not in (MachineState.OFFLINE, MachineState.UNFIT)]
            state = data.draw(st.sampled_from([MachineState.UP, *given]))
            self.both(lambda cell: cell.machines.set_state(index, state, at, "ada"))
        elif what == "limit":
            free = (None,) * (len(self.port.dimensions) - 1)
            limits = data.draw(st.sampled_from([Limits((None, *free)), Limits((9, *free)), Limits((None, *free), 2)]))
            self.both(lambda cell: cell.pools.set_limits("batch", limits, at, "ada"))
        elif self.port.J and what == "hold":
            held = [job.id for job in self.port.jobs.all() if job.state is JobState.HELD]
            live = [job.id for job in self.port.jobs.all() if job.state is JobState.ACTIVE] or list(self.port.J)
            if held:
                self.both(lambda cell: cell.jobs.release(held[0], at, "ada"))
            else:
                job = data.draw(st.sampled_from(live))
                self.both(lambda cell: answer(lambda: cell.jobs.hold(job, at, "ada")))
        elif self.port.J and what == "resize":
            job, total = data.draw(st.sampled_from(list(self.port.J))), data.draw(st.integers(0, 6))
            self.both(lambda cell: answer(lambda: cell.jobs.resize(job, {0: total}, at, "ada")))
        elif what == "stop" and self.port.J:
            job = data.draw(st.sampled_from(list(self.port.J)))
            self.both(lambda cell: cell.jobs.stop(job, at, "ada", JobState.STOPPED))

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """Whoever looks sees single runs."""
        asked = [(machine, self.port.placements - back) for machine in range(len(self.port.M)) for back in range(4)]
        looks: tuple[Callable[[MemoryCell], Any], ...] = (
            lambda cell: (cell.machines.runs(list(cell.M)), unnumbered(cell.jobs.all())),
            lambda cell: cell.executors.may_start(asked),
            lambda cell: unnumbered(filter(None, map(cell.jobs.get, sorted(cell.J)))),
        )
        self.both(looks[data.draw(st.integers(0, 2))])

    @rule()
    def follow(self) -> None:
        self.store.refresh(self.late)
        self.compare_copy(self.late)

    @rule()
    def sync(self) -> None:
        """A copy that follows the simulated cell through the port."""
        reply = self.quick.schedulers.sync(self.position)
        self.position = reply.position
        self.rows |= {row[0]: row for row in reply.rows.tolist()}
        assert [self.rows[index] for index in sorted(self.rows)] == self.port.schedulers.sync(Position()).rows.tolist()

    @rule()
    def read(self) -> None:
        """Whoever reads the cell sees the rows of all jobs."""
        self.both(
            lambda cell: (
                cell.schedulers.sync(Position()).rows.tolist(),
                cell.pools.kinds(),
                cell.schedulers.pending(),
                cell.counters(),
            )
        )
        self.both(lambda cell: [(lane.lane, lane.live, lane.arrival, lane.version) for lane in cell.L.values()])
        self.both(lambda cell: (unnumbered(cell.jobs.all()), cell.jobs.ids_by_name(list(cell.names)), len(cell.J)))

    @invariant()
    def agrees(self) -> None:
        """The copies agree after each step; they are brought up to date without a look at jobs."""
        self.store.refresh(self.copy)
        self.compare_copy(self.copy)
        if self.copy.size:
            assert self.copy.numbers == [m.number for m in self.port.M.values()]

    def compare_copy(self, copy: PackedSnapshot) -> None:
        """What is free where the copy may place anything."""
        for m in self.port.machines.all():
            free = [has - held for has, held in zip(m.capacity, m.allocated, strict=True)]
            takes = m.state is MachineState.UP and not m.over
            assert (copy.rest[m.index] & copy.guards == copy.guards) == takes
            if takes:
                assert copy.rest[m.index] - copy.guards == packed(free)

    def teardown(self) -> None:
        Simulated.placements += self.port.placements
        if not self.broken:
            self.both(lambda cell: (cell.machines.runs(list(cell.M)), unnumbered(cell.jobs.all())))


# The same histories every time; new ones are sought in the long form.
SHORT = settings(
    max_examples=30, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
LONG = settings(SHORT, derandomize=False, max_examples=int(os.environ.get("EXAMPLES", "3000")))


def test_the_simulators_way_is_the_ports() -> None:
    before, blocks = Simulated.placements, Simulated.blocks
    run_state_machine_as_test(Simulated, settings=SHORT)
    assert Simulated.placements - before > 40, "the histories place something"
    assert Simulated.blocks - blocks > 8, "some of it as blocks"


@pytest.mark.chaos
def test_the_simulators_answers_are_the_ports_in_long_histories() -> None:
    run_state_machine_as_test(Simulated, settings=LONG)
