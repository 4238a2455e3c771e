"""Delay scheduling on a simulated slot cluster: the live placement, with the blocks of a job as its data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from omega.cellstate.constraints.evaluation import Mask
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.locality import Locality
from omega.schedulers.placement.delay import Delay, DelayReset
from omega.schedulers.work import Work
from omega.simulation.slot_jobs import MAP, NODE, SlotJob


@dataclass(frozen=True, slots=True)
class _BlocksLeft(Locality):
    """The blocks of a job that no map reads yet, and its waits."""

    job: SlotJob


@dataclass(frozen=True, slots=True)
class SlotDelay(Delay):
    """`Delay` for the jobs of a simulation by name: its levels are the machines with a block left, and their racks.

    A job waits as a whole, and a launch at a level has it wait there again, as in the paper.
    """

    jobs: Mapping[str, SlotJob] = field(default_factory=dict)

    @override
    def wants(self, work: Work, group: int) -> Locality | None:
        wants = Delay.wants(self, work, group)
        if wants is None:
            return None
        return _BlocksLeft(wants.machines, wants.where, wants.domains, wants.waits, self.jobs[work.id])

    def takes_slot(self, job: SlotJob, kind: int, machine: int, now: float) -> bool:
        """Return whether a job takes a free slot of a machine, with the outcome of `place` on that machine alone.

        Only for an inner placement that takes every slot.
        """
        if kind != MAP:
            return True
        waiting = job.delay
        if waiting is None:
            waiting = job.delay = self.waiting(job.work, MAP)
        blocks = job.blocks
        return self.rule.takes(waiting, NODE if blocks.by_machine[machine] else blocks.level(machine), job.waits, now)

    @override
    def levels(self, wants: Locality, snapshot: Snapshot) -> Sequence[Mask]:
        return wants.job.blocks.masks() if isinstance(wants, _BlocksLeft) else Delay.levels(self, wants, snapshot)


def delayed(skips: tuple[int, ...] | None = None, again: float = 3.0) -> Callable[[Mapping[str, SlotJob]], Delay]:
    """Return what makes the placement of a simulation: by the waits of its cluster, or by refused offers (`skips`).

    `again`: the time (seconds) after which a machine offers its room again, that of a heartbeat.
    """
    return lambda jobs: SlotDelay(skips=skips, reset=DelayReset.JOB, again=again, jobs=jobs)
