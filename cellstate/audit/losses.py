"""Lost tasks by the facts of the log: which are delayed, queued again, failed, dropped, or reported late."""

from collections.abc import Iterator

from omega.cellstate import ranges

ENDS = ("finished", "failed", "lost", "evicted", "stopped")
Complaint = tuple[int, str, str]
"""Invariant, what is wrong, where."""


class LossBook:
    """Follows the facts about lost tasks; each job counts from its submission on."""

    def __init__(self) -> None:
        """Nothing is lost."""
        self.known: set[str] = set()
        """Live jobs that were submitted in this log."""
        self.delayed: dict[tuple[str, str], str | None] = {}
        """Delayed tasks by job and group; None after a resize, which may queue some again without a fact."""
        self._lost: dict[int, tuple[tuple[str, ...], str]] = {}
        """Job and group, and tasks, of lost placements."""
        self._ended: tuple[str, ...] = ()
        """How, job, group and tasks of the end that was the fact before."""

    def enter(self, words: tuple[str, ...], first: int | None) -> Iterator[Complaint]:
        """Enter a fact; `first` is the first placement that the log has. Yields what contradicts earlier facts."""
        word, before = words[0], self._ended
        if word not in ("fail", "drop"):
            self._ended = ()
        if word == "submit":
            self.known.add(words[1])
        elif word in ("stop", "abandon"):
            self.known.discard(words[1])
        elif word == "resize":
            self.delayed[words[1], words[2]] = None
        elif word in ENDS:
            self._ended = (word, *words[3:6])
            if word == "lost":
                _, already = self._lost.get(int(words[1]), ((), ranges.EMPTY))
                self._lost[int(words[1])] = words[3:5], ranges.add(already, words[5])
                self._delay(words[3], words[4], words[5])
        elif word in ("fail", "drop"):
            yield from self._at_once(words, before)
        elif word == "late":
            yield from self._late(words, first)
        elif word == "requeue":
            yield from self._requeue(*words[1:])

    def _delay(self, job: str, group: str, tasks: str) -> None:
        known = self.delayed.get((job, group), ranges.EMPTY)
        if job in self.known and known is not None:
            self.delayed[job, group] = ranges.add(known, tasks)

    def _take(self, job: str, group: str, tasks: str) -> int:
        """Tasks are delayed no longer; returns how many of them were."""
        known = self.delayed.get((job, group), ranges.EMPTY)
        if known is None:
            return ranges.count(tasks)
        inside, self.delayed[job, group] = ranges.split(known, tasks)
        return ranges.count(inside)

    def _at_once(self, words: tuple[str, ...], ended: tuple[str, ...]) -> Iterator[Complaint]:
        """4: the end that makes tasks fail, or drops optional ones, is the fact before."""
        word, job, group, tasks, how = words
        if word == "drop" and ended and int(tasks) == ranges.count(ended[3]):
            tasks = ended[3]
        inside = ranges.split(ended[3], tasks)[0] if ended[:3] == (how, job, group) and tasks else ranges.EMPTY
        if ranges.count(inside) != ranges.count(tasks):
            yield 4, f"{word} of tasks {tasks} of group {group} follows no fact that they were {how}", f"job {job}"
        elif how == "lost":
            self._take(job, group, tasks)

    def _late(self, words: tuple[str, ...], first: int | None) -> Iterator[Complaint]:
        """5: tasks that ended late were lost before, of the same placement; the store does not keep its machine."""
        _, placement, _, job, group, tasks, _ = words
        owner, lost = self._lost.get(int(placement), ((job, group), ranges.EMPTY))
        inside, rest = ranges.split(lost, tasks)
        known = first is not None and int(placement) >= first
        if owner != (job, group) or (known and ranges.count(inside) != ranges.count(tasks)):
            what = f"tasks {tasks} of group {group} of {job} ended late; lost were {lost} of (job, group) {owner}"
            yield 5, what, f"placement {placement}"
        self._lost[int(placement)] = owner, rest
        self._take(job, group, tasks)

    def _requeue(self, job: str, group: str, tasks: str) -> Iterator[Complaint]:
        """4: what is queued again was delayed."""
        if self._take(job, group, tasks) != ranges.count(tasks) and job in self.known:
            yield 4, f"tasks {tasks} of group {group} are queued again and were not delayed", f"job {job}"
