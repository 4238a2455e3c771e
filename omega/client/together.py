"""Submissions that go to the store together: one that is refused changes nothing for the others."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from omega import submission
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import Duplicate, OmegaError, StoreError
from omega.client.given_jobs import JobLike, given_jobs
from omega.queries.job_fields import KindFields
from omega.queries.job_warnings import warnings_of

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.pools import Pools
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.jobs import RedisJobs
    from omega.cellstate.replies import Submitted
    from omega.client.lost_jobs import Submissions
    from omega.queries.working_copy import Members

Document = dict[str, Any]
SUBMISSION = "submission"
"""The field of a job's specification with the digest of the request that submitted it under an Idempotency-Key."""


@dataclass(slots=True, eq=False)
class Submission:
    """Jobs that are submitted, all of them or none; options as of `Client.submit`. `answer` or `error` is its end."""

    jobs: Sequence[JobLike]
    hold: bool = False
    new: bool = False
    next_id: Callable[[], str] = submission.new_id
    once: bool = False
    """Whether the ids follow from a key: jobs that have them were submitted before, by the same request or another."""
    answer: Document | None = None
    error: OmegaError | None = None
    order: dict[str, int] = field(default_factory=dict)
    """Places of ids in the answer, where some jobs are not sent."""
    drawn: set[str] = field(default_factory=set)
    """Ids that a dry run made, and that the submission would make anew."""
    specs: "list[JobSpec]" = field(default_factory=list)
    """Those that are to be sent."""
    there: "dict[str, tuple[JobSpec, Submitted]]" = field(default_factory=dict)
    """Those that an earlier request with the same key submitted, by their ids."""
    warnings: list[str] = field(default_factory=list)
    answers: "list[Submitted]" = field(default_factory=list)

    def result(self) -> Document:
        """Return its answer, or raise its error."""
        if self.error is not None:
            raise self.error
        return self.answer or {}


def submit_together(cell: "RedisCell", asked: Sequence[Submission], kept: "Submissions", *, user: str, by: str) -> None:
    """Submit the jobs of all submissions in as few calls as possible, and set the answer or error of each.

    Raises StoreError when the store fails; then some submissions may have taken effect.
    """
    members, partings, pools = cell.schedulers.members(), cell.sightings.partings, cell.pools.get()
    fields = KindFields(cell, members)
    for each in asked:
        next_id = _marked(each) if cell.dry else each.next_id
        keyed = list[str]()
        try:
            if each.once:
                each.jobs = [_parsed(job) for job in each.jobs]
            given = given_jobs(cell, each.jobs, fields, _noted(next_id, keyed) if each.once else next_id)
            each.hold, each.warnings = each.hold or given.hold, given.warnings
            each.specs = submission.prepared(cell, given.specs, user, fields)
            if each.new:
                submission.check_new(cell.jobs, each.specs)
            if keyed:
                _leave_out(cell.jobs, each, keyed)
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


def _parsed(job: JobLike) -> JobLike:
    from omega.jobfile.document import parse
    from omega.jobfile.reader import JobFile

    if not isinstance(job, JobFile) or job.document is not None:
        return job
    return replace(job, document=parse(job.name, job.text, is_json=job.is_json))


def _noted(next_id: Callable[[], str], keyed: list[str]) -> Callable[[], str]:
    def noted() -> str:
        keyed.append(drawn := next_id())
        return drawn

    return noted


def _leave_out(jobs: "RedisJobs", asked: Submission, keyed: Sequence[str]) -> None:
    """Leave out jobs that a request with the same key submitted; what happened to them since does not matter.

    Each job with an id of the key has a digest of all jobs of its request. Raises Duplicate for that of other jobs.
    """
    from omega.cellstate.replies import Submitted

    digest = _digest(asked.jobs)
    asked.specs = [
        replace(spec, spec={**spec.spec, SUBMISSION: digest}) if spec.id in keyed else spec for spec in asked.specs
    ]
    asked.order = {spec.id: place for place, spec in enumerate(asked.specs)}
    known = jobs.by_id(sorted(keyed))
    if any(spec.get(SUBMISSION) != digest for spec in jobs.specs(sorted(known)).values()):
        raise Duplicate("Idempotency-Key: an earlier request submitted other jobs with this key; use another key")
    asked.there = {
        spec.id: (spec, Submitted(spec.id, "same", "", known[spec.id].modified))
        for spec in asked.specs
        if spec.id in known
    }
    asked.specs = [spec for spec in asked.specs if spec.id not in known]


def _digest(jobs: Sequence[JobLike]) -> str:
    """Return a digest of jobs as they were given: what they wait for and admissions may differ the next time."""
    given = [getattr(getattr(job, "document", None), "value", job) for job in jobs]
    return blake2b(json.dumps(_sorted(given), default=str).encode(), digest_size=12).hexdigest()


def _sorted(value: Any) -> Any:
    """Return a plain value in which the order of fields does not matter."""
    if isinstance(value, Mapping):
        return sorted([str(name), _sorted(each)] for name, each in value.items())
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


def _check_names(cell: "RedisCell", asked: Sequence[Submission]) -> None:
    taken = {
        spec.id: holder for spec, holder in submission.names_taken(cell, [s for each in asked for s in each.specs])
    }
    for each in asked if taken else ():
        for spec in each.specs:
            if spec.id in taken and each.error is None:
                each.error = submission.taken(spec, taken[spec.id], by_id=False)


def _send(cell: "RedisCell", asked: Sequence[Submission], kept: "Submissions", by: str, *, hold: bool) -> None:
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


def _place(order: Mapping[str, int], row: Document) -> int:
    return order[row["id"]]


def _tried(row: Document, drawn: Collection[str]) -> Document:
    """Return the row of a job that a dry run submitted, without what only the submission gives it."""
    unknown = {"modify_index": None} if row["status"] == submission.WORDS["new"] else {}
    return row | unknown | ({"id": None} if row["id"] in drawn else {})


def _answer(cell: "RedisCell", asked: Sequence[Submission], members: "Members", pools: "Pools") -> None:
    pairs = [zip(each.specs, each.answers, strict=True) for each in asked]
    fresh = [[spec for spec, answer in each if answer.status == "new"] for each in pairs]
    for each, warned in zip(asked, warnings_of(cell, fresh, members, pools), strict=True):
        there = list(each.there.values())
        specs, answers = [*each.specs, *(spec for spec, _ in there)], [*each.answers, *(known for _, known in there)]
        rows = submission.submitted_json(specs, answers)
        if there:
            rows.sort(key=partial(_place, each.order))
        if cell.dry:
            rows = [_tried(row, each.drawn) for row in rows]
        each.answer = {"cell": cell.name, "jobs": rows, "warnings": [*each.warnings, *warned]}
