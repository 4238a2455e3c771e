"""The order of one policy: the rank of a job's lane, then its key, then the order of submission."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work

MANY = 4
"""Number of lanes above which keeping their order costs less than looking at all of them."""
SOME = 8
"""The part of the lanes that has to move for all of them to be ordered again, which costs less than one by one."""
Place = tuple[float, float, int]
"""Rank of the lane, key of the job, tie; smallest first."""
Promise = Callable[[Work, Sequence[int]], None]
"""Counts tasks of a job, by group, as placed, for the next rank."""


class Ranks:
    """Places of jobs. The rank of a lane is cached until `forget`, because use and time change it."""

    def __init__(self, ordering: Ordering) -> None:
        """Order by `ordering`."""
        self.serial = 0
        """How often all ranks were dropped."""
        self._of: dict[Hashable, float] = {}
        self._kin: dict[Hashable, list[Hashable]] = {}
        self._kin_of: dict[Hashable, Hashable | None] = {}
        self.changed: list[Hashable] = []
        """Lanes whose ranks were dropped since `take_changed`, or since all were."""
        self.stale = False
        """Whether the ranks of most lanes were dropped since `take_changed`; `changed` does not name them."""
        self.follow(ordering)

    def follow(self, ordering: Ordering) -> None:
        """Use another ordering from now on."""
        self.ordering = ordering
        self.lane = ordering.lane
        """The lane of a job."""
        self.key, self.rejoins = ordering.key, ordering.rejoins
        """The key of a job in its lane; whether a retried job joins behind those with its key."""
        self.bounds = type(ordering).due is not Ordering.due
        """Whether room beyond what is due to a job may have to stay free for some time."""
        self.forget()

    def rank(self, lane: Hashable) -> float:
        """The rank of a lane."""
        rank = self._of.get(lane)
        if rank is None:
            rank = self._of[lane] = self.ordering.rank(lane)
            self._note_kin((lane,))
        return rank

    def _note_kin(self, lanes: Iterable[Hashable]) -> None:
        for lane in lanes:
            if lane not in self._kin_of:
                kin = self._kin_of[lane] = self.ordering.kin(lane)
                if kin is not None:
                    self._kin.setdefault(kin, []).append(lane)

    def several(self, lanes: Sequence[Hashable]) -> list[float]:
        """Compute the ranks of several lanes again."""
        ranks = self.ordering.ranks(lanes)
        self._of.update(zip(lanes, ranks, strict=True))
        if len(self._kin_of) < len(lanes) or not self._kin_of.keys() >= set(lanes):
            self._note_kin(lanes)
        return ranks

    def within(self, work: Work) -> tuple[float, int]:
        """The place of a job within its lane."""
        return self.key(work), work.joined if self.rejoins else work.job.order

    def place(self, work: Work) -> Place:
        """The place of a job among all."""
        return self.rank(self.lane(work)), *self.within(work)

    def forget(self) -> None:
        """Drop all ranks: use or time changed."""
        self._of.clear()
        self._kin.clear()
        self._kin_of.clear()
        self.changed.clear()
        self.stale = False
        self.serial += 1

    def forget_of(self, lane: Hashable) -> None:
        """Drop the ranks that depend on what the jobs of a lane hold."""
        kin = self._kin_of[lane] if lane in self._kin_of else self.ordering.kin(lane)
        if kin is None:
            self.forget()
            return
        for each in self._kin.get(kin, ()):
            if self._of.pop(each, None) is not None:
                self.changed.append(each)

    def renew(self, lane: Hashable) -> float:
        """Compute the rank of a lane again, and drop those that depend on what its jobs hold."""
        kin = self._kin_of.get(lane)
        if kin is None:
            self.forget()
            return self.rank(lane)
        if len(lanes := self._kin[kin]) > 1:
            for each in lanes:
                if each != lane and self._of.pop(each, None) is not None:
                    self.changed.append(each)
        rank = self._of[lane] = self.ordering.rank(lane)
        return rank

    def forget_kin(self, kin: Collection[Hashable]) -> None:
        """Drop the ranks of some lanes that change together; when these are many, all ranks."""
        lanes = self._kin
        if len(kin) > MANY and len(kin) * SOME > len(lanes):
            self.stale = True
            self._of.clear()
            return
        for each in kin:
            if each in lanes:
                self._forget_all(lanes[each])

    def _forget_all(self, lanes: Iterable[Hashable]) -> None:
        drop, changed = self._of.pop, self.changed.append
        for lane in lanes:
            if drop(lane, None) is not None:
                changed(lane)

    def take_changed(self) -> list[Hashable]:
        """Return, once, the lanes whose ranks were dropped since the last call, or since all were."""
        changed, self.changed, self.stale = self.changed, [], False
        return changed


def admit(ordering: Ordering, work: Work, waiting: Callable[[], int]) -> bool:
    """Admit as many tasks of a chosen job as may take room now by the policy; return whether there are any.

    Tasks that were admitted before, when room was given to the job, are due. Of a gang as many are as it
    places together, or none.
    """
    if work.admitted is None and (due := ordering.due(work, waiting)) is not None:
        work.admitted = within(work, due)
    most = ordering.most(work)
    if most is not None and most < work.remaining:
        left, admitted = (0 if most < work.least else most), list[int]()
        for tasks in work.admitted or work.left:
            admitted.append(min(tasks, left))
            left -= admitted[-1]
        work.admitted = admitted
    return work.admitted is None or any(work.admitted)


def within(work: Work, tasks: Sequence[int]) -> list[int] | None:
    """Return the unplaced tasks of a job that are among these, by group; None: all of them.

    Of a gang none when they are fewer than it places together.
    """
    admitted = list(map(min, work.left, tasks))
    if admitted == work.left:
        return None
    return admitted if sum(admitted) >= work.least else [0] * len(admitted)
