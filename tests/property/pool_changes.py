"""Pools that are configured, limited, moved and removed at random, in one tree or two, also while jobs are in them."""

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from omega.cellstate.memory import MemoryCell
from omega.cellstate.pools import ROOT, Pool, Pools, PoolTree
from omega.cellstate.transaction import Position
from omega.schedulers.epochs import epoch_of
from tests.property.worlds import Worlds

NAMES = ("p", "q", "u0", "u1", "top")
limits = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "tasks", "jobs"]), st.integers(0, 12), max_size=3)


class PoolChanges(RuleBasedStateMachine):
    """What operators do with pools."""

    worlds: Worlds
    twin: MemoryCell
    scale: int

    @abstractmethod
    def tick(self, most: int = 3) -> int:
        """The time goes on."""

    def change_pools(self, data: st.DataObject) -> None:
        """Change pools, now and then without having read them."""
        known, resources = self.twin.pools.get(), self.twin.dimensions.names
        second = data.draw(st.sampled_from([(), (PoolTree("racks", "has rack"),)]), "second tree")
        pools = [pool for pool in known.pools if data.draw(st.integers(0, 5)) and (second or not pool.tree)]
        kept = {pool.name for pool in pools}
        for name in data.draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3), "pools"):
            bound = {
                what: most * (self.scale if what in resources else 1)
                for what, most in data.draw(limits, "limits").items()
                if what in ("tasks", "jobs", *resources)
            }
            parent = data.draw(st.sampled_from([ROOT, ROOT, *sorted(kept), "top"]), "parent")
            users = data.draw(st.sampled_from([(), (), ("u0",), ("u1", "u0")]), "users")
            sure = data.draw(st.sampled_from([0, 0, 4, 8]), "guarantee") * self.scale
            lent = {"cpu": data.draw(st.integers(0, 4), "lending") * self.scale} if sure else {}
            tree = data.draw(st.sampled_from(["", "racks"]), "tree") if second and parent == ROOT else ""
            due = {"cpu": sure} if sure else {}
            weight = data.draw(st.sampled_from([1.0, 1.0, 2.0]), "weight")
            made = Pool(name, parent, limits=bound, users=users, guarantee=due, lending=lent, tree=tree, weight=weight)
            pools = [*(pool for pool in pools if pool.name != name), made]
            kept.add(name)
        trees = (PoolTree(default_parent=data.draw(st.sampled_from([ROOT, ROOT, "top"]))), *second)
        check, at = known.version - (not data.draw(st.integers(0, 9))), self.tick()
        self.worlds.do(lambda world: world.cell.pools.set(Pools(tuple(pools), trees), check, at, "ada"))
        self.worlds.do(lambda world: world.cell.pools.use())
        if data.draw(st.booleans(), "epoch"):
            self.publish(data.draw(st.sampled_from([0, 400, 1_000])), at, data.draw(st.integers(0, 20)) * self.scale)

    def publish(self, later_ms: int, at: int, cpu: int = 1_000) -> None:
        """Publish the next epoch, now and then too early; what jobs hold and want is the same everywhere."""
        self.worlds.do(lambda world: world.cell.pools.demands(Position())[1])
        known, twin, names = self.twin.pools.epoch(), self.twin, self.twin.dimensions.names
        total = (cpu, 1_000, 500, 2_000)[: len(names)]
        epoch = epoch_of(
            twin.pools.get(), twin.pools.demands(Position())[1], dict.fromkeys(("default", "racks"), total), names,
            known,
            version=twin.version, at_ms=(known.at_ms if known else 0) + later_ms, by="batch/0",
        )  # fmt: skip
        self.worlds.do(lambda world: world.cell.pools.publish_epoch(epoch, 1_000, at))
