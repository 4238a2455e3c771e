"""The cell in memory: operations on one `State` in the parts that the store has, for simulations, dry runs and tests.

The classes of the store (cellstate/redis) describe the operations. One that changes the cell is a function over the
state here, in the module of its subject; the class of its part names it. What only reads is in that class.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from omega.cellstate.cuts import NO_CUTS, Cut, Cuts, LooksBack, Report, Sightings, Standing
from omega.cellstate.digest.hours import Owner, Position as Digested, readable
from omega.cellstate.digest.values import MOST_BYTES, MOST_FACTS, MOST_VERSIONS, DigestStep, Undigested
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, Fenced
from omega.cellstate.events import (
    Fact,
    JobEvent,
    Join,
    LogEntry,
    MachineEvent,
    TaskEvent,
    TransactionEvent,
    events_in,
    facts_in,
)
from omega.cellstate.executors import ExecutorRecord, agents_of
from omega.cellstate.keys import RULES, SCHEMA
from omega.cellstate.lanes import BUCKET_SPAN, LANE_SPAN, Lane
from omega.cellstate.memory import commit, jobs, machines, pools, shards, tasks
from omega.cellstate.memory.state import EVERY_RANK, Book, MachineRow, State, job_of
from omega.cellstate.model import (
    MOST_CLAIMS,
    Described,
    Job,
    JobState,
    Machine,
    MachineSettings,
    MachineState,
    Run,
    bucket_of,
)
from omega.cellstate.packing import packed
from omega.cellstate.pages import (
    DELAYED,
    CellSums,
    JobHead,
    JobPage,
    Keep,
    LaneSum,
    Shape,
    head_of,
    job_states,
    page_of,
    task_counts,
    totals_of,
)
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.ranges import EMPTY, NONE, span_count, span_split, span_text
from omega.cellstate.refused_writes import StoreState
from omega.cellstate.replies import (
    ChangedRecords,
    CommitRequest,
    EpochMark,
    Heartbeat,
    KindUse,
    Membership,
    NewestFacts,
    Reply,
    Waits,
    may_hold,
)
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.shards import ShardDurations
from omega.cellstate.tasks import (
    DOWN_DUE,
    STREAM,
    HealthAnswer,
    HealthReport,
    HealthState,
    TaskProgress,
)
from omega.cellstate.transaction import Position

if TYPE_CHECKING:
    from omega.cellstate.primary import Damage, Reading

OF_CLAIMS = frozenset({"conflict", "assert", "aborted", "rejected"})
"""Words of facts that change no job."""
TAILS = 1_000
"""Maximum number of outputs kept."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Part:
    """Operations of one subject over the state of the cell."""

    def __init__(self, cell: "MemoryCell") -> None:
        """Use the records of `cell`."""
        self._cell = cell


class Operation(Generic[Arguments, Result]):
    """A function over the state, as a method of a part."""

    def __init__(self, function: Callable[Concatenate[State, Arguments], Result]) -> None:
        """Make `function` an operation, whose first argument is the state of the part's cell."""
        self._function, self._name = function, ""

    def __set_name__(self, owner: type[Part], name: str) -> None:
        self._name = name

    def __get__(self, part: Part, owner: type[Part]) -> Callable[Arguments, Result]:
        """Return the bound function, and keep it in the part: a further call takes no longer than that of a method."""
        bound = vars(part)[self._name] = MethodType(self._function, part._cell)  # noqa: SLF001 - the part's own
        return bound


class MemoryJobs(Part):
    """Jobs."""

    housekeep = Operation(tasks.housekeep)
    retire = Operation(tasks.retire)
    submit = Operation(jobs.submit)
    stop = Operation(jobs.stop)
    hold = Operation(jobs.hold)
    release = Operation(jobs.release)
    gate = Operation(jobs.gate)
    note_attempts = Operation(jobs.note_attempts)
    resize = Operation(jobs.resize)
    update = Operation(jobs.update)
    settle = Operation(jobs.settle)
    speculate = Operation(jobs.speculate)

    def claim(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        # Without a clock no decision expires.
        return [self._cell.chosen.setdefault(job_id, name) if expire_ms else name for job_id in ids]

    def get(self, job_id: str) -> Job | None:
        self._cell.unfold()
        j = self._cell.J.get(job_id)
        return None if j is None else job_of(j)

    def by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        return {
            j.id: jobs.shown(self._cell, j) for j in (self._cell.J[job_id] for job_id in ids if job_id in self._cell.J)
        }

    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        return {job_id: [g.placed for g in self._cell.J[job_id].groups] for job_id in ids if job_id in self._cell.J}

    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        # Runs that are noted as blocks stay so.
        found = Counter[int]()
        for g in self._cell.J[job_id].groups if job_id in self._cell.J else ():
            for placement, machine in g.runs.items():
                if placement > 0:
                    found[machine] += span_count(self._cell.M[machine].runs[placement][1])
            for block in g.blocks:
                for machine, count in zip(block.machines, block.counts or repeat(1), strict=False):
                    found[machine] += count
        return dict(found)

    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {job_id: dict(self._cell.J[job_id].spec) if job_id in self._cell.J else {} for job_id in ids}

    def count(self) -> int:
        return len(self._cell.J)

    def live_count(self) -> int:
        return len(self._cell.J) - len(self._cell.done)

    def ids(self) -> list[str]:
        return list(self._cell.J)

    def all(self) -> list[Job]:
        self._cell.unfold()
        return [job_of(j) for j in sorted(self._cell.J.values(), key=lambda j: j.order)]

    def heads(self) -> list[JobHead]:
        return [head_of(job) for job in self.all()]

    def page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        return page_of(self.all(), most, before, keep, user)

    def newest_ids(self, most: int) -> list[str]:
        return [j.id for j in sorted(self._cell.J.values(), key=lambda j: -j.order)[:most]]

    def id_of(self, name: str) -> str | None:
        newest = self._cell.J.get(self._cell.names.get(name, ""))
        return None if newest is None or newest.complete else newest.id

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self._cell.names[name] for name in names if name in self._cell.names}

    def names(self) -> dict[str, str]:
        return dict(self._cell.names)

    def copied(self, kind: str) -> list[str]:
        return sorted(job_id for job_id, of in self._cell.copied.items() if of == kind)

    def updates(self) -> dict[str, str]:
        return dict(sorted(self._cell.rolling.items()))

    def update_state(self, job_id: str) -> str:
        return self._cell.rolling.get(job_id, "")

    def chores(self) -> dict[str, int]:
        return {job_id: when for when, job_id in sorted((when, job_id) for job_id, when in self._cell.due.items())}


class MemoryMachines(Part):
    """Machines, the runs on them, and what operators set of them."""

    join = Operation(machines.join)
    set_state = Operation(machines.set_machine_state)
    set_attributes = Operation(machines.set_machine_attributes)
    set_capacity = Operation(machines.set_machine_capacity)

    def _there(self, rows: Iterable[MachineRow]) -> list[Machine]:
        return [
            Machine(m.index, m.name, m.number, m.state, m.executor, m.capacity, m.allocated, m.attributes)
            for m in rows if m.state is not MachineState.GONE
        ]  # fmt: skip

    def all(self) -> list[Machine]:
        return self._there(self._cell.M.values())

    def at(self, indices: Sequence[int]) -> list[Machine]:
        return self._there(self._cell.M[index] for index in indices if index in self._cell.M)

    def index_of(self, name: str) -> int | None:
        return self._cell.indices.get(name)

    def indices(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self._cell.indices[name] for name in names if name in self._cell.indices}

    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        return sorted(index for name, index in self._cell.indices.items() if name.startswith(prefix))[:most]

    def count(self) -> int:
        return len(self._cell.indices)

    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        return [self._cell.operator.get(index, MachineSettings()) for index in indices]

    def described(self, indices: Sequence[int]) -> list[Described]:
        return [machines.described_of(self._cell.M[index]) if index in self._cell.M else ("", ()) for index in indices]

    def runs(self, indices: Sequence[int]) -> list[Run]:
        self._cell.unfold()
        return [
            Run(abs(placement), g.job.id, index, g.number, span_text(tasks), leaving=placement < 0)
            for index in indices
            if index in self._cell.M
            for placement, (g, tasks) in self._cell.M[index].runs.items()
        ]

    def deadlines(self) -> dict[int, int]:
        return {machine: until - self._cell.now_ms for machine, until in self._cell.drains.items()}

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        self._cell.drains.pop(machine, None)
        if milliseconds is not None:
            self._cell.drains[machine] = self._cell.now_ms + milliseconds


class MemoryPools(Part):
    """Pools, their published shares, and limits on kinds of jobs."""

    assign_trees = Operation(machines.assign_trees)
    set_limits = Operation(pools.set_limits)
    set = Operation(machines.set_pools)
    demands = Operation(pools.demands)
    next_epoch = Operation(pools.next_epoch)
    publish_epoch = Operation(pools.publish_epoch)

    def _kinds(self, wanted: Callable[[Book], bool]) -> dict[str, KindUse]:
        rows = (k for _, k in sorted(self._cell.K.items()) if wanted(k))
        return {k.name: KindUse(k.limits, k.jobs, self._cell.spread(k.used)) for k in rows}

    def kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted or k.jobs > 0)

    def limited_kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted)

    def get(self) -> Pools:
        return self._cell.pool_settings

    def use(self) -> dict[str, PoolUse]:
        books = (book for _, book in sorted(self._cell.pool_books.items()))
        return {each.name: PoolUse(each.jobs, each.tasks, self._cell.spread(each.used), each.limit) for each in books}

    def epoch(self) -> Epoch | None:
        return self._cell.last_epoch

    def epoch_mark(self) -> EpochMark:
        # The time now is that of the last epoch.
        epoch = self._cell.last_epoch
        at_ms, settings = epoch.at_ms if epoch else 0, self._cell.pool_settings
        return EpochMark(
            number=epoch.number if epoch else 0, at_ms=at_ms, read=epoch.version if epoch else 0,
            published=epoch.published if epoch else 0, version=self._cell.version, pools_version=settings.version,
            configured=settings.configured, now_ms=at_ms,
        )  # fmt: skip


class MemorySchedulers(Part):
    """Members, commits, reads of what changed, the queue."""

    sync = Operation(commit.sync)
    register = Operation(machines.register_scheduler)
    renew = Operation(machines.renew_scheduler)
    deregister = Operation(machines.deregister_scheduler)

    def __init__(self, cell: "MemoryCell") -> None:
        """Use the records of `cell`."""
        super().__init__(cell)
        self._sent: CommitRequest | None = None
        self._answer: Reply | Fenced | None = None

    def begin(self, request: CommitRequest) -> None:
        self._sent = request
        for transaction in request.transactions:
            if not 0 < len(transaction.claims) <= MOST_CLAIMS:
                raise BadInput(
                    f"job {transaction.job}: a transaction of {len(transaction.claims)} claims; want 1 to {MOST_CLAIMS}"
                )
        self.resend()

    def resend(self) -> None:
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        try:
            self._answer = commit.commit(self._cell, self._sent)
        except Fenced as error:
            self._answer = error

    def finish(self) -> Reply:
        answer, self._answer, self._sent = self._answer, None, None
        if answer is None:
            raise RuntimeError("no commit in flight")
        if isinstance(answer, Fenced):
            raise answer
        return answer

    def commit(self, request: CommitRequest) -> Reply:
        self.begin(request)
        return self.finish()

    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        queues = {}
        for kind in self._cell.K:
            waiting = (j for lane in self._cell.L.values() if lane.lane.kind == kind for j in lane.queued())
            if ids := [j.id for j in sorted(waiting, key=lambda j: j.arrival)]:
                queues[kind] = ids[:most]
        return queues

    def queue_depths(self) -> dict[str, int]:
        return {kind: len(ids) for kind, ids in sorted(self.pending().items())}

    def lanes(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[int, Lane]]:
        chosen = self._cell.L if numbers is None else [number for number in numbers if number in self._cell.L]
        return {number: (self._cell.L[number].serial, self._cell.L[number].lane) for number in chosen}

    def wait_for_work(self, member: str, seconds: float) -> str:
        # It takes the token and never waits.
        return self._cell.wakes.pop(member, "")

    def set_blocked(self, member: str, waits: Waits | None) -> None:
        if waits is None:
            self._cell.blocked.pop(member, None)
            return
        self._cell.blocked[member] = waits
        self._cell.lane_owners.update(dict.fromkeys(waits.lanes, member))

    def hand_on(self, member: str, room: Sequence[Resources]) -> list[str]:
        c, told = self._cell, list[str]()
        for name, waits in c.blocked.items():
            lives = name in c.scheduler_members and c.scheduler_members[name].lives
            if name != member and lives and may_hold(room, waits.least):
                c.wakes.setdefault(name, "1")
                told.append(name)
        return sorted(told)

    def rouse(self, member: str) -> None:
        self._cell.wakes.setdefault(member, "1")

    def may_wake(self, members: Iterable[str]) -> None:
        """Do nothing: every scheduler is known here."""

    def read_live(self) -> None:
        """Do nothing: every scheduler is known here."""

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        return {
            name: (member.incarnation, member.lives, self._cell.stats.get(name, {}))
            for name, member in sorted(self._cell.scheduler_members.items())
        }

    def figures(self) -> dict[str, dict[str, Any]]:
        return dict(sorted(self._cell.stats.items()))


class MemoryExecutors(Part):
    """Agents and simulated executors: messages, ends of tasks."""

    end = Operation(tasks.end)
    register = Operation(machines.register_executor)
    register_agent = Operation(machines.register_agent)
    deregister = Operation(machines.deregister_executor)
    number = Operation(machines.executor_number)

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        self._cell.unfold()
        return [self._may_start(self._cell.M.get(machine), placement) for machine, placement in asked]

    def _may_start(self, m: MachineRow | None, placement: int) -> str:
        if m is None or placement < 0 or placement not in m.runs:
            return "gone"
        g, task_indices = m.runs[placement]
        if m.leaving:
            held = sum(other.need * span_count(part) for other, part in m.runs.values())
            if (packed(m.capacity) + self._cell.guards - held) & self._cell.guards != self._cell.guards:
                return "wait"
        elsewhere = (self._cell.M[index].runs[run][1] for run, index in g.runs.items() if run < 0)
        return "wait" if any(span_split(task_indices, leaving)[0] for leaving in elsewhere) else "go"

    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        number = self.number(executor)
        return [(index, m.state) for index, m in sorted(self._cell.M.items()) if m.executor == number]

    def renew(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        machines.renew(self._cell, membership)
        m = None if machine is None else self._cell.M.get(machine)
        return Heartbeat(
            len(self._cell.registered), m.state if m else None, self._cell.machines.runs([m.index]) if m else []
        )

    def reap(self, at_ms: int, by: str) -> list[str]:
        return [
            name for name, record in self.records().items()
            if self.deregister(Membership(name, record.incarnation), at_ms, by)
        ]  # fmt: skip

    def records(self) -> dict[str, ExecutorRecord]:
        return {
            name: ExecutorRecord(
                self._cell.executor_numbers[name], agent.incarnation, agent.lives, agent.lease_ms,
            )
            for name, agent in sorted(self._cell.registered.items())
        }  # fmt: skip

    def agents(self) -> dict[str, ExecutorRecord]:
        return agents_of(self.records())

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        # It does not wait.
        mailbox = self._cell.messages.get(executor, [])
        taken, self._cell.messages[executor] = mailbox[:most], mailbox[most:]
        return [line for lines in taken for line in lines]

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        order = 0, 3, 4, 6, 7, 1, 2, 5
        parts = (message.split(" ") for message in self.receive(executor, most, wait_seconds))
        return [" ".join(part[i] for i in order) if part[0] == "+" else " ".join(part) for part in parts]

    def confirm_runs(self, executor: str) -> None:
        """Do nothing: no task waits for that here."""


class MemoryTasks(Part):
    """Health, progress and output of tasks."""

    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        self._cell.unfold()
        j = self._cell.J.get(report.job)
        before = self._cell.health.pop(report.job, {})
        granted = set[tuple[int, int]]()
        if j is not None and j.state <= JobState.HELD:
            elsewhere = {key: due for key, due in before.items() if key[0] != report.machine}
            kept = {key: due for key, due in elsewhere.items() if due <= DOWN_DUE or due > now_ms}
            own = [each for each in report.tasks if self._runs_task(report, each.placement, each.task)]
            for placement, task, state in own:
                due = before.get((report.machine, placement, task), 0)
                if state in (HealthState.READY, HealthState.DOWN):
                    kept[report.machine, placement, task] = 0 if state is HealthState.READY else DOWN_DUE
                elif due > max(now_ms, DOWN_DUE):
                    kept[report.machine, placement, task] = due
                    granted |= {(placement, task)} if state is HealthState.ASKS else set()
            down = sum(due > DOWN_DUE for due in kept.values()) + sum(g.delayed for g in j.groups)
            for placement, task, state in own:
                key = report.machine, placement, task
                if state is HealthState.ASKS and key not in kept and down < report.max_down:
                    down += 1
                    kept[key] = now_ms + report.span_ms
                    granted.add((placement, task))
            if kept:
                self._cell.health[report.job] = kept
        for job_id in [each for each in self._cell.health if each not in self._cell.J]:
            del self._cell.health[job_id]
        return HealthAnswer(frozenset(granted))

    def _runs_task(self, report: HealthReport, placement: int, task: int) -> bool:
        m = self._cell.M.get(report.machine)
        run = m.runs.get(placement) if m is not None and placement > 0 else None
        return run is not None and run[0].job.id == report.job and span_split(run[1], (task, task))[0] != NONE

    def _known_health(self, job_id: str, *, down: bool) -> frozenset[tuple[int, int]]:
        known = self._cell.health.get(job_id, {})
        return frozenset((placement, task) for (_, placement, task), due in known.items() if (due > 0) == down)

    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        return self._known_health(job_id, down=False)

    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        return self._known_health(job_id, down=True)

    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        self._cell.come.pop((job_id, machine), None)
        if tasks:
            self._cell.come[job_id, machine] = sorted(tasks)

    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        known = ((machine, self._cell.come.get((job_id, machine))) for machine in machines)
        return {machine: found for machine, found in known if found}

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        self._cell.output.update(tails)
        for field in list(self._cell.output)[: max(0, len(self._cell.output) - TAILS)]:
            del self._cell.output[field]

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        return self._cell.output.get((job, group, task, stream))

    def measured(self, job: str) -> list[bytes]:
        found = sorted(field for field in self._cell.output if field[0] == job and field[3] == STREAM)
        return [self._cell.output[field] for field in found]


class MemoryShards(Part):
    """Shards of MapReduce jobs."""

    claim = Operation(shards.claim_shard)
    end = Operation(shards.end_shard)
    progress = Operation(shards.progress)
    finishers = Operation(shards.finishers)

    def durations(self, name: str) -> ShardDurations | None:
        return self._cell.learnt.get(name)


class MemoryLog(Part):
    """Facts of the log; records, for mirrors and the audit."""

    def placed_by(self) -> tuple[tuple[int, int], ...]:
        return self._cell.ticks

    def entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        return list(islice((entry for entry in self._cell.entries if entry.version > since), most))

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        return [fact for entry in self.entries(since, most) for fact in facts_in(entry, kinds)]

    def length(self) -> int:
        return len(self._cell.entries)

    @property
    def first_entry(self) -> int:
        """The oldest version in the log; the next one when it is empty."""
        return self._cell.entries[0].version if self._cell.entries else self._cell.version + 1

    def newest_facts(self, since: int, text: str = "") -> NewestFacts:
        first = self.first_entry
        after, size = max(since, first - 1), 0
        at, found = after, list[Fact]()
        for read, entry in enumerate(reversed(self._cell.entries)):
            if entry.version <= after:
                break
            if read >= MOST_VERSIONS or size >= MOST_BYTES:
                at = entry.version
                break
            found[:0] = [fact for fact in facts_in(entry) if text in fact.event.line]
            size += len(entry.facts)
        return NewestFacts(first, at, self._cell.version, found)

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        indices: dict[int, None] = {}
        ids: dict[str, None] = {}
        seen = since
        for entry in self.entries(since, len(self._cell.entries)):
            if len(indices) + len(ids) >= most:
                break
            seen = entry.version
            for event in events_in(entry.facts):
                if isinstance(event, TaskEvent | Join | MachineEvent) and event.word != "late":
                    indices[event.machine] = None
                if isinstance(event, TaskEvent | JobEvent | TransactionEvent) and event.word not in OF_CLAIMS:
                    ids[event.job] = None
        else:
            seen = self._cell.version if most else since
        kept = [self._cell.J[job_id] for job_id in ids if job_id in self._cell.J]
        return ChangedRecords(
            version=self._cell.version, seen=seen, first=self.first_entry, length=len(self._cell.entries),
            placements=self._cell.placements, rows=self._cell.rows_of(indices),
            runs=self._cell.machines.runs(list(indices)),
            jobs=[jobs.shown(self._cell, j) for j in kept],
            queued=frozenset(j.id for j in kept if j.arrival),
            holders={j.name: self._cell.names.get(j.name, "") for j in kept},
            absent=frozenset(job_id for job_id in ids if job_id not in self._cell.J),
            kinds=self._cell.pools.limited_kinds(),
        )  # fmt: skip

    def unusable(self) -> "list[Damage]":
        return []

    def read_records(self, told: Callable[[str], object] = str) -> "Reading":
        from omega.cellstate.primary import Content, Primary, Reading, Runs  # noqa: PLC0415 - for the audit alone

        stored = self._cell.jobs.all()
        named = (
            (job.id, number, run) for job in stored for number, group in enumerate(job.groups) for run in group.runs
        )
        rows, placed = self._cell.J.values(), self._cell.machines.runs([*self._cell.M])
        primary = Primary(
            resources=self._cell.dimensions.names, version=self._cell.version, placements=self._cell.placements,
            first=self.first_entry, length=len(self._cell.entries),
            now_ms=self._cell.now_ms, ticks=self._cell.ticks, counters=Counter(arrivals=self._cell.arrivals),
            rows={row[0]: row for row in self._cell.rows_of(self._cell.M).tolist()},
            described={index: machines.described_of(m) for index, m in self._cell.M.items()},
            runs=Runs((r.placement, r.job, r.machine, r.group, r.tasks, r.leaving) for r in placed),
            jobs={job.id: job for job in stored},
            recorded=Runs((run, job, at, group, EMPTY, leaving) for job, group, (run, at, leaving) in named),
            arrivals={j.id: j.arrival for j in rows if j.arrival},
            limits={name: use.limits for name, use in self._cell.pools.limited_kinds().items()},
            updates=dict(self._cell.rolling),
        )  # fmt: skip
        queues: dict[str, dict[bytes, bytes | float]] = {}
        for j in chain.from_iterable(lane.queued() for lane in self._cell.L.values()):
            bucket = bucket_of(j.id)
            score = j.lane.number * LANE_SPAN + bucket * BUCKET_SPAN + j.arrival
            queues.setdefault(f"pending:{j.kind.name}", {})[f"{bucket:02x}{j.id}".encode()] = score
        names = {name.encode(): b"" if job == name else job.encode() for name, job in self._cell.names.items() if job}
        limited = {name.encode(): self._kind_record(k) for name, k in self._cell.K.items() if not k.unrestricted}
        indexes: dict[str, Content] = {"jobnames": names, "kinds": limited, **queues}
        return Reading(primary, indexes, frozenset({"jobnames", "kinds", "pending"}))

    def _kind_record(self, k: Book) -> bytes:
        """Return the record of a kind, as a server has it."""
        ranks = (None, None) if k.precedence == EVERY_RANK else k.precedence
        words = ["-" if limit is None else limit for limit in (k.limit[0], *ranks, *k.limit[2:])]
        return " ".join(map(str, (*words, k.jobs, *self._cell.spread(k.used)))).encode()


class MemoryDigest(Part):
    """Records that outlive the log (cellstate/digest)."""

    def undigested(self, most: int) -> Undigested:
        known = readable(Digested.unpack, self._cell.digested, None)
        at = self._cell.version if known is None else known.version
        found: list[Fact] = []
        first = 0
        for entry in self._cell.log.entries(at, most):
            if len(found) >= MOST_FACTS:
                break
            first, at = first or entry.version, entry.version
            found += facts_in(entry)
        return Undigested(
            position=self._cell.digested, first=first or self._cell.version + 1, newest=self._cell.version,
            submissions=self._cell.submissions, facts=found, to=at if first else self._cell.version,
        )  # fmt: skip

    def write(self, step: DigestStep) -> bool:
        if self._cell.digested != step.read.position:
            return False
        self._cell.digested = step.after
        for records in step.jobs:
            if records.job in self._cell.J:
                self._cell.past[records.job] = records.history
                if records.chunks:
                    self._cell.results |= {records.job: records.chunks.encode()} | records.results
        before = len(self._cell.hours)
        self._cell.hours |= step.hours
        if len(self._cell.hours) > before:
            self._cell.hours = {hour: record for hour, record in self._cell.hours.items() if hour >= step.oldest}
        return True

    def position(self) -> bytes:
        return self._cell.digested

    def histories(self, ids: Sequence[str]) -> dict[str, bytes]:
        return {job_id: self._cell.past[job_id] for job_id in ids if job_id in self._cell.past}

    def job_history(self, job_id: str) -> tuple[bytes, bytes]:
        return self._cell.digested, self._cell.past.get(job_id, b"")

    def result_records(self, fields: Sequence[str]) -> dict[str, bytes]:
        return {field: self._cell.results[field] for field in fields if field in self._cell.results}

    def usage_hour(self, hour: int) -> bytes:
        return self._cell.hours.get(hour, b"")

    def usage_hours(self, hours: Iterable[int]) -> dict[int, bytes]:
        return {hour: self._cell.hours[hour] for hour in hours if hour in self._cell.hours}

    def owners(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        specs = ((job_id, self._cell.J[job_id].spec) for job_id in ids if job_id in self._cell.J)
        return {job_id: (str(spec.get("user") or ""), str(spec.get("pool") or "")) for job_id, spec in specs if spec}

    def held(self) -> tuple[int, Mapping[Owner, Resources]]:
        sums: dict[Owner, list[int]] = {}
        for row in self._cell.L.values():
            sums.setdefault(Owner(row.lane.kind, row.lane.user, row.lane.pool), []).append(row.held)
        return self._cell.version, {owner: self._cell.together(each) for owner, each in sums.items()}


class MemoryCell(State, LooksBack):
    """A cell in memory: its operations by subject are in its parts; see `State` for the options."""

    def __init__(self, name: str = "memory", dimensions: Dimensions | None = None, **options: Any) -> None:
        """Create an empty cell."""
        super().__init__(name, dimensions, **options)
        self.sightings = Sightings()
        self.jobs = MemoryJobs(self)
        self.machines = MemoryMachines(self)
        self.pools = MemoryPools(self)
        self.schedulers = MemorySchedulers(self)
        self.executors = MemoryExecutors(self)
        self.tasks = MemoryTasks(self)
        self.shards = MemoryShards(self)
        self.log = MemoryLog(self)
        self.digest = MemoryDigest(self)

    def counters(self) -> dict[str, int]:
        return {
            "schema": SCHEMA, "rules": RULES, "version": self.version, "floor": self.floor,
            "placements": self.placements, "arrivals": self.arrivals, "transactions": self.transactions,
            "jobs": self.submissions, "lanes": self.lane_serials, "incarnations": self.incarnations,
            "keep_jobs": self.keep_jobs, "keep_ms": self.keep_ms, "pools": self.pools_state,
            "limits": len(self.pools.limited_kinds()),
        }  # fmt: skip

    def sums(self) -> CellSums:
        heads = self.jobs.heads()
        totals = Counter(totals_of(heads))
        totals.update(self.forgotten)
        wanted = self.together(lane.wanted for lane in self.L.values())
        held = self.together(lane.held for lane in self.L.values())
        together = LaneSum(
            sum(1 for job in heads if job.counts.unplaced or job.counts.placed),
            sum(1 for job in heads if job.counts.placed),
            sum(job.counts.placed + job.copies[1] for job in heads if job.counts.placed),
            wanted, held,
        )  # fmt: skip
        there = self.machines.all()
        return CellSums(
            version=self.version,
            shapes=Counter(Shape(m.state, m.executor % 2 == 1, tuple(m.capacity)) for m in there),
            over=sum(m.over for m in there),
            jobs=job_states(totals, together), stored=len(heads), tasks=task_counts(totals, together.placed),
            delayed=totals[DELAYED], wanted=wanted, held=held,
            pending=dict(sorted(Counter(j.kind.name for j in self.J.values() if j.arrival).items())),
        )  # fmt: skip

    def together(self, amounts: Iterable[int]) -> Resources:
        """Return the sum of packed amounts."""
        return tuple(map(sum, zip(self.spread(0), *map(self.spread, amounts), strict=True)))

    def standing(self, positions: Sequence[Position]) -> Standing:
        """Return that the cell has all of the positions."""
        return Standing(self.position, 0, positions[0].version if positions else None, None)

    def cuts(self) -> Cuts:
        """Return no reports."""
        return NO_CUTS

    def report_cut(self, report: Report) -> Cut | None:
        """Do nothing: a cell in memory loses no versions."""

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def account(self) -> str:
        # No user is verified here.
        return ""

    def check_exists(self, *, any_schema: bool = False) -> str:
        return ",".join(self.dimensions.names)

    def check_there(self) -> None:
        """Do nothing: the cell is always there."""

    def set_durability(self, durability: Durability) -> None:
        self.durability = durability

    def await_replicas(self) -> None:
        """Do nothing: there are none."""

    def refuses_writes(self) -> str:
        return ""

    def store_state(self) -> StoreState:
        return StoreState()

    def store_ms(self) -> int:
        return self.now_ms

    def store_run(self) -> str:
        return "memory"

    def store_older_than(self, milliseconds: int) -> bool:
        return True
