"""Submission of jobs: their ids, their users, and names that are taken."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cellstate.errors import Duplicate, Overtaken, Refused
from omega.queries.finding import find_job

if TYPE_CHECKING:
    from cellstate.cell import Submitted
    from cellstate.model import JobSpec
    from cellstate.redis import RedisCell
    from omega.jobfile import JobFile

CHUNK = 500
"""Jobs per call: a few milliseconds of the server's time."""
WORDS = {"new": "submitted", "same": "unchanged"}


def new_id() -> str:
    """A random job id of 12 hexadecimal digits."""
    return secrets.token_hex(6)


def jobs_of(cell: "RedisCell", files: "Sequence[JobFile]") -> "list[JobSpec]":
    """The jobs of files, in the amounts of a cell; those without an id get a new one. Raises BadInput."""
    from omega.jobfile import load

    return load(files, cell.dimensions, new_id, lambda name: find_job(cell, name).id)


def stamped(user: str, spec: "JobSpec", account: str = "") -> "JobSpec":
    """A job with its user: that of the connection (`account`), else the one it names, else `user`."""
    if account:
        return replace(spec, extra={**spec.extra, "user": account, "verified": True})
    return replace(spec, extra={"user": user, **spec.extra})


def check_new(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Raise Overtaken when one of the jobs is there already."""
    for spec in specs:
        there = cell.job(spec.id) or cell.job(cell.job_id(spec.name) or "")
        if there is not None:
            raise Overtaken(f"job {spec.name}: is there already ({there.id}), its modify index is {there.modified}")


def check_names(cell: "RedisCell", specs: "Sequence[JobSpec]") -> None:
    """Refuse names that live jobs have before anything is submitted, so that a file goes in whole or not at all."""
    holders = cell.job_names()
    for spec in specs:
        if holders.get(spec.name, spec.id) != spec.id:
            raise taken(spec, holders[spec.name], by_id=False)


def refusal(spec: "JobSpec", answer: "Submitted") -> Refused:
    """Why a job was not taken."""
    if answer.status == "after":
        return Refused(f"job {spec.name}: waits for {answer.holder}, which is not there (any more); see omega job list")
    if answer.status == "never":
        advice = "submit that anew, or wait for it with the outcome any"
        return Refused(f"job {spec.name}: waits for {answer.holder} to finish, which did not and never will; {advice}")
    return taken(spec, answer.holder if answer.status == "name" else spec.id, by_id=answer.status == "id")


def taken(spec: "JobSpec", holder: str, *, by_id: bool) -> Duplicate:
    """What is said of a job whose name, or id, another one has."""
    if by_id:
        return Duplicate(
            f"job {spec.name}: the id {holder} is that of another job, or of this one with other contents; "
            "choose another id"
        )
    return Duplicate(
        f"job {spec.name}: the name is taken by the live job {holder}; wait for it, stop it, or choose another name"
    )
