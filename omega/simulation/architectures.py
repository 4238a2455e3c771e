"""Architectures without an allocator: shared state, monolithic, statically partitioned (Omega §3.1, §3.2, §3.4)."""

from collections.abc import Mapping, Sequence

from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.simulation.drive import Architecture, SimulatedScheduler
from omega.simulation.packed_snapshot import PackedSnapshot


class Shared(Architecture):
    """Shared state: the snapshot is the cell's state at the beginning of the attempt; a commit may conflict."""

    @override
    def sync(self, simulated: SimulatedScheduler) -> Snapshot:
        return simulated.refresh(simulated.copy)


class Monolithic(Architecture):
    """One scheduler decides on the authoritative state at the moment of the decision, so conflicts cannot occur.

    Single-path and multi-path differ only in the scheduler: one decision time for all jobs, or one per kind. In both,
    jobs wait in one queue behind slow ones.
    """

    decides_late = True

    @override
    def sync(self, simulated: SimulatedScheduler) -> Snapshot:
        if len(simulated.scheduler.queue.blocked):
            simulated.refresh(simulated.copy)
        return simulated.copy

    def ready(self, simulated: SimulatedScheduler) -> None:
        """Apply tasks that ended during the decision time."""
        simulated.refresh(simulated.copy)


class Slice(PackedSnapshot):
    """A copy in which machines outside one partition have no free resources."""

    def __init__(self, dimensions: int, part: range, *, numbered: bool = True) -> None:
        """`part` are the indices of the machines inside."""
        super().__init__(dimensions, numbered=numbered)
        self.part = part

    @property
    @override
    def wholesale(self) -> bool:
        # Outside machines are closed again one by one.
        return False

    @override
    def took_over(self, machines: Sequence[int], gained: Sequence[int] | None = None) -> None:
        for machine in machines:
            if machine not in self.part:
                self.rest[machine] = self.nothing
        super().took_over(machines, gained)


def parts(machines: int, shares: Mapping[str, float]) -> dict[str, range]:
    """Divide machines into consecutive partitions in proportion to the shares, at least one machine each."""
    whole, start, so_far, cut = sum(shares.values()), 0, 0.0, {}
    for i, (kind, share) in enumerate(shares.items()):
        so_far += share
        left = len(shares) - 1 - i
        end = machines if not left else min(max(round(machines * so_far / whole), start + 1), machines - left)
        cut[kind] = range(start, end)
        start = end
    return cut


class Partitioned(Monolithic):
    """Each kind has its own machines and a scheduler that decides on them alone, as a monolithic one."""

    def __init__(self, of_scheduler: Mapping[int, range]) -> None:
        """`of_scheduler`: the partition of each scheduler, by number."""
        self.of_scheduler = of_scheduler

    @override
    def copy(self, simulated: SimulatedScheduler) -> PackedSnapshot:
        return Slice(simulated.world.dimensions, self.of_scheduler[simulated.number], numbered=simulated.world.numbered)
