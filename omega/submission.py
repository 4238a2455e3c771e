"""Submission of jobs: their ids, their users, and names that are taken."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omega.admission import admitted
from omega.cellstate.errors import BadInput, Duplicate, NotReplicated, Overtaken, Refused
from omega.cellstate.shards import KEPT_MS, UNSENT_MS
from omega.queries.job_fields import KindFields
from omega.queries.job_state import ended
from omega.queries.jobs import job_to_change
from omega.queries.mapreduce import PLAN
from omega.queries.wording import listing
from omega.users import STATED, owned, user_of

if TYPE_CHECKING:
    from omega.cellstate.model import Job, JobSpec
    from omega.cellstate.pools import Pools
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.jobs import RedisJobs
    from omega.cellstate.replies import Submitted
    from omega.jobfile.reader import JobFile

MOST_NAME = 128
"""Letters of the name of a job."""
TRIES = 3
"""Number of calls to submit jobs while too few replicas confirm them."""
CHUNK = 500
"""Jobs per call: a few milliseconds of the server's time."""
WORDS = {"new": "submitted", "same": "unchanged"}


def new_id() -> str:
    """Return a random job id of 12 hexadecimal digits."""
    return secrets.token_hex(6)


def rerun_name(cell: "RedisCell", origin: "Job", job_id: str) -> str:
    """Return a name for a job that repeats another one: its name, of a live one with ``-rerun`` or a part of the id."""
    stem = origin.name[: MOST_NAME - len("-rerun-0000")].removesuffix("-rerun")
    return origin.name if _is_free(cell.jobs, origin.name) else free_name(cell, f"{stem}-rerun", job_id)


def free_name(cell: "RedisCell", name: str, job_id: str) -> str:
    """Return a name for a new job: `name`, with a part of its id where a live job has that."""
    return name if _is_free(cell.jobs, name) else f"{name}-{job_id[:4]}"


def _is_free(jobs: "RedisJobs", name: str) -> bool:
    holder = jobs.ids_by_name([name]).get(name)
    job = None if holder is None else jobs.get(holder)
    return job is None or ended(job)


def read_file(path: Path) -> "JobFile":
    """Read a job file. Raises BadInput when it cannot be read, or is not UTF-8 text."""
    return job_file(str(path), read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Return what a job file holds. Raises BadInput when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"job file {path}: {error.strerror}; give a file that can be read") from None


def job_file(name: str, data: bytes) -> "JobFile":
    """Return a job file of a name from its bytes. Raises BadInput when they are not UTF-8 text."""
    from omega.jobfile.reader import JobFile

    try:
        return JobFile(name, data.decode(), local=True)
    except UnicodeDecodeError as error:
        raise BadInput(f"job file {name}: not UTF-8 text at byte {error.start}; save it as such") from None


def jobs_of(
    cell: "RedisCell",
    files: "Sequence[JobFile | JobSpec]",
    fields: KindFields | None = None,
    next_id: "Callable[[], str]" = new_id,
) -> "list[JobSpec]":
    """Return the jobs of files, in the amounts of a cell; those without an id get the next one. Raises BadInput."""
    from omega.jobfile.reader import load

    fields_of = (fields or KindFields(cell)).of
    return load(files, cell.dimensions, next_id, lambda name: job_to_change(cell, name).id, fields_of)


def prepared(
    cell: "RedisCell", specs: "Sequence[JobSpec]", user: str | None, fields: KindFields | None = None
) -> "list[JobSpec]":
    """Return jobs as they are submitted: with their users, admitted, and the fields of their policies checked.

    A job belongs to the user that a service vouches for, else to that of the connection, else to the one it names, else
    to `user`; None: an update, which keeps the job's user. Raises BadInput, Refused.
    """
    from omega.schedulers.job_fields import with_values

    known, found = fields or KindFields(cell), []
    owner, source = ("", STATED) if user is None else user_of(cell, user)
    for spec in specs:
        mine = _owned(spec, owner, source)
        changed = admitted(mine)
        if changed is not mine:  # an admission may change a stated user, or remove it; it may vouch for nobody
            changed = _owned(changed, "" if source == STATED else owner, source)
        found.append(with_values(changed, known.of(changed.kind)))
    return found


def _owned(spec: "JobSpec", user: str, source: str) -> "JobSpec":
    wanted = owned(spec.spec, user, source)
    return spec if wanted == spec.spec else replace(spec, spec=wanted)


def check_new(jobs: "RedisJobs", specs: "Sequence[JobSpec]") -> None:
    """Raise Overtaken when one of the jobs exists."""
    for spec in specs:
        there = jobs.get(spec.id) or jobs.get(jobs.id_of(spec.name) or "")
        if there is not None:
            raise Overtaken(f"job {spec.name}: exists ({there.id}), its modify index is {there.modified}")


def check_names(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Refuse names that live jobs have before anything is submitted, so that a file goes in whole or not at all."""
    for spec, holder in names_taken(cell, specs):
        raise taken(spec, holder, by_id=False)


def names_taken(cell: "RedisCell", specs: "Sequence[JobSpec]") -> "Iterator[tuple[JobSpec, str]]":
    """Yield the jobs whose names other live jobs have, with the id of that job."""
    holders = cell.jobs.ids_by_name([spec.name for spec in specs]) if specs else {}
    jobs = cell.jobs.by_id(sorted(set(holders.values()))) if holders else {}
    for spec in specs if jobs else ():
        holder = jobs.get(holders.get(spec.name, spec.id))
        if holder is not None and holder.id != spec.id and not ended(holder):
            yield spec, holder.id


def refusal(spec: "JobSpec", answer: "Submitted") -> Refused:
    """Why a job was not taken."""
    if answer.status == "after":
        return Refused(f"job {spec.name}: waits for {answer.holder}, which is not there (any more); see omega job list")
    if answer.status == "pool":
        return Refused(f"job {spec.name}: {answer.holder!r} is no pool that holds jobs; see omega pool list")
    if answer.status == "user":
        user = spec.spec.get("user") or "none"
        return Refused(
            f"job {spec.name}: user {user} may not submit to pool {answer.holder}; see omega pool show {answer.holder}"
        )
    return taken(spec, answer.holder if answer.status == "name" else spec.id, by_id=answer.status == "id")


def taken(spec: "JobSpec", holder: str, *, by_id: bool) -> Duplicate:
    """Return the error for a job with the name or id of another job."""
    if by_id:
        return Duplicate(
            f"job {spec.name}: the id {holder} is that of another job, or of this one with other contents; "
            "choose another id"
        )
    return Duplicate(
        f"job {spec.name}: the name is taken by the live job {holder}; wait for it, stop it, or choose another name"
    )


def check_pools(cell: "RedisCell", specs: "Sequence[JobSpec]", pools: "Pools | None" = None) -> None:
    """Refuse jobs whose pool is configured for others, holds no jobs or is unknown once pools are configured.

    A job without a pool belongs to that of its user, which exists while the user has jobs. The store checks names of
    pools as well; users are not authenticated beyond what the connection proves (docs/jobs.md).
    """
    pools = cell.pools.get() if pools is None else pools
    if not pools.configured:
        return
    for spec in specs:
        pool, user = (str(spec.spec.get(name) or "") for name in ("pool", "user"))
        name, where = pools.pool_of(pool, user), f"job {spec.name}: pool"
        below = pools.children.get(name)
        if below:
            choice = ", ".join(each.name for each in below)
            raise Refused(f"{where} {name!r} has pools below it: name one of {choice}")
        if pool and pool not in pools.by_name:
            close = get_close_matches(pool, pools.leaves, 1)
            advice = f"did you mean {close[0]}?" if close else "see omega pool list"
            raise Refused(f"{where} {pool!r} is not configured; {advice}")
        closed = pools.closed_to(name, user)
        if closed is not None:
            users = listing(closed.users, 5)
            raise Refused(f"job {spec.name}: user {user} may not submit to pool {name}; {closed.name} admits {users}")


def submit(
    cell: "RedisCell", specs: "Sequence[JobSpec]", now_ms: int, by: str, *, hold: bool = False
) -> "Iterator[Submitted]":
    """Submit jobs, and yield the store's answers a call at a time. Raises Refused or Duplicate for one not taken."""
    check_pools(cell, specs)
    claim_outputs(cell, specs)
    for spec, answer in zip(specs, answers_to(cell, specs, now_ms, by, hold=hold), strict=True):
        if answer.status not in WORDS:  # it was taken since the check
            raise refusal(spec, answer)
        yield answer


def answers_to(
    cell: "RedisCell", specs: "Sequence[JobSpec]", now_ms: int, by: str, *, hold: bool = False
) -> "Iterator[Submitted]":
    """Submit jobs that were checked, and yield the store's answers, also of those that it does not take."""
    for start in range(0, len(specs), CHUNK):
        chunk = specs[start : start + CHUNK]
        for spec, answer in zip(chunk, _acknowledged(cell.jobs, chunk, now_ms, by, hold=hold), strict=True):
            if plan := spec.spec.get(PLAN):
                cell.shards.claim_directory(plan["output"], spec.id, expire_ms=KEPT_MS if answer.status in WORDS else 0)
            yield answer


def _acknowledged(
    jobs: "RedisJobs", specs: "Sequence[JobSpec]", now_ms: int, by: str, *, hold: bool
) -> "list[Submitted]":
    """Submit jobs in one call, which is repeated under the same ids while too few replicas have them.

    A repeated command would make other ids for jobs that name none, so the error in the end names the jobs.
    """
    for _ in range(TRIES - 1):
        with suppress(NotReplicated):
            return jobs.submit(specs, now_ms, by, held=hold)
    try:
        return jobs.submit(specs, now_ms, by, held=hold)
    except NotReplicated as error:
        others = f" (and {len(specs) - 1:,} more)" if len(specs) > 1 else ""
        remedy = f"see omega job status {specs[0].id}{others} before you submit again"
        raise NotReplicated(error.state, remedy) from error


def claim_outputs(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Claim the output directories of MapReduce jobs, by their ids; raise Refused for one that a live job has."""
    outputs = {spec.id: plan["output"] for spec in specs if (plan := spec.spec.get(PLAN))}
    claimed: list[tuple[str, str]] = []
    for spec in specs:
        if path := outputs.get(spec.id):
            holder = cell.shards.claim_directory(path, spec.id, expire_ms=UNSENT_MS)
            claimed += [] if holder else [(path, spec.id)]
            why = f"overlaps that of the live job {holder}" if holder else ""
            if not why and (reader := _reader(cell, specs, spec)):
                why = f"is within {reader}"
            if why:
                for known, job_id in claimed:
                    cell.shards.claim_directory(known, job_id, expire_ms=0)
                raise Refused(f"job {spec.name}: output {path} {why}; name another directory")


def _reader(cell: "RedisCell", specs: "Sequence[JobSpec]", own: "JobSpec") -> str:
    """Return whose input contains the output of a job, of live jobs and of those of its submission; "" if no one's."""
    from omega.mapreduce.plan import MapReducePlan

    output = str(own.spec[PLAN]["output"])
    live = cell.jobs.by_id(sorted(set(cell.shards.directories().values()) - {spec.id for spec in specs})).values()
    stored = cell.jobs.specs([job.id for job in live if not ended(job)])
    others = [(f"the live job {job_id}", said) for job_id, said in stored.items()]
    for name, said in [*others, *((f"job {spec.name}", spec.spec) for spec in specs if spec is not own)]:
        plan = MapReducePlan.read(said)
        if plan is not None and (root := plan.reads(output)):
            return f"the input {root} of {name}"
    return ""


def submitted_json(specs: "Sequence[JobSpec]", answers: "Sequence[Submitted]") -> list[dict[str, Any]]:
    """Return the answers to a submission as plain values."""
    return [
        {
            "id": spec.id,
            "name": spec.name,
            "status": WORDS[answer.status],
            "tasks": spec.total,
            "modify_index": answer.modified,
        }
        for spec, answer in zip(specs, answers, strict=True)
    ]
