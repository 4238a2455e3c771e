"""Reads of a cell in memory: the reading half of the port. Nothing here changes anything."""

from collections.abc import Callable, Container, Sequence
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from omega.cellstate.cuts import LooksBack, Sightings
from omega.cellstate.errors import Refused
from omega.cellstate.events import Fact, LogEntry, facts_in
from omega.cellstate.executors import ExecutorRecord, agents_of
from omega.cellstate.keys import RULES, SCHEMA
from omega.cellstate.memory.cuts import cuts, standing
from omega.cellstate.memory.delta import rows_of
from omega.cellstate.memory.digest import (
    digest_position,
    held,
    histories,
    job_history,
    newest_facts,
    owners,
    result_records,
    undigested,
    usage_hour,
    usage_hours,
)
from omega.cellstate.memory.executors import executor_records
from omega.cellstate.memory.lanes import lanes_of, pending_of
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.log_entries import note, stored
from omega.cellstate.memory.pools import demands_of, epoch_mark, pool_use
from omega.cellstate.memory.port_values import described_of, job_of, machine_of, runs_of, tasks_by_machine
from omega.cellstate.memory.records import KindRow, limits_of
from omega.cellstate.memory.shards import finishers, progress
from omega.cellstate.memory.start import may_start
from omega.cellstate.memory.sums import sums
from omega.cellstate.model import Described, Job, Machine, MachineSettings, MachineState
from omega.cellstate.override import override
from omega.cellstate.pages import JobHead, JobPage, Keep, head_of, page_of
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.refused_writes import StoreState
from omega.cellstate.replies import ChangedRecords, KindUse
from omega.cellstate.shards import ShardDurations
from omega.cellstate.tasks import STREAM, OutputPart, TaskProgress

if TYPE_CHECKING:
    from omega.cellstate.ports import Cell
    from omega.cellstate.primary import Damage, Reading
else:
    Cell = LooksBack  # as in the store; tests/contract/test_ports.py compares what is there at run time

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def over_ledger(
    rule: Callable[Concatenate[Ledger, Parameters], Result],
) -> Callable[Concatenate["MemoryQueries", Parameters], Result]:
    """Return a function over the ledger as a method of the port."""

    @wraps(rule)
    def method(self: "MemoryQueries", /, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
        return rule(self.ledger, *args, **options)

    return method


class MemoryQueries(Cell):
    """Queries of a cell that do not change it."""

    def __init__(self, ledger: Ledger) -> None:
        """Read this ledger."""
        self.ledger = ledger
        self.sightings = Sightings()
        self.unreadable: dict[tuple[str, str], str] = {}

    standing = over_ledger(standing)
    cuts = over_ledger(cuts)
    runs = over_ledger(runs_of)
    may_start = over_ledger(may_start)
    executor_records = over_ledger(executor_records)
    lanes = over_ledger(lanes_of)
    pool_use = over_ledger(pool_use)
    demands = over_ledger(demands_of)
    epoch_mark = over_ledger(epoch_mark)
    sums = over_ledger(sums)
    progress = over_ledger(progress)
    finishers = over_ledger(finishers)
    undigested = over_ledger(undigested)
    histories = over_ledger(histories)
    result_records = over_ledger(result_records)
    owners = over_ledger(owners)
    usage_hour = over_ledger(usage_hour)
    usage_hours = over_ledger(usage_hours)
    digest_position = over_ledger(digest_position)
    job_history = over_ledger(job_history)
    newest_facts = over_ledger(newest_facts)
    held = over_ledger(held)

    def executor_number(self, executor: str) -> int:
        """Return the number of an executor's mailbox; Refused when it never joined a machine."""
        if executor not in self.ledger.executors:
            raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
        return self.ledger.executors[executor]

    @override
    def kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted or k.jobs > 0)

    @override
    def limited_kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted)

    def _kinds(self, wanted: Callable[[KindRow], bool]) -> dict[str, KindUse]:
        rows = (k for _, k in sorted(self.ledger.K.items()) if wanted(k))
        return {k.name: KindUse(limits_of(k), k.jobs, self.ledger.spread(k.used)) for k in rows}

    @override
    def machines(self) -> list[Machine]:
        return [machine_of(m) for m in self.ledger.M.values() if m.state is not MachineState.GONE]

    def refuses_writes(self) -> str:
        """Return an empty text: memory is always writable."""
        return ""

    def store_state(self) -> StoreState:
        """Return the state of no server."""
        return StoreState()

    @override
    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        return [self.ledger.operator.get(index, MachineSettings()) for index in indices]

    @override
    def described(self, indices: Sequence[int]) -> list[Described]:
        return [described_of(self.ledger.M[index]) if index in self.ledger.M else ("", ()) for index in indices]

    @override
    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        rows = (self.ledger.M[index] for index in indices if index in self.ledger.M)
        return [machine_of(m) for m in rows if m.state is not MachineState.GONE]

    def machine_index(self, name: str) -> int | None:
        """Return the index of a machine by its name."""
        return self.ledger.indices.get(name)

    @override
    def machine_indices(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self.ledger.indices[name] for name in names if name in self.ledger.indices}

    @override
    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        return sorted(index for name, index in self.ledger.indices.items() if name.startswith(prefix))[:most]

    @override
    def job(self, job_id: str) -> Job | None:
        j = self.ledger.J.get(job_id)
        return None if j is None else job_of(self.ledger, j)

    @override
    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        rows = (self.ledger.J[job_id] for job_id in ids if job_id in self.ledger.J)
        return {j.id: job_of(self.ledger, j, spec=False) for j in rows}

    @override
    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        jobs = self.ledger.J
        return {job_id: [g.placed for g in jobs[job_id].groups] for job_id in ids if job_id in jobs}

    @override
    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        j = self.ledger.J.get(job_id)
        return {} if j is None else tasks_by_machine(self.ledger, j)

    @override
    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {job_id: dict(self.ledger.J[job_id].spec) if job_id in self.ledger.J else {} for job_id in ids}

    def job_count(self) -> int:
        """Return how many jobs are stored."""
        return len(self.ledger.J)

    def live_job_count(self) -> int:
        """Return the number of jobs that have not ended."""
        return len(self.ledger.J) - len(self.ledger.done)

    def job_ids(self) -> list[str]:
        """Return the ids of all stored jobs, in no order."""
        return list(self.ledger.J)

    @override
    def jobs(self) -> list[Job]:
        return [job_of(self.ledger, j) for j in sorted(self.ledger.J.values(), key=lambda j: j.order)]

    @override
    def job_heads(self) -> list[JobHead]:
        return [head_of(job) for job in self.jobs()]

    @override
    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        return page_of(self.jobs(), most, before, keep, user)

    @override
    def newest_ids(self, most: int) -> list[str]:
        return [j.id for j in sorted(self.ledger.J.values(), key=lambda j: -j.order)[:most]]

    def job_id(self, name: str) -> str | None:
        """Return the id of the live job of a name."""
        newest = self.ledger.J.get(self.ledger.names.get(name, ""))
        return None if newest is None or newest.complete else newest.id

    @override
    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.ledger.names[name] for name in names if name in self.ledger.names}

    def job_names(self) -> dict[str, str]:
        """Return the names of jobs, and the id of the newest of each."""
        return dict(self.ledger.names)

    @override
    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        queues = {name: [j.id for j in pending_of(self.ledger, name)] for name in self.ledger.K}
        return {name: ids[:most] for name, ids in queues.items() if ids}

    def queue_depths(self) -> dict[str, int]:
        """Return the number of pending jobs of each kind."""
        return {kind: len(ids) for kind, ids in sorted(self.pending().items())}

    @override
    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        return [fact for entry in self.log_entries(since, most) for fact in facts_in(entry, kinds)]

    @override
    def log_entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        # There are none without ``log``.
        return list(map(stored, islice((entry for entry in self.ledger.entries if entry[0] > since), most)))

    def counters(self) -> dict[str, int]:
        """Return the cell's version, floor and other counters."""
        own = self.ledger
        return {
            "schema": SCHEMA, "rules": RULES, "version": own.version, "floor": own.floor,
            "placements": own.placements, "arrivals": own.arrivals, "transactions": own.transactions,
            "jobs": own.submissions, "lanes": own.lane_serials, "incarnations": own.incarnations,
            "keep_jobs": own.keep_jobs, "keep_ms": own.keep_ms, "pools": own.pools_state,
            "limits": sum(not k.unrestricted for k in own.K.values()),
        }  # fmt: skip

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Return every registered scheduler: incarnation, whether its lease holds, its last figures."""
        return {
            name: (member.incarnation, member.lives, self.ledger.stats.get(name, {}))
            for name, member in sorted(self.ledger.schedulers.items())
        }

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the last figures of every scheduler, also of those that left."""
        return dict(sorted(self.ledger.stats.items()))

    @override
    def unusable(self) -> "list[Damage]":
        return []

    @override
    def read_records(self, told: Callable[[str], object] = str) -> "Reading":
        from omega.cellstate.memory.primary import read_records  # noqa: PLC0415 - numpy, for the audit alone

        return read_records(self.ledger)

    @override
    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        indices: dict[int, None] = {}
        ids: dict[str, None] = {}
        seen = since
        for version, _, _, lines, *_ in self.ledger.entries:
            if version <= since:
                continue
            if len(indices) + len(ids) >= most:
                break
            seen = version
            for line in lines:
                note(line, indices, ids)
        else:
            seen = self.ledger.version if most else since
        kept = [self.ledger.J[job_id] for job_id in ids if job_id in self.ledger.J]
        first = self.ledger.entries[0][0] if self.ledger.entries else self.ledger.version + 1
        return ChangedRecords(
            version=self.ledger.version, seen=seen, first=first, length=len(self.ledger.entries),
            placements=self.ledger.placements,
            rows=rows_of(self.ledger, indices),
            runs=self.runs(list(indices)),
            jobs=[job_of(self.ledger, j, spec=False) for j in kept],
            queued=frozenset(j.id for j in kept if j.arrival),
            holders={j.name: self.ledger.names.get(j.name, "") for j in kept},
            absent=frozenset(job_id for job_id in ids if job_id not in self.ledger.J),
            kinds=self._kinds(lambda k: not k.unrestricted),
        )  # fmt: skip

    @override
    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        number = self.executor_number(executor)
        return [(index, m.state) for index, m in sorted(self.ledger.M.items()) if m.executor == number]

    @override
    def machine_count(self) -> int:
        return len(self.ledger.indices)

    @override
    def deadlines(self) -> dict[int, int]:
        return {machine: until - self.ledger.now_ms for machine, until in self.ledger.drains.items()}

    @override
    def log_length(self) -> int:
        return len(self.ledger.entries)

    @override
    def agents(self) -> dict[str, ExecutorRecord]:
        return agents_of(self.executor_records())

    @override
    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        return self.ledger.output.get((job, group, task, stream))

    @override
    def output_part(self, name: str) -> OutputPart | None:
        return self.ledger.answers.get(name)

    @override
    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        known = self.ledger.health.get(job_id, {})
        return frozenset((placement, task) for (_, placement, task), due in known.items() if not due)

    @override
    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        known = self.ledger.health.get(job_id, {})
        return frozenset((placement, task) for (_, placement, task), due in known.items() if due)

    @override
    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        known = ((machine, self.ledger.progress.get((job_id, machine))) for machine in machines)
        return {machine: tasks for machine, tasks in known if tasks}

    @override
    def measured(self, job: str) -> list[bytes]:
        fields = sorted(field for field in self.ledger.output if field[0] == job and field[3] == STREAM)
        return [self.ledger.output[field] for field in fields]

    @override
    def directories(self) -> dict[str, str]:
        return {path: holder for path, (holder, _) in self.ledger.directories.items()}

    @override
    def updates(self) -> dict[str, str]:
        return dict(sorted(self.ledger.rolling.items()))

    @override
    def update_state(self, job_id: str) -> str:
        return self.ledger.rolling.get(job_id, "")

    @override
    def copied_jobs(self, kind: str) -> list[str]:
        return sorted(job_id for job_id, of in self.ledger.copied.items() if of == kind)

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when (ms)."""
        return {job_id: when for when, job_id in sorted((when, job_id) for job_id, when in self.ledger.due.items())}

    @override
    def placed_by(self) -> tuple[tuple[int, int], ...]:
        return self.ledger.ticks

    @override
    def pools(self) -> Pools:
        return self.ledger.pool_settings

    @override
    def epoch(self) -> Epoch | None:
        return self.ledger.last_epoch

    @override
    def durations(self, name: str) -> ShardDurations | None:
        return self.ledger.learnt.get(name)
