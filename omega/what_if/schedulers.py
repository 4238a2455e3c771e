"""The schedulers of a run: those of the recording, with changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.events import Member
from omega.cellstate.transaction import Detection, Mode
from omega.recording.history import History
from omega.schedulers import registry
from omega.schedulers.scheduler import Scheduler

MOST = 64
KINDS = ("batch", "service", "mapreduce")
"""Kinds whose number can be changed."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Schedulers of one kind: how many, their settings in the log, and the decision time of a job (seconds).

    `t_jobs` are the decision times of the recording, from which each is drawn; empty: all take `t_job`.
    """

    number: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    t_job: float = 0.0
    t_jobs: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a run has other than the recording: the words of the options by name, as given."""

    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The change in words."""
        return " ".join(f"{name}={word}" for name, word in self.words.items()) or "as recorded"


NAMES: Mapping[str, str] = {
    "batch": "number of batch schedulers, or +N, -N", "service": "number of service schedulers, or +N, -N",
    "mapreduce": "number of MapReduce schedulers, or +N, -N", "detection": "fine or coarse",
    "commit": "incremental or gang", "placement": "name of an installed placement",
    "preemption": "name of an installed preemption policy", "jobs-per-call": "jobs decided per call",
    "t-job": "decision time of a job (seconds)", "pools": "file of pools, or none",
    "machines": "number of machines, or -N, -P%", "limits": "part of the limits of kinds of jobs (50%)",
}  # fmt: skip
"""What can be changed, and how."""

CELL = frozenset({"pools", "machines", "limits"})
"""Changes of the cell (cell.py), not of its schedulers."""


def recorded(history: History) -> dict[str, Setup]:
    """Return the schedulers of a recording by kind: those that were live when it began, and that registered later."""
    live: dict[str, set[str]] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for name, each in history.segment.picture["schedulers"].items():
        kind = name.partition("/")[0]
        if each["lives"]:
            live.setdefault(kind, set()).add(name)
        settings[kind] = each["settings"] or settings.get(kind, {})
    for _, fact in history.facts:
        event = fact.event
        if not isinstance(event, Member) or event.word != "enlist":
            continue
        if (kind := event.member.partition("/")[0]) in {*live, *history.decisions}:
            live.setdefault(kind, set()).add(event.member)
    setups = {}
    for kind in {**dict.fromkeys(live), **dict.fromkeys(history.decisions)}:
        decisions = history.decisions.get(kind)
        t_job = decisions.took_ms / 1000 / decisions.transactions if decisions and decisions.transactions else 0.0
        t_jobs = decisions.times if decisions else ()
        setups[kind] = Setup(
            number=len(live.get(kind, {1})), settings=settings.get(kind, {}), t_job=t_job, t_jobs=t_jobs
        )
    return setups


def changed(setups: Mapping[str, Setup], change: Change) -> dict[str, Setup]:
    """Return schedulers with a change. Raises BadInput for an unknown name or value."""
    result = dict(setups)
    for name, word in change.words.items():
        if name not in NAMES:
            raise BadInput(f"vary {name}: unknown; known: {', '.join(NAMES)}")
        if name in KINDS:
            result[name] = replace(result.get(name, Setup(number=0)), number=_number(name, word, result.get(name)))
        elif name == "t-job":
            result = {kind: replace(each, t_job=_seconds(word), t_jobs=()) for kind, each in result.items()}
        elif name not in CELL:
            value: Any = word
            if name == "jobs-per-call":
                value = _number(name, word, None)
            key = {"commit": "mode", "jobs-per-call": "jobs_per_call"}.get(name, name)
            result = {kind: replace(each, settings={**each.settings, key: value}) for kind, each in result.items()}
    return result


def _number(name: str, word: str, setup: Setup | None) -> int:
    sign = word[:1] if word[:1] in ("+", "-") else ""
    digits = word.removeprefix(sign)
    if not digits.isdecimal():
        raise BadInput(f"vary {name}={word}: is no number; write for example 2 or +2")
    before = setup.number if setup is not None and sign else 0
    number = before + int(digits) * (-1 if sign == "-" else 1)
    if not 1 <= number <= MOST:
        raise BadInput(f"vary {name}={word}: {number}; want 1 to {MOST}")
    return number


def _seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1_000:
        raise BadInput(f"vary t-job={word}: want seconds from 0 to 1000")
    return value


def built(setups: Mapping[str, Setup]) -> tuple[list[Scheduler], list[str]]:
    """Return the schedulers, and notes about settings that could not be taken over. Raises BadInput."""
    schedulers: list[Scheduler] = []
    notes: list[str] = []
    known = registry.offers("schedulers")
    for kind, setup in setups.items():
        for number in range(setup.number):
            scheduler = registry.scheduler(kind, f"what-if/{number}") if kind in known else Scheduler(kind)
            found = _settle(scheduler, setup)
            notes += found if number == 0 else []
            schedulers.append(scheduler)
    return schedulers, notes


def _settle(scheduler: Scheduler, setup: Setup) -> list[str]:
    """Give a scheduler the settings of a setup; return notes."""
    settings, notes = setup.settings, list[str]()
    scheduler.mode = _named(Mode, settings.get("mode"), scheduler.mode, "commit")
    scheduler.detection = _named(Detection, settings.get("detection"), scheduler.detection, "detection")
    scheduler.jobs_per_call = int(settings.get("jobs_per_call", scheduler.jobs_per_call))
    scheduler.t_job, scheduler.t_jobs = setup.t_job, setup.t_jobs
    for axis in ("ordering", "placement", "preemption"):
        wanted = settings.get(axis)
        if isinstance(wanted, str):
            setattr(scheduler, axis, registry.offer(axis, wanted).load()())
        elif wanted is not None:
            notes += _as_recorded(scheduler, axis, wanted)
    return notes


def _named(kind: Any, word: Any, otherwise: Any, name: str) -> Any:
    if word is None:
        return otherwise
    try:
        return kind[str(word).upper()]
    except KeyError:
        raise BadInput(f"vary {name}={word}: want {' or '.join(each.name.lower() for each in kind)}") from None


def _as_recorded(scheduler: Scheduler, axis: str, wanted: Mapping[str, Any]) -> list[str]:
    """Use a policy of the recorded class: the present one, or an installed one; its fields as recorded."""
    target, policy = str(wanted.get("class")), getattr(scheduler, axis)
    fields = {name: value for name, value in wanted.items() if name != "class"}
    if f"{type(policy).__module__}:{type(policy).__qualname__}" != target:
        offered = next((each for each in registry.offers(axis).values() if each.target == target), None)
        if offered is None:
            return [f"{scheduler.kind}: {axis} {target} is not installed; its preset's is used"]
        try:
            policy = offered.load()(**fields)
        except TypeError:
            return [f"{scheduler.kind}: {axis} {target} has other fields; its preset's is used"]
        setattr(scheduler, axis, policy)
    return []
