"""Submission of jobs to the best of several cells; a job with an id of its own goes to one of them only.

Cells have no common transaction. A job with an id is first looked up in all cells. If none has it, one cell (by a hash
of the id and of the names of all cells) decides for all submitters at once: `claim_jobs` stores the first choice, and
each later or simultaneous submitter follows it, also after an interruption between choice and submission. `COPIES`
further cells keep the decision, for the time when the first one is away. So two cells get one id only if submitters see
different cells (one does not answer to one of them, or may not be used) or if one halts for longer than `CLAIM_MS`
between its choice and its submission. Afterwards all cells are asked again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from omega import submission
from omega.cellstate.errors import BadInput, Duplicate, Forbidden, OmegaError, ReadOnly, Refused, StoreError
from omega.many_cells.choosing import Choice, Chooser
from omega.many_cells.opened import OpenCells
from omega.many_cells.policy import CellPolicy
from omega.queries.job_state import ended

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.replies import Submitted

CLAIM_MS = 3_600_000
"""For so long a choice holds that no submission followed."""
COPIES = 2
"""Cells that keep a decision beside the one that made it."""
PROBE = "-"
"""In place of an id, to see whether a cell takes writes."""
Read = Callable[["RedisCell", Callable[[], str]], "list[JobSpec]"]
"""Returns prepared jobs in the amounts of a cell; jobs without an id get the next one of the function."""


class SameIds:
    """New ids: the n-th job without one gets the same in each cell."""

    def __init__(self) -> None:
        self._ids, self._at = list[str](), 0

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._ids

    def begin(self) -> None:
        """Begin again with the first one."""
        self._at = 0

    def next(self) -> str:
        """Return the next one."""
        self._at += 1
        if self._at > len(self._ids):
            self._ids.append(submission.new_id())
        return self._ids[self._at - 1]


@dataclass(slots=True)
class Sending:
    """A job that is submitted: as each cell takes it, its cell, and why it is that one."""

    specs: "dict[str, JobSpec]"
    own_id: bool
    cell: str = ""
    there: bool = False
    """Whether the cell has the job already."""
    choice: Choice | None = None
    answer: "Submitted | None" = None

    @property
    def id(self) -> str:
        """Its id, the same in all cells."""
        return next(iter(self.specs.values())).id

    @property
    def name(self) -> str:
        """Its name."""
        return next(iter(self.specs.values())).name

    @property
    def fits(self) -> bool:
        """Whether the job would be placed whole now, or is there already."""
        return self.choice is None or self.choice.offers[self.cell].placed == self.choice.offers[self.cell].tasks

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain values; before the submission without the state of the submission."""
        spec = self.specs[self.cell]
        row: dict[str, Any] = {"id": spec.id, "name": spec.name, "tasks": spec.total}
        if self.answer is not None:
            (row,) = submission.submitted_json([spec], [self.answer])
        offers = self.choice.offers if self.choice else {}
        unfit = self.choice.unfit if self.choice else {}
        return {
            "cell": self.cell,
            **row,
            "found": self.there,
            "offers": [each.as_json() for each in offers.values()],
            "unfit": dict(unfit),
        }


@dataclass(slots=True)
class AnyCell:
    """Submits jobs to the best of open cells."""

    found: OpenCells
    policy: CellPolicy
    now_ms: Callable[[], int]
    by: str
    unfit: dict[str, str] = field(default_factory=dict)
    """Why cells cannot take the jobs."""
    warnings: list[str] = field(default_factory=list)
    dry: bool = False
    """Nothing is to be submitted: nothing is written, also no decision where a job goes."""

    def prepare(self, read: Read) -> list[Sending]:
        """Return the jobs with the cell of each. Raises BadInput, Duplicate, Refused; nothing is submitted yet."""
        jobs = self._read(read)
        self._look_up(jobs)
        self._check_names([job for job in jobs if not job.there])
        self._choose(jobs)
        return jobs

    def send(
        self, jobs: Sequence[Sending], reopen: "Callable[[str], RedisCell]", *, hold: bool = False
    ) -> Iterator[Sending]:
        """Submit jobs to their cells, and yield them when they are answered.

        `reopen` opens a cell to change it. When a call fails, the jobs of earlier calls stay submitted.
        """
        by_cell = dict[str, list[Sending]]()
        for job in jobs:
            by_cell.setdefault(job.cell, []).append(job)
        cells = {name: reopen(name) for name in by_cell}
        for name, its in by_cell.items():
            specs = [job.specs[name] for job in its]
            submission.check_pools(cells[name], specs)
            submission.check_names(cells[name], specs)
        for name, its in by_cell.items():
            specs = [job.specs[name] for job in its]
            answers = submission.submit(cells[name], specs, self.now_ms(), self.by, hold=hold)
            for job, answer in zip(its, answers, strict=True):
                job.answer = answer
                yield job
        self._look_again([job for job in jobs if job.own_id])

    def _read(self, read: Read) -> list[Sending]:
        new, jobs, first = SameIds(), list[Sending](), None
        for name, cell in list(self.found.cells.items()):
            new.begin()
            try:
                if not self.dry:  # may this user write there, and does the store take it
                    cell.jobs.claim([PROBE], name, expire_ms=1)
                specs = read(cell, new.next)
                _check(cell, specs)
            except OmegaError as error:
                self.unfit[name], first = str(error), first or error
                continue
            jobs = jobs or [Sending({}, spec.id not in new) for spec in specs]
            for job, spec in zip(jobs, specs, strict=True):
                job.specs[name] = spec
        if not jobs and first is not None:
            raise first
        self.found.check_some()
        return jobs

    def _jobs_there(self, jobs: Sequence[Sending]) -> dict[str, list[str]]:
        """Return the cells that have some of the jobs, by id; a cell where it has not ended first."""
        ids, there = [job.id for job in jobs], dict[str, list[str]]()
        found = self.found.ask(lambda cell: cell.jobs.by_id(ids)) if ids else {}
        for over in (False, True):
            for name in sorted(found):
                for job_id, job in found[name].items():
                    if ended(job) is over:
                        there.setdefault(job_id, []).append(name)
        return there

    def _look_up(self, jobs: Sequence[Sending]) -> None:
        """Find the jobs that a cell has already."""
        there = self._jobs_there([job for job in jobs if job.own_id])
        for job in jobs:
            if job.id in there:
                job.cell, job.there = there[job.id][0], True
                if job.cell not in job.specs:
                    raise Refused(
                        f"job {job.name}: is in cell {job.cell}, which cannot take it: {self.unfit[job.cell]}"
                    )

    def _check_names(self, jobs: Sequence[Sending]) -> None:
        """Raise Duplicate for a name that a live job of any cell has: a file submitted again is not taken twice."""
        names = [job.name for job in jobs]
        held = self.found.ask(lambda cell: cell.jobs.ids_by_name(names)) if names else {}
        for name, holders in sorted(held.items()):
            live = self.found.cells[name].jobs.by_id(sorted(set(holders.values())))
            for job in jobs:
                holder = live.get(holders.get(job.name, ""))
                if holder is not None and not ended(holder):
                    advice = "wait for it, stop it, or choose another name"
                    raise Duplicate(f"job {job.name}: cell {name} has a live job of the name, {holder.id}; {advice}")

    def _choose(self, jobs: Sequence[Sending]) -> None:
        """Choose a cell for each job that is new; jobs that wait for one another stay together."""
        new = [job for job in jobs if not job.there]
        if not new:
            return
        chooser = Chooser(self.found.cells, self.policy)
        chooser.unfit |= self.unfit
        by_id, linked = {job.id: job for job in jobs}, False
        for order, job in enumerate(new):
            before = [by_id[each.job] for each in next(iter(job.specs.values())).after if each.job in by_id]
            among = sorted({each.cell for each in before})
            job.choice = chooser.choose(job.specs, order, among)
            if job.choice is None or len(among) > 1:
                why = "; ".join(f"{name}: {text}" for name, text in sorted(chooser.unfit.items()))
                where = f"the jobs that it waits for are in {' and '.join(among)}" if len(among) > 1 else why
                raise Refused(
                    f"job {job.name}: no cell can take it ({where or 'none can plan it'}); name one with --cell"
                )
            job.cell = job.choice.cell
            linked = linked or any(each.after for each in job.specs.values())
            if linked and job.own_id:
                self._agree([job])  # before a cell is chosen for those that wait for it
        if not linked:
            self._agree([job for job in new if job.own_id])

    def _agree(self, jobs: Sequence[Sending]) -> None:
        """Let all submitters of a job with an id of its own go to the same cell."""
        asked = dict[tuple[tuple[str, ...], str], list[Sending]]()
        for job in jobs if not self.dry else ():
            asked.setdefault((self._homes(job.id), job.cell), []).append(job)
        for (homes, cell), its in asked.items():
            for job, other in zip(its, self._claim(homes, cell, its), strict=True):
                if other != cell and other not in job.specs:
                    why = self.unfit.get(other) or self.found.skipped.get(other) or "it is unknown"
                    advice = "repeat it when it can, or name a cell with --cell"
                    raise Refused(f"job {job.name}: was sent to cell {other}, which cannot take it ({why}); {advice}")
                job.cell = other

    def _claim(self, homes: Sequence[str], cell: str, its: Sequence[Sending]) -> list[str]:
        """Return the cells that were decided on, by the first home that takes writes; the next ones keep a copy."""
        ids, copies = [job.id for job in its], 0
        decided: list[str] | None = None
        last: StoreError | None = None
        for home in homes:
            if copies == COPIES:
                break
            try:
                if decided is None:
                    decided = self.found.cells[home].jobs.claim(ids, cell, expire_ms=CLAIM_MS)
                    continue
                for name in set(decided):
                    same = [job_id for job_id, other in zip(ids, decided, strict=True) if other == name]
                    self.found.cells[home].jobs.claim(same, name, expire_ms=CLAIM_MS)
                copies += 1
            except (Forbidden, ReadOnly) as error:
                last = error
        if decided is None:
            raise last or Refused("no cell is left that decides where jobs go; see omega cell list")
        return decided

    def _homes(self, job_id: str) -> tuple[str, ...]:
        """Return the cells that answer, in an order by the id: the first one holds the decision about the job."""
        return tuple(sorted(self.found.cells, key=lambda name: sha256(f"{job_id}/{name}".encode()).digest()))

    def _look_again(self, jobs: Sequence[Sending]) -> None:
        """Warn about jobs that another cell has as well."""
        there = self._jobs_there(jobs)
        for job in jobs:
            others = [name for name in there.get(job.id, []) if name != job.cell]
            if others:
                where = f"is in cell {job.cell} and in {', '.join(others)}"
                self.warnings.append(f"job {job.name} ({job.id}): {where}; stop it in one of them")


def _check(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Raise BadInput or Refused when a cell has other resources than jobs, or lacks their pools."""
    for spec in specs:
        for group in spec.groups:
            if len(group.need) != len(cell.dimensions):
                names = ", ".join(cell.dimensions.names)
                raise BadInput(f"job {spec.name}: {len(group.need)} amounts; cell {cell.name} has {names}")
    submission.check_pools(cell, specs)
