"""Lost tasks by the facts of the log: which are delayed, queued again, failed, dropped, or reported late."""

from collections import Counter
from collections.abc import Iterable, Iterator

from omega.cellstate import ranges
from omega.cellstate.task_losses import TaskLoss

ENDS = ("finished", "failed", "retried", "lost", "evicted", "stopped")
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
        self.history: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        """Ends of placements whose tasks are placed again, by job and group of `known`: how, tasks, placement."""
        self._lost: dict[int, tuple[tuple[str, ...], str]] = {}
        """Job and group, and tasks, of lost placements."""
        self._ended: tuple[str, ...] = ()
        """How, job, group and tasks of the end that was the fact before."""

    def enter(self, words: tuple[str, ...], first: int | None) -> Iterator[Complaint]:
        """Enter a fact; `first` is the first placement that the log has. Yields what contradicts earlier facts."""
        word, before = words[0], self._ended
        if word not in ("fail", "drop", "promote", "unneeded"):
            self._ended = ()
        if word == "submit":
            self.known.add(words[1])
        elif word in ("stop", "abandon"):
            self.known.discard(words[1])
        elif word == "resize":
            self.delayed[words[1], words[2]] = None
        elif word in ENDS:
            self._ended = (word, *words[3:6])
            if word in ("lost", "retried"):
                self._delay(words[3], words[4], words[5])
                _, already = self._lost.get(int(words[1]), ((), ranges.EMPTY))
                self._lost[int(words[1])] = words[3:5], ranges.add(already, words[5])
            if word in ("lost", "retried", "evicted") and words[3] in self.known:
                self.history.setdefault((words[3], words[4]), []).append((word, words[5], int(words[1])))
        elif word in ("fail", "drop"):
            yield from self._at_once(words, before)
        elif word == "promote":
            yield from self._promote(words, before)
        elif word == "late":
            yield from self._late(words, first)
        elif word == "requeue":
            yield from self._requeue(*words[1:])

    def miscounted(self, job: str, group: str, losses: Iterable[TaskLoss], proven: int) -> Iterator[str]:
        """Yield what is wrong with the numbers of losses and of retried failures of tasks.

        Placements up to `proven` may have reset both, however they ended.
        """
        least, most = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for how, tasks, placement in self.history.get((job, group), ()):
            for first, last in ranges.spans(tasks):
                for task in range(first, last + 1):
                    if placement <= proven:
                        least["lost", task] = least["retried", task] = 0
                    most[how, task] += 1
                    least[how, task] += 1
        for loss in losses:
            for first, last in ranges.spans(loss.tasks):
                for how, times in (("lost", loss.times), ("retried", loss.retried.failures)):
                    of = [(how, task) for task in range(first, last + 1)]
                    wrong = next((each for each in of if not least[each] <= times <= most[each]), None)
                    if wrong:
                        what = f"from {least[wrong]} to {most[wrong]}"
                        yield f"task {wrong[1]} of group {group} was {how} {times} times, by the log {what} times"

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
        word, job, group, tasks, how = words  # of a promotion the how of its original's end
        if word == "drop" and ended and int(tasks) == ranges.count(ended[3]):
            tasks = ended[3]
        inside = ranges.split(ended[3], tasks)[0] if ended[:3] == (how, job, group) and tasks else ranges.EMPTY
        if ranges.count(inside) != ranges.count(tasks):
            yield 4, f"{word} of tasks {tasks} of group {group} follows no fact that they were {how}", f"job {job}"
        elif how in ("lost", "retried"):
            self._take(job, group, tasks)

    def _promote(self, words: tuple[str, ...], ended: tuple[str, ...]) -> Iterator[Complaint]:
        """4: a copy is promoted at once when its original ended; that is then neither delayed nor lost."""
        _, _, _, job, group, task, how = words
        yield from self._at_once(("promote", job, group, task, how), ended)
        losses = self.history.get((job, group), [])
        for at in reversed(range(len(losses)) if how in ("lost", "retried") else ()):
            what, tasks, placement = losses[at]
            inside, rest = ranges.split(tasks, task)
            if what == how and inside != ranges.EMPTY:  # of one run several tasks may have copies
                losses[at : at + 1] = [(how, rest, placement), ("evicted", task, placement)]
                return

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
