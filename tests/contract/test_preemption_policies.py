"""What every preemption policy keeps to, judged by the cell itself; and whom `Precedence` chooses."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellstate.memory import MemoryCell
from cellstate.model import Gang, JobSpec, MachineSpec, Run, TaskGroup
from cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from cellstate.view import View
from schedulers.constraints.looking import Look, look, wanted
from schedulers.placement.constrained import Constrained
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.placement.scored import BestFit
from schedulers.placement.service import Service
from schedulers.policies import Placement, Preemption
from schedulers.preemption.none import NoPreemption
from schedulers.preemption.precedence import Precedence
from schedulers.work import Work

Need = tuple[int, int]
Resident = tuple[int, Need, int, int, Gang]
"""(machine, amounts of a task, tasks, precedence, gang)"""
MIDDLE = 5
"""The precedence of the job that wants room."""


class Town:
    """A cell with residents, and a job that fits nowhere in it."""

    def __init__(self, machines: Sequence[Need], residents: Sequence[Resident] = (), **attributes: str) -> None:
        self.cell, self.number, self.settled = MemoryCell(), 0, 0
        self.cell.join("e", [MachineSpec(f"m{i}", has, attributes) for i, has in enumerate(machines)], 0)
        self.member = self.cell.enlist("batch/0", "n", 60_000, 0)
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
        self.number += 1
        reply = self.cell.commit(self.member, self.number, [transaction], Position(), 0)
        return list(reply.outcomes[0].claims)

    def job(self, *groups: tuple[Need, int], gang: Gang = Gang.NO, precedence: int = MIDDLE, **extra: Any) -> Work:
        asked = tuple(TaskGroup(need, count, 0, extra) for need, count in groups)
        self.cell.submit([JobSpec("j", "j", "batch", asked, precedence, gang)], 0, "ada")
        found = self.cell.job("j")
        assert found is not None
        return Work.of(found)

    def view(self, work: Work, *, looked: bool = True) -> View:
        """A private copy; `looked`: somebody looked up what runs where."""
        view = View(2)
        view.apply(self.cell.sync(Position()))
        if (asked := wanted([work], view)) is not None:
            look(asked, self.cell, view)
        if looked:
            look(Look(residents=tuple(range(view.size))), self.cell, view)
        return view

    def runs(self) -> dict[int, Run]:
        """What runs, by placement."""
        return {run.placement: run for run in self.cell.runs(range(len(self.cell.M))) if not run.leaving}

    def precedence(self, run: Run) -> int:
        job = self.cell.job(run.job)
        assert job is not None
        return job.precedence

    def leaving(self) -> dict[str, int]:
        """Tasks evicted, by job."""
        found: dict[str, int] = {}
        for run in self.cell.runs(range(len(self.cell.M))):
            if run.leaving:
                low, _, high = run.tasks.partition("-")
                found[run.job] = found.get(run.job, 0) + int(high or low) - int(low) + 1
        return found


amounts = st.tuples(st.integers(0, 4), st.integers(0, 4))
machines = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)
gangs = st.sampled_from([Gang.NO, Gang.NO, Gang.YES, Gang.STRICT])


def residents(most: int) -> st.SearchStrategy[list[Resident]]:
    machine, count, precedence = st.integers(0, most - 1), st.integers(1, 3), st.integers(3, 6)
    return st.lists(st.tuples(machine, amounts, count, precedence, gangs), max_size=12)


class PreemptionContract:
    """Subclass it with `policies`; they may evict or not, but what they claim must stand."""

    policies: Sequence[Preemption]
    placements: Sequence[Placement] = (RandomFirstFit(), Constrained(RandomFirstFit()), BestFit(apart=1), Service())

    @settings(max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_what_it_claims_stands_and_evicts_only_what_is_less_important(self, data: st.DataObject) -> None:
        policy, placement = data.draw(st.sampled_from(self.policies)), data.draw(st.sampled_from(self.placements))
        has = data.draw(machines)
        town = Town(has, data.draw(residents(len(has))))
        groups = data.draw(st.lists(st.tuples(amounts, st.integers(1, 3)), min_size=1, max_size=2))
        gang = data.draw(st.sampled_from([Gang.NO, Gang.YES]))
        work = town.job(*groups, gang=gang)
        view = town.view(work)
        before, rng = [room.tolist() for room in view.room], Random(data.draw(st.integers(0, 9)))
        policy.suspects(work, view, rng)
        claims = policy.place(work, view, placement, rng)
        running = town.runs()
        for claim in claims:
            for placement_id, count in claim.evict:
                assert count > 0
                assert running[placement_id].machine == claim.machine
                assert town.precedence(running[placement_id]) < MIDDLE
        view.undo(0)
        assert [room.tolist() for room in view.room] == before, "undone, the copy is as it was"
        if claims:
            mode = Mode.GANG if gang else Mode.INCREMENTAL
            outcome = town.commit(Transaction("j", tuple(claims), mode))
            assert outcome == [(claim.count, Verdict.PLACED) for claim in claims]
            if gang:
                assert sum(claim.count for claim in claims) == work.remaining
            stopped = {placement for placement, run in running.items() if placement not in town.runs()}
            assert all(town.precedence(running[placement]) < MIDDLE for placement in stopped)

    def test_the_same_dice_give_the_same_victims(self) -> None:
        town = Town([(4, 4)] * 20, [(i, (1, 1), 4, 1, Gang.NO) for i in range(20)])
        work = town.job(((2, 2), 3))
        for policy in self.policies:
            views = [town.view(work) for _ in range(2)]
            assert len({tuple(policy.place(work, view, Service(), Random(3))) for view in views}) == 1

    def test_nothing_is_evicted_for_a_job_of_the_least_precedence(self) -> None:
        town = Town([(4, 4)], [(0, (4, 4), 1, 0, Gang.NO)])
        work = town.job(((1, 1), 1), precedence=0)
        for policy in self.policies:
            assert not policy.place(work, town.view(work), Service(), Random(1))
            assert policy.suspects(work, town.view(work, looked=False), Random(1)) is None


class TestNoPreemption(PreemptionContract):
    policies = (NoPreemption(),)


class TestPrecedence(PreemptionContract):
    policies = (Precedence(), Precedence(looks=1), Precedence(most=2))


# Whom Precedence chooses


def evicted(town: Town, work: Work, placement: Placement | None = None, seed: int = 1) -> dict[str, int]:
    """Tasks evicted by job, once what the policy claims is committed."""
    claims = Precedence().place(work, town.view(work), placement or Service(), Random(seed))
    if claims:
        town.commit(Transaction("j", tuple(claims), Mode.GANG if work.gang else Mode.INCREMENTAL))
    return town.leaving()


def test_the_lowest_precedence_goes_even_if_more_tasks_of_it_are_needed() -> None:
    town = Town([(4, 4)], [(0, (1, 1), 2, 1, Gang.NO), (0, (2, 2), 1, 3, Gang.NO)])
    assert evicted(town, town.job(((2, 2), 1))) == {"r1": 2}


def test_no_more_go_than_are_needed_and_the_most_important_of_them_stay() -> None:
    town = Town([(6, 6)], [(0, (1, 1), 1, 1, Gang.NO), (0, (2, 2), 1, 2, Gang.NO), (0, (3, 3), 1, 3, Gang.NO)])
    assert evicted(town, town.job(((3, 3), 1))) == {"r1": 1, "r2": 1}  # not all up to precedence 3
    town = Town([(6, 6)], [(0, (1, 1), 1, 1, Gang.NO), (0, (5, 5), 1, 2, Gang.NO)])
    assert evicted(town, town.job(((5, 5), 1))) == {"r2": 1}  # alone enough, so the less important one stays


def test_of_equal_precedence_the_fewest_go_then_the_newest() -> None:
    town = Town([(6, 6)], [(0, (1, 1), 1, 1, Gang.NO)] * 3 + [(0, (3, 3), 1, 1, Gang.NO)])
    assert evicted(town, town.job(((3, 3), 1))) == {"r4": 1}
    town = Town([(3, 3)], [(0, (1, 1), 1, 1, Gang.NO)] * 3)
    assert evicted(town, town.job(((2, 2), 1))) == {"r2": 1, "r3": 1}


@pytest.mark.parametrize("placement", [Service(), RandomFirstFit(), BestFit()])
def test_the_machine_where_the_least_is_disturbed_is_taken(placement: Placement) -> None:
    residents = [(0, (4, 4), 1, 3, Gang.NO), (1, (1, 1), 4, 1, Gang.NO), (2, (2, 2), 2, 1, Gang.NO)]
    for seed in range(5):
        town = Town([(4, 4)] * 3, residents)
        assert evicted(town, town.job(((2, 2), 1)), placement, seed) == {"r3": 1}


def test_a_strict_gang_goes_last_of_its_precedence_and_as_a_whole() -> None:
    town = Town([(4, 4)] * 2)
    town.settle([(0, 2), (1, 2)], (2, 2), 1, Gang.STRICT)
    work = town.job(((2, 2), 1))
    assert evicted(town, work) == {"r1": 4}
    town = Town([(4, 4)] * 2)
    town.settle([(0, 1), (1, 2)], (2, 2), 1, Gang.STRICT)
    town.settle([(0, 2)], (1, 1), 1)
    assert evicted(town, town.job(((2, 2), 1))) == {"r2": 2}


def test_a_gang_takes_what_is_free_and_evicts_for_the_rest_or_takes_nothing() -> None:
    town = Town([(4, 4)] * 3, [(0, (4, 4), 1, 1, Gang.NO), (1, (4, 4), 1, 9, Gang.NO)])
    assert evicted(town, town.job(((4, 4), 2), gang=Gang.YES)) == {"r1": 1}
    town = Town([(4, 4)] * 3, [(0, (4, 4), 1, 1, Gang.NO), (1, (4, 4), 1, 9, Gang.NO)])
    work = town.job(((4, 4), 3), gang=Gang.YES)
    assert evicted(town, work) == {}


def test_constraints_and_spreading_hold_for_what_evicts() -> None:
    town = Town([(4, 4)] * 3, [(i, (4, 4), 1, 1, Gang.NO) for i in range(3)])
    work = town.job(((1, 1), 3), different_machines=True)
    assert evicted(town, work) == {"r1": 1, "r2": 1, "r3": 1}
    town = Town([(4, 4)] * 3, [(i, (4, 4), 1, 1, Gang.NO) for i in range(3)])
    assert evicted(town, town.job(((1, 1), 3), constraints=["machine == 'm2'"])) == {"r3": 1}
    town = Town([(4, 4)], [(0, (4, 4), 1, 1, Gang.NO)])
    assert evicted(town, town.job(((1, 1), 1), constraints=["machine == 'm7'"])) == {}


def test_only_machines_that_might_hold_it_are_looked_up_and_no_more_than_so_many() -> None:
    has = [(4, 4)] * 30 + [(1, 1)] * 30 + [(4, 4)] * 30
    town = Town(has, [(i, (1, 1), 1, 1, Gang.NO) for i in range(60)])
    work = town.job(((4, 4), 1))
    view = town.view(work, looked=False)
    found = Precedence(looks=10).suspects(work, view, Random(1))
    assert found is not None
    assert len(found) == 10
    assert set(found) <= set(range(30)), "neither too small ones nor empty ones"
    look(Look(residents=tuple(found)), town.cell, view)
    more = Precedence(looks=100).suspects(work, view, Random(1))
    assert more is not None
    assert sorted([*found, *more]) == list(range(30)), "what is known is not looked up again"
    town.settle([(found[0], 1)], (1, 1), 1)
    view.apply(town.cell.sync(view.position))
    assert found[0] in (Precedence(looks=100).suspects(work, view, Random(1)) or ()), "until it changes"


def test_victims_that_are_not_known_are_not_named() -> None:
    town = Town([(4, 4)], [(0, (4, 4), 1, 1, Gang.NO)])
    work = town.job(((1, 1), 1))
    view = town.view(work, looked=False)
    assert Precedence().place(work, view, Service(), Random(1)) == []
