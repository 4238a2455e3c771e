"""Orderings, sizes and whole schedulers that come with Omega keep to the contracts of all."""

from omega.schedulers.comparisons.file_pools import FairPools, PoolSettings
from omega.schedulers.ordering.without_pools import FairUsers, Fifo, PrecedenceFifo, Rejoin, ShortestFirst
from omega.schedulers.policies import Ordering
from omega.schedulers.presets import batch, service
from omega.schedulers.sizing import AsAsked, GlobalCap, MaxParallelism, RelativeSize
from omega.schedulers.work import Work
from omega.testing import OrderingContract, SchedulerContract, SizingContract


class TestFifo(OrderingContract):
    policy = Fifo()


class TestRejoin(OrderingContract):
    policy = Rejoin()


class TestPrecedenceFifo(OrderingContract):
    policies = (PrecedenceFifo(), PrecedenceFifo(ageing=3.0))


class TestShortestFirst(OrderingContract):
    policies = (ShortestFirst(), ShortestFirst(ageing=10.0), ShortestFirst(unknown=30.0))


class TestFairUsers(OrderingContract):
    policies = (FairUsers(), FairUsers({"ada": 2.0}), FairUsers(ageing=5.0))


class FewestLeft(Ordering):
    """Keys that differ from one attempt of a job to the next; not while it is queued."""

    def key(self, work: Work) -> float:
        return float(work.remaining)


class TestFewestLeft(OrderingContract):
    policy = FewestLeft()
    keys_stay = False


class TestFairPools(OrderingContract):
    policies = (FairPools(), FairPools(pools={"p": PoolSettings(weight=2.0, guarantee={"cpu": 10})}))


class TestAsAsked(SizingContract):
    policy = AsAsked()


class TestMaxParallelism(SizingContract):
    policy = MaxParallelism()


class TestRelativeSize(SizingContract):
    policy = RelativeSize()


class TestGlobalCap(SizingContract):
    policy = GlobalCap()


class TestBatch(SchedulerContract):
    scheduler = batch()


class TestService(SchedulerContract):
    scheduler = service()
