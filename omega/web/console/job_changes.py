"""Changes of a job by forms: what each would do, and the change itself, by calls of `omega.Client`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.resources import format_amount
from omega.client.client import Client
from omega.queries import units
from omega.web.console.plan import planned_job

Form = Mapping[str, Any]
"""The texts of a form; that of an update has the job file under ``file``."""
Document = Mapping[str, Any]


class Preview(NamedTuple):
    """What a change would do: sentences, the plan of tasks that it would place, and the fields that it would change."""

    sentences: list[str]
    check: int
    """The modify index of the job of which this is said."""
    plan: Document | None = None
    changes: list[Document] | None = None


class Change(NamedTuple):
    """A change: its word and its button, its preview, and the call that makes it and returns a text and a job's id."""

    word: str
    button: str
    preview: Callable[[Client, str, Form], Preview]
    make: Callable[[Client, str, Form], tuple[str, str]]


def number(form: Form, name: str) -> int:
    """Return a whole number of a form. Raises BadInput."""
    text = form.get(name, "").strip()
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise BadInput(f"{name}: {text[:40]!r} is not a whole number; write for example 3")
    return int(text)


def _options(form: Form) -> dict[str, Any]:
    """Return the options of every change: the modify index of the preview, and whether the job of another is meant."""
    return {"check": number(form, "check"), "force": bool(form.get("force"))}


def _row(answer: Document) -> Document:
    found: Document = answer["jobs"][0]
    return found


def _stop(client: Client, job: str, _: Form) -> Preview:
    status = client.status(job, brief=True)
    counts = status["counts"]
    running, pending = (units.count(counts[name], "task") for name in ("placed", "pending"))
    return Preview([f"Ends {running} on machines, and gives up {pending} without one."], status["modify_index"])


def _hold(client: Client, job: str, _: Form) -> Preview:
    status = client.status(job, brief=True)
    tasks = units.count(status["counts"]["pending"], "unplaced task")
    text = f"{tasks} get no machine until the job is released; running tasks continue."
    return Preview([text], status["modify_index"])


def _release(client: Client, job: str, _: Form) -> Preview:
    return _planned(client.plan_release(job), "Its unplaced tasks may get machines:")


def _resize(client: Client, job: str, form: Form) -> Preview:
    count, group = number(form, "count"), form.get("group") or None
    planned = client.plan_resize(job, count, group=group)
    before = planned["before"]
    if count < before:
        text = f"From {before:,} to {units.count(count, 'task')}: unplaced tasks are given up first, then others end."
        return Preview([text], planned["modify_index"])
    return _planned(planned, f"From {before:,} to {units.count(count, 'task')}. Additional tasks:")


def _planned(planned: Document, text: str) -> Preview:
    if not planned["plan"]:
        return Preview(["No task would be placed."], planned["modify_index"])
    return Preview([text], planned["modify_index"], planned_job(planned["plan"]))


def _weight(client: Client, job: str, form: Form) -> Preview:
    weight, status = _weight_of(form), client.status(job, brief=True)
    pool = status["spec"].get("pool")
    where = f"pool {pool}" if pool else "its pool"
    before = status["spec"].get("weight") or 1.0
    text = f"Its part among the jobs of {where} that want more goes from {before:g} to {weight:g}."
    return Preview([text], status["modify_index"])


def _weight_of(form: Form) -> float:
    try:
        return float(form.get("weight", ""))
    except ValueError:
        raise BadInput(f"weight: {form.get('weight', '')[:40]!r} is not a number; write for example 2") from None


def _rerun(client: Client, job: str, form: Form) -> Preview:
    status, tasks = client.status(job, brief=True), form.get("tasks", "")
    counts = status["counts"]
    if form.get("which") == "failed":
        what = f"its {units.count(counts['failed'], 'failed task')}"
    else:
        what = f"its tasks {tasks}" if tasks else f"all its {units.count(counts['total'], 'task')}"
    return Preview([f"Submits {what} as a new job, which is yours and names {status['name']} as its origin."], 0)


def _revert(client: Client, job: str, form: Form) -> Preview:
    return _update_of(client.plan_revert(job, number(form, "to")))


def _update(client: Client, job: str, form: Form) -> Preview:
    return _update_of(client.plan_update(form["file"]), job)


def _update_of(planned: Document, asked: str | None = None) -> Preview:
    if asked is not None and planned["id"] != asked:
        raise Refused(
            f"the file is of job {planned['name']} ({planned['id']}), not of this one; leave its name as it is"
        )
    if planned["restarts"]:
        text = f"Starts the job again as a new one of its name, with {units.count(planned['starts'], 'task')}."
    elif planned["replaces"]:
        text = f"Replaces {units.count(planned['replaces'], 'task')} step by step by new ones."
    else:
        text = "Replaces no task."
    plan = planned_job(planned["plan"]) if planned["plan"] else None
    return Preview([text], planned["modify_index"], plan, [_changed(each) for each in planned["changes"]])


def _changed(change: Document) -> Document:
    """Return a changed field with its values as text; amounts as job files have them."""
    _, is_need, resource = change["field"].rpartition(".resources.")

    def text(value: object) -> str:
        if value is None:
            return "–"
        return format_amount(resource, value) if is_need and isinstance(value, int) else str(value)

    return {"field": change["field"], "before": text(change["before"]), "after": text(change["after"])}


def _made(word: str, call: Callable[..., Document]) -> Callable[[Client, str, Form], tuple[str, str]]:
    def make(client: Client, job: str, form: Form) -> tuple[str, str]:
        row = _row(call(client, job, **_options(form)))
        return f"{row['name']}: {word}", row["id"]

    return make


def _make_resize(client: Client, job: str, form: Form) -> tuple[str, str]:
    count, group = number(form, "count"), form.get("group") or None
    row = _row(client.resize(job, count, group=group, **_options(form)))
    return f"{row['name']}: resized to {units.count(count, 'task')}", row["id"]


def _make_weight(client: Client, job: str, form: Form) -> tuple[str, str]:
    weight = _weight_of(form)
    row = _row(client.set_weight(job, weight, **_options(form)))
    return f"{row['name']}: weight {weight:g}", row["id"]


def _make_rerun(client: Client, job: str, form: Form) -> tuple[str, str]:
    failed, tasks = form.get("which") == "failed", form.get("tasks") or None
    group = form.get("group") or None
    named, group = (None, None) if failed or not tasks else (tasks, group)
    row = _row(client.rerun(job, failed=failed, tasks=named, group=group, force=bool(form.get("force"))))
    return f"{row['name']}: submitted again", row["id"]


def _make_revert(client: Client, job: str, form: Form) -> tuple[str, str]:
    row = _row(client.revert(job, number(form, "to"), **_options(form)))
    return f"{row['name']}: reverts to version {form['to']}", row["id"]


def _make_update(client: Client, job: str, form: Form) -> tuple[str, str]:
    _update(client, job, form)  # refuses the file of another job
    row = _row(client.update(form["file"], **_options(form)))
    return f"{row['name']}: {units.count(row['replaces'], 'task')} to be replaced", row["id"]


CHANGES: Mapping[str, Change] = {
    "stop": Change("Stop", "Stop this job", _stop, _made("stopped", Client.stop)),
    "hold": Change("Hold", "Hold this job", _hold, _made("held", Client.hold)),
    "release": Change("Release", "Release this job", _release, _made("released", Client.release)),
    "resize": Change("Resize", "Resize this group", _resize, _make_resize),
    "weight": Change("Weight", "Set this weight", _weight, _make_weight),
    "rerun": Change("Run again", "Submit it again", _rerun, _make_rerun),
    "revert": Change("Revert", "Revert to this version", _revert, _make_revert),
    "update": Change("Update", "Make this update", _update, _make_update),
}
"""The changes of a job by the names of their forms."""
