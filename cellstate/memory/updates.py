"""Updates of jobs in the twin: ``lua/update.lua`` and ``lua/settle.lua``."""

from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from cellstate.lanes import Lane, lane_of
from cellstate.memory.jobs import MemoryJobs, plain
from cellstate.memory.words import Group
from cellstate.model import MOST_GROUPS, Job, TaskGroup, check_author, runs_commands
from cellstate.plain_text import check_texts


class MemoryUpdates(MemoryJobs):
    """Updates of a job's groups; see `Cell` for the methods of the port."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Create without updates."""
        super().__init__(*arguments, **options)
        self._updates: dict[str, str] = {}

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], extra: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """See Cell.update."""
        check_author(by)
        check_texts(extra, f"job {job_id}")
        for group in groups:
            self.check(f"job {job_id}", group.need)
        j = self.live(job_id)
        spec = plain(dict(extra))
        if j.spec != spec:
            self.overtaken(j, check)
            if len(j.groups) + len(groups) > MOST_GROUPS:
                raise self.refused(j, "often")
            lane = lane_of(j.kind.name, j.precedence, spec)
            if j.lane.lane not in (lane, Lane(j.kind.name, 0)):
                raise self.refused(j, "lane")
            self.open()
            j.spec, j.commands = spec, runs_commands(spec)
            j.groups += [Group(j, i, group, 0) for i, group in enumerate(groups, len(j.groups))]
            self._updates[job_id] = "rolling"
            self.modify(j)
            self.fact("update", job_id)
            self.publish(at_ms, by)
        return self.job_of(j, spec=False)

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """See Cell.settle."""
        if self._updates.get(job_id) != "rolling":
            if job_id not in self.J:
                self._updates.pop(job_id, None)
            return False
        self.open()
        why = " ".join(reason.split())
        if why:
            self._updates[job_id] = f"stalled {why}"
            self.fact("stalled", job_id, why)
        else:
            del self._updates[job_id]
            self.fact("updated", job_id)
        self.publish(at_ms, by)
        return True

    def updates(self) -> dict[str, str]:
        """See Cell.updates."""
        return dict(sorted(self._updates.items()))

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """See Cell.retire."""
        marks, limit = self._times, -1
        last_version, last = marks[-1] if marks else (-1, 0)
        now = max(now_ms, last)
        if last_version < self.version and (not marks or (now - last) * 64 >= self.keep_ms):
            marks.append((self.version, now))
        for i, (version, ms) in enumerate(tuple(marks)):
            if ms <= now - self.keep_ms:
                limit = version
                self._times = marks[i:]
        old = list(takewhile(lambda entry: entry[1] <= limit, islice(self._done, most)))
        return self.forget(len(old))
