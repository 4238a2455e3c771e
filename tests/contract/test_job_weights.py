"""Weights of jobs: their parts among the jobs of a pool, live changes, and the order of FIFO pools."""

import pytest

from omega.cellstate.errors import BadInput, Overtaken
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Epoch, Pool
from omega.cellstate.verify import verify
from omega.changes import set_weight
from omega.schedulers.epochs import recomputed
from omega.schedulers.process.epochs import Publisher
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_pools import put


def job(name: str, weight: object = None, count: int = 100, precedence: int = 0) -> JobSpec:
    spec = {"pool": "p"} | ({} if weight is None else {"weight": weight})
    return JobSpec(name, name, "batch", (TaskGroup((1, 1), count),), precedence, spec=spec)


class Epochs:
    def __init__(self, cell: AnyCell) -> None:
        self.cell, self.publisher, self.at_ms = cell, Publisher(cell), 0

    def next(self) -> Epoch:
        self.at_ms += 2_000
        assert self.publisher.publish("batch/0", self.at_ms)
        epoch = self.cell.pools.epoch()
        assert epoch is not None
        return epoch

    def cpu(self) -> dict[str, float]:
        """CPU that is due to each job; the three machines have 12."""
        return {name: round(12 * share[0], 6) for name, share in self.next().jobs.items()}


def test_jobs_of_a_pool_share_by_weight(cell: AnyCell) -> None:
    put(cell, Pool("p"))
    cell.jobs.submit([job("a"), job("b", 2), job("c", 3)], 0, "ada")
    epochs = Epochs(cell)
    assert epochs.cpu() == {"a": 2, "b": 4, "c": 6}
    epoch = cell.pools.epoch()
    assert epoch is not None
    assert recomputed(epoch, cell.pools.get(), cell.dimensions.names) == epoch.pools
    assert sorted(leaf.weight for leaf in epoch.leaves["default"]) == [1, 2, 3]


def test_the_weight_of_a_job_that_wants_no_more_counts(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("p"))
    cell.jobs.submit([job("a", 5, count=12)], 0, "ada")
    assert member.place("a", (0, 4), (1, 4), (2, 4)).accepted
    cell.jobs.submit([job("b")], 0, "ada")
    assert Epochs(cell).cpu() == {"a": 10, "b": 2}


def test_a_weight_is_changed_while_the_job_runs(cell: AnyCell, member: Member) -> None:
    put(cell, Pool("p"))
    cell.jobs.submit([job("a"), job("b")], 0, "ada")
    assert member.place("a", (0, 3)).accepted
    epochs = Epochs(cell)
    assert epochs.cpu() == {"a": 6, "b": 6}
    before = cell.jobs.get("a")
    assert before is not None
    after = set_weight(cell, before, 3, 1, "ada")
    assert (after.modified > before.modified, after.groups[0].placed) == (True, 3)
    assert epochs.cpu() == {"a": 9, "b": 3}
    with pytest.raises(Overtaken):
        set_weight(cell, before, 4, 1, "ada")
    with pytest.raises(BadInput, match="weight 0 is not allowed"):
        set_weight(cell, after, 0, 1, "ada")
    assert verify(cell).ok


@pytest.mark.parametrize("weight", ["2", True, -1, 0, 1e9, None])
def test_what_is_no_weight_counts_as_1(cell: AnyCell, weight: object) -> None:
    put(cell, Pool("p"))
    cell.jobs.submit([job("a", weight), job("b")], 0, "ada")
    assert Epochs(cell).cpu() == {"a": 6, "b": 6}


def test_a_fifo_pool_orders_by_precedence_then_by_its_sort_keys(cell: AnyCell) -> None:
    put(cell, Pool("p", mode="fifo"))
    cell.jobs.submit(
        [job("a", count=6), job("b", 2, count=6), job("c", count=6), job("d", count=6, precedence=1)], 0, "ada"
    )
    epochs = Epochs(cell)
    assert epochs.cpu() == {"a": 0, "b": 6, "c": 0, "d": 6}
    put(cell, Pool("p", mode="fifo", sort_keys=("start_time",)))
    assert epochs.cpu() == {"a": 6, "b": 0, "c": 0, "d": 6}
