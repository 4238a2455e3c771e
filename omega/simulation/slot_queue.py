"""The jobs of a slot cluster in the order of an ordering, kept sorted: only what changed moves."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import Ordering
from omega.schedulers.queue.ranks import Ranks
from omega.simulation.slot_jobs import SlotJob

Entry = tuple[float, int, SlotJob]
"""Key and order of a job, which differ between any two jobs, and the job."""
Place = tuple[float, int, Hashable]
"""Rank and number of a lane, which differ between any two lanes, and the lane."""


class SlotQueue:
    """Jobs by kind of slot, by the rank of their lane, then by key, then by submission."""

    def __init__(self, ordering: Ordering) -> None:
        """Hold no job."""
        self._ordering, self._ranks = ordering, Ranks(ordering)
        self._lanes: list[Place] = []
        self._places: dict[Hashable, Place] = {}
        self._jobs: tuple[dict[Hashable, list[Entry]], ...] = ({}, {})
        """By kind of slot and lane: the jobs that want one, in order."""
        self._entries: tuple[dict[SlotJob, Entry], ...] = ({}, {})
        self._changed: dict[SlotJob, None] = {}

    def join(self, job: SlotJob) -> None:
        """Add a job."""
        job.lane = lane = self._ordering.lane(job.work)
        if lane not in self._places:
            self._places[lane] = place = (self._ranks.rank(lane), len(self._places), lane)
            insort(self._lanes, place)
            for jobs in self._jobs:
                jobs[lane] = []
        self._changed[job] = None

    def change(self, job: SlotJob) -> None:
        """Note that tasks of a job were launched or have ended."""
        self._changed[job] = None

    def wanted(self, kind: int) -> bool:
        """Return whether a job wants a slot of a kind."""
        if self._changed:
            self._sort()
        return bool(self._entries[kind])

    def in_order(self, kind: int, snapshot: Snapshot, now: float) -> Iterator[SlotJob]:
        """Yield the jobs that want a slot of a kind, first ones first, at a time (seconds)."""
        if self._changed:
            self._sort()
        self._observe(snapshot, now)
        jobs, lanes, at = self._jobs[kind], self._lanes, 0
        count = len(lanes)
        while at < count:
            rank, _, lane = lanes[at]
            here = jobs[lane]
            at += 1
            if not here:
                continue
            if at < count and lanes[at][0] == rank:
                here = here.copy()
                while at < count and lanes[at][0] == rank:
                    here += jobs[lanes[at][2]]
                    at += 1
                here.sort()
            for _, _, job in here:
                yield job

    def _observe(self, snapshot: Snapshot, now: float) -> None:
        """Let the ordering see use and time, and move the lanes whose ranks changed."""
        ordering, ranks = self._ordering, self._ranks
        ordering.observe(snapshot, now)
        kin = ordering.touched(snapshot.usage.touched())
        if kin is None:
            ranks.forget()
            self._places = {lane: (ranks.rank(lane), number, lane) for lane, (_, number, _) in self._places.items()}
            self._lanes = sorted(self._places.values())
            return
        ranks.forget_kin(kin)
        for lane in ranks.take_changed():
            before, rank = self._places[lane], ranks.rank(lane)
            if before[0] != rank:
                del self._lanes[bisect_left(self._lanes, before)]
                self._places[lane] = now_at = (rank, before[1], lane)
                insort(self._lanes, now_at)

    def _sort(self) -> None:
        """Give the jobs that changed their places among those that want a slot, or none."""
        changed, self._changed = self._changed, {}
        key_of, kinds = self._ordering.key, tuple(zip(self._entries, self._jobs, strict=True))
        for job in changed:
            work = job.work
            key = key_of(work)
            for (entries, lanes), wants in zip(kinds, job.wants, strict=True):
                before = entries.get(job)
                if before is not None:
                    if wants and before[0] == key:
                        continue
                    jobs = lanes[job.lane]
                    del jobs[bisect_left(jobs, before)]
                    if not wants:
                        del entries[job]
                if wants:
                    entry = entries[job] = (key, work.job.order, job)
                    insort(lanes[job.lane], entry)
