"""Events in the words of people: a line for every version, what belongs together in one sentence."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cellstate.resources import format_amount
from cli import words
from cli.history import ENDINGS, Event

if TYPE_CHECKING:
    from cellstate.redis_cell import RedisCell

SHORT = 4
"""Letters of a job's id in a sentence."""
_VERBS = {"finished": "finished", "failed": "failed", "lost": "lost", "evicted": "evicted", "stopped": "stopped",
          "place": "placed", "left": "gone from the machine"}  # fmt: skip


class Names:
    """Names of jobs and machines, asked for once each. A job that is not kept any more has only its id."""

    def __init__(self, cell: "RedisCell") -> None:
        self._cell = cell
        self._jobs: dict[str, str] = {}
        self._machines: dict[int, str] = {}

    def hear(self, event: Event) -> None:
        """Learn the names that an event brings."""
        if event.kind == "submit" and event.job:
            self._jobs[event.job] = event.more["name"]
        elif event.kind == "join" and event.machine is not None:
            self._machines[event.machine] = event.more["name"]

    def job(self, job_id: str | None) -> str:
        """``crawl (4f1c)``."""
        if job_id is None:
            return "?"
        if job_id not in self._jobs:
            found = self._cell.job(job_id)
            self._jobs[job_id] = found.name if found else ""
        name = self._jobs[job_id]
        return f"{name} ({job_id[:SHORT]})" if name else job_id

    def machine(self, index: int | None) -> str:
        """``m17``; its index when it is gone."""
        if index is None:
            return "?"
        if index not in self._machines:
            self._machines |= {machine.index: machine.name for machine in self._cell.machines()}
            self._machines.setdefault(index, f"machine {index}")
        return self._machines[index]


def lines(events: Iterable[Event], names: Names) -> Iterator[str]:
    """Yield a line for every version of which there are events."""
    for version, together in groupby(events, lambda event: event.version):
        same = list(together)
        for event in same:
            names.hear(event)
        said = " · ".join(_sentences(same, names))
        yield f"{clock(same[0].at_ms)}  {f'v{version}':<6}  {same[0].by:<9}  {said}"


def clock(at_ms: int) -> str:
    """``12:03:04.123``, of the time where this is read."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S.") + f"{at_ms % 1000:03d}"


def _sentences(events: Sequence[Event], names: Names) -> Iterator[str]:
    """Yield what happened; neighbours that differ only in the machine become one sentence."""

    def alike(event: Event) -> tuple[Any, ...]:
        own = event.more.get("reason"), event.more.get("verdict")
        member_or_machine = event.more.get("member"), event.more.get("state"), event.kind == "submit" and event.job
        return event.kind, event.job, own, member_or_machine

    for _, group in groupby(events, alike):
        yield _sentence(list(group), names)


def _sentence(same: Sequence[Event], names: Names) -> str:
    first = same[0]
    kind, job, count = first.kind, first.job, sum(event.count or 0 for event in same)
    where = _where([names.machine(event.machine) for event in same if event.machine is not None])
    tasks = words.count(count, "task")
    if kind == "place":
        return f"placed {tasks} of {names.job(job)} on {where}"
    if kind in ENDINGS or kind == "left":
        return f"{tasks} of {names.job(job)} {_VERBS[kind]} on {where}{_why(first, names)}"
    if kind == "conflict":
        return f"conflict of {names.job(job)} on {where}: {first.more['verdict']}"
    if kind == "submit":
        more = f", precedence {first.more['precedence']}" if first.more["precedence"] else ""
        return f"submitted {names.job(job)}, {tasks} of kind {first.more['job_kind']}{more}"
    if kind in ("stop", "abandon"):
        verb = "stopped" if kind == "stop" else "abandoned"
        return f"{verb} {names.job(job)}" + (f", {tasks} not placed any more" if count else "")
    if kind == "done":
        return f"{names.job(job)} is {_ENDED.get(first.more['state'], first.more['state'])}"
    return _about_cell(same, where)


_ENDED = {"done": "done", "stopped": "stopped", "abandoned": "abandoned"}


def _why(event: Event, names: Names) -> str:
    reason = str(event.more.get("reason", ""))
    kind, _, job = reason.partition(":")
    if kind == "precedence" and job:
        return f" for {names.job(job)}"
    return f": {reason}" if reason else ""


def _about_cell(same: Sequence[Event], where: str) -> str:
    first, more = same[0], same[0].more
    if first.kind == "join":
        return f"{where} joined" if len(same) < 4 else f"{words.count(len(same), 'machine')} joined"
    if first.kind == "machine":
        if "state" in more:
            return f"{where} is {more['state']}"
        amounts = [f"{name} {format_amount(name, amount)}" for name, amount in more["capacity"].items()]
        return f"{where} has {', '.join(amounts)} from now on"
    if first.kind == "enlist":
        return f"{more['member']} took up work (incarnation {more['incarnation']})"
    if first.kind == "leave":
        return f"{more['member']} left"
    if first.kind == "lapse":
        return f"lease of {more['member']} lapsed"
    if first.kind == "limit":
        return f"limits of kind {more['job_kind']} changed"
    return " ".join((first.kind, *more.get("words", ())))


def _where(machines: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(machines))
    return ", ".join(distinct) if len(distinct) <= 3 else words.count(len(distinct), "machine")
