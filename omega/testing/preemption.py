"""The contract of preemption policies, checked by a real cell."""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobSpec, MachineSpec, Run, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from omega.schedulers.constraints.fetching import Fetch, fetch, wanted
from omega.schedulers.placement.constrained import Constrained
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.scored import BestFit
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import Placement, Preemption
from omega.schedulers.work import Work
from omega.testing.scenes import for_all

Need = tuple[int, int]
Resident = tuple[int, Need, int, int, Gang]
"""(machine, amounts of a task, tasks, precedence, gang)"""
MIDDLE = 5
"""The precedence of the job that wants room."""


class CellWithResidents:
    """A cell with residents, and a job that fits nowhere in it."""

    def __init__(self, machines: Sequence[Need], residents: Sequence[Resident] = (), **attributes: str) -> None:
        """Machines have `attributes` in common."""
        self.cell, self.number, self.settled = MemoryCell(), 0, 0
        self.cell.register_executor("e", "n", 600_000, 0)
        self.cell.join("e", [MachineSpec(f"m{i}", has, attributes) for i, has in enumerate(machines)], 0)
        self.member = self.cell.register_scheduler("batch/0", "n", 60_000, 0)
        for machine, need, count, precedence, gang in residents:
            self.settle([(machine, count)], need, precedence, gang)

    def settle(self, where: Sequence[tuple[int, int]], need: Need, precedence: int, gang: Gang = Gang.NO) -> str:
        """Let a job run, so many of its tasks on each machine, as far as there is room; returns its id."""
        self.settled += 1
        total = sum(count for _, count in where)
        name = f"r{self.settled}"
        self.cell.submit([JobSpec(name, name, "batch", (TaskGroup(need, total),), precedence, gang)], 0, "ada")
        claims = tuple(Claim(machine, 0, count) for machine, count in where)
        self.commit(Transaction(name, claims, Mode.GANG if gang else Mode.INCREMENTAL))
        return name

    def commit(self, transaction: Transaction) -> list[tuple[int, Verdict]]:
        """Results of each claim: placed tasks, and the verdict."""
        self.number += 1
        reply = self.cell.commit(CommitRequest(self.member, self.number, [transaction], Position(), 0))
        return list(reply.outcomes[0].claims)

    def job(self, *groups: tuple[Need, int], gang: Gang = Gang.NO, precedence: int = MIDDLE, **demands: Any) -> Work:
        """Return the job that wants room; `demands` are those of its groups."""
        asked = tuple(TaskGroup(need, count, 0, demands) for need, count in groups)
        self.cell.submit([JobSpec("j", "j", "batch", asked, precedence, gang)], 0, "ada")
        record = self.cell.job("j")
        assert record is not None
        return Work.of(record)

    def snapshot(self, work: Work, *, looked: bool = True) -> Snapshot:
        """Return a snapshot of the cell for a job; `looked`: with its running tasks."""
        snapshot = ArraySnapshot(2)
        snapshot.apply(self.cell.sync(Position()))
        if (asked := wanted([work], snapshot)) is not None:
            fetch(asked, self.cell, snapshot)
        if looked:
            fetch(Fetch(residents=tuple(range(snapshot.size))), self.cell, snapshot)
        return snapshot

    def runs(self) -> dict[int, Run]:
        """Running tasks by placement."""
        return {run.placement: run for run in self.cell.runs(range(len(self.cell.ledger.M))) if not run.leaving}

    def precedence(self, run: Run) -> int:
        """How important the job of a run is."""
        job = self.cell.job(run.job)
        assert job is not None
        return job.precedence

    def leaving(self) -> dict[str, int]:
        """Tasks evicted, by job."""
        tasks: dict[str, int] = {}
        for run in self.cell.runs(range(len(self.cell.ledger.M))):
            if run.leaving:
                low, _, high = run.tasks.partition("-")
                tasks[run.job] = tasks.get(run.job, 0) + int(high or low) - int(low) + 1
        return tasks


amounts = st.tuples(st.integers(0, 4), st.integers(0, 4))
machines = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)
gangs = st.sampled_from([Gang.NO, Gang.NO, Gang.YES, Gang.STRICT])


def residents(most: int) -> st.SearchStrategy[list[Resident]]:
    """Return a strategy for the running tasks of `most` machines."""
    machine, count, precedence = st.integers(0, most - 1), st.integers(1, 3), st.integers(3, 6)
    return st.lists(st.tuples(machine, amounts, count, precedence, gangs), max_size=12)


class PreemptionContract:
    """Inherit and set `policy`; `policies` are several settings of it.

    It may evict or not, but what it claims must stand; `placements` are those it has to work with.
    """

    policy: Preemption
    policies: Sequence[Preemption] = ()
    placements: Sequence[Placement] = (FirstFit(), Constrained(FirstFit()), BestFit(apart=1), ServicePlacement())

    def each(self) -> Sequence[Preemption]:
        """Return the policy in every setting."""
        return self.policies or (self.policy,)

    @settings(for_all, max_examples=60)
    @given(data=st.data())
    def test_what_it_claims_stands_and_evicts_only_what_is_less_important(self, data: st.DataObject) -> None:
        """For any cell and job: the cell accepts the claims, and no task of higher precedence is lost."""
        policy, placement = data.draw(st.sampled_from(self.each())), data.draw(st.sampled_from(self.placements))
        has = data.draw(machines)
        scene = CellWithResidents(has, data.draw(residents(len(has))))
        groups = data.draw(st.lists(st.tuples(amounts, st.integers(1, 3)), min_size=1, max_size=2))
        gang = data.draw(st.sampled_from([Gang.NO, Gang.YES]))
        work = scene.job(*groups, gang=gang)
        snapshot = scene.snapshot(work)
        before, rng = [room.tolist() for room in snapshot.room], Random(data.draw(st.integers(0, 9)))
        helps = policy.suspects(work, snapshot, rng) is not None
        claims = policy.place(work, snapshot, placement, rng) if helps else []
        running = scene.runs()
        for claim in claims:
            for placement_id, count in claim.evict:
                assert count > 0
                assert running[placement_id].machine == claim.machine
                assert scene.precedence(running[placement_id]) < MIDDLE
        snapshot.undo(0)
        assert [room.tolist() for room in snapshot.room] == before, "undone, the copy is as it was"
        if claims:
            mode = Mode.GANG if gang else Mode.INCREMENTAL
            outcome = scene.commit(Transaction("j", tuple(claims), mode))
            assert outcome == [(claim.count, Verdict.PLACED) for claim in claims]
            if gang:
                assert sum(claim.count for claim in claims) == work.remaining
            stopped = {placement for placement, run in running.items() if placement not in scene.runs()}
            assert all(scene.precedence(running[placement]) < MIDDLE for placement in stopped)

    def test_the_same_dice_give_the_same_victims(self) -> None:
        """It draws from the generator it is given alone."""
        scene = CellWithResidents([(4, 4)] * 20, [(i, (1, 1), 4, 1, Gang.NO) for i in range(20)])
        work = scene.job(((2, 2), 3))
        for policy in self.each():
            snapshots = [scene.snapshot(work) for _ in range(2)]
            claims = {tuple(policy.place(work, snapshot, ServicePlacement(), Random(3))) for snapshot in snapshots}
            assert len(claims) == 1

    def test_nothing_is_evicted_for_a_job_of_the_least_precedence(self) -> None:
        """Nothing is less important, so nothing need be looked up, and `place` is not called."""
        scene = CellWithResidents([(4, 4)], [(0, (4, 4), 1, 0, Gang.NO)])
        work = scene.job(((1, 1), 1), precedence=0)
        for policy in self.each():
            assert policy.suspects(work, scene.snapshot(work, looked=False), Random(1)) is None
