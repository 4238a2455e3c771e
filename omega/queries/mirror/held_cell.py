"""Reads of a cell that a mirror answers from memory, so that documents of the mirror are made as those of commands."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.cuts import NO_CUTS, Cuts
from omega.cellstate.events import Fact
from omega.cellstate.model import Described, Job, Machine, MachineState
from omega.cellstate.override import override
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.replies import EpochMark, KindUse
from omega.queries.mirror.event_ring import EventRing
from omega.queries.mirror.job_table import JobTable

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.pages import CellSums
    from omega.cellstate.pools.records import PoolUse

Members = dict[str, tuple[int, bool, dict[str, Any]]]


class HeldSnapshot(ArraySnapshot):
    """The machines of a mirror. Only its reader says what they are called and have.

    Documents are made as by schedulers, which fetch what is stale: from a mirror they would learn the old anew.
    """

    @override
    def describe(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> None:
        pass

    def learn(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> None:
        """Apply names and attributes that the reader read."""
        super().describe(machines, described)


class _Part:
    def __init__(self, held: "HeldCell") -> None:
        self._held = held


class HeldJobs(_Part):
    """Jobs, without runs."""

    def by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """Return jobs, without runs but for those that `ids_by_name` returned."""
        others = {job.id: job for job in self._held.others.values() if job is not None} if self._held.others else {}
        found = {job_id: others.get(job_id) or self._held.table.get(job_id) for job_id in ids}
        return {job_id: job for job_id, job in found.items() if job is not None}

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest job of each name."""
        rows = {name: self._held.table.named(name) for name in names}
        return {name: self._held.table.row_ids[row] for name, row in rows.items() if row is not None}

    def newest_ids(self, most: int) -> list[str]:
        """Return the ids of the newest jobs, the newest first."""
        return [self._held.table.row_ids[row] for row in self._held.table.newest(most)]

    def get(self, job_id: str) -> Job | None:
        """Return a job, without runs."""
        return self._held.table.get(job_id)

    def specs(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the kept part of specifications."""
        return {job_id: {} if (job := self._held.table.get(job_id)) is None else job.spec for job_id in ids}

    def tasks_by_machine(self, job_id: str) -> Mapping[int, int]:
        """Return how many tasks of a job run on each machine, as far as reasons need it."""
        return self._held.placed.get(job_id, {})


class HeldMachines(_Part):
    """Machines."""

    def count(self) -> int:
        """Return how many machines ever joined."""
        return self._held.snapshot.size

    def described(self, indices: Sequence[int]) -> list[Described]:
        """Return names and attributes."""
        attributes = self._held.snapshot.attributes
        return [attributes.described(index) for index in indices]

    def at(self, indices: Sequence[int]) -> list[Machine]:
        """Return machines by their indices, without those that are gone."""
        size, snapshot = len(self._held.dimensions), self._held.snapshot
        there = [index for index in indices if 0 <= index < snapshot.size]
        found = []
        for row in snapshot.rows[:, there].T.tolist():
            index, number, state, executor, *amounts = row
            if state != MachineState.GONE:
                name, attributes = snapshot.attributes.described(index)
                found.append(
                    Machine(
                        index, name, number, MachineState(state), executor, tuple(amounts[:size]),
                        tuple(amounts[size:]), dict(attributes),
                    )
                )  # fmt: skip
        return found


class HeldPools(_Part):
    """Pools and limits."""

    def kinds(self) -> Mapping[str, KindUse]:
        """Return limits and use."""
        return self._held.held_kinds

    def limited_kinds(self) -> Mapping[str, KindUse]:
        """Return limits and use; also of kinds without limits, which limit nothing."""
        return self._held.held_kinds

    def get(self) -> Pools:
        """Return the pools."""
        return self._held.held_pools

    def epoch(self) -> Epoch | None:
        """Return the published epoch."""
        return self._held.held_epoch

    def use(self) -> "Mapping[str, PoolUse]":
        """Return the use of pools that carry limits."""
        return self._held.held_pool_use


class HeldSchedulers(_Part):
    """Schedulers."""

    def members(self) -> Members:
        """Return the schedulers."""
        return self._held.held_members

    def figures(self) -> Mapping[str, dict[str, Any]]:
        """Return the figures of all schedulers."""
        return self._held.held_figures

    def queue_depths(self) -> Mapping[str, int]:
        """Return how many jobs of each kind are pending."""
        return self._held.held_depths


class HeldLog(_Part):
    """The newest entries of the log."""

    def changed_records(self, since: int, most: int) -> Any:
        """Return the extent of the log; records cannot be asked for."""
        assert not since, "only the extent is held"  # noqa: S101 - a caller of another kind is a defect
        assert not most, "only the extent is held"  # noqa: S101
        newest = self._held.snapshot.position.version
        return SimpleNamespace(first=max(self._held.log_first, self._held.ring.first or newest + 1), version=newest)

    def facts(self, since: int = 0, most: int = 1000, kinds: Collection[str] | None = None) -> list[Fact]:
        """Return the facts of the newest entries of the log."""
        return self._held.ring.facts(since, most, kinds)


class HeldCell:
    """What a mirror holds of a cell, with those reads in its parts that documents need; others are missing on purpose.

    The reader replaces the attributes; it never changes a value that it gave out, but for the tables.
    """

    def __init__(self, cell: "Cell") -> None:
        self.name, self.dimensions, self.url = cell.name, cell.dimensions, cell.url
        self.durability, self.unchecked = cell.durability, cell.unchecked
        self.snapshot = HeldSnapshot(len(cell.dimensions))
        self.table, self.ring = JobTable(), EventRing()
        self.held_sums: CellSums | None = None
        self.held_counters: Mapping[str, int] = {}
        self.held_members: Members = {}
        self.held_unfit: Mapping[str, str] = {}
        self.held_figures: Mapping[str, dict[str, Any]] = {}
        self.held_kinds: Mapping[str, KindUse] = {}
        self.held_cuts: Cuts = NO_CUTS
        self.held_pools, self.held_epoch = Pools(), None
        self.held_pool_use: Mapping[str, PoolUse] = {}
        self.held_depths: Mapping[str, int] = {}
        self.mark: EpochMark | None = None
        self.refuses = ""
        self.log_first = 1
        self.placed: dict[str, Mapping[int, int]] = {}
        """Tasks by machine of pending jobs whose reason depends on it."""
        self.others: Mapping[str, Job | None] = {}
        """Jobs with their runs, by the name under which pending jobs ask for them."""
        self.jobs = HeldJobs(self)
        self.machines = HeldMachines(self)
        self.pools = HeldPools(self)
        self.schedulers = HeldSchedulers(self)
        self.log = HeldLog(self)

    held_epoch: Epoch | None

    def sums(self) -> "CellSums":
        """Return the sums as read last."""
        assert self.held_sums is not None, "the mirror was never read"  # noqa: S101 - callers wait for the first reading
        return self.held_sums

    def counters(self) -> Mapping[str, int]:
        """Return the counters of the cell."""
        return self.held_counters

    def cuts(self) -> Cuts:
        """Return the reports of what the store lost."""
        return self.held_cuts

    def refuses_writes(self) -> str:
        """Return why the store refuses writes."""
        return self.refuses

    def store_ms(self) -> int:
        """Return the server's clock at the last reading."""
        return self.mark.now_ms if self.mark is not None else 0
