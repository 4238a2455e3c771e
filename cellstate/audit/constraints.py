"""Placements against the constraints of their job (invariant 7).

A claim is checked on the attributes that its machine had from the snapshot of the decision on: the present ones, where
the log shows no change since. It has the versions of changes, and no values. The evaluation is written a second time
here, for one machine; the parser is that of the schedulers. Best-effort constraints are no invariant. Not checked are
jobs that are no longer kept, claims before the last KEPT ones, and machines with attributes that changed since.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omega.cellstate.constraints.expressions import All, Compare, Either, Expression, Has, Not, OneOf, Value, number_of
from omega.cellstate.errors import BadInput
from omega.cellstate.events import Fact
from omega.cellstate.model import MACHINE, Described, Job

KEPT = 100_000
"""Claims of the log that are kept: 20 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedClaim:
    """Tasks of a group that one claim placed on a machine, and the version of the snapshot that it was decided on."""

    version: int
    since: int
    machine: int
    job: str
    group: int


class ConstraintBook:
    """The claims of a log, and the versions at which machines joined or got other attributes."""

    def __init__(self, start: int) -> None:
        """Begin with the facts of version `start`."""
        self._start = start
        self.number = self.checked = 0
        """Claims of groups with constraints in the log, and those of them that could be checked."""
        self._claims: deque[PlacedClaim] = deque(maxlen=KEPT)
        self._described: dict[int, list[int]] = {}
        self._submitted: dict[str, int] = {}

    def enter(self, fact: Fact) -> None:
        """Enter a fact, in the order of the log."""
        word, words, version = fact.event[0], fact.event, fact.version
        if word == "place":
            since = version - 1 if fact.basis is None else fact.basis.since
            machine, group = int(words[2]), int(words[4])
            self._claims.append(PlacedClaim(version=version, since=since, machine=machine, job=words[3], group=group))
        elif word == "join" or (word == "machine" and words[2] == "attributes"):
            before = self._described.setdefault(int(words[1]), [])
            # Of the first join of a machine, in a log that begins with the cell, nothing is different before.
            before.append(0 if self._start <= 1 and not before else version)
        elif word == "submit":
            self._submitted[words[1]] = version

    def machines(self, jobs: Mapping[str, Job]) -> list[int]:
        """Return the machines with claims to be checked."""
        return sorted({claim.machine for claim, _ in self._demanding(jobs)})

    def _demanding(self, jobs: Mapping[str, Job]) -> Iterator[tuple[PlacedClaim, Sequence[str]]]:
        for claim in self._claims:
            job = jobs.get(claim.job)
            texts = () if job is None else constraints_of(job, claim.group)
            if texts and claim.version > self._submitted.get(claim.job, 0):
                yield claim, texts

    def _known(self, claim: PlacedClaim) -> bool:
        """Whether the present attributes of a machine are those that it had when a claim was decided."""
        changes = self._described.get(claim.machine, ())
        return claim.since >= self._start - 1 and all(version <= claim.since for version in changes)

    def check(self, jobs: Mapping[str, Job], described: Mapping[int, Described]) -> Iterator[tuple[str, str]]:
        """Check the claims of kept jobs; yields what is wrong, and the group of the job."""
        self.number = self.checked = 0
        for claim, texts in self._demanding(jobs):
            self.number += 1
            name, pairs = described.get(claim.machine, ("", ()))
            if not name or not self._known(claim):
                continue
            self.checked += 1
            attributes = {**dict(pairs), MACHINE: name}
            for text in texts:
                if not holds(text, attributes):
                    what = f"was placed on machine {claim.machine} ({name}), which does not satisfy {text}"
                    yield f"{what} (version {claim.version})", f"job {claim.job} group {claim.group}"


def constraints_of(job: Job, group: int) -> Sequence[str]:
    """Return the constraints of a group that must hold."""
    groups = job.spec.get("groups")
    said = groups[group] if isinstance(groups, list) and group < len(groups) else None
    texts = said.get("constraints") if isinstance(said, Mapping) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list | tuple) else ()


def holds(text: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a machine with these attributes satisfies a constraint; no machine satisfies an invalid one."""
    from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most audits meet no constraint

    try:
        return _is_true(parse(text), attributes)
    except BadInput:
        return False


def _is_true(expression: Expression, attributes: Mapping[str, str]) -> bool:
    match expression:
        case Has(attribute):
            return attribute in attributes
        case Not(part):
            return not _is_true(part, attributes)
        case All(parts):
            return all(_is_true(part, attributes) for part in parts)
        case Either(parts):
            return any(_is_true(part, attributes) for part in parts)
        case OneOf(attribute, values):
            return any(_compared(attributes.get(attribute), "==", value) for value in values)
        case Compare(attribute, operator, value):
            return _compared(attributes.get(attribute), operator, value)


def _compared(text: str | None, operator: str, value: Value) -> bool:
    """Compare an attribute, None where the machine has none, with a text or a number."""
    if text is None:
        return False
    if isinstance(value, str):
        return operator == "==" and text == value
    number = number_of(text)
    results = {
        "==": number == value,
        "<": number < value,
        "<=": number <= value,
        ">": number > value,
        ">=": number >= value,
    }
    return results[operator]
