"""What changes of jobs would do, and jobs as files, for `omega.Client`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omega import changes, submission
from omega.cellstate.errors import BadInput
from omega.client.given_jobs import JobLike, given_jobs
from omega.queries.job_fields import KindFields
from omega.queries.job_state import ended
from omega.queries.jobs import job_to_change

if TYPE_CHECKING:
    from omega.cellstate.model import Job, JobSpec, Run
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.machines import RedisMachines
    from omega.client.connections import Connections

Document = dict[str, Any]


class DryRuns:
    """The methods of a client that return what a change of a job would do; nothing is changed."""

    _connections: "Connections"

    def job_file(self, job: str, *, version: int | None = None) -> Document:
        """Return a version of a job (None: the present one) as the fields of a job file, and as ``text`` in YAML."""
        from omega import yaml_core
        from omega.jobfile.written import document
        from omega.versions import earlier, find, present

        with self._connections.cell() as cell:
            record = job_to_change(cell, job)
            found = present(record) if version is None else find(record, version)
            fields = document(record, found, cell.dimensions)
            numbers = [each.number for each in (*earlier(record), present(record))]
            about = {"cell": cell.name, "job": record.id, "name": record.name, "modify_index": record.modified}
            return about | {
                "version": found.number,
                "versions": numbers,
                "file": fields,
                "text": yaml_core.dump(fields),
            }

    def plan_release(self, job: str) -> Document:
        """Return where the unplaced tasks of a job would be placed if it were released now, as `plan` does."""
        with self._connections.cell() as cell:
            return _planned(cell, job, None, None)

    def plan_resize(self, job: str, count: int, *, group: str | None = None) -> Document:
        """Return where the additional tasks of a group of `count` tasks would be placed, as `plan` does."""
        with self._connections.cell() as cell:
            return planned_resize(cell, job, group, count)

    def plan_update(self, job: JobLike) -> Document:
        """Return the fields that an update by `job` would change, and which tasks it would replace by which.

        A service that ended would start again, as ``restarts``, with ``starts`` tasks.
        """
        with self._connections.cell() as cell:
            specs = given_jobs(cell, [job], fields := KindFields(cell)).specs
            if len(specs) != 1:
                raise BadInput(f"{len(specs)} jobs; update one at a time")
            return planned_update(cell, submission.prepared(cell, specs, None, fields)[0])

    def plan_revert(self, job: str, to: int | None = None) -> Document:
        """Return the fields that `revert` would change, and which tasks it would replace by which."""
        from omega.versions import find

        with self._connections.cell() as cell:
            record = job_to_change(cell, job)
            return planned_update(cell, find(record, to).spec(record))


def planned_resize(cell: "RedisCell", job: str, group: str | None, count: int) -> Document:
    """Return where the additional tasks of a group of `count` tasks would be placed."""
    return _planned(cell, job, group, count)


def _planned(cell: "RedisCell", job: str, group: str | None, count: int | None) -> Document:
    from omega.queries.plans import plan_more
    from omega.schedulers.rolling import count_of, targets

    record = job_to_change(cell, job)
    if count is None:
        more, before = None, None
    else:
        at = changes.group_of(record, group)
        before = next(count_of(record, target) for target in targets(record) if target.group == at)
        more = {at: max(0, count - before)}
    about = {"cell": cell.name, "id": record.id, "name": record.name, "modify_index": record.modified}
    return about | {"before": before, "after": count, "plan": plan_more(cell, record, more)}


def planned_update(cell: "RedisCell", spec: "JobSpec") -> Document:
    """Return the fields that an update changes, the tasks that it replaces, and the ``plan`` of those that it adds.

    The new tasks are planned as if all replaced ones had ended. In fact they are replaced a few at a time, as new ones
    prove themselves.
    """
    from omega.queries.plans import plan_jobs, plan_more, plan_update
    from omega.queries.task_names import TaskNames
    from omega.updating import job_update
    from omega.versions import UPDATING, Version, differences, number_of, present

    job = changes.to_update(cell, spec)
    restarts = ended(job)
    fields = dict(spec.spec)
    replaced, of_groups, runs = 0, list[Document](), list["Run"]()
    if restarts:
        plan = plan_jobs(cell, [replace(spec, id=submission.new_id())])[1]["jobs"][0]
    else:
        again = cell.jobs.update_state(job.id).startswith("stalled")
        wanted = job_update(job, spec, again=again)
        replaced, of_groups = wanted.replaced, [each.as_json() for each in wanted.changes]
        fields = {name: value for name, value in wanted.spec.items() if name not in UPDATING}
        if wanted.replaced or wanted.groups:
            runs = _replaced(cell.machines, job, {number for row in wanted.spec["targets"] for number in row[2]})
            plan = plan_update(cell, job, wanted, runs)
        else:
            numbers = [row[0] for row in wanted.spec["targets"]]
            more = {at: max(0, each.after - each.before) for at, each in zip(numbers, wanted.changes, strict=True)}
            plan = plan_more(cell, job, more)
    groups = [group for group in spec.groups if not group.copies]
    after = Version(number_of(job) + 1, 0, "", fields, groups)
    changed = [each._asdict() for each in differences(present(job), after, cell.dimensions.names)]
    about = {"cell": cell.name, "id": job.id, "name": job.name, "modify_index": job.modified}
    about |= {"replaces": replaced, "restarts": restarts, "starts": spec.total if restarts else 0}
    called, machines = TaskNames.of(job), sorted({run.machine for run in runs})
    names = {index: name for index, (name, _) in zip(machines, cell.machines.described(machines), strict=True)}
    told = [
        {"group": run.group, "tasks": run.tasks, **called.as_json(run.group, run.tasks), "machine": names[run.machine]}
        for run in runs
        if not job.groups[run.group].copies
    ]
    return about | {"changes": changed, "group_changes": of_groups, "replaced_tasks": told, "plan": plan}


def _replaced(machines: "RedisMachines", job: "Job", groups: set[int]) -> "list[Run]":
    """Return the runs of these groups of a job, and those of copies of their tasks."""
    going = sorted({machine for group in job.groups for _, machine, leaving in group.runs if not leaving})
    return [
        run
        for run in machines.runs(going)
        if run.job == job.id
        and not run.leaving
        and (run.group in groups or (job.groups[run.group].copies and run.group - 1 in groups))
    ]
