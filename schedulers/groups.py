"""Jobs grouped by shape, each group in order of submission: what is true of its first job is true of all."""

from collections import OrderedDict

from schedulers.work import Shape, Work


class Groups:
    """Jobs by shape."""

    def __init__(self) -> None:
        """Nobody is here."""
        self.by_shape: dict[Shape, OrderedDict[str, Work]] = {}
        self._shapes: dict[str, Shape] = {}

    def shape_of(self, work: Work) -> Shape:
        """What jobs of one group have in common."""
        return work.shape()

    def add(self, work: Work) -> Shape:
        """Put a job into the group of its shape; one that was here before goes to its old place, the first."""
        shape = self.shape_of(work)
        self._shapes[work.id] = shape
        group = self.by_shape.setdefault(shape, OrderedDict())
        earlier = bool(group) and work.job.order < next(iter(group.values())).job.order
        group[work.id] = work
        if earlier:
            group.move_to_end(work.id, last=False)
        return shape

    def discard(self, job_id: str) -> Work | None:
        """Take a job out; None when it is not here."""
        shape = self._shapes.pop(job_id, None)
        if shape is None:
            return None
        group = self.by_shape[shape]
        work = group.pop(job_id)
        if not group:
            del self.by_shape[shape]
        return work

    def clear(self) -> list[Work]:
        """Take out every job."""
        works = [work for group in self.by_shape.values() for work in group.values()]
        self.by_shape, self._shapes = {}, {}
        return works

    def ids(self) -> list[str]:
        """Ids of all jobs."""
        return list(self._shapes)

    def first(self, shape: Shape) -> Work:
        """The first job of a group."""
        return next(iter(self.by_shape[shape].values()))

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._shapes)
