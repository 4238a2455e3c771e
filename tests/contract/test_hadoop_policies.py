"""The policies of Hadoop's Fair Scheduler keep the contracts of their kinds, and the store accepts their evictions."""

from omega.schedulers.comparisons.hadoop import FewestRunning, HadoopFair, HadoopFifo
from omega.schedulers.comparisons.hadoop_preemption import HadoopPreemption
from omega.testing import OrderingContract, PreemptionContract


class TestHadoopFair(OrderingContract):
    policy = HadoopFair()
    keys_stay = False


class TestFewestRunning(OrderingContract):
    policy = FewestRunning()
    keys_stay = False


class TestHadoopFifo(OrderingContract):
    policy = HadoopFifo()


class TestHadoopPreemption(PreemptionContract):
    policies = (
        HadoopPreemption(minimum_timeout=0.0, fair_timeout=0.0, fraction=1.0),
        HadoopPreemption(minimum_timeout=0.0, fair_timeout=0.0, looks=1),
    )
