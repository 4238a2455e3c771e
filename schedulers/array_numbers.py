"""Numbers of the tasks of an array that an update runs again: they ended in older groups and do not count as done.

The numbers of tasks that waited or ran are known to the store, which moves them in the call that removes them. Those of
ended tasks are in the results, which the digest of the log writes a little later: they are used only when they agree
with the counts of the job.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.cellstate.digest.hours import readable
from omega.cellstate.digest.results import CHUNK, FAILED, FINISHED, TaskResult, field_of, listed_chunks, unpack_results

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Digest
    from omega.cellstate.model import GroupStatus, Job, Run


def is_array(job: "Job", group: int) -> bool:
    """Return whether the tasks of a group have an index of an array."""
    groups = job.spec.get("groups") or ()
    return group < len(groups) and groups[group].get("array") is not None


def run_again(cell: "Cell", job: "Job", chain: Sequence[int], *, finished_count: bool) -> str | None:
    """Return the numbers of tasks that ended in the groups of `chain`, and are neither done nor live in one of them.

    `finished_count`: those that finished are done. None while the results are behind.
    """
    runs = cell.machines.runs(sorted({machine for number in chain for _, machine, _ in job.groups[number].runs}))
    again, others = set[int](), set[int]()
    for number in chain:
        group = job.groups[number]
        live = _live(group, [run for run in runs if (run.job, run.group) == (job.id, number) and not run.leaving])
        ends = _ends(cell.digest, job, number)
        finished = {task for task, state in ends.items() if state == FINISHED} - live
        failed = {task for task, state in ends.items() if state == FAILED} - live
        if (len(live), len(finished), len(failed)) != (group.unplaced + group.placed, group.finished, group.failed):
            return None
        others |= live | finished if finished_count else live
        again |= failed if finished_count else failed | finished
    return ranges.spell_all(sorted(again - others))


def _live(group: "GroupStatus", runs: Sequence["Run"]) -> set[int]:
    delayed = [loss.tasks for loss in group.losses if loss.due_ms]
    return {task for tasks in (group.waiting, *delayed, *(run.tasks for run in runs)) for task in ranges.indices(tasks)}


def _ends(digest: "Digest", job: "Job", number: int) -> Mapping[int, int]:
    """Return the state of the last placement of each task of a group that has one."""
    listed: dict[int, set[int]] = readable(listed_chunks, digest.result_records([job.id]).get(job.id, b""), {})
    chunks = {field_of(job.id, number, chunk): chunk for chunk in sorted(listed.get(number, ()))}
    found: dict[int, int] = {}
    for name, record in digest.result_records(list(chunks)).items():
        first = chunks[name] * CHUNK
        results: list[TaskResult] = readable(lambda text: unpack_results(text, job.submitted_ms), record, [])
        found |= {first + at: result.state for at, result in enumerate(results)}
    return found
