"""Submissions that go to the store together: one that is refused changes nothing for the others."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omega import submission
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import OmegaError, StoreError
from omega.client.given_jobs import JobLike, given_jobs
from omega.queries.job_fields import KindFields
from omega.queries.job_warnings import warnings_of

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.pools import Pools
    from omega.cellstate.ports import JobStore
    from omega.cellstate.replies import Submitted
    from omega.client.lost_jobs import Submissions
    from omega.queries.working_copy import Members

Document = dict[str, Any]


@dataclass(slots=True, eq=False)
class Submission:
    """Jobs that are submitted, all of them or none; options as of `Client.submit`. `answer` or `error` is its end."""

    jobs: Sequence[JobLike]
    hold: bool = False
    new: bool = False
    next_id: Callable[[], str] = submission.new_id
    answer: Document | None = None
    error: OmegaError | None = None
    drawn: set[str] = field(default_factory=set)
    """Ids that a dry run made, and that the submission would make anew."""
    specs: "list[JobSpec]" = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    answers: "list[Submitted]" = field(default_factory=list)

    def result(self) -> Document:
        """Return its answer, or raise its error."""
        if self.error is not None:
            raise self.error
        return self.answer or {}


def submit_together(cell: "JobStore", asked: Sequence[Submission], kept: "Submissions", *, user: str, by: str) -> None:
    """Submit the jobs of all submissions in as few calls as possible, and set the answer or error of each.

    Raises StoreError when the store fails; then some submissions may have taken effect.
    """
    members, partings, pools = cell.members(), cell.sightings.partings, cell.pools()
    fields = KindFields(cell, members)
    for each in asked:
        next_id = _marked(each) if cell.dry else each.next_id
        try:
            given = given_jobs(cell, each.jobs, fields, next_id)
            each.hold, each.warnings = each.hold or given.hold, given.warnings
            each.specs = submission.prepared(cell, given.specs, user, fields)
            if each.new:
                submission.check_new(cell, each.specs)
            submission.check_pools(cell, each.specs, pools)
        except StoreError:
            raise
        except OmegaError as error:
            each.error = error
    _check_names(cell, [each for each in asked if each.error is None])
    for hold in (False, True):
        _send(cell, [each for each in asked if each.error is None and each.hold == hold], kept, by, hold=hold)
    _answer(cell, [each for each in asked if each.error is None], members, pools)
    if (
        cell.sightings.partings != partings and not cell.dry
    ):  # the store lost versions meanwhile, maybe those of these jobs
        kept.again(cell, now_ms, by, {spec.id for each in asked if each.answer for spec in each.specs})


def _marked(asked: Submission) -> Callable[[], str]:
    """Return a source of ids for a dry run, which notes those that the submission would not have."""
    if asked.next_id is not submission.new_id:
        return asked.next_id

    def next_id() -> str:
        asked.drawn.add(drawn := submission.new_id())
        return drawn

    return next_id


def _check_names(cell: "JobStore", asked: Sequence[Submission]) -> None:
    taken = {
        spec.id: holder for spec, holder in submission.names_taken(cell, [s for each in asked for s in each.specs])
    }
    for each in asked if taken else ():
        for spec in each.specs:
            if spec.id in taken and each.error is None:
                each.error = submission.taken(spec, taken[spec.id], by_id=False)


def _send(cell: "JobStore", asked: Sequence[Submission], kept: "Submissions", by: str, *, hold: bool) -> None:
    sent = list[Submission]()
    for each in asked:
        try:
            submission.claim_outputs(cell, each.specs)
            sent.append(each)
        except StoreError:
            raise
        except OmegaError as error:
            each.error = error
    specs = [spec for each in sent for spec in each.specs]
    answers = kept.submit(cell, specs, now_ms, by, hold=hold, send=submission.answers_to) if specs else iter(())
    for each in sent:
        for spec in each.specs:
            each.answers.append(answer := next(answers))
            if answer.status not in submission.WORDS and each.error is None:  # it was taken since the check
                each.error = submission.refusal(spec, answer)
                if len(sent) == 1:
                    return  # the jobs of later calls are not sent


def _tried(row: Document, drawn: Collection[str]) -> Document:
    """Return the row of a job that a dry run submitted, without what only the submission gives it."""
    unknown = {"modify_index": None} if row["status"] == submission.WORDS["new"] else {}
    return row | unknown | ({"id": None} if row["id"] in drawn else {})


def _answer(cell: "JobStore", asked: Sequence[Submission], members: "Members", pools: "Pools") -> None:
    pairs = [zip(each.specs, each.answers, strict=True) for each in asked]
    fresh = [[spec for spec, answer in each if answer.status == "new"] for each in pairs]
    for each, warned in zip(asked, warnings_of(cell, fresh, members, pools), strict=True):
        rows = submission.submitted_json(each.specs, each.answers)
        if cell.dry:
            rows = [_tried(row, each.drawn) for row in rows]
        each.answer = {"cell": cell.name, "jobs": rows, "warnings": [*each.warnings, *warned]}
