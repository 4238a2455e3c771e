"""The page on which a job file is planned, and submitted."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from omega.cellstate.errors import OmegaError
from omega.client.client import Client
from omega.client.together import Submission
from omega.jobfile.reader import JobFile
from omega.queries import units
from omega.queries.fleet import Fleet
from omega.queries.shortfalls import remedy_text
from omega.web.access.visitors import Reader, required
from omega.web.console.page import View, back, show
from omega.web.console.render import link_of
from omega.web.reading import read_form, read_jobs
from omega.web.service import Served

router = APIRouter(include_in_schema=False)
VIEW = View(
    template="plan.html",
    section="plan",
    title="Plan",
    command="omega job plan --json FILE",
    path="/v1/jobs/plan",
    method="POST",
)
EXAMPLE = """\
name: hello
tasks:
  - count: 3
    resources: {cpu: 500m, memory: 256Mi}
    command: ["sleep", "60"]
"""
SIMULATED_EXAMPLE = EXAMPLE.replace('command: ["sleep", "60"]', "duration: 60s")
"""The example for a cell whose machines run no commands."""
MOST_PLACES = 30
"""Machines of a plan that are listed."""
AROUND = 2
"""Lines shown before and after one with an error."""
_PLACE = re.compile(r"(?:^|; also )job\.(?:yaml|json)(?::(\d+))?: ")


class Fault(NamedTuple):
    """What is wrong with a job file, and its line; None when it is about the whole."""

    line: int | None
    text: str


class SourceLine(NamedTuple):
    """A line of the text with the faults in it; one with number 0 stands for lines that are left out."""

    number: int
    text: str
    faults: Sequence[Fault] = ()


@router.get("/cells/{cell}/plan")
async def plan_page(
    request: Request, cell: str, visitor: Reader, served: Served, example: int = 0, job: str = ""
) -> Response:
    """Show the empty form, or the one with an example, or with the file of a job."""
    values = _values("")
    if job:
        values["text"] = (await served.call(cell, visitor.user, Client.job_file, job))["text"]
    elif example:
        del values["text"]

    def read(mirror: Any) -> Mapping[str, Any]:
        fleet = Fleet(mirror.held.sums())
        return {"text": SIMULATED_EXAMPLE if fleet.up and fleet.all_simulated else EXAMPLE}

    return await show(request, cell, VIEW, read, **values)


@router.post("/cells/{cell}/plan")
async def plan(request: Request, cell: str, visitor: Reader, served: Served) -> Response:
    """Plan the job file of the form for everybody, or submit it for a submitter."""
    form = await read_form(request)
    if form.get("step") == "submit":
        required(request, "submitter")
    text, hold = with_plain_ends(form.get("text", "")), bool(form.get("hold"))
    try:
        async with job_file(text) as job:
            if form.get("step") == "submit":
                return _submitted(cell, await served.submit(cell, visitor.user, job, Submission((), hold)))
            planned = await served.call(cell, visitor.user, Client.plan, job)
    except OmegaError as error:
        values = _values(text, faults=faults_of(str(error)), hold=hold)
        return await show(request, cell, VIEW, _ready, status=422, **values)
    return await show(request, cell, VIEW, _ready, **_values(text, planned, hold=hold))


def job_file(text: str) -> AbstractAsyncContextManager[JobFile]:
    """Return what yields text from a form as a job file (`read_jobs`); browsers send line ends as CR LF."""
    text = with_plain_ends(text)
    is_json = text.lstrip().startswith(("{", "[")) and _is_json(text)
    return read_jobs("job.json" if is_json else "job.yaml", text, is_json=is_json)


def with_plain_ends(text: str) -> str:
    """Return text with LF as the end of each line: browsers send CR LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_json(text: str) -> bool:
    """Return whether text begins as JSON does: flow mappings of YAML do not have quotes around names."""
    return text.lstrip().lstrip("[{ \n\t").startswith('"')


def _ready(_: Any) -> Mapping[str, Any]:
    return {"ready": True}


def _values(
    text: str, planned: Mapping[str, Any] | None = None, *, faults: Sequence[Fault] = (), hold: bool = False
) -> dict[str, Any]:
    return {
        "text": text,
        "hold": hold,
        "faults": faults,
        "source": marked_lines(text, faults),
        "jobs": [planned_job(job) for job in planned["jobs"]] if planned else None,
        "warnings": planned["warnings"] if planned else [],
        "fits": planned is not None and not any(job["unplaced"] for job in planned["jobs"]),
    }


def _submitted(cell: str, answer: Mapping[str, Any]) -> Response:
    """Go on to the job, or to the list when there are several."""
    link, jobs = link_of(cell), answer["jobs"]
    text = " · ".join([f"{jobs[0]['status']} {jobs[0]['name']}", *answer["warnings"]])
    if len(jobs) > 1:
        return back(link("jobs"), f"{units.count(len(jobs), 'job')} submitted")
    return back(link("jobs", jobs[0]["id"]), text)


def faults_of(message: str) -> list[Fault]:
    """Return what a message about a job file says, by line: ``job.yaml:3: tasks: is missing; also job.yaml:4: …``."""
    found = list(_PLACE.finditer(message))
    if not found or found[0].start() > 0:
        return [Fault(None, message)]
    ends = [match.start() for match in found[1:]] + [len(message)]
    return [
        Fault(int(match[1]) if match[1] else None, message[match.end() : end])
        for match, end in zip(found, ends, strict=True)
    ]


def marked_lines(text: str, faults: Sequence[Fault]) -> list[SourceLine]:
    """Return the lines of a text with faults, and those around them; a fault beyond the last line is shown there."""
    lines, shown = with_plain_ends(text).removesuffix("\n").split("\n"), set[int]()
    at_line = sorted(((min(fault.line or 0, len(lines)), fault) for fault in faults), key=lambda each: each[0])
    by_line = {line: [fault for _, fault in same] for line, same in groupby(at_line, lambda each: each[0])}
    for at in by_line:
        shown |= set(range(max(1, at - AROUND), at + AROUND + 1)) if at else set()
    found: list[SourceLine] = []
    for number in sorted(shown):
        if number > len(lines):
            break
        if number - 1 > (found[-1].number if found else 0):
            found.append(SourceLine(0, "…"))
        found.append(SourceLine(number, lines[number - 1][:500], by_line.get(number, ())))
    return found


def planned_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of the plan of a job."""
    machines = {each["machine"] for each in job["placements"]}
    text = f"{job['placed']:,} of {units.count(job['tasks'], 'task')} would be placed"
    text += f" on {units.count(len(machines), 'machine')}" if machines else ""
    text += f", {job['unplaced']:,} would be pending: {job['reason']}" if job["unplaced"] else ""
    if job["status"] == "unchanged":
        text = "an identical job exists; nothing would change"
    return {
        **job,
        "text": text,
        "machines": job["placements"][:MOST_PLACES],
        "more": max(0, len(job["placements"]) - MOST_PLACES),
        "after": f"once its pool was below its fair share for {units.age(job['after_seconds'])}"
        if job["after_seconds"]
        else "",
        "remedies": [remedy_text(each) for each in job["fits_after"]],
    }
