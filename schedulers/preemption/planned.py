"""Planned evictions of one job: victims, room on machines, amounts that pools gain and lose."""

from collections.abc import Sequence

from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident
from omega.cellstate.transaction import Claim
from omega.schedulers.fairshare.standings import Path, Standings
from omega.schedulers.preemption.planning import PlanningPolicy
from omega.schedulers.preemption.sets import UnsettledEvictions, leaf_of_work, with_victims
from omega.schedulers.preemption.victims import Victim, add
from omega.schedulers.work import Work


class PlannedEvictions:
    """The evictions that are planned for one job, counted in the standings of pools as they are chosen.

    `own` is the pool that gains; amounts in smallest units, machines and placements by their numbers.
    """

    def __init__(self, policy: PlanningPolicy, work: Work, standings: Standings, own: str) -> None:
        """Plan nothing yet."""
        self.policy, self.work, self.standings, self.own = policy, work, standings, own
        self.path = standings.shares.path(leaf_of_work(work))
        self.snapshot = standings.snapshot
        self.group = next(group for group, left in enumerate(work.left) if left)
        self.need = work.need(self.group)
        self.victims: dict[int, list[tuple[int, int]]] = {}
        self.planned: dict[int, list[int]] = {}
        """What planned tasks take, by machine."""
        self.room: dict[int, list[int]] = {}
        self.pools: dict[str, None] = {}
        self.gone: dict[int, int] = policy.in_flight.gone()
        self.strict = set[str]()
        self.lost: list[tuple[str, Resources]] = []
        self.freed: list[tuple[int, Resources]] = []
        self.lost_tasks: dict[str, int] = {}
        self.evicted: dict[int, Resident] = {}
        self.before = dict(self.gone)

    def unsettled(self) -> UnsettledEvictions:
        """The planned evictions, if all are accepted."""
        own = {name: count - self.before.get(name, 0) for name, count in self.gone.items()}
        gone = {name: count for name, count in own.items() if count}
        return UnsettledEvictions(self.lost, gone, self.freed, self.evicted, self.path)

    def _path(self, resident: Resident) -> Path:
        return self.standings.shares.path(resident.pool or resident.user)

    def _pool(self, resident: Resident) -> str:
        """Return the pool that is compared with the evictor's when it loses this task."""
        pair = self.standings.pair(self.path, self._path(resident))
        return "" if pair is None else pair[1]

    def _unit(self, resident: Resident) -> Resources | None:
        """Return the amounts evicted with a task: those of a whole strict gang; None when they were counted before."""
        if not resident.together:
            return resident.need
        if resident.job in self.strict:
            return None
        return tuple(amount * resident.together for amount in resident.need)

    def _free(self, machine: int) -> list[int]:
        """Return the free amounts of a machine after the evictions in flight."""
        free = [int(room[machine]) for room in self.snapshot.room]
        for amounts in self.policy.in_flight.freed(machine):
            add(free, amounts, 1)
        return free

    def _room(self, machine: int) -> list[int]:
        """Return the free amounts of a machine after the planned evictions and placements."""
        if machine not in self.room:
            self.room[machine], self.planned[machine] = self._free(machine), [0] * len(self.need)
        return self.room[machine]

    def _occupy(self, machine: int, count: int = 1) -> None:
        add(self._room(machine), self.need, -count)
        add(self.planned[machine], self.need, count)

    def _carry_out(self, machine: int, chosen: Sequence[Victim]) -> None:
        """Count the victims of one task as gone, and the task as placed on the machine."""
        for resident, count in chosen:
            self._evict(machine, resident, count)
        self._occupy(machine)

    def _evict(self, machine: int, resident: Resident, count: int) -> None:
        self.pools[self._pool(resident)] = None
        self.evicted[resident.placement] = resident
        leaf = self._path(resident)[0]
        self.lost_tasks[leaf] = self.lost_tasks.get(leaf, 0) + count
        self.gone[resident.placement] = self.gone.get(resident.placement, 0) + count
        self.victims.setdefault(machine, []).append((resident.placement, count))
        unit = self._unit(resident)
        if unit is not None:
            times = 1 if resident.together else count
            amounts = tuple(amount * times for amount in unit)
            self.standings.move(self._path(resident), amounts, -1)
            self.lost.append((resident.pool or resident.user, amounts))
        if resident.together:
            self.strict.add(resident.job)
        self.freed.append((machine, tuple(amount * count for amount in resident.need)))
        add(self.room[machine], resident.need, count)

    def _with_victims(self, claims: Sequence[Claim]) -> list[Claim]:
        """Name the victims of each claim, which the snapshot counts as taken."""
        room = {machine: self._free(machine) for machine in self.victims}
        return with_victims(claims, self.victims, self.evicted, room, self.work)
