"""Demands of a task group beyond room, as job files have them and `TaskGroup.spec` stores them.

========================  ==================================================================================
``constraints``           texts, which must hold, or ``{prefer: text, weight: 1 to 100}``
``spread``                failure domains: attributes, to be filled evenly; or ``{domain: attribute, most: n}``
                          or ``{domain: attribute, share: 0 to 1}``, which bound the job's tasks in one domain
``different_machines``    no two tasks of the job on one machine
``runner``                the task runner, which the machine must have (`runner_attribute`)
``near``, ``apart_from``  a job's name, or ``{job: name, domain: attribute, required: true}``
========================  ==================================================================================
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Any

from omega.cellstate.constraints import SHOWN
from omega.cellstate.errors import BadInput
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.model import MACHINE, Job

FIELDS = ("constraints", "spread", "different_machines", "near", "apart_from", "runner")
_FIELDS = frozenset(FIELDS)
MOST_TASKS = 10_000_000
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w./-]*")
_RUNNER = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Preferred:
    """A best-effort constraint; `weight` is 1 to 100."""

    text: str
    weight: int = 50


@dataclass(frozen=True, slots=True)
class Spread:
    """Machines with equal `domain` (an attribute) fail together.

    At most `most` tasks of the job, or a `share` of them (0 to 1, at least one task), may be in one domain; without
    either, domains are filled evenly as room allows.
    """

    domain: str
    most: int | None = None
    share: float | None = None

    def bound(self, tasks: int) -> int | None:
        """Return the maximum number of tasks in one domain for a job of `tasks` tasks; None for no bound."""
        bounds = [] if self.most is None else [self.most]
        if self.share is not None:
            # 0.3 of 10 is 3, although 0.3 × 10 is less in floating point.
            bounds.append(max(1, floor(self.share * tasks + 1e-9)))
        return min(bounds, default=None)

    def __str__(self) -> str:
        bounds = [] if self.most is None else [f" ≤ {self.most}"]
        bounds += [] if self.share is None else [f" ≤ {self.share:.0%}"]
        return self.domain + ",".join(bounds)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation to the machines of another job, or to their domains (an attribute)."""

    job: str
    domain: str = MACHINE
    required: bool = False


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a group; with a `fault`, an invalid demand, no machine is feasible."""

    hard: tuple[str, ...] = ()
    preferred: tuple[Preferred, ...] = ()
    spread: tuple[Spread, ...] = ()
    different: bool = False
    near: tuple[Relation, ...] = ()
    apart: tuple[Relation, ...] = ()
    fault: str = ""

    @property
    def per_machine(self) -> bool:
        """Whether each machine can be checked alone, the same for each task: any policy can satisfy it."""
        return not (self.different or self.preferred or self.spread or self.near or self.apart)

    @property
    def per_task(self) -> bool:
        """As `per_machine`, except that each task may need a machine of its own."""
        return not (self.preferred or self.spread or self.near or self.apart)

    @property
    def counts(self) -> bool:
        """Whether the machines of the job's other tasks matter."""
        return bool(self.spread or self.different)

    @property
    def relative(self) -> bool:
        """Whether the number of the job's tasks decides how many of them a domain may hold."""
        return any(spread.share is not None for spread in self.spread)

    @property
    def attributes(self) -> bool:
        """Whether the machines' attributes are needed."""
        relations = (*self.near, *self.apart)
        return bool(self.hard or self.preferred or self.spread) or any(r.domain != MACHINE for r in relations)


NONE = Demands()


def asks_anything(job: Job) -> bool:
    """Return whether some group of a job may have demands; False: all are `NONE`."""
    return "groups" in job.spec


def demands(job: Job | JobDemand, group: int) -> Demands:
    """Return the demands of a group of a job. Invalid ones are a `fault`; never raises."""
    groups = job.spec.get("groups") if job.spec else None
    if not isinstance(groups, list) or group >= len(groups):
        return NONE
    own = groups[group]
    if not isinstance(own, dict) or _FIELDS.isdisjoint(own):
        return NONE
    try:
        return _kept(json.dumps({field: own[field] for field in FIELDS if field in own}))
    except (TypeError, ValueError) as error:
        return Demands(fault=f"demands that are not plain values: {error}")


@lru_cache(maxsize=4096)
def _kept(text: str) -> Demands:
    try:
        return read_demands(json.loads(text))
    except BadInput as error:
        return Demands(fault=str(error))


def read_demands(said: Mapping[str, Any]) -> Demands:
    """Read the fields of a group. Raises BadInput in one line that names the field."""
    constraints = [read_constraint(entry) for entry in _listed("constraints", said.get("constraints"))]
    different = said.get("different_machines", False)
    if not isinstance(different, bool):
        raise BadInput(f"different_machines: {_shown(different)} is not allowed; write true or false")
    runner = [] if said.get("runner") is None else [f"has {runner_attribute(read_runner(said['runner']))}"]
    return Demands(
        (*(entry for entry in constraints if isinstance(entry, str)), *runner),
        tuple(entry for entry in constraints if isinstance(entry, Preferred)),
        tuple(read_spread(entry) for entry in _listed("spread", said.get("spread"))),
        different,
        read_relations("near", said.get("near")),
        read_relations("apart_from", said.get("apart_from")),
    )


def read_runner(entry: Any) -> str:
    """Read ``runner``: the name of a task runner. Raises BadInput."""
    if not isinstance(entry, str) or not _RUNNER.fullmatch(entry):
        raise BadInput(f"runner {_shown(entry)} is no name; write for example podman")
    return entry


def runner_attribute(name: str) -> str:
    """Return the attribute of the machines that have a task runner: its version there, or another text."""
    return f"runner.{name}"


def read_constraint(entry: Any) -> str | Preferred:
    """Read one entry of ``constraints``. Raises BadInput."""
    from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most processes parse no constraint

    if isinstance(entry, str):
        parse(entry)
        return entry
    form = "a constraint; write a text or {prefer: text, weight: 1 to 100}"
    fields = _mapping(entry, ("prefer", "weight"), form)
    text, weight = fields.get("prefer"), fields.get("weight", 50)
    if not isinstance(text, str):
        raise BadInput(f"{_shown(entry)} is not {form}")
    parse(text)
    if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= 100:
        raise BadInput(f"weight {_shown(weight)} is not allowed; want a whole number from 1 to 100")
    return Preferred(text, weight)


def read_spread(entry: Any) -> Spread:
    """Read one entry of ``spread``. Raises BadInput."""
    form = "a failure domain; write an attribute, {domain: rack, most: 2} or {domain: power, share: 0.5}"
    fields = {"domain": entry} if isinstance(entry, str) else _mapping(entry, ("domain", "most", "share"), form)
    if "domain" not in fields:
        raise BadInput("domain is missing; write {domain: rack, most: 2}")
    domain, most, share = fields["domain"], fields.get("most"), fields.get("share")
    _attribute(domain)
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_TASKS):
        raise BadInput(f"most {_shown(most)} is not allowed; want a whole number from 1 to {MOST_TASKS}")
    if share is not None and (not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1):
        raise BadInput(f"share {_shown(share)} is not allowed; want more than 0 and at most 1")
    return Spread(str(domain), most, None if share is None else float(share))


def read_relations(field: str, entry: Any) -> tuple[Relation, ...]:
    """Read ``near`` or ``apart_from``: one job or a list of them, or None. Raises BadInput."""
    several = entry if isinstance(entry, list | tuple) else [entry]
    return () if entry is None else tuple(_relation(field, one) for one in several)


def _relation(field: str, entry: Any) -> Relation:
    form = "a job; write its name or {job: name, domain: rack}"
    # A best-effort distance would guarantee nothing, so it is always required.
    known = ("job", "domain", "required") if field == "near" else ("job", "domain")
    fields = {"job": entry} if isinstance(entry, str) else _mapping(entry, known, form)
    job, domain, required = fields.get("job"), fields.get("domain", MACHINE), fields.get("required", field != "near")
    if not isinstance(job, str) or not job:
        raise BadInput(f"{_shown(entry)} is not {form}")
    _attribute(domain)
    if not isinstance(required, bool):
        raise BadInput(f"required {_shown(required)} is not allowed; write true or false")
    return Relation(job, domain, required)


def _attribute(name: Any) -> None:
    if not isinstance(name, str) or not _ATTRIBUTE.fullmatch(name):
        raise BadInput(f"{_shown(name)} is not the name of a machine's attribute; write for example rack")


def _mapping(entry: Any, known: Sequence[str], form: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise BadInput(f"{_shown(entry)} is not {form}")
    for name in entry:
        if name not in known:
            raise BadInput(f"unknown field {_shown(name)}; allowed: {', '.join(known)}")
    return entry


def _listed(field: str, entry: Any) -> Sequence[Any]:
    if entry is None:
        return ()
    if not isinstance(entry, list | tuple):
        raise BadInput(f"{field}: {_shown(entry)} is not a list")
    return entry


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
