"""The cell in memory: the operations of the ports on one `State`, for simulations, dry runs and tests.

An operation that changes the cell is a function over the state, in the module of its subject; the class names all of
them. What only reads is here.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

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
from omega.cellstate.override import override
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
    Awaited,
    ChangedRecords,
    CommitRequest,
    EpochMark,
    Heartbeat,
    KindUse,
    Membership,
    NewestFacts,
    Reply,
)
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.shards import ShardDurations
from omega.cellstate.tasks import (
    DOWN_DUE,
    MOST_ASKED,
    STREAM,
    HealthAnswer,
    HealthReport,
    HealthState,
    OutputPart,
    OutputRequest,
    TaskProgress,
)
from omega.cellstate.transaction import Position

if TYPE_CHECKING:
    from omega.cellstate.ports import Cell
    from omega.cellstate.primary import Damage, Reading
else:
    Cell = LooksBack  # as in the store; tests/contract/test_ports.py compares what is there at run time

OF_CLAIMS = frozenset({"conflict", "assert", "aborted", "rejected"})
"""Words of facts that change no job."""
TAILS = 1_000
"""Maximum number of outputs kept."""


class MemoryCell(State, Cell):
    """A cell in memory; see `Cell` for the methods of the port, and `State` for the options."""

    sync, carry_out = commit.sync, commit.carry_out
    end, end_block, split_block = tasks.end, tasks.end_block, tasks.split_block
    housekeep, retire = tasks.housekeep, tasks.retire
    submit, stop, hold, release, gate = jobs.submit, jobs.stop, jobs.hold, jobs.release, jobs.gate
    note_attempts, resize = jobs.note_attempts, jobs.resize
    update, settle, speculate = jobs.update, jobs.settle, jobs.speculate
    claim_shard, end_shard, claim_directory = shards.claim_shard, shards.end_shard, shards.claim_directory
    progress, finishers = shards.progress, shards.finishers
    join, set_machine_state = machines.join, machines.set_machine_state
    set_machine_attributes, set_machine_capacity = machines.set_machine_attributes, machines.set_machine_capacity
    register_scheduler, renew_scheduler = machines.register_scheduler, machines.renew_scheduler
    deregister_scheduler = machines.deregister_scheduler
    register_executor, register_agent = machines.register_executor, machines.register_agent
    report_fitness, deregister_executor = machines.report_fitness, machines.deregister_executor
    executor_number = machines.executor_number
    set_limits, set_pools, assign_trees = pools.set_limits, machines.set_pools, machines.assign_trees
    demands, next_epoch, publish_epoch = pools.demands, pools.next_epoch, pools.publish_epoch

    def __init__(self, name: str = "memory", dimensions: Dimensions | None = None, **options: Any) -> None:
        """Create an empty cell."""
        super().__init__(name, dimensions, **options)
        self.sightings = Sightings()
        self._sent: CommitRequest | None = None
        self._answer: Reply | Fenced | None = None

    # Transactions

    @override
    def begin(self, request: CommitRequest) -> None:
        self._sent = request
        for transaction in request.transactions:
            if not 0 < len(transaction.claims) <= MOST_CLAIMS:
                raise BadInput(
                    f"job {transaction.job}: a transaction of {len(transaction.claims)} claims; want 1 to {MOST_CLAIMS}"
                )
        self.resend()

    @override
    def resend(self) -> None:
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        try:
            self._answer = commit.commit(self, self._sent)
        except Fenced as error:
            self._answer = error

    @override
    def finish(self) -> Reply:
        answer, self._answer, self._sent = self._answer, None, None
        if answer is None:
            raise RuntimeError("no commit in flight")
        if isinstance(answer, Fenced):
            raise answer
        return answer

    @override
    def commit(self, request: CommitRequest) -> Reply:
        self.begin(request)
        return self.finish()

    # Jobs

    @override
    def claim_jobs(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        # Without a clock no decision expires.
        return [self.chosen.setdefault(job_id, name) if expire_ms else name for job_id in ids]

    @override
    def job(self, job_id: str) -> Job | None:
        self.unfold()
        j = self.J.get(job_id)
        return None if j is None else job_of(j)

    @override
    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        return {j.id: jobs.shown(self, j) for j in (self.J[job_id] for job_id in ids if job_id in self.J)}

    @override
    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        return {job_id: [g.placed for g in self.J[job_id].groups] for job_id in ids if job_id in self.J}

    @override
    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        # Runs that are noted as blocks stay so.
        found = Counter[int]()
        for g in self.J[job_id].groups if job_id in self.J else ():
            for placement, machine in g.runs.items():
                if placement > 0:
                    found[machine] += span_count(self.M[machine].runs[placement][1])
            for block in g.blocks:
                for machine, count in zip(block.machines, block.counts or repeat(1), strict=False):
                    found[machine] += count
        return dict(found)

    @override
    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {job_id: dict(self.J[job_id].spec) if job_id in self.J else {} for job_id in ids}

    @override
    def job_count(self) -> int:
        return len(self.J)

    @override
    def live_job_count(self) -> int:
        return len(self.J) - len(self.done)

    @override
    def job_ids(self) -> list[str]:
        return list(self.J)

    @override
    def jobs(self) -> list[Job]:
        self.unfold()
        return [job_of(j) for j in sorted(self.J.values(), key=lambda j: j.order)]

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
        return [j.id for j in sorted(self.J.values(), key=lambda j: -j.order)[:most]]

    @override
    def job_id(self, name: str) -> str | None:
        newest = self.J.get(self.names.get(name, ""))
        return None if newest is None or newest.complete else newest.id

    @override
    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.names[name] for name in names if name in self.names}

    @override
    def job_names(self) -> dict[str, str]:
        return dict(self.names)

    @override
    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        queues = {}
        for kind in self.K:
            waiting = (j for lane in self.L.values() if lane.lane.kind == kind for j in lane.queued())
            if ids := [j.id for j in sorted(waiting, key=lambda j: j.arrival)]:
                queues[kind] = ids[:most]
        return queues

    @override
    def queue_depths(self) -> dict[str, int]:
        return {kind: len(ids) for kind, ids in sorted(self.pending().items())}

    @override
    def lanes(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[int, Lane]]:
        chosen = self.L if numbers is None else [number for number in numbers if number in self.L]
        return {number: (self.L[number].serial, self.L[number].lane) for number in chosen}

    @override
    def copied_jobs(self, kind: str) -> list[str]:
        return sorted(job_id for job_id, of in self.copied.items() if of == kind)

    @override
    def updates(self) -> dict[str, str]:
        return dict(sorted(self.rolling.items()))

    @override
    def update_state(self, job_id: str) -> str:
        return self.rolling.get(job_id, "")

    @override
    def chores(self) -> dict[str, int]:
        return {job_id: when for when, job_id in sorted((when, job_id) for job_id, when in self.due.items())}

    # MapReduce

    @override
    def directories(self) -> dict[str, str]:
        return {path: holder for path, (holder, _) in self.claimed.items()}

    @override
    def durations(self, name: str) -> ShardDurations | None:
        return self.learnt.get(name)

    # Machines

    def _machines(self, rows: Iterable[MachineRow]) -> list[Machine]:
        return [
            Machine(m.index, m.name, m.number, m.state, m.executor, m.capacity, m.allocated, m.attributes)
            for m in rows if m.state is not MachineState.GONE
        ]  # fmt: skip

    @override
    def machines(self) -> list[Machine]:
        return self._machines(self.M.values())

    @override
    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        return self._machines(self.M[index] for index in indices if index in self.M)

    @override
    def machine_index(self, name: str) -> int | None:
        return self.indices.get(name)

    @override
    def machine_indices(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self.indices[name] for name in names if name in self.indices}

    @override
    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        return sorted(index for name, index in self.indices.items() if name.startswith(prefix))[:most]

    @override
    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        number = self.executor_number(executor)
        return [(index, m.state) for index, m in sorted(self.M.items()) if m.executor == number]

    @override
    def machine_count(self) -> int:
        return len(self.indices)

    @override
    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        return [self.operator.get(index, MachineSettings()) for index in indices]

    @override
    def described(self, indices: Sequence[int]) -> list[Described]:
        return [machines.described_of(self.M[index]) if index in self.M else ("", ()) for index in indices]

    @override
    def runs(self, indices: Sequence[int]) -> list[Run]:
        self.unfold()
        return [
            Run(abs(placement), g.job.id, index, g.number, span_text(tasks), leaving=placement < 0)
            for index in indices
            if index in self.M
            for placement, (g, tasks) in self.M[index].runs.items()
        ]

    @override
    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        self.unfold()
        return [self._may_start(self.M.get(machine), placement) for machine, placement in asked]

    def _may_start(self, m: MachineRow | None, placement: int) -> str:
        if m is None or placement < 0 or placement not in m.runs:
            return "gone"
        g, task_indices = m.runs[placement]
        if m.leaving:
            held = sum(other.need * span_count(part) for other, part in m.runs.values())
            if (packed(m.capacity) + self.guards - held) & self.guards != self.guards:
                return "wait"
        elsewhere = (self.M[index].runs[run][1] for run, index in g.runs.items() if run < 0)
        return "wait" if any(span_split(task_indices, leaving)[0] for leaving in elsewhere) else "go"

    @override
    def placed_by(self) -> tuple[tuple[int, int], ...]:
        return self.ticks

    @override
    def deadlines(self) -> dict[int, int]:
        return {machine: until - self.now_ms for machine, until in self.drains.items()}

    @override
    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        self.drains.pop(machine, None)
        if milliseconds is not None:
            self.drains[machine] = self.now_ms + milliseconds

    # Schedulers

    @override
    def wait_for_work(self, member: str, seconds: float) -> bool:
        # It takes the token and never waits.
        woken = member in self.wakes
        self.wakes.discard(member)
        return woken

    @override
    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        if blocked:
            self.blocked[member] = awaited
        else:
            self.blocked.pop(member, None)

    @override
    def rouse(self, member: str) -> None:
        self.wakes.add(member)

    @override
    def may_wake(self, members: Iterable[str]) -> None:
        """Do nothing: every scheduler is known here."""

    @override
    def read_live_schedulers(self) -> None:
        """Do nothing: every scheduler is known here."""

    @override
    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        return {
            name: (member.incarnation, member.lives, self.stats.get(name, {}))
            for name, member in sorted(self.schedulers.items())
        }

    @override
    def figures(self) -> dict[str, dict[str, Any]]:
        return dict(sorted(self.stats.items()))

    # Executors

    @override
    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        machines.renew(self, membership)
        m = None if machine is None else self.M.get(machine)
        return Heartbeat(len(self.registered), m.state if m else None, self.runs([m.index]) if m else [])

    @override
    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        return [
            name for name, record in self.executor_records().items()
            if self.deregister_executor(Membership(name, record.incarnation), at_ms, by)
        ]  # fmt: skip

    @override
    def executor_records(self) -> dict[str, ExecutorRecord]:
        return {
            name: ExecutorRecord(
                self.executors[name], agent.incarnation, agent.lives, agent.lease_ms,
                self.unfit.get(self.executors[name], ""),
            )
            for name, agent in sorted(self.registered.items())
        }  # fmt: skip

    @override
    def agents(self) -> dict[str, ExecutorRecord]:
        return agents_of(self.executor_records())

    @override
    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        # It does not wait.
        mailbox = self.messages.get(executor, [])
        taken, self.messages[executor] = mailbox[:most], mailbox[most:]
        return [line for lines in taken for line in lines]

    @override
    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        order = 0, 3, 4, 6, 7, 1, 2, 5
        parts = (message.split(" ") for message in self.receive(executor, most, wait_seconds))
        return [" ".join(part[i] for i in order) if part[0] == "+" else " ".join(part) for part in parts]

    @override
    def confirm_runs(self, executor: str) -> None:
        """Do nothing: no task waits for that here."""

    # What executors report of tasks: health, progress, output

    @override
    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        self.unfold()
        j = self.J.get(report.job)
        before = self.health.pop(report.job, {})
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
                self.health[report.job] = kept
        for job_id in [each for each in self.health if each not in self.J]:
            del self.health[job_id]
        return HealthAnswer(frozenset(granted))

    def _runs_task(self, report: HealthReport, placement: int, task: int) -> bool:
        m = self.M.get(report.machine)
        run = m.runs.get(placement) if m is not None and placement > 0 else None
        return run is not None and run[0].job.id == report.job and span_split(run[1], (task, task))[0] != NONE

    def _known_health(self, job_id: str, *, down: bool) -> frozenset[tuple[int, int]]:
        known = self.health.get(job_id, {})
        return frozenset((placement, task) for (_, placement, task), due in known.items() if (due > 0) == down)

    @override
    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        return self._known_health(job_id, down=False)

    @override
    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        return self._known_health(job_id, down=True)

    @override
    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        self.come.pop((job_id, machine), None)
        if tasks:
            self.come[job_id, machine] = sorted(tasks)

    @override
    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        known = ((machine, self.come.get((job_id, machine))) for machine in machines)
        return {machine: found for machine, found in known if found}

    @override
    def request_output(self, executor: int, request: OutputRequest) -> bool:
        mailbox = self.messages.setdefault(executor, [])
        if len(mailbox) >= MOST_ASKED:
            return False
        mailbox.append([" ".join(map(str, ("?", *astuple(request))))])
        return True

    @override
    def answer_output(self, name: str, part: OutputPart) -> None:
        self.answers[name] = part

    @override
    def output_part(self, name: str) -> OutputPart | None:
        return self.answers.get(name)

    @override
    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        self.output.update(tails)
        for field in list(self.output)[: max(0, len(self.output) - TAILS)]:
            del self.output[field]

    @override
    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        return self.output.get((job, group, task, stream))

    @override
    def measured(self, job: str) -> list[bytes]:
        found = sorted(field for field in self.output if field[0] == job and field[3] == STREAM)
        return [self.output[field] for field in found]

    # Limits, pools, sums

    def _kinds(self, wanted: Callable[[Book], bool]) -> dict[str, KindUse]:
        rows = (k for _, k in sorted(self.K.items()) if wanted(k))
        return {k.name: KindUse(k.limits, k.jobs, self.spread(k.used)) for k in rows}

    @override
    def kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted or k.jobs > 0)

    @override
    def limited_kinds(self) -> dict[str, KindUse]:
        return self._kinds(lambda k: not k.unrestricted)

    @override
    def pools(self) -> Pools:
        return self.pool_settings

    @override
    def pool_use(self) -> dict[str, PoolUse]:
        books = (book for _, book in sorted(self.pool_books.items()))
        return {each.name: PoolUse(each.jobs, each.tasks, self.spread(each.used), each.limit) for each in books}

    @override
    def epoch(self) -> Epoch | None:
        return self.last_epoch

    @override
    def epoch_mark(self) -> EpochMark:
        # The time now is that of the last epoch.
        epoch = self.last_epoch
        at_ms, settings = epoch.at_ms if epoch else 0, self.pool_settings
        return EpochMark(
            number=epoch.number if epoch else 0, at_ms=at_ms, read=epoch.version if epoch else 0,
            published=epoch.published if epoch else 0, version=self.version, pools_version=settings.version,
            configured=settings.configured, now_ms=at_ms,
        )  # fmt: skip

    @override
    def sums(self) -> CellSums:
        heads = self.job_heads()
        totals = Counter(totals_of(heads))
        totals.update(self.forgotten)
        wanted = self._together(lane.wanted for lane in self.L.values())
        held = self._together(lane.held for lane in self.L.values())
        together = LaneSum(
            sum(1 for job in heads if job.counts.unplaced or job.counts.placed),
            sum(1 for job in heads if job.counts.placed),
            sum(job.counts.placed + job.copies[1] for job in heads if job.counts.placed),
            wanted, held,
        )  # fmt: skip
        there = self.machines()
        return CellSums(
            version=self.version,
            shapes=Counter(Shape(m.state, m.executor % 2 == 1, tuple(m.capacity)) for m in there),
            over=sum(m.over for m in there),
            jobs=job_states(totals, together), stored=len(heads), tasks=task_counts(totals, together.placed),
            delayed=totals[DELAYED], wanted=wanted, held=held,
            pending=dict(sorted(Counter(j.kind.name for j in self.J.values() if j.arrival).items())),
        )  # fmt: skip

    def _together(self, amounts: Iterable[int]) -> Resources:
        """Return the sum of packed amounts."""
        return tuple(map(sum, zip(self.spread(0), *map(self.spread, amounts), strict=True)))

    # The log and its digest

    @override
    def log_entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        return list(islice((entry for entry in self.entries if entry.version > since), most))

    @override
    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        return [fact for entry in self.log_entries(since, most) for fact in facts_in(entry, kinds)]

    @override
    def log_length(self) -> int:
        return len(self.entries)

    @property
    def first_entry(self) -> int:
        """The oldest version in the log; the next one when it is empty."""
        return self.entries[0].version if self.entries else self.version + 1

    @override
    def newest_facts(self, since: int, text: str = "") -> NewestFacts:
        first = self.first_entry
        after, size = max(since, first - 1), 0
        at, found = after, list[Fact]()
        for read, entry in enumerate(reversed(self.entries)):
            if entry.version <= after:
                break
            if read >= MOST_VERSIONS or size >= MOST_BYTES:
                at = entry.version
                break
            found[:0] = [fact for fact in facts_in(entry) if text in fact.event.line]
            size += len(entry.facts)
        return NewestFacts(first, at, self.version, found)

    @override
    def undigested(self, most: int) -> Undigested:
        known = readable(Digested.unpack, self.digested, None)
        at = self.version if known is None else known.version
        found: list[Fact] = []
        first = 0
        for entry in self.log_entries(at, most):
            if len(found) >= MOST_FACTS:
                break
            first, at = first or entry.version, entry.version
            found += facts_in(entry)
        return Undigested(
            position=self.digested, first=first or self.version + 1, newest=self.version,
            submissions=self.submissions, facts=found, to=at if first else self.version,
        )  # fmt: skip

    @override
    def digest(self, step: DigestStep) -> bool:
        if self.digested != step.before:
            return False
        self.digested = step.after
        for records in step.jobs:
            if records.job in self.J:
                self.past[records.job] = records.history
                if records.chunks:
                    self.results |= {records.job: records.chunks.encode()} | records.results
        before = len(self.hours)
        self.hours |= step.hours
        if len(self.hours) > before:
            self.hours = {hour: record for hour, record in self.hours.items() if hour >= step.oldest}
        return True

    @override
    def digest_position(self) -> bytes:
        return self.digested

    @override
    def histories(self, ids: Sequence[str]) -> dict[str, bytes]:
        return {job_id: self.past[job_id] for job_id in ids if job_id in self.past}

    @override
    def job_history(self, job_id: str) -> tuple[bytes, bytes]:
        return self.digested, self.past.get(job_id, b"")

    @override
    def result_records(self, fields: Sequence[str]) -> dict[str, bytes]:
        return {field: self.results[field] for field in fields if field in self.results}

    @override
    def usage_hour(self, hour: int) -> bytes:
        return self.hours.get(hour, b"")

    @override
    def usage_hours(self, hours: Iterable[int]) -> dict[int, bytes]:
        return {hour: self.hours[hour] for hour in hours if hour in self.hours}

    @override
    def owners(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        specs = ((job_id, self.J[job_id].spec) for job_id in ids if job_id in self.J)
        return {job_id: (str(spec.get("user") or ""), str(spec.get("pool") or "")) for job_id, spec in specs if spec}

    @override
    def held(self) -> tuple[int, Mapping[Owner, Resources]]:
        sums: dict[Owner, list[int]] = {}
        for row in self.L.values():
            sums.setdefault(Owner(row.lane.kind, row.lane.user, row.lane.pool), []).append(row.held)
        return self.version, {owner: self._together(each) for owner, each in sums.items()}

    # Records, for mirrors and the audit

    @override
    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        indices: dict[int, None] = {}
        ids: dict[str, None] = {}
        seen = since
        for entry in self.log_entries(since, len(self.entries)):
            if len(indices) + len(ids) >= most:
                break
            seen = entry.version
            for event in events_in(entry.facts):
                if isinstance(event, TaskEvent | Join | MachineEvent) and event.word != "late":
                    indices[event.machine] = None
                if isinstance(event, TaskEvent | JobEvent | TransactionEvent) and event.word not in OF_CLAIMS:
                    ids[event.job] = None
        else:
            seen = self.version if most else since
        kept = [self.J[job_id] for job_id in ids if job_id in self.J]
        return ChangedRecords(
            version=self.version, seen=seen, first=self.first_entry, length=len(self.entries),
            placements=self.placements, rows=self.rows_of(indices), runs=self.runs(list(indices)),
            jobs=[jobs.shown(self, j) for j in kept],
            queued=frozenset(j.id for j in kept if j.arrival),
            holders={j.name: self.names.get(j.name, "") for j in kept},
            absent=frozenset(job_id for job_id in ids if job_id not in self.J),
            kinds=self.limited_kinds(),
        )  # fmt: skip

    @override
    def counters(self) -> dict[str, int]:
        return {
            "schema": SCHEMA, "rules": RULES, "version": self.version, "floor": self.floor,
            "placements": self.placements, "arrivals": self.arrivals, "transactions": self.transactions,
            "jobs": self.submissions, "lanes": self.lane_serials, "incarnations": self.incarnations,
            "keep_jobs": self.keep_jobs, "keep_ms": self.keep_ms, "pools": self.pools_state,
            "limits": len(self.limited_kinds()),
        }  # fmt: skip

    @override
    def unusable(self) -> "list[Damage]":
        return []

    @override
    def read_records(self, told: Callable[[str], object] = str) -> "Reading":
        from omega.cellstate.primary import Content, Primary, Reading, Runs  # noqa: PLC0415 - for the audit alone

        stored = self.jobs()
        named = (
            (job.id, number, run) for job in stored for number, group in enumerate(job.groups) for run in group.runs
        )
        rows = self.J.values()
        primary = Primary(
            resources=self.dimensions.names, version=self.version, placements=self.placements,
            first=self.first_entry, length=len(self.entries),
            now_ms=self.now_ms, ticks=self.ticks, counters=Counter(arrivals=self.arrivals),
            rows={row[0]: row for row in self.rows_of(self.M).tolist()},
            described={index: machines.described_of(m) for index, m in self.M.items()},
            runs=Runs((r.placement, r.job, r.machine, r.group, r.tasks, r.leaving) for r in self.runs([*self.M])),
            jobs={job.id: job for job in stored},
            recorded=Runs((run, job, at, group, EMPTY, leaving) for job, group, (run, at, leaving) in named),
            arrivals={j.id: j.arrival for j in rows if j.arrival},
            limits={name: use.limits for name, use in self.limited_kinds().items()},
            updates=dict(self.rolling),
        )  # fmt: skip
        queues: dict[str, dict[bytes, bytes | float]] = {}
        for j in chain.from_iterable(lane.queued() for lane in self.L.values()):
            bucket = bucket_of(j.id)
            score = j.lane.number * LANE_SPAN + bucket * BUCKET_SPAN + j.arrival
            queues.setdefault(f"pending:{j.kind.name}", {})[f"{bucket:02x}{j.id}".encode()] = score
        names = {name.encode(): b"" if job == name else job.encode() for name, job in self.names.items() if job}
        limited = {name.encode(): self._kind_record(k) for name, k in self.K.items() if not k.unrestricted}
        indexes: dict[str, Content] = {"jobnames": names, "kinds": limited, **queues}
        return Reading(primary, indexes, frozenset({"jobnames", "kinds", "pending"}))

    def _kind_record(self, k: Book) -> bytes:
        """Return the record of a kind, as a server has it."""
        ranks = (None, None) if k.precedence == EVERY_RANK else k.precedence
        words = ["-" if limit is None else limit for limit in (k.limit[0], *ranks, *k.limit[2:])]
        return " ".join(map(str, (*words, k.jobs, *self.spread(k.used)))).encode()

    # The connection, which is always there, to the one run of a store that loses nothing

    def standing(self, positions: Sequence[Position]) -> Standing:
        """Return that the cell has all of the positions."""
        return Standing(self.position, 0, positions[0].version if positions else None, None)

    def cuts(self) -> Cuts:
        """Return no reports."""
        return NO_CUTS

    def report_cut(self, report: Report) -> Cut | None:
        """Do nothing: a cell in memory loses no versions."""

    @override
    def close(self) -> None:
        """Do nothing: there is no connection."""

    @override
    def account(self) -> str:
        # No user is verified here.
        return ""

    @override
    def check_exists(self, *, any_schema: bool = False) -> str:
        return ",".join(self.dimensions.names)

    @override
    def check_there(self) -> None:
        """Do nothing: the cell is always there."""

    @override
    def set_durability(self, durability: Durability) -> None:
        self.durability = durability

    @override
    def await_replicas(self) -> None:
        """Do nothing: there are none."""

    @override
    def refuses_writes(self) -> str:
        return ""

    @override
    def store_state(self) -> StoreState:
        return StoreState()

    @override
    def store_ms(self) -> int:
        return self.now_ms

    @override
    def store_run(self) -> str:
        return "memory"

    @override
    def store_older_than(self, milliseconds: int) -> bool:
        return True
