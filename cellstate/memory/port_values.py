"""Records of the ledger as the data types of the ports."""

from collections.abc import Mapping, Sequence

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import spell
from omega.cellstate.memory.words import Group, JobRow, MachineRow, allocated
from omega.cellstate.model import BUDGET, After, Described, GroupStatus, Job, Loss, Machine, Run, ordered


def job_of(ledger: Ledger, j: JobRow, *, spec: bool = True, runs: bool = True) -> Job:
    """Return a job as it is now, as a data type of the port."""
    ledger.unfold()
    return Job(
        j.id, j.name, j.kind.name, j.precedence, j.order, j.state, j.gang, j.submitted,
        [_group(g, g.runs if runs else {}) for g in j.groups], j.spec if spec else {}, j.modified, "*" in j.waits,
        tuple(After(wait.rstrip("+"), wait[-1] == "+") for wait in j.waits if wait != "*"), tuple(j.awaited),
        j.begun, j.lane.number, j.commands, j.submitter,
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


def machine_of(m: MachineRow) -> Machine:
    """Return a machine as it is now."""
    held = allocated(m.capacity, m.free)
    return Machine(m.index, m.name, m.number, m.state, m.executor, m.capacity, held, m.attributes)


def described_of(m: MachineRow) -> Described:
    """Return the name and attributes of a machine."""
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
