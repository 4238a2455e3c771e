"""Which pending jobs to receive from the store: the next ones of the lanes that the policy ranks best.

Each lane of the store is a stream of jobs by arrival. A scheduler holds some jobs of each and merges them by its
policy, so it has the best job of all without reading the queue: only lanes that run short are requested.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from omega.cellstate.fairness import leaf_of
from omega.cellstate.lanes import Lane, Lanes, LaneState
from omega.cellstate.replies import PendingJob, Reply
from omega.cellstate.transaction import MOST_TAKEN, Ask, Intake
from omega.schedulers.queue.queue import Queue
from omega.schedulers.queue.ranks import Place
from omega.schedulers.sharing import ALL, NONE, Ownership, alone
from omega.schedulers.work import Work

MOST_ASKED = 8
"""Maximum number of lanes per call: with 32 buckets a millisecond of the server's time."""
LEAST_AT_HAND = 8
"""Jobs of a lane of which a scheduler holds at least half, while the store has more."""
MOST_AT_HAND = 2_048
"""Jobs of all lanes together up to which more than the minimum of each is held: reading a lane's jobs few at a time
costs the server as much as placing them."""
MOST_FILLS = 64
"""Maximum number of consecutive requests for jobs of lanes that have not been requested yet."""


@dataclass(slots=True)
class Stream:
    """A lane as read so far: jobs up to the arrival `after` were received, and those up to `seen` are known.

    `last` is the last job received; `more`: others may follow it in the store.
    """

    serial: int
    owned: str
    """The buckets of its jobs that the scheduler owns."""
    after: int = 0
    seen: int = -1
    last: Work | None = None
    more: bool = True


class Intakes:
    """Requests for jobs, given the jobs held."""

    def __init__(self, kind: str, jobs_per_call: int, queue: Queue) -> None:
        """Start without requests."""
        most = max(4 * jobs_per_call, 4 * LEAST_AT_HAND)
        self._kind, self._most, self._queue = kind, min(MOST_TAKEN, most), queue
        self._streams: dict[int, Stream] = {}
        self._ownership = alone("")
        self.sole: list[int] = []
        """Lanes that were found since `take_sole` and of which all jobs are the scheduler's own."""
        self._asked: Intake | None = None
        """The last request since jobs are received again."""

    def reset(self) -> None:
        """Receive every pending job again."""
        self._streams.clear()
        self.sole.clear()
        self._asked = None

    def follow(self, ownership: Ownership) -> None:
        """Receive the jobs that are the scheduler's own from now on."""
        self._ownership = ownership
        self.reset()

    def _own(self, lanes: Lanes) -> list[tuple[int, LaneState, Stream]]:
        """Return the lanes with pending jobs of which some are the scheduler's own."""
        own, states, streams = list[tuple[int, LaneState, Stream]](), lanes.states, self._streams
        for number, state in states.items():
            if not state.pending or state.account is None:
                continue
            stream = streams.get(number)
            if stream is None or stream.serial != state.serial:
                stream = streams[number] = Stream(state.serial, self._buckets(lanes.names[number]))
                if stream.owned == ALL:
                    self.sole.append(number)
            if stream.owned != NONE:
                own.append((number, state, stream))
        if len(streams) > 2 * len(states) + 64:
            self._streams = {number: each for number, each in streams.items() if number in states}
        return own

    def _buckets(self, lane: Lane) -> str:
        return self._ownership.buckets(leaf_of(lane.pool, lane.user)) if lane.kind == self._kind else NONE

    def take_sole(self) -> tuple[int, ...]:
        """Return, once, the lanes that were found since the last call and of which all jobs are the scheduler's own."""
        found, self.sole = tuple(self.sole), []
        return found

    def short(self, lanes: Lanes) -> list[tuple[int, Stream, int]]:
        """Return the lanes that run short and may have more jobs: number, stream, jobs held."""
        return self._short_of(self._own(lanes))

    def _short_of(self, own: Sequence[tuple[int, LaneState, Stream]]) -> list[tuple[int, Stream, int]]:
        low, counts = self._quota(len(own)) // 2, self._queue.ready.counts
        return [
            (number, stream, at_hand)
            for number, state, stream in own
            if (stream.more or state.arrival > stream.seen) and (at_hand := counts.get(number, 0)) <= low
        ]

    def _quota(self, lanes: int) -> int:
        return max(LEAST_AT_HAND, min(self._most, MOST_AT_HAND // max(1, lanes)))

    def ask(self, lanes: Lanes) -> Intake:
        """Return the request of the next call; empty when enough jobs are held.

        It is for lanes of which the scheduler owns the same buckets: mostly all jobs of each.
        """
        own = self._own(lanes)
        short, quota = self._short_of(own), self._quota(len(own))
        if len(short) > 1:
            short.sort(key=lambda each: self._place(lanes, *each[:2]))
            urgent = sum(at_hand <= quota // 4 for _, _, at_hand in short)
            # Of many lanes, those that have enough for some calls wait: each is read in few and larger parts.
            asked = max(urgent, self._most // quota) if quota < self._most else len(short)
            short = short[: min(MOST_ASKED, asked)]
        owned = short[0][1].owned if short else NONE
        short = [each for each in short if each[1].owned == owned]
        # Not more than the reply can bring: a lane that gives less than asked for has no more.
        each = self._most // max(1, len(short))
        asks = tuple(Ask(number, stream.after, min(each, quota - at_hand)) for number, stream, at_hand in short)
        self._asked = Intake(self._kind, asks, self._most if asks else 0, owned)
        return self._asked

    def _place(self, lanes: Lanes, number: int, stream: Stream) -> tuple[int, Place]:
        """Return the order of requests: lanes without a known job first, by precedence."""
        if stream.last is None:
            return 0, (-lanes.names[number].precedence, lanes.states[number].arrival, number)
        return 1, self._queue.ranks.place(stream.last)

    def take(self, asked: Intake, reply: Reply) -> bool:
        """Process a reply; return whether it is one to a request under the present ownership."""
        if asked is not self._asked:
            return False
        jobs, at = reply.jobs, 0
        for ask, count in zip(asked.lanes, reply.counts, strict=False):
            stream = self._streams.get(ask.lane)
            if stream is None or count is None or stream.after != ask.after:
                at += count or 0
                continue
            stream.more, stream.seen = count >= ask.most, reply.arrivals
            mine: Sequence[PendingJob] = jobs[:count]
            if len(asked.lanes) > 1:
                mine = _of_lane(jobs, at, ask.lane, count)
            at += len(mine)
            if mine:
                last = mine[-1]
                stream.after, stream.last = last.arrival, Work.of(last.job)
        return True

    def unseen(self, lanes: Lanes) -> bool:
        """Return whether there are lanes that were never requested."""
        return any(stream.seen < 0 for _, stream, _ in self.short(lanes))

    def bound(self) -> Place | None:
        """Return the place of the best job that may still be in the store: no job behind it is next by the policy."""
        place, streams = self._queue.ranks.place, self._streams
        lacking = (streams[number] for number in streams.keys() - self._queue.ready.counts.keys())
        return min((place(each.last) for each in lacking if each.more and each.last is not None), default=None)


def _of_lane(jobs: Sequence[PendingJob], start: int, lane: int, most: int) -> Sequence[PendingJob]:
    """Return the jobs of a lane in a reply, from the first one on; jobs deleted meanwhile are missing."""
    found = jobs[start : start + most]
    if len(found) == most > 0 and found[0].job.lane == lane == found[-1].job.lane:
        return found  # the jobs of one lane follow one another
    first: list[PendingJob] = []
    for each in found:
        if each.job.lane != lane or len(first) == most:
            break
        first.append(each)
    return first
