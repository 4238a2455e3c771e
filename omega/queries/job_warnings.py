"""Warnings about accepted jobs: one line each, at submission and in a plan."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from omega.cellstate.resources import format_amount
from omega.queries.fleet import Fleet
from omega.queries.job_state import did_not_finish, ended
from omega.queries.room import PoolLimits
from omega.queries.wording import amounts, count, listing
from omega.queries.working_copy import as_work, kinds_of, look_up, working_copy

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job, JobSpec
    from omega.cellstate.pools import Pools
    from omega.cellstate.replies import KindUse
    from omega.cellstate.snapshot import Snapshot
    from omega.queries.working_copy import Members
    from omega.schedulers.constraints.demands import Relation
    from omega.schedulers.work import Work

MOST_GANGS = 100
"""Gangs of different shapes that are tried on an empty cell: 10 ms each on 10,000 machines."""


class _Warning(NamedTuple):
    """A warning about a job, or one of its groups by name."""

    job: str
    text: str
    group: str | None = None


def warnings(cell: "Cell", specs: "Sequence[JobSpec]") -> list[str]:
    """Warnings about jobs that are about to be, or were just, submitted: those with one text in one line."""
    return _merged(_Warnings(cell, specs).all()) if specs else []


def warnings_of(
    cell: "Cell", submissions: "Sequence[Sequence[JobSpec]]", members: "Members", pools: "Pools"
) -> list[list[str]]:
    """Warnings about the jobs of each of several submissions, which have different names.

    `members`, `pools`: those of the cell, as they were just read.
    """
    specs = [spec for each in submissions for spec in each]
    by_job: dict[str, list[_Warning]] = {}
    for each in _Warnings(cell, specs, pools).all() if specs else ():
        by_job.setdefault(each.job, []).append(each)
    missing = {spec.kind for spec in specs} - kinds_of(members)
    return [
        _merged(warned for spec in each for warned in by_job.get(spec.name, ()))
        + [_unserved(kind) for kind in sorted({spec.kind for spec in each} & missing)]
        for each in submissions
    ]


def _merged(warned: Iterable[_Warning]) -> list[str]:
    """Return a line for each text, with the job or group that it is about, or how many there are."""
    by_text: dict[str, list[_Warning]] = {}
    for each in warned:
        by_text.setdefault(each.text, []).append(each)
    return [f"{_subject(alike)}: {text}" for text, alike in by_text.items()]


def _subject(alike: Sequence[_Warning]) -> str:
    jobs = list(dict.fromkeys(each.job for each in alike))
    groups = list(dict.fromkeys(each.group for each in alike if each.group is not None))
    if len(jobs) > 1:
        return f"{count(len(jobs), 'job')} ({listing(jobs)})"
    where = f", group {groups[0]}" if len(groups) == 1 else ""
    return f"job {jobs[0]}{where or (f', {len(groups):,} groups ({listing(groups)})' if groups else '')}"


def unserved(cell: "Cell", specs: "Sequence[JobSpec]") -> list[str]:
    """Warnings about kinds of jobs, just submitted, of which no scheduler is live (``NO_SCHEDULER``)."""
    kinds = sorted({spec.kind for spec in specs} - kinds_of(cell.schedulers.members())) if specs else []
    return list(map(_unserved, kinds))


def _unserved(kind: str) -> str:
    return f"no scheduler of kind {kind} is live; start one with omega scheduler run {kind}"


class _Warnings:
    """Reads jobs and machines once for any number of jobs."""

    def __init__(self, cell: "Cell", specs: "Sequence[JobSpec]", pools: "Pools | None" = None) -> None:
        self.cell, self.specs, self.fleet = cell, specs, Fleet(cell.sums())
        self._pool_limits = PoolLimits(cell, pools)
        self._last: tuple[JobSpec, Work] | None = None

    def all(self) -> list[_Warning]:
        """Return every warning, job by job."""
        lines: list[_Warning] = []
        kinds = self.cell.pools.limited_kinds()
        gangs: dict[Hashable, int] = {}
        known: dict[Hashable, list[_Warning]] = {}
        for spec in self.specs:
            if (shape := _plain_shape(spec)) is None:
                lines += self._of(spec, kinds.get(spec.kind), gangs)
            elif shape not in known:
                known[shape] = self._of(spec, kinds.get(spec.kind), gangs)
                lines += known[shape]
            else:
                lines += [warned._replace(job=spec.name) for warned in known[shape]]
        return lines

    def _of(self, spec: "JobSpec", use: "KindUse | None", gangs: dict[Hashable, int]) -> list[_Warning]:
        unplaceable = [*self._sizes(spec), *self._demands(spec), *self._limits(spec, use)]
        lines = [*self._precedence(spec, use), *unplaceable, *self._simulated(spec)]
        lines += [*self._waits(spec), *self._relations(spec), *self._locality(spec), *_left_out(spec)]
        return lines + ([*self._gang(spec, gangs)] if spec.gang and not unplaceable else [])

    def _work(self, spec: "JobSpec") -> "Work":
        """Return a job as a scheduler would hold it; several checks in a row need the same."""
        if self._last is None or self._last[0] is not spec:
            self._last = (spec, as_work(spec))
        return self._last[1]

    @cached_property
    def empty(self) -> "Snapshot":
        """The cell with nothing placed."""
        return working_copy(self.cell, empty=True)

    def _precedence(self, spec: "JobSpec", use: "KindUse | None") -> Iterator[_Warning]:
        low, high = use.limits.precedence if use else (spec.precedence, spec.precedence)
        if not low <= spec.precedence <= high:
            range_ = f"is not within {low} to {high}, the limits of kind {spec.kind}"
            yield _Warning(spec.name, f"precedence {spec.precedence} {range_}; it stays pending until they are changed")

    def _limits(self, spec: "JobSpec", use: "KindUse | None") -> Iterator[_Warning]:
        """Task groups, or a gang, that exceed a limit of their kind or of their pools by themselves."""
        from omega.schedulers.limits import limited_by_kind, never_admitted

        names, work = self.cell.dimensions.names, self._work(spec)
        limits = [] if use is None else [limited_by_kind(work.job, use, names)]
        limits += self._pool_limits.of(work.job)
        for at, reached in never_admitted(work.job, work.left, limits, names).items():
            group = None if spec.gang else _group(spec, at)
            yield _Warning(spec.name, f"{reached.text}; it stays pending until the limit is raised", group)
            if spec.gang:
                return

    def _sizes(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Task groups that no machine which is up could ever hold."""
        if not self.fleet.up:
            yield _Warning(spec.name, f"no machine of cell {self.cell.name} is up; it stays pending until one is")
            return
        for i, group in enumerate(spec.groups):
            lack = self.fleet.largest_lack(group.need, self.cell.dimensions.names)
            if lack == "together":
                need = amounts(self.cell.dimensions, group.need)
                yield _Warning(spec.name, f"no single machine has {need} together; it stays pending", _group(spec, i))
            elif lack is not None:
                need = format_amount(lack, group.need[self.cell.dimensions.names.index(lack)])
                most = format_amount(lack, self.fleet.largest(self.cell.dimensions.names.index(lack)))
                text = f"wants {need} {lack} a task, the largest machine has {most}; it stays pending"
                yield _Warning(spec.name, text, _group(spec, i))

    def _demands(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Attributes and domains that no machine has, constraints that hold for none."""
        from omega.schedulers.constraints.demands import NONE, demands
        from omega.schedulers.constraints.explanation import warnings as advice

        work = self._work(spec)
        wants = [demands(work.job, group) for group in range(len(spec.groups))]
        if all(each is NONE for each in wants) or not self.fleet.up:
            return
        look_up(self.cell, self.empty, [work])
        for i, each in enumerate(wants):
            if each is not NONE:
                texts = advice(each, self.empty.attributes)
                yield from (_Warning(spec.name, text, _group(spec, i)) for text in texts)

    def _locality(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Warn about parts of a locality without effect, such as machines that are not there."""
        from omega.schedulers.constraints.locality import is_local
        from omega.schedulers.constraints.locality_levels import notes

        work = self._work(spec)
        if is_local(work.job) and self.fleet.total:
            look_up(self.cell, self.empty, [work])
            for i, group in enumerate(spec.groups):
                if group.count:  # surplus workers wait for nothing
                    yield from (_Warning(spec.name, text, _group(spec, i)) for text in notes(work.job, i, self.empty))
            yield from self._input(spec)

    def _input(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Warn about input files of which no machine with the data is up."""
        from omega.mapreduce.plan import MapReducePlan
        from omega.schedulers.constraints.locality import locality_of
        from omega.schedulers.constraints.locality_levels import without_data

        plan = MapReducePlan.read(spec.spec)
        if plan is None or not plan.places:
            return
        wants = [locality_of(place, plan.near) for place in plan.places]
        starts = [0, *accumulate(place.files for place in plan.places)]
        lost = without_data(wants, self.empty)
        if files := [path for at in lost for path, _ in plan.files[starts[at] : starts[at + 1]]]:
            after = f"workers anywhere take their shards after {sum(wants[0].waits):g} s"
            yield _Warning(spec.name, f"input.locality: no machine with the data of {listing(files)} is up; {after}")

    @cached_property
    def _running_names(self) -> frozenset[str]:
        """Names of live jobs among those that the jobs are to be near, or apart from; these jobs are there as well."""
        names = {relation.job for spec in self.specs for _, _, relation in _relations_of(self._work(spec))}
        ids = self.cell.jobs.ids_by_name(sorted(names)) if names else {}
        jobs = self.cell.jobs.by_id(sorted(set(ids.values()))) if ids else {}
        live = (name for name, job_id in ids.items() if job_id in jobs and not ended(jobs[job_id]))
        return frozenset((*live, *(spec.name for spec in self.specs)))

    def _waits(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Warn about jobs that would have to finish first and did not: the job is accepted, and then stopped."""
        for wait in spec.after:
            other = None if wait.any_end else self._awaited.get(wait.job)
            if other is not None and did_not_finish(other):
                advice = "submit both again, or wait for it with the outcome any"
                text = f"waits for {other.name} ({other.id[:4]}), which did not finish; it is stopped; {advice}"
                yield _Warning(spec.name, text)

    @cached_property
    def _awaited(self) -> "dict[str, Job]":
        """The jobs that the jobs wait for, by id."""
        return dict(self.cell.jobs.by_id(sorted({wait.job for spec in self.specs for wait in spec.after})))

    def _relations(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Relations that cannot act: to the job itself, or to a job that is not there."""
        for i, field, relation in _relations_of(self._work(spec)):
            what = f"{field} {relation.job}"
            if relation.job == spec.name:
                other = "use different_machines or spread" if field == "apart_from" else "remove it"
                yield _Warning(spec.name, f"{what}: is the job itself, so it has no effect; {other}", _group(spec, i))
            elif relation.job not in self._running_names:
                until = "it stays pending" if field == "near" and relation.required else "it has no effect"
                yield _Warning(spec.name, f"{what}: no live job has this name; {until} until one runs", _group(spec, i))

    def _simulated(self, spec: "JobSpec") -> Iterator[_Warning]:
        """Warn about a job with commands in a cell of simulated machines only."""
        if self._work(spec).job.commands and self.fleet.up and self.fleet.all_simulated:
            yield _Warning(
                spec.name,
                "it runs commands and all machines are simulated, so it stays pending; start an agent with omega "
                "agent, or simulate it (simulate: true, --simulate)",
            )

    def _gang(self, spec: "JobSpec", known: dict[Hashable, int]) -> Iterator[_Warning]:
        """Warn about a gang that would not fit in an empty cell."""
        from omega.schedulers.constraints.demands import NONE, demands
        from omega.schedulers.constraints.explanation import explain

        work, least = self._work(spec), spec.gang_min or spec.total
        shape = work.shape()
        if len(spec.groups) == 1 and demands(work.job, 0) is NONE:
            known[shape] = min(spec.total, self.fleet.room(spec.groups[0].need))
        elif shape not in known and len(known) < MOST_GANGS:
            look_up(self.cell, self.empty, [work])
            known[shape] = sum(part.fits for part in explain(work, self.empty).parts)
        fits = known.get(shape, least)
        if fits < least:
            at_least = "at least " if spec.gang_min else ""
            most = f"an empty cell holds {fits:,} of them at once"
            yield _Warning(spec.name, f"a gang of {at_least}{count(least, 'task')}; {most}; it stays pending")


def _left_out(spec: "JobSpec") -> Iterator[_Warning]:
    """Tell what of an input directory is not read."""
    from omega.mapreduce.plan import MapReducePlan

    plan = MapReducePlan.read(spec.spec)
    for directory, hidden, below in plan.left_out if plan is not None else ():
        parts = [f"{count(hidden, 'file')} whose names begin with . or _"] if hidden else []
        parts += [f"{below:,} director{'ies' if below > 1 else 'y'}"] if below else []
        yield _Warning(spec.name, f"input {directory}: {' and '.join(parts)} left out; to read them, name them")


def _plain_shape(spec: "JobSpec") -> Hashable | None:
    """Return what the warnings of a job without demands depend on beside its name; None for another one."""
    from omega.schedulers.constraints.demands import FIELDS

    asks = {"locality", *FIELDS}
    if "mapreduce" in spec.spec or any(not asks.isdisjoint(group.spec) for group in spec.groups):
        return None
    if spec.after:
        return None
    groups = tuple(
        (group.need, group.count, group.spec.get("name"), bool(group.spec.get("command"))) for group in spec.groups
    )
    own = tuple(spec.spec.get(name) for name in ("pool", "user", "simulate"))
    return spec.kind, spec.precedence, spec.gang, spec.gang_min, own, groups


def _relations_of(work: "Work") -> Iterator[tuple[int, str, "Relation"]]:
    """Yield the relations of a job's groups to other jobs: the group, the field and the relation."""
    from omega.schedulers.constraints.demands import NONE, demands

    job = work.job
    for i in range(len(job.groups)):
        if (wants := demands(job, i)) is not NONE:
            yield from ((i, "near", relation) for relation in wants.near)
            yield from ((i, "apart_from", relation) for relation in wants.apart)


def _group(spec: "JobSpec", position: int) -> str:
    """Return the name of a group of a job; its position when it has no name."""
    return str(spec.groups[position].spec.get("name", position))
