"""The transactions of a recorded call, from its facts (docs/decisions/0056)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from omega.cellstate.events import Aborted, Assert, Conflict, End, Event, Fact, Place, Rejected, TransactionEvent
from omega.cellstate.transaction import FORMS, Claim, Detection, Mode, Transaction, Verdict

_STEPS = {"conflict": 0, "aborted": 1, "rejected": 2, "assert": 3, "evicted": 4, "place": 4}
"""The facts of a transaction come in this order."""
_PLACING = _STEPS["assert"]
_ONCE = frozenset({"aborted", "rejected", "assert"})
_MODES = {letter: form for form, letter in FORMS.items()}


@dataclass
class Part:
    """The facts of one transaction of a call, and its mode and detection; `unclear`: why it cannot be judged again."""

    job: str
    facts: list[Event] = field(default_factory=list)
    step: int = 0
    """The last of `_STEPS` that was read."""
    mode: Mode = Mode.INCREMENTAL
    detection: Detection = Detection.FINE
    unclear: str = ""


def parts_of(facts: Sequence[Fact]) -> list[Part]:
    """Return the transactions of a call in order."""
    forms = facts[0].basis.forms if facts and facts[0].basis else ""
    parts = _split(facts, gangs=forms in ("g", "k"))
    _set_forms(parts, forms)
    for part in parts:
        part.unclear = part.unclear or _unclear(part)
    return parts


def _split(facts: Sequence[Fact], *, gangs: bool) -> list[Part]:
    """Part the facts of a call; with `gangs`, placements after rejected claims of a job are another transaction."""
    parts: list[Part] = []
    for fact in facts:
        event = fact.event
        job = _transaction_of(event)
        part = parts[-1] if parts else None
        if event.word == "again":
            if part is not None and (part.job != job or part.step == _STEPS["place"]):
                parts.append(Part(job or ""))
            continue
        if job is None:
            if part is not None:
                part.facts.append(event)
            continue
        step = _STEPS[event.word]
        again = part is not None and step == part.step and event.word in _ONCE and bool(part.facts)
        over = part is not None and (step < part.step or again)
        if gangs and part is not None and part.facts and step >= _PLACING > part.step:
            over = True
        if part is None or part.job != job or over:
            part = Part(job)
            parts.append(part)
        part.facts.append(event)
        part.step = step
    return parts


def _transaction_of(event: Event) -> str | None:
    """Return the job whose transaction a fact begins or belongs to; None for one that follows another fact."""
    if isinstance(event, Conflict | TransactionEvent | Assert | Place):
        return event.job
    return event.winner or None if isinstance(event, End) else None


def _set_forms(parts: Sequence[Part], forms: str) -> None:
    if len(forms) > 1 and len(forms) != len(parts):
        for part in parts:
            part.unclear = "modes"
        return
    for i, part in enumerate(parts):
        part.mode, part.detection = _MODES[forms[i] if len(forms) > 1 else forms or "f"]


def _unclear(part: Part) -> str:
    for event in part.facts:
        match event:
            case Rejected():
                return "other verdicts"
            case Assert():
                return "assertions between pools"
            case Aborted() if any(claim.evicts for claim in event.claims):
                return "failed gangs that would have evicted"
    return ""


def transaction_of(part: Part, seen: Callable[[int], int]) -> Transaction:
    """Return a transaction that asks for what the recorded one got, and for what it did not get.

    `seen` returns the number of a machine that a coarse claim must have seen to be placed. The log has the order of
    placed claims, and that of rejected ones, not both together. Rejected claims that saw an older number, or are on
    machines of their own, come first: they are independent of the others. The rest follow, as further tasks of a placed
    claim of the same group.
    """
    claims: list[Claim] = []
    rest: list[tuple[Claim, bool]] = []
    victims: list[tuple[int, int]] = []
    for event in part.facts:
        match event:
            case End() if event.winner:
                victims.append((event.placement, event.size))
            case Place():
                machine = event.machine
                claims.append(Claim(machine, event.group, event.size, seen=seen(machine), evict=tuple(victims)))
                victims = []
            case Aborted():
                claims += [
                    Claim(each.machine, each.group, each.tasks, seen=seen(each.machine)) for each in event.claims
                ]
            case Conflict():
                moved = event.verdict is Verdict.MOVED
                number = event.seen if moved else seen(event.machine)
                rest.append((Claim(event.machine, event.group, event.lacking, seen=number), moved))
    shared = {claim.machine for claim in claims}
    last = [claim for claim, early in rest if not early and claim.machine in shared]
    first = [claim for claim, early in rest if early or claim.machine not in shared]
    for claim in last:
        _add(claims, claim, apart=part.mode is Mode.GANG)
    claims = first + claims
    return Transaction(part.job, claims, part.mode, part.detection)


def _add(claims: list[Claim], claim: Claim, *, apart: bool) -> None:
    """Add a rejected claim: to the last one of its machine and group, if that saw the same number."""
    for i in range(len(claims) - 1, -1, -1):
        old = claims[i]
        if old[:2] == claim[:2] and old.seen == claim.seen and not apart:
            claims[i] = Claim(old.machine, old.group, old.count + claim.count, seen=old.seen, evict=old.evict)
            return
    claims.append(claim)
