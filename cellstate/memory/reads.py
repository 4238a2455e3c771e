"""Reads of a cell in memory: the reading half of the port. Nothing here changes anything."""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from cellstate.audited import ChangedRecords
from cellstate.cell import Fact, KindUse
from cellstate.errors import Refused
from cellstate.inspection import Damage
from cellstate.keys import SCHEMA
from cellstate.memory.publish import Line, MemoryPublish
from cellstate.memory.ranges import spell
from cellstate.memory.words import Group, JobRow, MachineRow
from cellstate.model import BUDGET, After, Described, GroupStatus, Job, Loss, Machine, MachineState, Run, ordered
from cellstate.pages import JobHead, JobPage, Keep, head_of, page_of

OF_TASKS = frozenset({"place", "finished", "failed", "lost", "evicted", "stopped", "left"})
OF_SPANS = frozenset({"fail", "late", "requeue"})
OF_JOBS = frozenset(
    {"submit", "stop", "abandon", "done", "hold", "release", "resize", "drop", "awaited", "met", "update", "updated",
     "stalled", "fail", "requeue", "attempt"}
)  # fmt: skip


class MemoryReads(MemoryPublish):
    """Queries of a cell that do not change it."""

    def executor_number(self, executor: str) -> int:
        """Return the number of an executor's mailbox; Refused when it never joined a machine."""
        if executor not in self.executors:
            raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
        return self.executors[executor]

    def kinds(self) -> dict[str, KindUse]:
        """See Cell.kinds."""
        kept = (k for _, k in sorted(self.K.items()) if k.kept)
        return {k.name: KindUse(self.limits(k), k.jobs, self.spread(k.used)) for k in kept}

    def machines(self) -> list[Machine]:
        """See Cell.machines."""
        return [_machine(m, self.used(m.capacity, m.free)) for m in self.M.values() if m.state is not MachineState.GONE]

    def described(self, indices: Sequence[int]) -> list[Described]:
        """See Cell.described."""
        return [_described(self.M[index]) if index in self.M else ("", ()) for index in indices]

    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        """See Cell.machines_at."""
        found = {machine.index: machine for machine in self.machines()}
        return [found[index] for index in indices if index in found]

    def machine_index(self, name: str) -> int | None:
        """Return the index of a machine by its name."""
        return self.indices.get(name)

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """See Cell.runs."""
        self.unfold()
        return [
            Run(abs(placement), g.job.id, index, g.number, spell(tasks), leaving=placement < 0)
            for index in indices
            if index in self.M
            for placement, (g, tasks) in self.M[index].runs.items()
        ]

    def job_of(self, j: JobRow, *, spec: bool = True, runs: bool = True) -> Job:
        """Return a job as it is now, as a data type of the port."""
        self.unfold()
        return Job(
            j.id, j.name, j.kind.name, j.precedence, j.order, j.state, j.gang, j.submitted,
            [_group(g, g.runs if runs else {}) for g in j.groups], j.spec if spec else {}, j.modified, "*" in j.waits,
            tuple(After(wait.rstrip("+"), wait[-1] == "+") for wait in j.waits if wait != "*"), tuple(j.awaited),
            j.begun, j.lane.number, j.commands, j.submitter,
        )  # fmt: skip

    def job(self, job_id: str) -> Job | None:
        """See Cell.job."""
        found = self.J.get(job_id)
        return None if found is None else self.job_of(found)

    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """See Cell.jobs_by_id."""
        return {job_id: self.job_of(self.J[job_id], spec=False) for job_id in ids if job_id in self.J}

    def job_count(self) -> int:
        """Return how many jobs are stored."""
        return len(self.J)

    def job_ids(self) -> list[str]:
        """Return the ids of all stored jobs, in no order."""
        return list(self.J)

    def jobs(self) -> list[Job]:
        """See Cell.jobs."""
        return [self.job_of(j) for j in sorted(self.J.values(), key=lambda j: j.order)]

    def job_heads(self) -> list[JobHead]:
        """See Cell.job_heads."""
        return [head_of(job) for job in self.jobs()]

    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        """See Cell.job_page."""
        return page_of(self.jobs(), most, before, keep, user)

    def job_id(self, name: str) -> str | None:
        """Return the id of the live job of a name."""
        return self.names.get(name)

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """See Cell.ids_by_name."""
        return {name: self.names[name] for name in names if name in self.names}

    def job_names(self) -> dict[str, str]:
        """Return the names of live jobs, and their ids."""
        return dict(self.names)

    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        """See Cell.pending."""
        queues = {name: [j.id for j in self.pending_of(name)] for name in self.K}
        return {name: ids[:most] for name, ids in queues.items() if ids}

    def queue_depths(self) -> dict[str, int]:
        """Return the number of pending jobs of each kind."""
        return {kind: len(ids) for kind, ids in sorted(self.pending().items())}

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        """See Cell.facts; empty without ``log``."""
        entries = islice((entry for entry in self._log if entry[0] > since), most)
        return [
            Fact(version, at, by, tuple(text.split(" ")))
            for version, at, by, lines in entries
            for text in self.write(lines).split("\n")
            if text and (kinds is None or text.partition(" ")[0] in kinds)
        ]

    def write(self, lines: Iterable[Line]) -> str:
        """Convert facts or messages to text as the scripts write it."""
        return "\n".join(map(self._write, lines))

    def _write(self, line: Line) -> str:
        word = line[0]
        if word in OF_TASKS or word == "+":
            _, placement, index, g, tasks, *rest = line
            line = word, placement, index, g.job.id, g.number, spell(tasks), *self._values(rest)
        elif word == "-":
            line = (*line[:-1], spell(line[-1]))
        elif word == "machine":
            line = (*line[:4], *self._values(line[4:]))
        elif word in OF_SPANS:
            line = tuple(spell(part) if isinstance(part, tuple) else part for part in line)
        return " ".join(map(str, line))

    def _values(self, words: Sequence[Any]) -> Iterable[Any]:
        """Return number and amounts of a machine after a change, kept as (number, capacity, free), as words."""
        if len(words) < 3:
            return words
        number, capacity, free, *rest = words
        return number, *self.used(capacity, free), *rest

    def counters(self) -> dict[str, int]:
        """Return the cell's version, floor and other counters."""
        return {
            "schema": SCHEMA, "version": self.version, "floor": self.floor, "placements": self.placements,
            "arrivals": self.arrivals, "transactions": self.transactions, "jobs": self.submissions,
            "lanes": self.lane_serials, "incarnations": self.incarnations, "keep_jobs": self.keep_jobs,
            "keep_ms": self.keep_ms,
            "pools": self.pools_state,
        }  # fmt: skip

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Return every registered scheduler: incarnation, whether its lease holds, its last figures."""
        return {
            name: (member.incarnation, member.lives, self.stats.get(name, {}))
            for name, member in sorted(self.schedulers.items())
        }

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the last figures of every scheduler, also of those that left."""
        return dict(sorted(self.stats.items()))

    def unusable(self) -> list[Damage]:
        """See Audited.unusable."""
        return []

    def inspect(self) -> None:
        """See Audited.inspect: the directories of a cell in memory are its records themselves."""

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        """See Audited.snapshot."""
        indices: dict[int, None] = {}
        ids: dict[str, None] = {}
        seen = since
        for version, _, _, lines in self._log:
            if version <= since:
                continue
            if len(indices) + len(ids) >= most:
                break
            seen = version
            for line in lines:
                _note(line, indices, ids)
        else:
            seen = self.version if most else since
        kept = [self.J[job_id] for job_id in ids if job_id in self.J]
        return ChangedRecords(
            self.version, seen, self._log[0][0] if self._log else self.version + 1, len(self._log), self.placements,
            rows=self.rows(indices),
            runs=self.runs(list(indices)),
            jobs=[self.job_of(j, spec=False) for j in kept],
            queued=frozenset(j.id for j in kept if j.arrival),
            holders={j.name: self.names.get(j.name, "") for j in kept},
            absent=frozenset(job_id for job_id in ids if job_id not in self.J),
            kinds=self.kinds(),
        )  # fmt: skip


def _machine(m: MachineRow, used: tuple[int, ...]) -> Machine:
    return Machine(m.index, m.name, m.number, m.state, m.executor, m.capacity, used, m.attributes)


def _described(m: MachineRow) -> Described:
    return m.name, tuple(sorted((name, str(value)) for name, value in m.attributes.items()))


def _group(g: Group, runs: Mapping[int, int]) -> GroupStatus:
    return GroupStatus(
        g.amounts, g.duration, g.total, g.unplaced + g.delayed, g.placed, g.finished, g.failed, g.stopped,
        spell(g.waiting),
        tuple(ordered(((abs(placement), index, placement < 0) for placement, index in runs.items()), g.indices)),
        g.optional, g.indices,
        BUDGET if g.once else g.budget, g.once,
        tuple(Loss(spell(loss.tasks), loss.count, loss.due, loss.placement) for loss in g.losses),
    )  # fmt: skip


def _note(line: Line, indices: dict[int, None], ids: dict[str, None]) -> None:
    """Add the machines and jobs that a fact names."""
    if line[0] in OF_TASKS:
        indices[line[2]] = None
        ids[line[3].job.id] = None
    elif line[0] in ("join", "machine"):
        indices[line[1]] = None
    elif line[0] == "late":
        ids[line[3]] = None
    elif line[0] in OF_JOBS:
        ids[line[1]] = None
