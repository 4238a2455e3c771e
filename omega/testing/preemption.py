"""The contract of preemption policies, checked by a real cell."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from hypothesis import given, settings, strategies as st

from omega.cellstate.model import Gang, MachineState, Run
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Mode, Transaction, Verdict
from omega.schedulers.constrained import Constrained
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Placement, Preemption, declares
from omega.schedulers.work import Work, together
from omega.testing.purity import Unchanged, fresh, watched
from omega.testing.residents import JOB, CellWithResidents
from omega.testing.sampled_fields import sampled
from omega.testing.scenes import for_all, less, room, uses
from omega.testing.worlds import World

WORLDS = 40
"""Worlds in which a policy must evict at least once."""
ROUNDS = 64
"""Times that a policy may ask for further machines."""


class PreemptionContract:
    """Inherit and set `policy`; `policies` are several settings of it.

    It may evict or not, but what it claims must stand; `placements` are those it has to work with. The jobs of the
    scenes have the fields that the policy declares (`job_fields`); `fields` are others, one of these mappings for each.
    """

    policy: Preemption
    policies: Sequence[Preemption] = ()
    placements: Sequence[Placement] = (FirstFit(), Constrained(FirstFit()), BestFit(apart=1), ServicePlacement())
    fields: ClassVar[Sequence[Mapping[str, Any]]] = ()

    def each(self) -> Sequence[Preemption]:
        """Return the policy in every setting, new as in a new scheduler."""
        return [fresh(policy, "preemption") for policy in self.policies or (self.policy,)]

    @settings(for_all, max_examples=60)
    @given(seed=st.integers(0, 10_000), data=st.data())
    def test_what_it_claims_stands_and_evicts_only_what_is_less_important(self, seed: int, data: st.DataObject) -> None:
        """For any cell and job: the cell accepts the claims, and exactly the named tasks of lower precedence end."""
        policy, placement = data.draw(st.sampled_from(self.each())), data.draw(st.sampled_from(self.placements))
        self._decided(policy, placement, World(seed, full=True, fields=sampled(self.fields, policy)))

    def _decided(self, policy: Preemption, placement: Placement, world: World) -> Sequence[Claim]:
        """Let a policy decide in a world, commit the claims, and check what became of them."""
        scene, work = _made(world)
        snapshot = self._snapshot(scene, work, policy, world.now)
        before = room(snapshot)
        claims = self._place(policy, placement, scene, snapshot, work)
        assert snapshot.mark() == len(claims), "one snapshot.take for each claim"
        assert room(snapshot) == less(before, uses(claims, work, snapshot)), "exactly the claims are deducted"
        snapshot.undo(0)
        assert room(snapshot) == before, "undone, the copy is as it was"
        if not claims:
            return claims
        self._sound(claims, scene, snapshot, work)
        running, tasks = scene.runs(), scene.tasks()
        mode = Mode.GANG if work.gang else Mode.INCREMENTAL
        outcome = scene.commit(Transaction(JOB, tuple(claims), mode))
        assert outcome == [(claim.count, Verdict.PLACED) for claim in claims]
        assert not work.gang or sum(claim.count for claim in claims) == work.remaining, "a gang is placed whole"
        self._ended(claims, running, tasks, scene)
        return claims

    def _some_fields(self) -> Mapping[str, Any]:
        return sampled(self.fields, self.each()[0])[0]

    def _snapshot(self, scene: CellWithResidents, work: Work, policy: Preemption, now: float) -> Snapshot:
        snapshot = scene.snapshot(work, looked=False, attributes=declares("reads_attributes", policy))
        snapshot.now = now
        return snapshot

    def _place(
        self, policy: Preemption, placement: Placement, scene: CellWithResidents, snapshot: Snapshot, work: Work
    ) -> Sequence[Claim]:
        """Ask a policy as a scheduler does: which machines to fetch, then for claims, until it asks for no more."""
        rng = Random(scene.settled)
        for _ in range(ROUNDS):
            unchanged, left = Unchanged(snapshot), list(work.left)
            with watched():
                machines = policy.suspects(work, snapshot, rng)
            unchanged.check("suspects")
            if machines is None:
                return ()
            fetch(Fetch(residents=tuple(machines)), scene.cell, snapshot)
            unchanged = Unchanged(snapshot)
            with watched():
                claims = policy.place(work, snapshot, placement, rng)
            unchanged.check("place")
            assert work.left == left, "the job is not the policy's to change"
            if claims or not policy.suspects(work, snapshot, rng):
                return claims
        raise AssertionError("suspects names machines that were fetched already: the job is tried again without end")

    def _sound(self, claims: Sequence[Claim], scene: CellWithResidents, snapshot: Snapshot, work: Work) -> None:
        running, tasks, named = scene.runs(), scene.tasks(), dict[int, int]()
        for group, left in enumerate(work.left):
            assert sum(claim.count for claim in claims if claim.group == group) <= left, "more tasks than were left"
        for claim in claims:
            assert claim.count > 0, "a claim is for one task at least"
            assert snapshot.rows[2][claim.machine] == MachineState.UP, "that machine takes nothing"
            assert claim.seen in (int(snapshot.number[claim.machine]), 0), "seen is snapshot.number[machine]"
            for placement, count in claim.evict:
                assert placement in running, "a victim is a running placement"
                assert running[placement].machine == claim.machine, "victims are on the machine of their claim"
                assert scene.precedence(running[placement]) < work.job.precedence, "a victim is less important"
                assert count > 0
                named[placement] = named.get(placement, 0) + count
                assert named[placement] <= tasks[placement], "no more victims than run there"

    def _ended(
        self, claims: Sequence[Claim], running: Mapping[int, Run], tasks: Mapping[int, int], scene: CellWithResidents
    ) -> None:
        """Check that what the claims name has ended, and on their machines nothing else."""
        named = dict[int, int]()
        for claim in claims:
            for placement, count in claim.evict:
                named[placement] = named.get(placement, 0) + count
        left, precedence = scene.tasks(), scene.precedence(_of_job(scene))
        gangs = {running[placement].job for placement in named} & scene.strict()
        for placement, run in running.items():
            ended = tasks[placement] - left.get(placement, 0)
            assert not ended or scene.precedence(run) < precedence, "a victim is less important"
            if placement in named or run.job not in gangs:
                assert ended == named.get(placement, 0), (
                    f"{named.get(placement, 0)} tasks of a run are named as victims, {ended} ended: name no more than "
                    "needed, and of a strict gang all its tasks on the machine, which end together"
                )

    def test_some_scene_exercises_it(self) -> None:
        """A contract of a policy that never evicts proves nothing: in one of the scenes it evicts."""
        for policy in self.each():
            fields = sampled(self.fields, policy)
            worlds = (World(seed, full=True, fields=fields) for seed in range(WORLDS))
            acted = not policy.evicts or any(
                any(claim.evict for claim in self._decided(policy, placement, world))
                for world in worlds
                for placement in self.placements
            )
            assert acted, (
                f"no scene exercised it: {policy} evicted nothing in {WORLDS} cells; set `fields` when it needs jobs "
                "with certain fields, or evicts = False when it never evicts"
            )

    def test_the_same_question_has_the_same_answer(self) -> None:
        """The same cell, job and generator give the same victims, whatever the policy decided before."""
        for policy in self.each():
            fields = sampled(self.fields, policy)
            worlds = [World(seed, full=True, fields=fields) for seed in range(WORLDS // 2)]
            one, other = fresh(policy, "preemption"), fresh(policy, "preemption")
            answers = [self._answer(one, world) for world in worlds]
            for world, answer in reversed(list(zip(worlds, answers, strict=True))):
                for _ in range(2):
                    again = self._answer(other, world)
                    assert again == answer, "draw from the rng given, and keep no state of decisions"

    def _answer(self, policy: Preemption, world: World) -> list[Claim]:
        """Return the claims of a policy in a world."""
        scene, work = _made(world)
        return list(
            self._place(policy, ServicePlacement(), scene, self._snapshot(scene, work, policy, world.now), work)
        )

    def test_the_same_dice_give_the_same_victims(self) -> None:
        """It draws from the generator it is given alone."""
        scene = CellWithResidents([(4, 4)] * 20)
        for machine in range(20):
            scene.settle([(machine, 4)], (1, 1), 1, user="ada")
        work = scene.wanting([((2, 2), 3)], gang=Gang.NO, demands={}, user="bob", **self._some_fields())
        for policy in self.each():
            snapshots = [scene.snapshot(work) for _ in range(3)]
            claims = {tuple(policy.place(work, snapshot, ServicePlacement(), Random(3))) for snapshot in snapshots}
            assert len(claims) == 1

    def test_nothing_is_evicted_for_a_job_of_the_least_precedence(self) -> None:
        """Nothing is less important, so nothing need be looked up, and `place` is not called."""
        scene = CellWithResidents([(4, 4)])
        scene.settle([(0, 1)], (4, 4), 0, user="ada")
        work = scene.wanting([((1, 1), 1)], gang=Gang.NO, precedence=0, demands={}, user="bob", **self._some_fields())
        for policy in self.each():
            assert policy.suspects(work, scene.snapshot(work, looked=False), Random(1)) is None


def _made(world: World) -> tuple[CellWithResidents, Work]:
    """Return the cell and the job of a world; of a gang with a minimum what schedulers evict for, as a gang."""
    scene, work = world.made()
    return scene, together(work)


def _of_job(scene: CellWithResidents) -> Run:
    """Return a run of the job that wanted room."""
    return next(run for run in scene.runs().values() if run.job == JOB)
