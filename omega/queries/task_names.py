"""Names of tasks as people use them: ``fetch[12]``, with the index in the array where the group is one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.arrays import index_text, task_of
from omega.cellstate import ranges
from omega.cellstate.errors import NotFound
from omega.queries.job_state import group_names

if TYPE_CHECKING:
    from omega.cellstate.model import Job


class TaskNames:
    """Names of the tasks of a job, by the position of the group and the numbers of the tasks as ranges."""

    def __init__(self, specs: Sequence[Mapping[str, Any]], groups: Sequence[str] = ()) -> None:
        """Begin with the specifications of the groups of a job, and their names, if they are known already."""
        self._specs = specs
        self._groups = groups or [str(spec.get("name") or number) for number, spec in enumerate(specs)]

    @classmethod
    def of(cls, job: "Job") -> "TaskNames":
        """Return the names of the tasks of a job."""
        return cls(job.spec.get("groups") or [{}] * len(job.groups), group_names(job))

    def is_array(self, group: int) -> bool:
        """Return whether the indices of a group's tasks are other ones than their numbers."""
        return 0 <= group < len(self._specs) and self._specs[group].get("array") is not None

    def indices(self, group: int, tasks: str) -> str:
        """Return the indices of tasks as text: ``12-14:2``; empty for none."""
        if tasks == ranges.EMPTY:
            return ""
        return index_text(self._specs[group], tasks) if self.is_array(group) else tasks

    def name(self, group: int, tasks: str) -> str:
        """Return the name of tasks: ``fetch[12-14:2]``."""
        called = self._groups[group] if 0 <= group < len(self._groups) else str(group)
        return f"{called}[{self.indices(group, tasks)}]"

    def task(self, job: "Job", group: int, index: int) -> int:
        """Return the number of the task with an index, of a group of this job. NotFound when there is none."""
        spec, count = self._specs[group], job.groups[group].indices
        task = task_of(spec, index)
        if task is None or not 0 <= task < count:
            last = index_text(spec, str(max(0, count - 1)))
            raise NotFound(f"job {job.name}: has no task with index {index}; the last one is {last}")
        return task

    def as_json(self, group: int, tasks: str) -> dict[str, Any]:
        """Return both as plain values."""
        return {"task_name": self.name(group, tasks), "indices": self.indices(group, tasks)}
