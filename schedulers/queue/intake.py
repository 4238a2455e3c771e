"""Which pending jobs to take in from the store: the next ones of the lanes that the policy ranks best.

Each lane of the store is a stream of jobs by arrival. A scheduler keeps some of each at hand and merges them by its
policy, so it knows the best of all without reading the queue: only lanes that run short are asked for more.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cellstate.cell import PendingJob, Reply
from cellstate.lanes import Lanes
from cellstate.transaction import Ask, Intake
from schedulers.queue.queue import Queue
from schedulers.queue.ranks import Place
from schedulers.work import Work

MOST_ASKED = 8
"""Lanes that are asked in one call: with 32 buckets a millisecond of the server's time."""
LEAST_AT_HAND = 8
"""Jobs of a lane that are taken in at once, at least."""


@dataclass(slots=True)
class Stream:
    """A lane as it was read: jobs up to the arrival `after` were taken in, and those up to `seen` are known.

    `last` is the last job that came; `more`: others may follow it in the store.
    """

    serial: int
    after: int = 0
    seen: int = -1
    last: Work | None = None
    more: bool = True


class Intakes:
    """What to ask for, given what is at hand."""

    def __init__(self, kind: str, batch: int, queue: Queue) -> None:
        """Nothing was asked yet."""
        self._kind, self._most, self._queue = kind, max(4 * batch, 4 * LEAST_AT_HAND), queue
        self._streams: dict[int, Stream] = {}

    def reset(self) -> None:
        """Every pending job is to arrive again."""
        self._streams.clear()

    def short(self, lanes: Lanes) -> list[tuple[int, Stream, int]]:
        """The lanes that may have jobs that are not at hand and should be: number, stream, jobs at hand."""
        numbers = lanes.of_kind(self._kind)
        low = self._quota(len(numbers)) // 2
        found = []
        for number in numbers:
            state = lanes.states[number]
            stream = self._streams.get(number)
            if stream is None or stream.serial != state.serial:
                stream = self._streams[number] = Stream(state.serial)
            if state.arrival > stream.seen or stream.more:
                at_hand = self._queue.ready.count(number)
                if at_hand <= low:
                    found.append((number, stream, at_hand))
        if len(self._streams) > 2 * len(lanes.states) + 64:
            self._streams = {number: each for number, each in self._streams.items() if number in lanes.states}
        return found

    def _quota(self, lanes: int) -> int:
        return max(LEAST_AT_HAND, self._most // max(1, lanes))

    def ask(self, lanes: Lanes, owned: str) -> Intake:
        """What to ask for with the next call; of nothing when enough is at hand."""
        short = self.short(lanes)
        short.sort(key=lambda each: self._place(lanes, *each[:2]))
        quota = self._quota(len(short))
        asks = tuple(Ask(number, stream.after, quota - min(quota - 1, at_hand)) for number, stream, at_hand in short)
        return Intake(self._kind, asks[:MOST_ASKED], self._most if asks else 0, owned)

    def _place(self, lanes: Lanes, number: int, stream: Stream) -> tuple[int, Place]:
        """Lanes nobody has seen a job of come first, the most important ones before the others."""
        if stream.last is None:
            return 0, (-lanes.names[number].precedence, lanes.states[number].arrival, number)
        return 1, self._queue.ranks.place(stream.last)

    def take(self, asked: Intake, reply: Reply) -> None:
        """Take note of what came."""
        jobs, at = reply.jobs, 0
        for ask, count in zip(asked.lanes, reply.counts, strict=False):
            stream = self._streams.get(ask.lane)
            if stream is None or count is None or stream.after != ask.after:
                at += count or 0
                continue
            stream.more, stream.seen = count >= ask.most, reply.arrivals
            mine = _of_lane(jobs[at:], ask.lane, count)
            at += len(mine)
            if mine:
                stream.after, stream.last = mine[-1].arrival, Work.of(mine[-1].job)

    def unseen(self, lanes: Lanes) -> bool:
        """Whether there are lanes that were never asked."""
        return any(stream.seen < 0 for _, stream, _ in self.short(lanes))

    def bound(self) -> Place | None:
        """The place of the best job that may still be in the store: no job behind it is the next by the policy."""
        ready, ranks = self._queue.ready, self._queue.ranks
        places = [
            ranks.place(stream.last) for number, stream in self._streams.items()
            if stream.more and stream.last is not None and not ready.count(number)
        ]  # fmt: skip
        return min(places, default=None)


def _of_lane(jobs: Iterable[PendingJob], lane: int, most: int) -> list[PendingJob]:
    """The first jobs that came of a lane; records that were gone by then are missing."""
    found: list[PendingJob] = []
    for each in jobs:
        if each.job.lane != lane or len(found) == most:
            break
        found.append(each)
    return found
