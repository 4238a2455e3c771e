"""Plans of jobs on several cells, and the choice of a cell for each job."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omega.cellstate.errors import OmegaError
from omega.many_cells.policy import CellOffer, CellPolicy, ask
from omega.queries.plans import PlannedJob, Planner
from omega.queries.working_copy import as_work
from omega.schedulers.constraints.locality import locality
from omega.schedulers.constraints.locality_levels import levels

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.ports import StoredCell


class CellPlanner:
    """Plans jobs on a working copy of one cell, which keeps the claims of those that go there."""

    def __init__(self, cell: "StoredCell") -> None:
        """Read the machines, the figures of schedulers and the lengths of queues, once."""
        self.cell = cell
        self._taken: list[tuple[JobSpec, int]] = []
        self._planner = Planner(cell, scored=False)
        self._queued = dict(cell.queue_depths())
        self._members = cell.members()

    def offer(self, spec: "JobSpec", order: int) -> "tuple[CellOffer, Tried]":
        """Return what the cell offers, and the plan, which `keep` or `drop` ends. Raises OmegaError."""
        tried = Tried(self._planner.snapshot.mark(), self._planner.plan(spec, order))
        plan, figures = tried.plan, self._figures(spec.kind)
        evictions = sum(tasks for _, tasks in plan.planned.victims)
        return CellOffer(
            cell=self.cell.name, tasks=spec.total, placed=plan.placed, evictions=evictions,
            reason=plan.reason, schedulers=len(figures), queued=self._queued.get(spec.kind, 0),
            wait_seconds=_mean_wait(figures), room=self._room(spec), local=self._local(spec, plan),
        ), tried  # fmt: skip

    def keep(self, spec: "JobSpec", order: int, tried: "Tried") -> None:
        """Keep the claims of the last plan: the job goes to this cell."""
        self._taken.append((spec, order))
        if tried.plan.unplaced:
            self._queued[spec.kind] = self._queued.get(spec.kind, 0) + 1

    def drop(self, tried: "Tried") -> None:
        """Give back what the last plan claimed: the job goes to another cell."""
        if not self._planner.withdraw(tried.plan, tried.mark):
            self._planner = Planner(self.cell, scored=False)  # evictions cannot be given back
            for spec, order in self._taken:
                self._planner.plan(spec, order)

    def _figures(self, kind: str) -> list[Mapping[str, object]]:
        """Return the figures of the live schedulers of a kind."""
        return [own for name, (_, alive, own) in self._members.items() if alive and name.partition("/")[0] == kind]

    def _room(self, spec: "JobSpec") -> float:
        snapshot = self._planner.snapshot
        total, shares = snapshot.total(), list[float]()
        for d, has in enumerate(total):
            if any(group.need[d] for group in spec.groups):
                shares.append(float(snapshot.room[d].clip(0).sum()) / has if has else 0.0)
        return min(shares, default=1.0)

    def _local(self, spec: "JobSpec", plan: PlannedJob) -> float | None:
        job, local, some = as_work(spec).job, 0, False
        for group in range(len(spec.groups)):
            wants = locality(job, group)
            if wants is not None:
                here, some = levels(wants, self._planner.snapshot)[0], True
                local += sum(
                    claim.count for claim in plan.planned.claims if claim.group == group and here[claim.machine]
                )
        return local / max(1, spec.total) if some else None


class Tried:
    """A plan that may be given back: with the mark of the working copy before it."""

    def __init__(self, mark: int, plan: PlannedJob) -> None:
        self.mark, self.plan = mark, plan


def _mean_wait(figures: Sequence[Mapping[str, object]]) -> float | None:
    waits = [float(own["wait_mean"]) for own in figures if isinstance(own.get("wait_mean"), int | float)]  # type: ignore[arg-type]
    return sum(waits) / len(waits) if waits else None


class Choice:
    """The cell of a job, what each cell offered, and why others were not asked."""

    def __init__(self, cell: str, offers: Mapping[str, CellOffer], unfit: Mapping[str, str]) -> None:
        self.cell, self.offers, self.unfit = cell, offers, unfit


class Chooser:
    """Chooses cells for jobs, one job after the other."""

    def __init__(self, cells: "Mapping[str, StoredCell]", policy: CellPolicy) -> None:
        """Read each cell once; `unfit` has why some cannot be planned on."""
        self.policy, self.unfit = policy, dict[str, str]()
        self._planners = dict[str, CellPlanner]()
        for name, cell in sorted(cells.items()):
            try:
                self._planners[name] = CellPlanner(cell)
            except OmegaError as error:
                self.unfit[name] = str(error)

    def choose(self, specs: "Mapping[str, JobSpec]", order: int, among: Sequence[str] = ()) -> Choice | None:
        """Return the cell of a job, which is given in the amounts of each cell; None when no cell can take it.

        `among`: cells of which one is to be chosen, all when there are none.
        """
        offers, tried, unfit = dict[str, CellOffer](), dict[str, Tried](), dict(self.unfit)
        for name, planner in self._planners.items():
            if name not in specs or (among and name not in among):
                continue
            try:
                offers[name], tried[name] = planner.offer(specs[name], order)
            except OmegaError as error:
                unfit[name] = str(error)
        if not offers:
            return None
        spec = next(iter(specs.values()))
        chosen = ask(self.policy, spec, tuple(offers.values())).cell
        for name, each in tried.items():
            if name == chosen:
                self._planners[name].keep(specs[name], order, each)
            else:
                self._planners[name].drop(each)
        return Choice(chosen, offers, unfit)
