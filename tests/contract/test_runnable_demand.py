"""Tasks that no machine and no limit could hold are no demand, so they take no share (docs/pool-rules.md, rule 1)."""

from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.model import Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Epoch, Pool, PoolTree
from omega.schedulers.epochs import recomputed
from omega.schedulers.process.epochs import Publisher
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_pools import put


def job(name: str, need: tuple[int, int], count: int = 100, **fields: Any) -> JobSpec:
    """A job of the pool of its name."""
    more = {key: fields.pop(key) for key in ("precedence", "gang", "gang_min") if key in fields}
    return JobSpec(
        name, name, "batch", (TaskGroup(need, count, spec=fields),), spec={"user": "ada", "pool": name}, **more
    )


class Epochs:
    """Publishes one epoch after the other."""

    def __init__(self, cell: AnyCell) -> None:
        self.cell, self.publisher, self.at_ms = cell, Publisher(cell), 0

    def next(self) -> Epoch:
        self.at_ms += 2_000
        assert self.publisher.publish("batch/0", self.at_ms)
        epoch = self.cell.pools.epoch()
        assert epoch is not None
        return epoch

    def share(self) -> float:
        """CPU that is due to the odd pool by the next epoch, when no other demands anything."""
        epoch = self.next()
        share = epoch.pools["odd"]
        assert share.fair_share[0] <= share.demand[0] + 1e-9
        return round(share.fair_share[0] * epoch.totals[share.tree][0], 6)


@pytest.fixture
def epochs(cell: AnyCell) -> Epochs:
    """Two pools."""
    put(cell, Pool("odd"), Pool("plain"))
    return Epochs(cell)


def test_a_task_that_is_larger_than_every_machine_takes_no_share(cell: AnyCell, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (5, 1)), job("plain", (1, 1))], 0, "ada")
    shares = epochs.next().pools
    assert [shares[name].fair_share[0] for name in ("odd", "plain")] == pytest.approx([0.0, 1.0])
    assert shares["odd"].demand == (0.0, 0.0)
    cell.machines.join("e0", [MachineSpec("large", (12, 8))], 0)
    shares = epochs.next().pools
    assert shares["odd"].fair_share[0] == pytest.approx(10 / 24), "two tasks fit the new machine"
    assert shares["plain"].fair_share[0] == pytest.approx(14 / 24)


def test_a_queue_that_is_longer_than_the_machines_stays_demand(cell: AnyCell, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (1, 1))], 0, "ada")
    epoch = epochs.next()
    assert (epoch.pools["odd"].demand[0], epoch.pools["odd"].fair_share[0]) == pytest.approx((100 / 12, 1.0))
    assert recomputed(epoch, cell.pools.get(), cell.dimensions.names) == epoch.pools


CASES = {
    "one task for each machine": (job("odd", (3, 1)), 9),
    "different machines": (job("odd", (1, 1), different_machines=True), 3),
    "no machine has the attribute": (job("odd", (1, 1), constraints=["zone == 'x'"]), 0),
    "a spread that bounds": (job("odd", (1, 1), spread=[{"domain": "machine", "most": 2}]), 6),
    "a spread over a missing attribute": (job("odd", (1, 1), spread=[{"domain": "rack", "most": 2}]), 0),
    "an invalid demand": (job("odd", (1, 1), constraints=["zone =="]), 0),
    "a gang that fits": (job("odd", (4, 1), 3, gang=Gang.YES), 12),
    "a gang that is too large": (job("odd", (4, 1), 4, gang=Gang.YES), 0),
    "a gang whose minimum fits": (job("odd", (4, 1), 9, gang=Gang.YES, gang_min=3), 12),
    "a gang whose minimum is too large": (job("odd", (4, 1), 9, gang=Gang.YES, gang_min=4), 0),
    "more tasks than fit": (job("odd", (1, 1)), 12),
    "a best-effort constraint": (job("odd", (2, 1), constraints=[{"prefer": "zone == 'x'"}]), 12),
}


@pytest.mark.parametrize("name", CASES)
def test_a_share_is_at_most_what_the_machines_could_hold(cell: AnyCell, epochs: Epochs, name: str) -> None:
    spec, cpu = CASES[name]
    cell.jobs.submit([spec], 0, "ada")
    assert epochs.share() == cpu


def test_attributes_and_states_of_machines_change_shares(cell: AnyCell, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (1, 1), constraints=["zone == 'x'"])], 0, "ada")
    assert epochs.share() == 0
    cell.machines.set_attributes(1, {"zone": "x"}, 0, "ada")
    assert epochs.share() == 4
    cell.machines.set_attributes(2, {"zone": "x"}, 0, "ada")
    assert epochs.share() == 8
    cell.machines.set_state(1, MachineState.DRAINED, 0, "ada")
    cell.machines.set_capacity(0, (8, 8), 0, "ada")
    assert epochs.share() == 4, "as many as machine 2 has; machine 0 has no zone"


@pytest.mark.parametrize(("limits", "cpu"), [({"cpu": 1}, 0), ({"cpu": 5}, 4), ({"tasks": 3}, 6), ({"memory": 3}, 6)])
def test_limits_of_pools_bound_shares(cell: AnyCell, limits: dict[str, int], cpu: int) -> None:
    put(cell, Pool("above", limits=limits), Pool("odd", "above"))
    cell.jobs.submit([job("odd", (2, 1))], 0, "ada")
    assert Epochs(cell).share() == cpu


def test_borrowing_bounds_shares(cell: AnyCell) -> None:
    put(cell, Pool("odd", guarantee={"cpu": 2}, borrowing={"cpu": 1}))
    cell.jobs.submit([job("odd", (2, 1))], 0, "ada")
    assert Epochs(cell).share() == 2


def test_limits_of_a_kind_bound_shares(cell: AnyCell, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (2, 1), precedence=7)], 0, "ada")
    cell.pools.set_limits("batch", Limits((5, None)), 0, "ada")
    assert epochs.share() == 4
    cell.pools.set_limits("batch", Limits((None, None), precedence=(0, 6)), 0, "ada")
    assert epochs.share() == 0
    cell.pools.set_limits("batch", Limits((None, None)), 0, "ada")
    assert epochs.share() == 12


def test_commands_do_not_count_where_only_simulated_machines_are(cell: AnyCell, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (1, 1), command=["true"])], 0, "ada")
    assert epochs.share() == 0
    cell.executors.register_agent("m9", "n", 600_000, 0)
    cell.machines.join("agent/m9", [MachineSpec("m9", (4, 8))], 0)
    assert epochs.share() == 4


def test_machines_of_other_trees_do_not_count(cell: AnyCell) -> None:
    cell.machines.set_attributes(0, {"gpu": "yes"}, 0, "ada")
    put(cell, Pool("plain"), Pool("odd", tree="gpu"), trees=(PoolTree(), PoolTree("gpu", "gpu == 'yes'")))
    cell.jobs.submit([job("odd", (1, 1))], 0, "ada")
    epoch = Epochs(cell).next()
    assert epoch.totals == {"default": (8, 16), "gpu": (4, 8)}
    (leaf,) = epoch.leaves["gpu"]
    assert (leaf.demand, leaf.most) == ((100, 100), (4, 4))


def test_a_gang_does_not_have_to_cover_optional_groups(cell: AnyCell, epochs: Epochs) -> None:
    spec = job("odd", (4, 1), 2, gang=Gang.YES)
    for name, more in (("odd", TaskGroup((5, 1), 2, optional=True)), ("odd2", TaskGroup((5, 1), 2))):
        cell.jobs.submit([replace(spec, id=name, name=name, groups=(*spec.groups, more))], 0, "ada")
    assert epochs.share() == 8, "the second gang cannot run"


def test_what_runs_is_demand_wherever_it_runs(cell: AnyCell, member: Member, epochs: Epochs) -> None:
    cell.jobs.submit([job("odd", (1, 1), constraints=["zone == 'x'"])], 0, "ada")
    cell.machines.set_attributes(0, {"zone": "x"}, 0, "ada")
    assert member.place("odd", (0, 3)).accepted
    cell.machines.set_attributes(0, {"zone": None}, 0, "ada")
    assert epochs.share() == 3


def test_an_update_changes_shares(cell: AnyCell, epochs: Epochs) -> None:
    """Constraints of the groups that an update adds are read."""
    cell.jobs.submit([job("odd", (1, 1), count=2)], 0, "ada")
    assert epochs.share() == 2
    stored = cell.jobs.get("odd")
    assert stored is not None
    more = TaskGroup((2, 1), 0, spec={"constraints": ["zone == 'x'"]})
    cell.jobs.update("odd", [more], {**stored.spec, "groups": [{}, dict(more.spec)]}, 0, "ada")
    cell.jobs.resize("odd", {1: 4}, 0, "ada")
    assert epochs.share() == 2, "no machine has the zone"
