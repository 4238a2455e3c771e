"""Values of an epoch keep their names: from the calculator to the share of a pool, and through the records."""

from dataclasses import replace

import numpy as np

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.pools import Epoch, Integral, Leaf, Pool, Pools, PoolShare, PoolTree
from omega.cellstate.pools.records import epoch_digest, pack_leaves, pack_shares, unpack_epoch
from omega.schedulers.epochs import epoch_of, pool_shares, recomputed
from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.tree import Tree
from omega.schedulers.fairshare.update import Shares

SHARE = PoolShare(
    name="p", parent="<Root>", tree="default", weight=1.0, fair_share=(2.0,), demand=(3.0,), usage=(4.0,),
    guarantee=(5.0,), integral=(6.0,), limits=(7.0,), promised=(8.0,), estimated=(9.0,), satisfaction=2.0,
    volume=(10.0,), last_share=6.0, ephemeral=False, decayed_usage=0.5,
)  # fmt: skip


def each(value: float) -> Floats:
    """The value of one resource for the root and a pool."""
    return np.full((2, 1), value)


def test_the_share_of_a_pool_has_each_result_under_its_name() -> None:
    none = np.zeros((0, 1))
    places = np.zeros(0, np.int64)
    found = Shares(
        tree=Tree({"cpu": 1.0}, [Pool("p")], []), weights=np.ones(2), pools=each(2), pool_demand=each(3),
        pool_usage=each(4), guaranteed=each(5), integral=each(6), limits=each(7), promised_pools=each(8),
        estimated=(each(9), none), volume=each(10), strong=each(11), expected=(each(12), none), jobs=none,
        job_demand=none, job_usage=none, job_limits=none, promised_jobs=none, job_weights=np.zeros(0), fifo=places,
        fifo_effective=places, errors=(),
    )  # fmt: skip
    shares = pool_shares({PoolTree().name: found}, Pools((Pool("p"),)), {"p": 0.5})
    assert shares["p"] == SHARE
    assert shares["default/<Root>"].name == "default/<Root>"


def test_an_epoch_is_read_from_its_fields_by_name() -> None:
    leaf = Leaf("p", demand=(1, 2), usage=(3, 4), gang=True, start=5, pending=6, jobs=["j"])
    epoch = Epoch(
        number=1, version=2, pools_version=3, at_ms=4, published=5, by="ada", totals={"default": (6, 7)},
        pools={"p": SHARE}, leaf_shares={"default": [(0.25, 0.5)]}, leaves={"default": [leaf]},
        before={"p": ((8.0, 9.0), 0.125)}, seconds=10.0,
    )  # fmt: skip
    fields = {
        "number": b"1", "version": b"2", "pools": b"3", "at": b"4", "published": b"5", "by": b"ada",
        "shares": pack_shares(epoch), "leaves": pack_leaves(epoch),
    }  # fmt: skip
    fields["digest"] = epoch_digest(fields["shares"], fields["leaves"]).encode()
    assert unpack_epoch(fields) == epoch


def test_the_next_epoch_has_each_argument_under_its_name() -> None:
    flow = Integral("burst", flow={"cpu": 1}, burst={"cpu": 2})
    pools = Pools((Pool("p", integral=flow),), (PoolTree(usage_half_life=2.5),), version=9)
    last = Epoch(
        number=6, version=1, pools_version=9, at_ms=1_000, by="eve", totals={"default": (4,)},
        pools={"p": replace(SHARE, usage=(1.0,), decayed_usage=0.0)},
    )  # fmt: skip
    job = JobDemand("j", Lane("batch", 0, "p", "ada"), 3, False, False, (((2,), 1, 1),))
    epoch = epoch_of(pools, [job], {"default": (8,)}, ("cpu",), last, version=8, at_ms=3_500, by="bob")
    assert (epoch.number, epoch.version, epoch.pools_version, epoch.at_ms, epoch.by) == (7, 8, 9, 3_500, "bob")
    assert (epoch.totals, epoch.before, epoch.seconds) == ({"default": (8,)}, {"p": ((10.0,), 6.0)}, 2.5)
    assert epoch.leaf_shares == {"default": [(0.5,)]}
    leaf = Leaf("p", demand=(4,), usage=(2,), gang=False, start=3, pending=1, jobs=["j"])
    assert epoch.leaves == {"default": [leaf]}
    assert epoch.pools["p"].decayed_usage == 0.5
    assert recomputed(epoch, pools, ("cpu",)) == epoch.pools
