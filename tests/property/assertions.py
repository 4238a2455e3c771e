"""Assertions of random transactions: shares of pools and jobs, floors of victims' jobs."""

from abc import abstractmethod
from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from omega.cellstate.fairness import Assertion, Floor, Threshold, leaf_of
from omega.cellstate.memory import MemoryCell
from tests.property.losses import often


class Assertions(RuleBasedStateMachine):
    """What transactions assert."""

    twin: MemoryCell
    scale: int

    @abstractmethod
    def some_job(self, data: st.DataObject) -> str:
        """The id of a job, perhaps an unknown one."""

    def asserted(self, data: st.DataObject) -> Assertion | None:
        """Shares of some pools; the lanes that the sender knows are all, or those of a moment ago."""
        if data.draw(often, "asserts nothing"):
            return None
        leaves = st.lists(st.sampled_from(["p q", "u0", "u1", "u2"]), min_size=1, max_size=2, unique=True)
        parts = st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0, 1 / 3])

        def threshold() -> Threshold:
            names = tuple(data.draw(leaves, "leaves"))
            share = tuple(data.draw(parts, "share") * self.scale for _ in self.twin.dimensions.names)
            known = (row for row in self.twin.L.values() if row.serial <= serial)
            of = [row.number for row in known if leaf_of(row.lane.pool, row.lane.user) in names]
            return Threshold(names, share, tuple(of))

        serial = max(0, self.twin.lane_serials - data.draw(st.sampled_from([0, 0, 1, 99]), "serials back"))
        victims = tuple(threshold() for _ in range(data.draw(st.integers(0, 2))))
        evictor = threshold()
        if data.draw(st.booleans(), "for a job"):
            evictor = Threshold((), evictor.share, job=self.some_job(data))
        return Assertion(evictor, victims, serial, tuple(self.floor(data) for _ in range(data.draw(st.integers(0, 2)))))

    def floor(self, data: st.DataObject) -> Floor:
        """What some job with running tasks keeps."""
        held = sorted(
            {run.job for m in self.twin.M.values() for run in self.twin.machines.runs([m.index]) if not run.leaving}
        )
        least = tuple(
            data.draw(st.sampled_from([0.0, 1.0, 2.5, inf]), "least") * self.scale for _ in self.twin.dimensions.names
        )
        return Floor(data.draw(st.sampled_from([*held, "absent"]), "floor of"), least, data.draw(st.booleans(), "all"))
