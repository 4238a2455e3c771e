"""What keeps the rest of a pending job from fitting: the machines that each demand excludes, and what would help."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omega.queries import wording
from omega.queries.job_state import group_names
from omega.queries.task_names import TaskNames

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Schedulers
    from omega.cellstate.model import Job
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.constraints.explanation import DemandStep, Explanation, GroupExplanation
    from omega.schedulers.work import Work

MOST_MACHINES = 20
"""Machines that each demand excludes and that are listed by name when not all of them are asked for."""
MOST_UNFIT = 3
"""Machines that are listed because they cannot start tasks."""


class Shortfall:
    """The explanation of one job, submitted or not, on a working copy of the cell."""

    def __init__(
        self, cell: "Cell", job: "Job", work: "Work", snapshot: "Snapshot", explanation: "Explanation"
    ) -> None:
        self.cell, self.job, self.work, self.snapshot, self.explanation = cell, job, work, snapshot, explanation
        indices = sorted(
            {index for part in explanation.parts for step in part.steps for index in step.machines}
            | {index for part in explanation.parts for index in part.away}
            | set(self._unfit())
        )
        self.machines = {at: name for at, (name, *_) in zip(indices, cell.machines.described(indices), strict=True)}
        """Names of the machines that are listed, by index."""
        self.groups, self.tasks = group_names(job), TaskNames.of(job)

    def groups_json(self) -> list[dict[str, Any]]:
        """Return the groups with unplaced tasks: what each demand excludes, and what no machine has."""
        return [
            {
                "group": part.group,
                "name": self.groups[part.group],
                "unplaced": part.unplaced,
                **self.waiting(part),
                "fits": part.fits,
                "starts": part.starts,
                "reason": str(part.reason),
                "advice": self.advice(part),
                "steps": [
                    {
                        "reason": str(step.reason),
                        "what": step.what,
                        "excludes": step.excludes,
                        "remaining": step.remaining,
                        "machines": self.names_of(step),
                    }
                    for step in part.steps
                ],
                "lacking": self.lacking(part),
            }
            for part in self.explanation.parts
        ]

    def waiting(self, part: "GroupExplanation") -> dict[str, Any]:
        """Return the names and indices of the pending tasks of a group."""
        return self.tasks.as_json(part.group, self.job.groups[part.group].waiting)

    def advice(self, part: "GroupExplanation") -> list[str]:
        """Return what to do about the demands of a group, and about machines that satisfy them and are away."""
        large = any(step.reason == "TOO_LARGE" for step in part.steps)
        suits = "is large enough" if large else "satisfies its constraints"
        unfit = () if part.fits >= part.unplaced else (index for index in self._unfit() if index not in part.away)
        return [
            *part.advice,
            *(self._comes_back(index, suits) for index in part.away),
            *(f"machine {self.machines[index]} {self._starts_none(self.machines[index])}" for index in unfit),
        ]

    def _unfit(self) -> list[int]:
        """Return machines that cannot start tasks, the first `MOST_UNFIT`."""
        from omega.cellstate.model import MachineState

        return [int(index) for index in (self.snapshot.rows[2] == MachineState.UNFIT).nonzero()[0][:MOST_UNFIT]]

    def _starts_none(self, name: str) -> str:
        record = self.cell.executors.agents().get(name)
        why = record.unfit if record is not None else "its agent left"
        return f"cannot start tasks ({why}); it takes tasks again when it can"

    def _comes_back(self, index: int, suits: str) -> str:
        from omega.cellstate.model import MachineState

        name, state = self.machines[index], MachineState(int(self.snapshot.rows[2][index]))
        has = f"machine {name} {suits}"
        if state in (MachineState.DRAINED, MachineState.DOWN):
            return f"{has} and is {state.name.lower()}; it takes tasks after omega machine up {name}"
        if state is MachineState.UNFIT:
            return f"{has} and {self._starts_none(name)}"
        if state is MachineState.OFFLINE:
            return f"{has} and is offline; it takes tasks when its agent runs again"
        return f"{has} and is over: it holds more than it has; it takes tasks when enough of them have ended"

    def names_of(self, step: "DemandStep") -> list[str]:
        """Return the names of the machines that are listed with a demand."""
        return [self.machines[index] for index in step.machines]

    def lacking(self, part: "GroupExplanation") -> list[dict[str, Any]]:
        """Return the resources of which no single machine that is up has enough free for a task, in smallest units.

        ``free`` is what all these machines have free together, ``most_free`` and ``largest`` the most that one has free
        and has at all: a task of more than `largest` needs a larger machine.
        """
        from omega.cellstate.model import MachineState

        rows, size = self.snapshot.rows, len(self.cell.dimensions)
        up = rows[:, rows[2] == MachineState.UP]
        if part.fits >= part.unplaced or not up.shape[1]:
            return []
        capacity, free = up[4 : 4 + size], up[4 : 4 + size] - up[4 + size : 4 + 2 * size]
        return [
            {
                "resource": name,
                "need": need,
                "free": int(free[d].clip(min=0).sum()),
                "most_free": int(free[d].max().clip(min=0)),
                "largest": int(capacity[d].max()),
            }
            for d, (name, need) in enumerate(zip(self.cell.dimensions.names, self.work.need(part.group), strict=True))
            if need > free[d].max()
        ]

    def remedies_json(self) -> list[dict[str, Any]]:
        """Return the same changes without their text."""
        return [{name: value for name, value in each.items() if name != "text"} for each in self.remedies()]

    def remedies(self) -> list[dict[str, Any]]:
        """Return changes that would let the rest fit, each with its ``text``; none where limits exclude all."""
        if self.explanation.reason in ("LIMIT", "NEVER"):
            return []
        return [*self._evictions(), *self._more_machines(), *self._smaller_tasks()]

    def _evictions(self) -> Iterator[dict[str, Any]]:
        """Yield the eviction of less important tasks, if it alone would let the rest fit."""
        from omega.schedulers.remedies import evictions

        tasks = evictions(self.work, self.snapshot, self.cell)
        if tasks:
            found = {
                "evictions": tasks,
                "precedence_below": self.job.precedence,
                "allowed": may_evict(self.cell.schedulers, self.job.kind),
            }
            yield found | {"text": remedy_text(found)}

    def _more_machines(self) -> Iterator[dict[str, Any]]:
        from omega.schedulers.remedies import more_machines

        for part in self.explanation.parts:
            more = more_machines(self.work, part, self.snapshot)
            if more is None:
                continue
            capacity = tuple(int(amount) for amount in self.snapshot.capacity[:, more.like])
            name = self.cell.machines.described([more.like])[0][0]
            found = {
                "machines": more.count,
                "like": name,
                "capacity": self.cell.dimensions.numbers(capacity),
                "apart": dict(more.apart),
                "group": part.group,
            }
            yield found | {"text": remedy_text(found)}

    def _smaller_tasks(self) -> Iterator[dict[str, Any]]:
        """Yield for tasks that are too large the size that fits the nearest machine, and that of a machine for them."""
        from omega.schedulers.remedies import nearest_machine

        names = self.cell.dimensions.names
        for part in self.explanation.parts:
            near = nearest_machine(self.work, part, self.snapshot)
            if near is None:
                continue
            need, has = self.work.need(part.group), self.snapshot.capacity[:, near]
            found = {
                "lowered": {
                    name: int(most) for name, wants, most in zip(names, need, has, strict=True) if wants > most
                },
                "like": self.cell.machines.described([near])[0][0],
                "at_least": self.cell.dimensions.numbers(need),
                "group": part.group,
            }
            yield found | {"text": remedy_text(found)}


def remedy_text(remedy: Mapping[str, Any]) -> str:
    """Return a change that would help, one of ``fits_after``, for people."""
    if "evictions" in remedy:
        who = "its scheduler may" if remedy["allowed"] else "its scheduler may not"
        tasks, below = wording.count(remedy["evictions"], "task"), remedy["precedence_below"]
        return f"{tasks} of precedence < {below:,} evicted ({who})"
    from omega.cellstate.resources import format_amount

    if "lowered" in remedy:
        most = ", ".join(f"{name} at most {format_amount(name, each)}" for name, each in remedy["lowered"].items())
        return f"tasks lowered to {most} (machine {remedy['like']}), or a machine with {_size(remedy['at_least'])}"
    size = _size(remedy["capacity"])
    apart = "".join(f", in {wording.count(n, f'more {domain}')}" for domain, n in remedy["apart"].items())
    return f"{wording.count(remedy['machines'], 'more machine')} like {remedy['like']} ({size}){apart}"


def _size(amounts: Mapping[str, int]) -> str:
    from omega.cellstate.resources import format_amount

    return ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in amounts.items() if amount) or "nothing"


def may_evict(schedulers: "Schedulers", kind: str) -> bool:
    """Return whether schedulers of a kind evict: those that live, else those that would be started."""
    from omega.cellstate.errors import BadInput
    from omega.schedulers import registry

    said = [
        figures["evicts"]
        for name, (_, alive, figures) in schedulers.members().items()
        if alive and name.partition("/")[0] == kind and "evicts" in figures
    ]
    if said:
        return any(said)
    try:
        return registry.scheduler(kind).preemption.evicts
    except BadInput:
        return False
