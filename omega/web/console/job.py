"""The pages of a job: its state, tasks and history; why it waits; its output; its file; its changes."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from omega.cellstate.errors import OmegaError
from omega.cellstate.events import winner_of
from omega.client.client import Client
from omega.queries import job_texts
from omega.queries.failures import Failure
from omega.queries.pool_standing import PoolsRead, sentences, share_sentences
from omega.queries.shortfalls import remedy_text
from omega.queries.task_results import STATES
from omega.schedulers.constraints.reasons import MEANING
from omega.web.access.visitors import Reader, Submitter
from omega.web.api.logs import kept_output
from omega.web.api.parameters import JobName
from omega.web.console import job_view
from omega.web.console.events import number
from omega.web.console.job_changes import CHANGES, Preview
from omega.web.console.live import PARTS
from omega.web.console.page import View, back, show
from omega.web.console.plan import faults_of, job_file, marked_lines
from omega.web.console.render import link_of
from omega.web.reading import read_form
from omega.web.service import Served, Service

router = APIRouter(include_in_schema=False)
ROWS, MOST_ROWS = 50, 2_000
"""Rows of the table of tasks, and the most that a query may ask for."""
LINES, MOST_LINES = 20, 1_000
"""Lines of the history."""
MOST_LISTED = 50
"""Names of jobs, machines and values in one fact."""
TAIL = 400
"""Lines of output on the page of the output."""


def _view(job: str, template: str = "job.html", part: str = "") -> View:
    command = {"why": "job why", "logs": "job logs"}.get(part, "job status")
    path = f"/v1/jobs/{quote(job, safe='')}"
    return View(
        template=template, section="jobs", title="Job", command=f"omega {command} --json {shlex.quote(job)}",
        path=f"{path}/{part}" if part else path,
    )  # fmt: skip


def read_job(
    client: Client, job: str, state: str | None, rows: int, *, why: bool, machine: str, pools: PoolsRead | None
) -> dict[str, Any]:
    """Return the documents of the page of a job."""
    status, tasks = client.status_and_tasks(job, state=state, limit=rows)
    found: dict[str, Any] = {"status": status, "tasks": tasks}
    if why:
        found["why"] = client.why(job, pools=pools)
    if machine:
        found["checked"] = client.why(job, machine=machine)
    return found


@router.get("/cells/{cell}/jobs/{job}")
async def job_page(request: Request, cell: str, job: JobName, visitor: Reader, served: Served) -> Response:
    """Show a job.

    The query may have ``why`` (the explanation of its state), ``machine`` (what this machine lacks for it), ``state``
    and ``rows`` of its tasks, and ``lines`` of its history.
    """
    asked = request.query_params.get
    most, lines = min(number(asked("rows", "")) or ROWS, MOST_ROWS), asked("lines", "")
    wanted = asked("state") if asked("state") in STATES else None
    why, found = bool(asked("why")), dict[str, Any]()

    async def fetch() -> Mapping[str, Any]:
        if not found:
            mirror = await served.mirrors.cell(cell)
            with mirror.lock:
                pools = mirror.pools_read() if why else None
            options: dict[str, Any] = {"why": why, "machine": asked("machine", ""), "pools": pools}
            found.update(await served.call(cell, visitor.user, read_job, job, wanted, most, **options))
        return {}

    if PARTS not in request.headers:
        await fetch()
        if (job_id := found["status"]["id"]) != job:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(link_of(cell)("jobs", job_id) + query, 303)

    def read(mirror: Any) -> Mapping[str, Any]:
        return _values(mirror, found, min(number(lines) or LINES, MOST_LINES)) | {
            "state": wanted or "", "rows": most, "lines": lines, "states": STATES,
        }  # fmt: skip

    name = found["status"]["name"] if found else job
    view = replace(_view(job, part="why" if why else ""), title=name)
    return await show(request, cell, view, read, fetch=fetch)


def _values(mirror: Any, found: Mapping[str, Any], lines: int) -> dict[str, Any]:
    row = mirror.job_row(found["status"]["id"]) or {}
    status = found["status"] | {name: row[name] for name in ("reason", "delay") if name in row}
    tasks = found["tasks"]
    events = status["history"]["events"]
    indices = sorted({event["machine"] for event in events if "machine" in event})
    machines = {
        at: each[0] or str(at) for at, each in zip(indices, mirror.held.machines.described(indices), strict=True)
    }
    scale = job_view.scale_of(status, tasks["tasks"], mirror.at_ms)
    groups = [group["name"] for group in status["groups"]]
    earlier = job_view.attempts(events, machines)
    return {
        "job": status,
        "meaning": MEANING.get(status["reason"], ""),
        "tasks": job_view.task_rows(tasks["tasks"], groups, earlier, scale, status["submitted_ms"]),
        "all_rows": tasks["rows"],
        "scale": scale,
        "history": job_view.history_lines(events, machines, lines),
        "lane": job_view.lane(events, scale),
        "names": _names(mirror, events),
        "facts": _facts(mirror, status),
        "why": _why(found["why"]) if "why" in found else None,
        "checked": found.get("checked"),
    }


def _facts(mirror: Any, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return sentences about a job, and the jobs that it evicted or was evicted for, with their names."""
    waits = {wait["job"]: 0 for wait in status["after"]}
    return {
        "history": job_texts.history_text(status["history"], status["submitted_ms"]),
        "updating": job_texts.update_text(status["update"]),
        "losses": list(job_texts.loss_lines(status["losses"])),
        "measured": job_texts.measured_text(status["measured"]),
        "unread": status["history"]["unread"],
        **{name: _jobs(mirror, jobs) for name, jobs in (
            ("evicted_for", status["evicted_for"]), ("evicted", status["evicted"]), ("after", waits),
        )},
    }  # fmt: skip


def _names(mirror: Any, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of the jobs that evicted tasks, or won conflicts; the id of one that is no longer kept."""
    jobs = {winner_of(str(event.get("reason", ""))) for event in events}
    jobs |= {event["winner"]["job"] for event in events if event.get("winner")}
    rows = {job: mirror.job_row(job) for job in jobs if job}
    return {job: row["name"] if row else job for job, row in rows.items()}


def _jobs(mirror: Any, jobs: Mapping[str, int]) -> list[dict[str, Any]]:
    found = []
    for job, tasks in list(jobs.items())[:MOST_LISTED]:
        row = mirror.job_row(job)
        found.append({"id": job, "name": row["name"] if row else job, "tasks": tasks})
    return found


def _why(why: Mapping[str, Any]) -> dict[str, Any]:
    pool, share, failure = why.get("pool"), why.get("fair_share"), why["failure"]
    return {
        **why,
        "meaning": MEANING.get(why["reason"], ""),
        "failure_text": Failure(**failure).text if failure else "",
        "remedies": [remedy_text(each) for each in why["fits_after"]],
        "pool_lines": list(sentences(pool)) if pool else [],
        "share_lines": list(share_sentences(share)) if share else [],
    }


@router.get("/cells/{cell}/jobs/{job}/file")
async def file_page(request: Request, cell: str, job: JobName, visitor: Reader, version: str = "") -> Response:
    """Show a job as a file, its versions, and the form for an edited file."""
    return await _file(request, cell, job, visitor.user, version=number(version) or None)


def _read_file(client: Client, job: str, version: int | None) -> dict[str, Any]:
    return {
        "file": client.job_file(job, version=version), "versions": client.history(job)["versions"],
        "state": client.status(job, brief=True)["state"],
    }  # fmt: skip


async def _file(
    request: Request, cell: str, job: str, user: str, *, version: int | None = None,
    text: str | None = None, preview: Preview | None = None, error: str = "",
) -> Response:  # fmt: skip
    """Answer with the page of a job's file, with an edited `text` and what its update would do."""
    served: Service = request.app.state.service
    found = await served.call(cell, user, _read_file, job, version)
    file = found["file"]
    faults = faults_of(error) if error else []
    values = {
        "job": {"id": file["job"], "name": file["name"]},
        "file": file,
        "live": found["state"] not in job_view.ENDED,
        "versions": found["versions"],
        "text": file["text"] if text is None else text,
        "faults": faults,
        "source": marked_lines(text or "", faults),
        "preview": preview,
        "change": CHANGES["update"],
    }
    view = replace(
        _view(job, "job_file.html", "file"), title=f"{file['name']}: job file",
        command=f"omega job history --json {shlex.quote(job)}", page=link_of(cell)("jobs", job, "file"),
    )  # fmt: skip

    return await show(request, cell, view, lambda _: values, status=422 if error else 200)


@router.get("/cells/{cell}/jobs/{job}/logs")
async def logs_page(request: Request, cell: str, job: JobName, visitor: Reader, served: Served) -> Response:
    """Show the last output of a task, which a script of the page continues.

    The query may name ``task``, ``group``, ``stream`` and ``generation``.
    """
    asked = request.query_params.get
    task, group, generation = asked("task", ""), asked("group", ""), asked("generation", "")
    chosen = "stderr" if asked("stream") == "stderr" else "stdout"
    which = {"task": number(task), "index": None, "group": group or None, "generation": number(generation) or None}
    status = await served.call(cell, visitor.user, Client.status, job, brief=True)
    output, error = None, ""
    try:
        output = await served.read(cell, lambda opened: kept_output(opened, job, which, chosen, TAIL))
    except OmegaError as refusal:
        error = str(refusal)
    values = {
        "job": status, "task": number(task), "group": group, "stream": chosen, "generation": number(generation),
        "output": output, "error_text": error, "tail": TAIL, "groups": [each["name"] for each in status["groups"]],
    }  # fmt: skip
    view = replace(_logs_view(job, values), title=f"{status['name']}: output")
    return await show(request, cell, view, lambda _: values)


def _logs_view(job: str, shown: Mapping[str, Any]) -> View:
    """Return the view of the output of a task, with the command and the address of the same lines."""
    view = _view(job, "job_logs.html", "logs")
    given = {name: shown[name] for name in ("task", "group", "generation") if shown[name]}
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items()]
    words += ["--stderr"] if shown["stream"] == "stderr" else []
    query = urlencode({**given, "stream": shown["stream"], "tail": shown["tail"]})
    command = " ".join([view.command, *words, f"--tail {shown['tail']}"])
    return replace(view, command=command, path=f"{view.path}?{query}")


@router.get("/cells/{cell}/jobs/{job}/change")
async def change_page(request: Request, cell: str, job: JobName, visitor: Submitter) -> Response:
    """Show what a change would do, and the form that makes it; the query names its ``action`` and its fields."""
    return await _change(request, cell, job, user=visitor.user, form=dict(request.query_params))


async def _change(
    request: Request, cell: str, job: str, *, user: str, form: Mapping[str, str], error: str = ""
) -> Response:
    served: Service = request.app.state.service
    action = form.get("action", "")
    link, change = link_of(cell), CHANGES.get(action)
    if change is None or action == "update":
        return RedirectResponse(link("jobs", job), 303)
    status = await served.call(cell, user, Client.status, job, brief=True)
    preview = None
    try:
        preview = await served.call(cell, user, change.preview, status["id"], form)
    except OmegaError as refusal:
        error = error or str(refusal)
    values = {
        "job": status, "change": change, "action": action, "preview": preview, "mine": status["user"] in (None, user),
        "fields": {name: value for name, value in form.items() if name not in NOT_KEPT},
    }  # fmt: skip
    view = replace(_view(job, "job_change.html"), title=f"{change.word} {status['name']}")
    return await show(request, cell, view, lambda _: values, status=409 if error else 200, error=error)


NOT_KEPT = ("action", "csrf", "check", "force", "step")
"""Fields that a form has of its own."""


@router.post("/cells/{cell}/jobs/{job}/change")
async def change(request: Request, cell: str, job: JobName, visitor: Submitter, served: Served) -> Response:
    """Make a change of a job, or show what an update by an edited file would do."""
    form: dict[str, Any] = {**await read_form(request)}
    action = form.get("action", "")
    made = CHANGES.get(action)
    if made is None:
        return RedirectResponse(link_of(cell)("jobs", job), 303)
    user, preview = visitor.user, None
    try:
        async with job_file(form.get("text", "")) if action == "update" else nullcontext() as file:
            form |= {} if file is None else {"file": file}
            if action == "update" and form.get("step") != "make":
                preview = await served.call(cell, user, made.preview, job, form)
            else:
                text, target = await served.call(cell, user, made.make, job, form)
                return back(link_of(cell)("jobs", target), text)
    except OmegaError as error:
        if action != "update":
            return await _change(request, cell, job, user=user, form=form, error=str(error))
        return await _file(request, cell, job, user, text=form.get("text", ""), error=str(error))
    return await _file(request, cell, job, user, text=form.get("text", ""), preview=preview)
