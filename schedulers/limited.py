"""Jobs that the limits of their kind keep out: they sleep until the limits or their use leave room for some."""

from cellstate.cell import KindUse
from schedulers.groups import Groups
from schedulers.work import Shape, Work


class Limited(Groups):
    """Such jobs by shape, each shape in order of submission."""

    def __init__(self) -> None:
        """Nobody is kept out."""
        super().__init__()
        self._seen: KindUse | None = None

    def shape_of(self, work: Work) -> Shape:
        """Their shape, and whether something of them runs: then they are admitted, and only amounts matter."""
        return (*work.shape(), _fresh(work))

    def add(self, work: Work) -> Shape:
        """The store said that a limit keeps a job out."""
        self._seen = None
        return super().add(work)

    @property
    def curious(self) -> bool:
        """Whether somebody waits and it is not known whether the limits admit him by now."""
        return bool(self.by_shape) and self._seen is None

    def look_again(self) -> None:
        """A job that was woken has been tried, and may have left to others what it was woken for."""
        self._seen = None

    def wake(self, use: KindUse) -> list[Work]:
        """Take out, in order of submission, the jobs that the limits admit together; none while nothing changed."""
        if use == self._seen:
            return []
        self._seen = use
        low, high = use.limits.precedence
        jobs = None if use.limits.jobs is None else use.limits.jobs - use.jobs
        pairs = zip(use.limits.resources, use.used, strict=True)
        left = [None if limit is None else limit - used for limit, used in pairs]
        woken: list[Work] = []
        for shape in sorted(self.by_shape, key=lambda shape: self.first(shape).job.order):
            while shape in self.by_shape:
                work = self.first(shape)
                fresh = _fresh(work)
                if not low <= work.job.precedence <= high or (fresh and jobs is not None and jobs <= 0):
                    break
                admitted = _admit(work, left)
                if admitted is None:
                    break
                if fresh and jobs is not None:
                    jobs -= 1
                woken.append(work)
                self.discard(work.id)
                work.woken, work.admitted = self, admitted
        return woken


def _fresh(work: Work) -> bool:
    return not (work.placed or any(group.placed for group in work.job.groups))


def _admit(work: Work, left: list[int | None]) -> list[int] | None:
    """How many tasks of each group of a job are admitted, of a gang all; None when none is. `left` is less by these."""
    rest, admitted = list(left), [0] * len(work.left)
    for group, tasks in enumerate(work.left):
        need = work.need(group)
        fits = [most // amount for most, amount in zip(rest, need, strict=True) if most is not None and amount]
        admitted[group] = count = max(0, min([tasks, *fits]))
        rest = [most if most is None else most - amount * count for most, amount in zip(rest, need, strict=True)]
    if not any(admitted) or (work.gang and sum(admitted) < work.remaining):
        return None
    left[:] = rest
    return admitted
