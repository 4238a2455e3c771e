"""Records of the ledger as the data types of the ports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.links import gate_of
from omega.cellstate.memory.ranges import span_count, spell
from omega.cellstate.memory.records import GroupRow, JobRow, MachineRow, allocated
from omega.cellstate.model import BUDGET, RUNS_CHUNK, After, Described, GroupStatus, Job, Machine, Run, ordered
from omega.cellstate.tasks import Retried, TaskLoss


def job_of(ledger: Ledger, j: JobRow, *, spec: bool = True, runs: bool = True) -> Job:
    """Return a job as it is now, as a data type of the port."""
    if runs:
        ledger.unfold()
    return Job(
        id=j.id, name=j.name, kind=j.kind.name, precedence=j.precedence, order=j.order, state=j.state, gang=j.gang,
        gang_min=j.gang_min, submitted_ms=j.submitted, groups=[_group(g, g.runs if runs else {}) for g in j.groups],
        spec=j.spec if spec else {}, modified=j.modified, held="*" in j.waits, awaited=j.awaited,
        after=tuple(After(wait.rstrip("+"), wait[-1] == "+") for wait in j.waits if wait[0] not in "*!"),
        gate=gate_of(j), released=j.released,
        begun=j.begun, lane=j.lane.number, commands=j.commands, submitter=j.submitter
    )  # fmt: skip


def runs_of(ledger: Ledger, indices: Sequence[int]) -> list[Run]:
    """Return the runs of some machines."""
    ledger.unfold()
    return [
        Run(abs(placement), g.job.id, index, g.number, spell(tasks), leaving=placement < 0)
        for index in indices
        if index in ledger.M
        for placement, (g, tasks) in ledger.M[index].runs.items()
    ]


def tasks_by_machine(ledger: Ledger, j: JobRow) -> dict[int, int]:
    """Return how many tasks of a job run on each machine; runs that are noted as blocks stay so."""
    tasks = Counter[int]()
    for g in j.groups:
        for placement, machine in g.runs.items():
            if placement > 0:
                tasks[machine] += span_count(ledger.M[machine].runs[placement][1])
    for g, machines, counts, _ in ledger.blocks.values():
        if g.job is j:
            for machine, count in zip(machines, counts or repeat(1), strict=False):
                tasks[machine] += count
    return dict(tasks)


def machine_of(m: MachineRow) -> Machine:
    """Return a machine as it is now."""
    held = allocated(m.capacity, m.free)
    return Machine(m.index, m.name, m.number, m.state, m.executor, m.capacity, held, m.attributes)


def described_of(m: MachineRow) -> Described:
    """Return the name and attributes of a machine."""
    return m.name, tuple(sorted((name, str(value)) for name, value in m.attributes.items()))


def _runs(g: GroupRow, runs: Mapping[int, int]) -> tuple[tuple[int, int, bool], ...]:
    """Return placement, machine and whether it is leaving of each run, in order."""
    if g.leaving:
        return tuple(ordered(((abs(each), index, each < 0) for each, index in runs.items()), g.indices))
    live = runs.items() if g.indices <= RUNS_CHUNK else sorted(runs.items())
    return tuple([(placement, index, False) for placement, index in live])


def _group(g: GroupRow, runs: Mapping[int, int]) -> GroupStatus:
    return GroupStatus(
        need=g.amounts, duration_ms=g.duration, total=g.total, unplaced=g.unplaced + g.delayed, placed=g.placed,
        finished=g.finished, failed=g.failed, stopped=g.stopped, waiting=spell(g.waiting),
        runs=_runs(g, runs),
        optional=g.optional, copies=g.copies, replaced=g.replaced, indices=g.indices,
        budget=BUDGET if g.once else g.budget, once=g.once,
        losses=tuple(
            TaskLoss(spell(loss.tasks), loss.count, loss.due, loss.placement, Retried(loss.failures, loss.machine))
            for loss in g.losses
        ),
    )  # fmt: skip
