"""Contracts for policies: test classes to inherit from, and small cells for experiments.

An example::

    import omega.testing

    class TestColdest(omega.testing.PlacementContract):
        policy = Coldest()

Plain pytest runs them; they need pytest and hypothesis, which `pip install omega-scheduler[testing]` brings.
"""

import pytest

for _part in ("ordering", "placement", "preemption", "scheduler", "sizing"):
    pytest.register_assert_rewrite(f"omega.testing.{_part}")

from omega.testing.ordering import OrderingContract
from omega.testing.placement import PlacementContract
from omega.testing.preemption import PreemptionContract
from omega.testing.scenes import snapshot, work
from omega.testing.scheduler import SchedulerContract
from omega.testing.sizing import SizingContract

__all__ = [
    "OrderingContract",
    "PlacementContract",
    "PreemptionContract",
    "SchedulerContract",
    "SizingContract",
    "snapshot",
    "work",
]
