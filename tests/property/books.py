"""Bookkeeping of its own: invariants 1 to 5 of a cell, checked after every step of a random history."""

from collections import Counter
from collections.abc import Iterable

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobState, MachineState
from omega.cellstate.ranges import indices
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Outcome, Transaction


class Books:
    """What has been seen of a cell so far: numbers of machines, placements, and how tasks ended."""

    def __init__(self, cell: MemoryCell) -> None:
        self.cell = cell
        self.numbers: dict[int, int] = {}
        self.placements: dict[int, tuple[str, int, int]] = {}
        self.ended: Counter[tuple[str, EndKind]] = Counter()
        self.orders: dict[str, int] = {}
        self.moves: Counter[int] = Counter()
        self.at_most = 1
        self.version = 0
        self.gone: set[int] = set()

    def saw_commit(self, transactions: Iterable[Transaction], outcomes: Iterable[Outcome]) -> None:
        """Note which machines the next look should find moved, and how often."""
        self.at_most = 0
        for transaction, outcome in zip(transactions, outcomes, strict=True):
            self.at_most += outcome.placed > 0
            placed = zip(transaction.claims, outcome.claims, strict=True)
            self.moves.update({claim.machine for claim, (count, _) in placed if count})

    def saw_end(self, endings: Iterable[TaskEnd], jobs: dict[int, str], counts: Iterable[int]) -> None:
        """Note how tasks ended."""
        for ending, count in zip(endings, counts, strict=True):
            if count:
                self.ended[jobs[ending.placement], ending.how] += count

    def look(self) -> None:
        """Check all invariants, and record the present state for the next check."""
        self.note_failures()
        self.check_machines()
        self.check_jobs()
        self.check_numbers()
        self.check_evictions()

    def note_failures(self) -> None:
        """Count tasks that fail because they were lost too often, or placed at most once."""
        for fact in self.cell.log.facts(self.version):
            if fact.event[0] == "fail":
                self.ended[fact.event[1], EndKind.FAILED] += len(indices(fact.event[3]))
        self.version = self.cell.version

    def check_machines(self) -> None:
        """1: allocated is the sum of the placements on a machine, and at most its capacity unless it shrank."""
        for m in self.cell.M.values():
            sums = [0] * len(self.cell.dimensions)
            for run in self.cell.machines.runs([m.index]):
                job = self.cell.jobs.get(run.job)
                assert job is not None
                if not run.leaving:
                    need, n = job.groups[run.group].need, len(indices(run.tasks))
                    sums = [held + amount * n for held, amount in zip(sums, need, strict=True)]
                known = self.placements.setdefault(run.placement, (run.job, run.group, m.index))
                if known[1] == run.group + 1 and job.groups[known[1]].copies:  # the copy was promoted
                    known = self.placements[run.placement] = run.job, run.group, m.index
                assert known == (run.job, run.group, m.index), "a placement id names one placement for good"
            assert tuple(sums) == m.allocated
            if m.state in (MachineState.DOWN, MachineState.GONE):
                assert all(run < 0 for run in m.runs), "only what is leaving"
            if m.state is MachineState.OFFLINE:
                assert not m.runs

    def check_jobs(self) -> None:
        """2 and 4: a task is in one place; counts add up; pending exactly while something is unplaced."""
        queued = {job_id for ids in self.cell.schedulers.pending().values() for job_id in ids}
        used: dict[str, list[int]] = {}
        admitted: Counter[str] = Counter()
        for job in self.cell.jobs.all():
            if self.orders.setdefault(job.id, job.order) != job.order:  # its name and id were free again
                self.orders[job.id] = job.order
                self.ended[job.id, EndKind.FINISHED] = self.ended[job.id, EndKind.FAILED] = 0
            for number, group in enumerate(job.groups):
                assert group.unplaced + group.placed + group.finished + group.failed + group.stopped == group.total
                here = [
                    run
                    for run in self.cell.machines.runs(list(self.cell.M))
                    if (run.job, run.group) == (job.id, number)
                ]
                live = [i for run in here if not run.leaving for i in indices(run.tasks)] + indices(group.waiting)
                live += [i for loss in group.losses if loss.due_ms for i in indices(loss.tasks)]
                assert len(live) == len(set(live)) == group.unplaced + group.placed
                assert {(run.placement, run.machine, run.leaving) for run in here} == set(group.runs)
                sums = used.setdefault(job.kind, [0] * len(self.cell.dimensions))
                used[job.kind] = [held + amount * group.placed for held, amount in zip(sums, group.need, strict=True)]
            admitted[job.kind] += any(group.placed for group in job.groups)
            ready = sum(len(indices(group.waiting)) for group in job.groups)
            if job.whole and any(group.delayed for group in job.groups):
                ready = 0  # it is placed as a whole when its last lost task is due
            assert (job.id in queued) == (ready > 0 and job.state <= JobState.HELD)
            assert sum(group.finished for group in job.groups) == self.ended[job.id, EndKind.FINISHED]
            spare = any(group.optional for group in job.groups)  # of those that fail only some are kept
            failed = sum(group.failed for group in job.groups)
            assert (
                failed <= self.ended[job.id, EndKind.FAILED] if spare else failed == self.ended[job.id, EndKind.FAILED]
            )
        for name, kind in self.cell.pools.kinds().items():
            assert kind.used == tuple(used.get(name, [0] * len(self.cell.dimensions)))
            assert kind.jobs == admitted[name]

    def check_numbers(self) -> None:
        """3: a machine's number rises by exactly one per accepted transaction that changes it.

        A commit also evicts the rest of strict gangs elsewhere; a machine that was gone begins higher up.
        """
        for index, m in self.cell.M.items():
            rise = m.number - self.numbers.get(index, m.number)
            if index in self.gone:
                assert rise >= 0
            else:
                assert self.moves[index] <= rise <= self.at_most
            self.numbers[index] = m.number
        self.gone = {index for index, m in self.cell.M.items() if m.state is MachineState.GONE}
        self.moves.clear()
        self.at_most = 1

    def check_evictions(self) -> None:
        """5: every eviction carries its reason, and precedence is strictly lower than the claimer's."""
        asserted = set[str]()
        for fact in self.cell.log.facts(max(0, self.cell.version - 1)):
            if fact.event[0] == "assert":
                asserted.add(fact.event[1])
            if fact.event[0] == "evicted":
                reason, _, claimer = fact.event[-1].partition(":")
                assert reason in ("precedence", "over", "fair-share", "down", "tree")
                assert reason != "fair-share" or not claimer or claimer in asserted
                if reason == "precedence":
                    mine, victim = self.cell.jobs.get(claimer), self.cell.jobs.get(fact.event[3])
                    assert mine is not None
                    assert victim is not None
                    optional = victim.groups[int(fact.event[4])].optional and victim.gang is not Gang.STRICT
                    rank = 0 if optional else victim.precedence
                    assert rank < mine.precedence
