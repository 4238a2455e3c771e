"""Jobs that may be tried now, by lane, and jobs that back off until they are due.

Of many lanes the first jobs are kept in order: a lane is looked at again only when something of it changed.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from operator import sub
from typing import Any

from omega.cellstate.usage import Usage, times
from omega.schedulers.queue.ranks import MANY, SOME, Place, Ranks
from omega.schedulers.work import Work

Head = Callable[[Hashable], Sequence[Any] | None]
"""Returns key and tie of the first due job of a lane, perhaps with more; None when it has none."""
Entry = tuple[float, int, int, str]
"""Key and tie of a job, its number in the queue, its id."""
SORTED = 16
"""Jobs of the only lane, as a multiple of those asked for, up to which it is sorted: each pop of a heap costs more."""


class Heads:
    """Lanes by the place of their first job. Entries that are out of date stay until they surface."""

    def __init__(self, ranks: Ranks, head: Head) -> None:
        """Hold nothing."""
        self._ranks, self._head = ranks, head
        self._heap: list[tuple[Place, int, Hashable]] = []
        self._places: dict[Hashable, Place] = {}
        self._serial, self._entries = -1, 0
        self.changed: list[Hashable] = []
        """Lanes that got or lost a job since the last call."""

    def first(self, lanes: Iterable[Hashable]) -> tuple[Place, Hashable] | None:
        """Return the place of the first job of all, and its lane, or None. `lanes`: all that have jobs, perhaps more.

        The job may have left; its lane is then to be named in `changed`.
        """
        ranks = self._ranks
        if self._serial != ranks.serial or ranks.stale or self.changed or ranks.changed:
            self._follow(lanes)
        heap, places = self._heap, self._places
        while heap:
            place, _, lane = heap[0]
            if places.get(lane) is place:
                return place, lane
            heappop(heap)
        return None

    def _follow(self, lanes: Iterable[Hashable]) -> None:
        """Look at what has changed."""
        ranks = self._ranks
        if self._serial != ranks.serial or len(self._heap) > 4 * len(self._places) + 64:
            self._build(list(lanes))
        if changed := self.changed:
            self.changed = []
            if changed == ranks.changed:  # mostly the lane of the job that was chosen last
                ranks.changed = []
            for lane in changed if len(changed) == 1 else set(changed):
                self._look(lane)
        if ranks.stale:
            self._rank_all()
        elif ranks.changed:
            self._rank_again(ranks.take_changed())

    def move_first(self, rank: float, head: Sequence[Any] | None) -> None:
        """Place the lane that `first` returned by its rank and its first job; None: it has none."""
        heap, lane = self._heap, self._heap[0][2]
        if head is None:
            heappop(heap)
            del self._places[lane]
            return
        place = self._places[lane] = rank, head[0], head[1]
        self._entries += 1
        heapreplace(heap, (place, self._entries, lane))

    def _rank_all(self) -> None:
        """Order all lanes by their present ranks; their first jobs are the same."""
        self._ranks.take_changed()
        if places := self._places:
            lanes = list(places)
            _, keys, ties = zip(*places.values(), strict=True)
            ranks = self._ranks.several(lanes)
            self._places = dict(zip(lanes, zip(ranks, keys, ties, strict=True), strict=True))
            self._order()

    def _rank_again(self, lanes: list[Hashable]) -> None:
        """Order lanes by their present ranks; their first jobs are the same."""
        places, rank, reranked = self._places, self._ranks.rank, list[tuple[Hashable, Place]]()
        for lane in lanes:
            known = places.get(lane)
            if known is not None and known[0] != (now := rank(lane)):
                reranked.append((lane, (now, known[1], known[2])))
        if len(reranked) * SOME > len(places):
            places.update(reranked)
            self._order()
        else:
            for lane, place in reranked:
                self._put(lane, place)

    def _order(self) -> None:
        self._entries = len(self._places)
        self._heap = list(zip(self._places.values(), range(self._entries), self._places, strict=True))
        heapify(self._heap)

    def _build(self, lanes: Iterable[Hashable]) -> None:
        self._serial = self._ranks.serial
        self._ranks.take_changed()
        self.changed.clear()
        head = self._head
        firsts = {lane: first for lane in lanes if (first := head(lane)) is not None}
        ranks = self._ranks.several(list(firsts))
        places = zip(firsts.items(), ranks, strict=True)
        self._places = {lane: (rank, first[0], first[1]) for (lane, first), rank in places}
        self._order()

    def _look(self, lane: Hashable) -> None:
        head = self._head(lane)
        if head is None:
            self._places.pop(lane, None)
            return
        place = self._ranks.rank(lane), head[0], head[1]
        if self._places.get(lane) != place:
            self._put(lane, place)

    def _put(self, lane: Hashable, place: Place) -> None:
        self._places[lane] = place
        self._entries += 1
        heap = self._heap
        if heap and heap[0][2] == lane:
            heapreplace(heap, (place, self._entries, lane))
        else:
            heappush(heap, (place, self._entries, lane))


class Ready:
    """Queued jobs. Entries of removed jobs stay in the heaps until they surface and are skipped by their number."""

    def __init__(self, ranks: Ranks) -> None:
        """Create an empty queue."""
        self._ranks = ranks
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._later: list[tuple[float, int, str]] = []
        self.works: dict[str, Work] = {}
        """Queued jobs by id, including those that back off."""
        self._joined = 0
        # The only ready job, while it is the only one that is queued: it has no entry in a heap.
        self._only: Work | None = None
        self.counts: dict[int, int] = {}
        """Number of due jobs of the lanes of the store that have any."""
        self._now = 0.0
        self._heads: Heads | None = None
        self._alike: dict[tuple[Hashable, int], tuple[int, int]] = {}
        """By lane and precedence: entries of the lane when they were counted, and how many are of the precedence."""

    def add(self, work: Work) -> None:
        """Add a job; it is due at `work.not_before`."""
        self._joined += 1
        work.joined = self._joined
        alone = not self.works
        self.works[work.job.id] = work
        if self._only is not None:
            self._give_way()
        if work.not_before > 0:
            heappush(self._later, (work.not_before, work.joined, work.id))
        elif alone and not work.job.lane:
            self._only, work.lane = work, None
        else:
            self._push(work)

    def add_all(self, works: Sequence[Work]) -> None:
        """Add several jobs that were not queued before, in this order."""
        if len(works) < 2:
            for work in works:
                self.add(work)
            return
        if self._only is not None:
            self._give_way()
        joined, ranks, queued = self._joined, self._ranks, self.works
        lane_of, key_of, rejoins = ranks.lane, ranks.key, ranks.rejoins
        for work in works:
            joined += 1
            work.joined, job = joined, work.job
            queued[job.id] = work
            if work.not_before > 0:
                heappush(self._later, (work.not_before, joined, job.id))
                continue
            lane = work.lane = lane_of(work)
            entry = key_of(work), joined if rejoins else job.order, joined, job.id
            heap = self._lanes.get(lane)
            if heap is None:
                self._lanes[lane] = [entry]
            else:
                heappush(heap, entry)
            if self._heads is not None:
                self._heads.changed.append(lane)
            work.counted = job.lane
        self._joined = joined
        self._count_all(works, 1)

    def _give_way(self) -> None:
        """Give the only ready job its entry in a heap."""
        work, self._only = self._only, None
        if work is not None and self.works.get(work.job.id) is work:
            self._push(work)

    def _uncount(self, work: Work) -> None:
        if work.counted:
            self._count(work.counted, -1)
            work.counted = 0

    def _count(self, lane: int, more: int) -> None:
        number = self.counts.get(lane, 0) + more
        if number:
            self.counts[lane] = number
        else:
            self.counts.pop(lane, None)

    def _push(self, work: Work) -> None:
        job = work.job
        if job.lane and not work.counted:
            work.counted = job.lane
            self._count(job.lane, 1)
        key, tie = self._ranks.within(work)
        entry, lane = (key, tie, work.joined, job.id), self._ranks.lane(work)
        work.lane = lane
        heap = self._lanes.get(lane)
        if heap is None:
            self._lanes[lane] = [entry]
        else:
            heappush(heap, entry)
        if self._heads is not None:
            self._heads.changed.append(lane)

    def _found(self, joined: int, job_id: str) -> Work | None:
        work = self.works.get(job_id)
        return work if work is not None and work.joined == joined else None

    def _fall_due(self, now: float) -> None:
        later = self._later
        while later and later[0][0] <= now:
            _, joined, job_id = heappop(later)
            if (work := self._found(joined, job_id)) is not None:
                self._push(work)

    def _head(self, heap: list[Entry], now: float) -> Entry | None:
        """Return the first entry of a lane that is queued and due."""
        while heap:
            entry = _, _, joined, job_id = heap[0]
            work = self.works.get(job_id)
            if work is None or work.joined != joined:
                heappop(heap)
            elif work.not_before <= now:
                return entry
            else:  # the clock was set back since it was due
                heappop(heap)
                heappush(self._later, (work.not_before, joined, job_id))
        return None

    def pop(self, now: float, bound: Place | None = None) -> Work | None:
        """Remove and return the first job by the policy; None when none before `bound` is due at `now` (seconds)."""
        work = self._only
        if work is None and self._heads is not None and not self._later and len(self._lanes) > MANY:
            return self._pop_of_many(now, bound)
        if work is not None:
            if bound is None:
                self._only = None
                return self.works.pop(work.job.id)
            self._give_way()
        elif not self.works:
            if self._lanes:
                self._lanes.clear()
            return None
        if self._later:
            self._fall_due(now)
        if bound is None and len(self._lanes) == 1:
            return next(iter(self._pop_only(now, 1)), None)
        if len(self._lanes) > MANY:
            return self._pop_of_many(now, bound)
        self._heads = None
        best: tuple[Place, Hashable] | None = None
        for lane, heap in list(self._lanes.items()):
            rank = self._ranks.rank(lane)
            if best is not None and rank > best[0][0]:
                continue
            head = self._head(heap, now)
            if head is None:
                del self._lanes[lane]
                continue
            place = rank, head[0], head[1]
            if best is None or place < best[0]:
                best = place, lane
        if best is None or (bound is not None and best[0] > bound):
            return None
        heap = self._lanes[best[1]]
        work = self.works.pop(heappop(heap)[3])
        if not heap:
            del self._lanes[best[1]]
        self._uncount(work)
        return work

    def _pop_of_many(self, now: float, bound: Place | None) -> Work | None:
        """As `pop`, for so many lanes that they are not looked at one by one."""
        self._now = now
        heads = self._heads
        if heads is None:
            heads = self._heads = Heads(self._ranks, self._head_of)
        while (best := heads.first(self._lanes)) is not None:
            place, lane = best
            if bound is not None and place > bound:
                return None
            heads.changed.append(lane)
            heap = self._lanes[lane]
            _, _, joined, job_id = heap[0]
            work = self.works.get(job_id)
            if work is None or work.joined != joined or work.not_before > now:
                continue  # it left, or the clock was set back
            heappop(heap)
            del self.works[job_id]
            if work.counted:
                self._uncount(work)
            return work
        return None

    def pop_several(
        self, now: float, bound: Place | None, most: int, usage: Usage, ample: Sequence[int]
    ) -> list[Work]:  # fmt: skip
        """Remove and return the first jobs of many lanes, at most `most`: those that `pop` returns one by one.

        Each is promised all of its tasks before the next one is chosen. Fewer jobs, also none, are returned before one
        that is to be chosen by itself, and once all jobs together hold more than `ample`.
        """
        popped: list[Work] = []
        if self._only is not None or len(self._lanes) <= MANY:
            return popped
        if self._later:
            self._fall_due(now)
        self._now = now
        heads = self._heads = self._heads or Heads(self._ranks, self._head_of)
        queued, lanes, counts, renew = self.works, self._lanes, self.counts, self._ranks.renew
        first, move, promise, head_of = heads.first, heads.move_first, usage.promise, self._head_of
        rest = list(map(sub, ample, usage.held()))
        while len(popped) < most and (found := first(lanes)) is not None:
            place, lane = found
            _, _, joined, job_id = (heap := lanes[lane])[0]
            work = queued.get(job_id)
            if work is None or work.joined != joined or work.not_before or work.admitted is not None:
                break
            left = work.left
            if len(left) > 1 or (bound is not None and place > bound) or min(rest) < 0:
                break
            heappop(heap)
            del queued[job_id]
            popped.append(work)
            if counted := work.counted:
                work.counted = 0
                if counts[counted] == 1:
                    del counts[counted]
                else:
                    counts[counted] -= 1
            amounts = times(work.job.groups[0].need, left[0])
            rest = list(map(sub, rest, amounts))
            promise(work.whose, amounts, (job_id, 0))
            move(renew(lane), head_of(lane))
        return popped

    def _head_of(self, lane: Hashable) -> Entry | None:
        """Return the first due job of a lane; a lane without one is dropped."""
        heap = self._lanes.get(lane)
        if heap:
            head = _, _, joined, job_id = heap[0]
            work = self.works.get(job_id)
            if work is not None and work.joined == joined and work.not_before <= self._now:
                return head
        found = None if heap is None else self._head(heap, self._now)
        if found is None:
            self._lanes.pop(lane, None)
        return found

    def pop_many(self, now: float, bound: Place | None, most: int) -> list[Work]:
        """Remove and return the first jobs by the policy, at most `most`: those that `pop` returns one by one."""
        if bound is None and self._only is not None and most:
            only, self._only = self._only, None
            return [self.works.pop(only.job.id)]
        works: list[Work] = []
        if bound is None and self.works and most:
            if self._later:
                self._fall_due(now)
            if len(self._lanes) == 1:
                works = self._pop_only(now, most)
        while len(works) < most and (work := self.pop(now, bound)) is not None:
            works.append(work)
        return works

    def _pop_only(self, now: float, most: int) -> list[Work]:
        """Remove and return the first jobs when there is only one lane, at most `most`."""
        (heap,) = self._lanes.values()
        works, taken = self.works, 0
        popped: list[Work] = []
        if len(heap) > SORTED * most:
            return self._pop_heap(heap, now, most)
        heap.sort()  # mostly it is in order, as a sorted list is a heap
        for _, _, joined, job_id in heap:
            if len(popped) == most:
                break
            taken += 1
            work = works.get(job_id)
            if work is None or work.joined != joined:
                continue
            if work.not_before > now:  # the clock was set back since it was due
                heappush(self._later, (work.not_before, joined, job_id))
                continue
            del works[job_id]
            popped.append(work)
        del heap[:taken]
        if not heap:
            self._lanes.clear()
        self._count_all(popped, -1)
        return popped

    def _pop_heap(self, heap: list[Entry], now: float, most: int) -> list[Work]:
        """As `_pop_only`, for a lane with many more jobs than are asked for."""
        popped: list[Work] = []
        while len(popped) < most:
            head = self._head(heap, now)
            if head is None:
                self._lanes.clear()
                break
            popped.append(self.works.pop(heappop(heap)[3]))
        self._count_all(popped, -1)
        return popped

    def _count_all(self, works: Sequence[Work], sign: int) -> None:
        """Count jobs in their lanes, or with -1 no more; most of those that come or go together are of one lane."""
        number, lane = 0, 0
        for work in works:
            if work.counted != lane:
                if lane:
                    self._count(lane, number)
                number, lane = 0, work.counted
            number += sign
            if sign < 0:
                work.counted = 0
        if lane:
            self._count(lane, number)

    def discard(self, job_id: str) -> Work | None:
        """Remove and return a job."""
        if self._only is not None and self._only.job.id == job_id:
            self._only = None
        work = self.works.pop(job_id, None)
        if work is not None:
            self._uncount(work)
            if self._heads is not None:
                self._heads.changed.append(work.lane)
        return work

    def get(self, job_id: str) -> Work | None:
        """Return a queued job."""
        return self.works.get(job_id)

    def next_due(self) -> float | None:
        """Return when the next job is due (seconds): 0 for at once, None when none is queued."""
        if not self.works:
            return None
        if self._only is not None:
            return 0.0
        while self._later and self._found(*self._later[0][1:]) is None:
            heappop(self._later)
        if not self._lanes:
            return self._later[0][0]
        return self._later[0][0] if next(self._live_lanes(), None) is None else 0.0

    def lanes(self) -> int:
        """Number of lanes with due jobs."""
        return sum(1 for _ in self._live_lanes()) + (self._only is not None)

    def _live_lanes(self) -> Iterator[Hashable]:
        """Yield the lanes with due jobs; drop first entries of jobs that left, and lanes without entries."""
        for lane, heap in list(self._lanes.items()):
            while heap and self._found(*heap[0][2:]) is None:
                heappop(heap)
            if heap:
                yield lane
            else:
                del self._lanes[lane]

    def waiting(self, work: Work) -> int:
        """About how many due jobs of its lane and precedence wait together with a job that was chosen."""
        heap, which = self._lanes.get(work.lane, ()), (work.lane, work.job.precedence)
        size, count = self._alike.get(which, (0, 0))
        if abs(len(heap) - size) * SOME > size or not size:
            found = (self.works.get(entry[3]) for entry in heap)
            count = sum(1 for each in found if each is not None and each.job.precedence == which[1])
            self._alike[which] = len(heap), count
        return count + 1

    def clear(self) -> list[Work]:
        """Remove and return all jobs, in the order in which they joined."""
        works = sorted(self.works.values(), key=lambda work: work.joined)
        self._lanes, self._later, self.works, self._only, self._heads = {}, [], {}, None, None
        self.counts, self._alike = {}, {}
        for work in works:
            work.counted = 0
        return works

    def __len__(self) -> int:
        """Number of queued jobs, including those that back off."""
        return len(self.works)
