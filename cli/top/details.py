"""Details of one job, machine, pool or scheduler."""

from collections.abc import Sequence

from omega.cellstate.errors import OmegaError, Refused
from omega.cellstate.model import Job, Machine, Run
from omega.cli.top.bars import bar
from omega.cli.top.panes import attributes, stands
from omega.queries import units
from omega.queries.event_text import clock
from omega.queries.job_state import COUNTS, counts, group_names, state
from omega.queries.machines import tasks_on
from omega.queries.mirror import TopMirror
from omega.queries.overview import Overview, PoolLine, SchedulerRates, VersionEvents
from omega.schedulers.constraints.reasons import MEANING

MOST_RUNS, MOST_EVENTS, BAR = 200, 20, 30


def details(mirror: TopMirror, overview: Overview, identity: str) -> tuple[str, list[str]]:
    """Return a heading and lines about the object of a pane's line. Raises Refused when it no longer exists."""
    kind, _, rest = identity.partition(" ")
    name = rest.partition(" ")[0]
    if kind == "job":
        job, runs = mirror.job(name)
        return f"job {job.name} ({job.id})", _job(mirror, overview, job, runs)
    if kind == "machine":
        machine = next((each for each in overview.machines if str(each.index) == name), None)
        if machine is None:
            raise Refused(f"machine {name}: was removed")
        return f"machine {machine.name}", _machine(mirror, overview, machine)
    if kind == "pool":
        line = next((each for each in overview.pools if each.share.name == name), None)
        if line is None:
            raise Refused(f"pool {name}: was removed")
        return f"pool {name}", _pool(overview, line)
    member = next((each for each in overview.members if each.name == name), None)
    if member is None:
        raise OmegaError(f"{kind} {name}: there are no details")
    return f"scheduler {member.name}", _scheduler(overview, member)


def _pool(overview: Overview, line: PoolLine) -> list[str]:
    share, names = line.share, overview.dimensions.names
    lines = [f"status       {line.status}", f"parent       {share.parent}", f"weight       {share.weight:g}", ""]
    absent = {"guarantee": 0.0, "integral": 0.0, "limits": 1.0}
    for field in ("fair_share", "usage", "demand", *absent):
        known = [(name, part) for name, part in zip(names, getattr(share, field), strict=True)]
        stated = [(name, part) for name, part in known if field not in absent or part != absent[field]]
        parts = "  ".join(f"{name} {100 * part:.1f} %" for name, part in stated)
        lines.append(f"{field.replace('_', ' '):<12} {parts or 'none'}")
    return lines


def _job(mirror: TopMirror, overview: Overview, job: Job, runs: Sequence[Run]) -> list[str]:
    why = next((each.reason for each in overview.queue if each.job.id == job.id), "")
    mirror.names.read_machines(run.machine for run in runs[:MOST_RUNS])
    groups, least = group_names(job), f" of at least {job.gang_min:,}" if job.gang_min else ""
    lines = [
        f"state        {state(job)}" + (f" · {why}: {MEANING[why]}" if why else ""),
        f"kind         {job.kind} · precedence {job.precedence:,} · gang {job.gang.name.lower()}{least}",
        f"submitted    {units.age((overview.at_ms - job.submitted_ms) / 1000)} ago",
        "",
    ]
    for group, name in zip(job.groups, groups, strict=True):
        numbers = counts([group])
        ways = ", ".join(f"{numbers[word]:,} {word}" for word in COUNTS[1:] if numbers[word])
        lines.append(
            f"group {name:<6} {units.count(group.total, 'task')} of "
            f"{units.amounts(overview.dimensions, group.need)}: {ways}"
        )
    lines += ["", f"runs         {len(runs):,}"]
    lines += [
        f"  {mirror.names.machine(run.machine):<16} {groups[run.group]:<10} {run.tasks}"
        + (" leaving" if run.leaving else "")
        for run in runs[:MOST_RUNS]
    ]
    return lines + _events(overview, [each for each in overview.changes if any(e.job == job.id for e in each.events)])


def _machine(mirror: TopMirror, overview: Overview, machine: Machine) -> list[str]:
    runs, jobs = mirror.machine(machine.index, MOST_RUNS)
    lines = [
        f"state        {stands(machine, overview)} · index {machine.index} · {units.count(machine.number, 'change')}",
        f"attributes   {attributes(machine) or 'none'}",
        "",
    ]
    for name, used, has in zip(overview.dimensions.names, machine.allocated, machine.capacity, strict=True):
        share = used / has if has else 0.0
        lines.append(f"{name:<12} {bar(share, BAR)} {units.percent(used, has):>5}  {units.in_use(name, used, has)}")
    lines += ["", f"tasks        {tasks_on(runs).get(machine.index, 0):,}"]
    for run in runs[:MOST_RUNS]:
        job = jobs.get(run.job)
        name = f"{job.name} ({run.job[:8]})" if job else run.job
        lines.append(f"  {name:<30} tasks {run.tasks}" + (" leaving" if run.leaving else ""))
    about = [each for each in overview.changes if any(event.machine == machine.index for event in each.events)]
    return lines + _events(overview, about)


def _scheduler(overview: Overview, member: SchedulerRates) -> list[str]:
    figures = member.figures
    wait = figures["wait_seconds"]
    told = {
        "state": f"{figures['state']} · incarnation {figures['incarnation']}",
        "busy": ""
        if member.busyness is None
        else f"{100 * member.busyness:.0f} % now · "
        f"{100 * (figures['busyness'] or 0):.0f} % since it was started, {units.age(figures['seconds'] or 0)} ago",
        "wait": "" if wait["mean"] is None else f"mean {units.seconds(wait['mean'])}, p90 {units.seconds(wait['p90'])}",
        "conflicts": ""
        if member.conflict_fraction is None
        else f"fraction {units.fraction(member.conflict_fraction)}"
        f" now · {figures['conflicts']:,} in {figures['transactions']:,} transactions",
        "jobs": "" if figures["jobs"] is None else f"{figures['jobs']:,} received · {figures['tasks']:,} tasks placed",
        "queue": "" if figures["queued"] is None else f"{figures['queued']:,} queued · {figures['blocked']:,} blocked",
        "abandoned": "" if not figures["abandoned"] else f"{figures['abandoned']:,}",
    }
    lines = [f"{name:<12} {text}" for name, text in told.items() if text]
    return lines + _events(overview, [each for each in overview.changes if each.first.by == member.name])


def _events(overview: Overview, about: Sequence[VersionEvents]) -> list[str]:
    shown = about[:MOST_EVENTS]
    wide = max((len(each.first.by) for each in shown), default=0)
    lines = [
        f"  {clock(each.first.at_ms, overview.at_ms)[:-4]}  {each.first.by:<{wide}}  {each.text}" for each in shown
    ]
    return ["", "recent events", *lines] if lines else []
