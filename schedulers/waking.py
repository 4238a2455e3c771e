"""What may let a blocked job fit beside freed room: a limit, another job, an attribute, somebody to evict.

Room shows in the private copy; these do not. They are looked at when the scheduler is woken: by freed room, by a limit,
by a machine that changed. Of other jobs that were placed, near which a job wants to be or whom it might evict, nobody
tells: while somebody waits for such they are looked at a few times a second, however many do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from cellstate.view import View
from schedulers.constraints.looking import Look, lacking
from schedulers.limited import Limited
from schedulers.policies import Preemption
from schedulers.preemption.none import NoPreemption
from schedulers.sleepers import Sleepers
from schedulers.work import Work

LOOK_SECONDS = 0.2
HUNT_SECONDS = 0.5
MOST_HUNTERS = 8
"""Groups of sleeping jobs that are tried at once because others moved, whom they might evict."""


@dataclass(slots=True)
class Waking:
    """Jobs that sleep, by what they wait for, and when that is looked at next (seconds)."""

    sleepers: Sleepers = field(default_factory=Sleepers)
    limited: Limited = field(default_factory=Limited)
    _look_at: float = 0.0
    _hunt_at: float = 0.0
    _hunted: int = 0

    def __len__(self) -> int:
        """How many jobs sleep."""
        return len(self.sleepers) + len(self.limited)

    def look_now(self) -> None:
        """Somebody woke the scheduler: look at once."""
        self._look_at = 0.0

    def looks_within(self, preemption: Preemption) -> float:
        """How soon to look although nobody woke the scheduler (seconds)."""
        if self.sleepers.left_over:
            return 0.0
        if self.sleepers.others() or self.limited.curious:
            return LOOK_SECONDS
        return HUNT_SECONDS if len(self.sleepers) and not isinstance(preemption, NoPreemption) else float("inf")

    def discard(self, job_id: str) -> Work | None:
        """Take a job out; None when it does not sleep."""
        return self.sleepers.discard(job_id) or self.limited.discard(job_id)

    def keep(self, keeps: Callable[[str], bool]) -> None:
        """Forget the jobs that somebody else works on."""
        for job_id in [job_id for job_id in (*self.sleepers.ids(), *self.limited.ids()) if not keeps(job_id)]:
            self.discard(job_id)

    def asks(self, kind: str, view: View, now: float) -> Look | None:
        """What is to be looked at for those who sleep."""
        if not len(self):
            return None
        # A machine that came, or came back otherwise, may be what a sleeper waits for.
        attributes = view.attributes.used and bool(len(self.sleepers)) and lacking(view)
        others, use = set[str](), ""
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            others, use = self.sleepers.others(), kind if len(self.limited) else ""
        if not (attributes or others or use):
            return None
        return Look(attributes, others=tuple(sorted(others)), use=use)

    def wake(self, view: View, preemption: Preemption, rng: Random, now: float) -> list[Work]:
        """Take out the jobs that may be placed now."""
        woken = self.sleepers.wake(view)
        if view.moved:
            woken += self.sleepers.wake_near(view, view.moved)
            view.moved = set()
        if view.use is not None:
            woken += self.limited.wake(view.use)
            view.use = None
        if now >= self._hunt_at and len(self.sleepers) and not isinstance(preemption, NoPreemption):
            self._hunt_at = now + HUNT_SECONDS
            woken += self._hunt(view, preemption, rng)
        return woken

    def _hunt(self, view: View, preemption: Preemption, rng: Random) -> list[Work]:
        """The first job of some groups, when machines changed on which there may be somebody to evict."""
        shapes = list(self.sleepers.by_shape)
        self._hunted = self._hunted % len(shapes)
        woken = []
        for shape in (*shapes[self._hunted :], *shapes[: self._hunted])[:MOST_HUNTERS]:
            work = self.sleepers.first(shape)
            if preemption.suspects(work, view, rng):
                woken.append(work)
                self.sleepers.discard(work.id)
        self._hunted += MOST_HUNTERS
        return woken
