"""Details of one job, machine or scheduler."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cellstate.errors import OmegaError, Refused
from cellstate.model import Job, Machine
from cli import words
from cli.event_words import clock
from cli.top.bars import bar
from cli.top.panes import attributes
from cli.top.picture import Happened, Member, Picture, condition
from omega.queries.job_state import COUNTS, counts, group_names, state
from omega.queries.machines import tasks_on
from schedulers.constraints.reasons import MEANING

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

MOST_RUNS, MOST_EVENTS, BAR = 200, 20, 30


def details(cell: "RedisCell", picture: Picture, identity: str) -> tuple[str, list[str]]:
    """Return a heading and lines about the object of a pane's line. Raises Refused when it no longer exists."""
    kind, _, rest = identity.partition(" ")
    name = rest.partition(" ")[0]
    if kind == "job":
        job = cell.job(name)
        if job is None:
            raise Refused(f"job {name}: is not kept any more")
        return f"job {job.name} ({job.id})", _job(cell, picture, job)
    if kind == "machine":
        machine = next((each for each in picture.machines if str(each.index) == name), None)
        if machine is None:
            raise Refused(f"machine {name}: is gone")
        return f"machine {machine.name}", _machine(cell, picture, machine)
    member = next((each for each in picture.members if each.name == name), None)
    if member is None:
        raise OmegaError(f"{kind} {name}: nothing more is known")
    return f"scheduler {member.name}", _scheduler(picture, member)


def _job(cell: "RedisCell", picture: Picture, job: Job) -> list[str]:
    why = next((each.reason for each in picture.queue if each.job.id == job.id), "")
    indices = sorted({machine for group in job.groups for _, machine, _ in group.runs})
    runs = [run for run in cell.runs(indices) if run.job == job.id]
    names = {machine.index: machine.name for machine in picture.machines}
    groups = group_names(job)
    lines = [
        f"state        {state(job)}" + (f" · {why}: {MEANING[why]}" if why else ""),
        f"kind         {job.kind} · precedence {job.precedence:,} · gang {job.gang.name.lower()}",
        f"submitted    {words.age((picture.at_ms - job.submitted_ms) / 1000)} ago",
        "",
    ]
    for group, name in zip(job.groups, groups, strict=True):
        found = counts([group])
        ways = ", ".join(f"{found[word]:,} {word}" for word in COUNTS[1:] if found[word])
        lines.append(f"group {name:<6} {words.count(group.total, 'task')} of "
                     f"{words.amounts(picture.dimensions, group.need)}: {ways}")  # fmt: skip
    lines += ["", f"runs         {len(runs):,}"]
    lines += [
        f"  {names.get(run.machine, str(run.machine)):<16} {groups[run.group]:<10} {run.tasks}"
        + (" leaving" if run.leaving else "")
        for run in runs[:MOST_RUNS]
    ]
    return lines + _events(picture, [each for each in picture.happened if any(e.job == job.id for e in each.events)])


def _machine(cell: "RedisCell", picture: Picture, machine: Machine) -> list[str]:
    runs = cell.runs([machine.index])
    jobs = {name: cell.job(name) for name in sorted({run.job for run in runs[:MOST_RUNS]})}
    lines = [
        f"state        {condition(machine)} · index {machine.index} · {words.count(machine.number, 'change')}",
        f"attributes   {attributes(machine) or 'none'}",
        "",
    ]
    for name, used, has in zip(picture.dimensions.names, machine.allocated, machine.capacity, strict=True):
        share = used / has if has else 0.0
        lines.append(f"{name:<12} {bar(share, BAR)} {words.percent(used, has):>5}  {words.in_use(name, used, has)}")
    lines += ["", f"tasks        {tasks_on(runs).get(machine.index, 0):,}"]
    for run in runs[:MOST_RUNS]:
        job = jobs[run.job]
        name = f"{job.name} ({run.job[:8]})" if job else run.job
        lines.append(f"  {name:<30} tasks {run.tasks}" + (" leaving" if run.leaving else ""))
    about = [each for each in picture.happened if any(event.machine == machine.index for event in each.events)]
    return lines + _events(picture, about)


def _scheduler(picture: Picture, member: Member) -> list[str]:
    figures = member.figures
    wait = figures["wait_seconds"]
    told = {
        "state": f"{figures['state']} · incarnation {figures['incarnation']}",
        "busy": "" if member.busyness is None else f"{100 * member.busyness:.0f} % now · "
        f"{100 * (figures['busyness'] or 0):.0f} % since it was started, {words.age(figures['seconds'] or 0)} ago",
        "wait": "" if wait["mean"] is None else f"mean {words.seconds(wait['mean'])}, p90 {words.seconds(wait['p90'])}",
        "conflicts": "" if member.conflict_fraction is None else f"fraction {words.fraction(member.conflict_fraction)}"
        f" now · {figures['conflicts']:,} in {figures['transactions']:,} commits",
        "jobs": "" if figures["jobs"] is None else f"{figures['jobs']:,} taken up · {figures['tasks']:,} tasks placed",
        "waiting": "" if figures["queued"] is None else f"{figures['queued']:,} queued · {figures['asleep']:,} blocked",
        "abandoned": "" if not figures["abandoned"] else f"{figures['abandoned']:,}",
    }  # fmt: skip
    lines = [f"{name:<12} {text}" for name, text in told.items() if text]
    return lines + _events(picture, [each for each in picture.happened if each.first.by == member.name])


def _events(picture: Picture, about: Sequence[Happened]) -> list[str]:
    lines = [f"  {clock(each.first.at_ms, picture.at_ms)[:-4]}  {each.first.by}  {each.what}" for each in about]
    return ["", "lately", *lines[:MOST_EVENTS]] if lines else []
