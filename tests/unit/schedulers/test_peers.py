"""Every policy gets its peers: the other policies of its scheduler, and the scheduler's number in its kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import fakeredis
import pytest

from omega.cellstate.pools import Pool, Pools
from omega.schedulers.comparisons.file_pools import FairPools
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Joining, NoPreemption, Ordering, Peers
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.retrying import RetryPolicy
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership
from omega.testing.scenes import snapshot
from tests.simulation.strangers import OwnOrdering, OwnPreemption, wrapped
from tests.unit.schedulers.rig import LEASE_MS, Rig, spec
from tests.unit.schedulers.test_process import Beating


def composed() -> Scheduler:
    return Scheduler("own", ordering=OwnOrdering(), preemption=OwnPreemption())


def peers_of(scheduler: Scheduler) -> Peers:
    assert isinstance(scheduler.preemption, OwnPreemption)
    assert scheduler.preemption.peers is not None
    return scheduler.preemption.peers


def test_a_policy_knows_the_others_of_its_scheduler_and_its_copies_theirs() -> None:
    found = composed()
    copied = found.fresh("s")
    for each in (found, copied):
        peers = peers_of(each)
        assert peers.ordering is each.ordering
        assert peers.preemption is each.preemption
        assert (peers.kind, peers.number, peers.members, peers.sizing, peers.retry_policy) == ("own", 0, 1, None, None)
    assert peers_of(copied).ordering is not peers_of(found).ordering


def test_a_changed_peer_is_known_before_the_next_decision() -> None:
    found, copy = composed(), snapshot((100,))
    found.placement = placement = FirstFit(window=3)
    assert peers_of(found).placement is placement
    found.ordering = Fifo()
    assert peers_of(found).ordering == Fifo()
    found.ownership = Ownership("own/1", ("own/0", "own/1", "own/2"))
    found.retry_policy = RetryPolicy(seconds=2.0)
    found.requeue(copy, 1.0)
    assert peers_of(found)[1:3] == (1, 3)
    assert peers_of(found).retry_policy == RetryPolicy(seconds=2.0)


def test_a_wrapped_policy_gets_the_peers_of_its_wrapper() -> None:
    found = composed()
    found.ownership = Ownership("own/2", tuple(f"own/{i}" for i in range(5)))
    found.requeue(snapshot((100,)), 1.0)
    assert isinstance(found.preemption, OwnPreemption)
    assert found.preemption.inner.place_in("a") == (2, 5)
    assert not isinstance(NoPreemption(), Joining)


def test_a_preemption_reads_how_its_ordering_ranks_pools() -> None:
    found, copy = composed(), snapshot((100,))
    copy.pools = Pools((Pool("a"), Pool("b")))
    copy.usage.change(("a", ""), (40,), (40,))
    copy.usage.change(("b", ""), (10,), (40,))
    found.requeue(copy, 1.0)
    rank = peers_of(found).ordering.rank
    assert rank(("a", "", (True,))) == 4 * rank(("b", "", (True,))) > 0


@dataclass(frozen=True, slots=True)
class OwnPrecedence(PrecedencePreemption):
    """Evicts by precedence in a way of its own."""

    looks: int = 7


@pytest.mark.parametrize(
    ("own", "within"), [(OwnPrecedence(), OwnPrecedence()), (NoPreemption(), PrecedencePreemption())]
)
def test_a_preemption_by_precedence_decides_within_the_pools_of_the_cell(
    own: NoPreemption | OwnPrecedence, within: PrecedencePreemption
) -> None:
    found, copy = Scheduler("own", preemption=own, follows_pools=True), snapshot((100,))
    copy.pools = Pools((Pool("a"),))
    found.ownership = Ownership("own/1", ("own/0", "own/1"))
    found.requeue(copy, 1.0)
    assert isinstance(found.preemption, FairSharePreemption)
    assert (found.preemption.within, found.preemption.place_in("a")) == (within, (1, 2))
    assert found.uses_pools
    copy.pools = Pools()
    found.requeue(copy, 2.0)
    assert found.preemption.by == own.by


def test_a_wrapped_ordering_still_uses_pools() -> None:
    found = composed()
    assert found.uses_pools
    found.ordering = Fifo()
    assert not found.uses_pools


@dataclass
class Register:
    """A part that two policies share; it holds one of them."""

    joined: int = 0
    ordering: Ordering | None = None

    def join(self, peers: Peers) -> None:
        self.joined, self.ordering = self.joined + 1, peers.ordering


@dataclass
class SharingOrdering(OwnOrdering):
    register: Register = field(default_factory=Register)


@dataclass
class SharingPreemption(OwnPreemption):
    register: Register = field(default_factory=Register)


def test_a_part_of_two_policies_is_joined_once_even_if_it_holds_one_of_them() -> None:
    register = Register()
    found = Scheduler("own", SharingOrdering(register=register), preemption=SharingPreemption(register=register))
    assert (register.joined, register.ordering) == (1, found.ordering)
    found.placement = FirstFit()
    assert register.joined == 2


# Live


def test_a_heartbeat_gives_a_strangers_policy_the_number_of_its_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    beating = Beating(monkeypatch)
    rig = beating.rig
    rig.scheduler.ordering, rig.scheduler.preemption = OwnOrdering(), OwnPreemption()
    for name in ("batch/1", "batch/2", "service/0"):
        rig.other.schedulers.register(name, "n", LEASE_MS, 0)
    beating.beat()
    assert peers_of(rig.scheduler)[1:3] == (0, 1), "the loop tells its policies, not the heartbeat"
    rig.until(lambda: peers_of(rig.scheduler)[1:3] == (0, 3))
    rig.expire("batch/1")
    beating.beat()
    rig.until(lambda: peers_of(rig.scheduler)[1:3] == (0, 2))
    assert rig.other.schedulers.members()["batch/0"][2]["uses_pools"] is True


@pytest.mark.parametrize("several", [False, True])
def test_wrapped_policies_place_live_what_those_they_wrap_place(several: bool) -> None:
    names = ("batch/0", "batch/1") if several else ("batch/0",)
    plain, own = _placed_live(names, own=False), _placed_live(names, own=True)
    assert plain == own


def _placed_live(names: Sequence[str], *, own: bool) -> list[tuple[str, ...]]:
    """Placements of live schedulers that step in turn; two pools want more than the cell has."""
    server, rigs = fakeredis.FakeServer(), list[Rig]()
    for name in names:
        scheduler = Scheduler("batch", FairPools(), preemption=FairSharePreemption(), jobs_per_call=1)
        machines = () if rigs else ((800, 800),)
        rig = Rig(*machines, scheduler=wrapped(scheduler) if own else scheduler, server=server, member=name)
        rig.live.snapshot.pools = Pools((Pool("a"), Pool("b")))
        rig.live.ownership = rig.scheduler.ownership = Ownership(name, tuple(names))
        rigs.append(rig)
    rigs[0].submit(*(spec(f"{pool}{i}", 2, spec={"pool": pool}) for pool in "ab" for i in range(8)))
    for _ in range(150):
        for rig in rigs:
            rig.step()
    held = {pool: sum(rigs[0].placed(f"{pool}{i}") for i in range(8)) for pool in "ab"}
    assert held == {"a": 4, "b": 4}, "in the order of arrival pool a would hold all of it"
    return rigs[0].facts("place")
