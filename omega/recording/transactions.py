"""The transactions of a recorded call, from its facts (docs/decisions/0056)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.replies import Fact
from omega.cellstate.transaction import FORMS, Claim, Detection, Mode, Transaction, Verdict

_STEPS = {"conflict": 0, "aborted": 1, "rejected": 2, "assert": 3, "evicted": 4, "place": 4}
"""The facts of a transaction come in this order."""
_PLACING = _STEPS["assert"]
_ONCE = frozenset({"aborted", "rejected", "assert"})
_MODES = {letter: form for form, letter in FORMS.items()}
ENDS = ("finished", "failed", "retried", "lost", "evicted", "stopped")


@dataclass
class Part:
    """The facts of one transaction of a call, and its mode and detection; `unclear`: why it cannot be judged again."""

    job: str
    facts: list[tuple[str, ...]] = field(default_factory=list)
    step: int = 0
    """The last of `_STEPS` that was read."""
    mode: Mode = Mode.INCREMENTAL
    detection: Detection = Detection.FINE
    unclear: str = ""


def parts_of(facts: Sequence[Fact], size: int) -> list[Part]:
    """Return the transactions of a call in order; the cell has `size` resources."""
    forms = facts[0].basis.forms if facts and facts[0].basis else ""
    parts = _split(facts, size, gangs=forms in ("g", "k"))
    _set_forms(parts, forms)
    for part in parts:
        part.unclear = part.unclear or _unclear(part)
    return parts


def _split(facts: Sequence[Fact], size: int, *, gangs: bool) -> list[Part]:
    """Part the facts of a call; with `gangs`, placements after rejected claims of a job are another transaction."""
    parts: list[Part] = []
    for fact in facts:
        words = fact.words
        job = _transaction_of(words, size)
        part = parts[-1] if parts else None
        if words[0] == "again":
            if part is not None and (part.job != words[1] or part.step == _STEPS["place"]):
                parts.append(Part(words[1]))
            continue
        if job is None:
            if part is not None:
                part.facts.append(words)
            continue
        step = _STEPS[words[0]]
        over = part is not None and (step < part.step or (step == part.step and words[0] in _ONCE and bool(part.facts)))
        if gangs and part is not None and part.facts and step >= _PLACING > part.step:
            over = True
        if part is None or part.job != job or over:
            part = Part(job)
            parts.append(part)
        part.facts.append(words)
        part.step = step
    return parts


def _transaction_of(words: tuple[str, ...], size: int) -> str | None:
    """Return the job whose transaction a fact begins or belongs to; None for one that follows another fact."""
    word = words[0]
    if word in ("conflict", "aborted", "rejected", "assert"):
        return words[1]
    if word == "place":
        return words[3]
    if word == "evicted":
        cause, _, evictor = " ".join(words[7 + size :]).partition(":")
        return evictor if cause in ("precedence", "fair-share") else None
    return None


def _set_forms(parts: Sequence[Part], forms: str) -> None:
    if len(forms) > 1 and len(forms) != len(parts):
        for part in parts:
            part.unclear = "modes"
        return
    for i, part in enumerate(parts):
        part.mode, part.detection = _MODES[forms[i] if len(forms) > 1 else forms or "f"]


def _unclear(part: Part) -> str:
    for words in part.facts:
        if words[0] == "rejected":
            return "other verdicts"
        if words[0] == "assert":
            return "assertions between pools"
        if words[0] == "aborted" and any(each.endswith("!") for each in words[2:]):
            return "failed gangs that would have evicted"
    return ""


def transaction_of(part: Part, seen: Callable[[int], int], size: int) -> Transaction:
    """Return a transaction that asks for what the recorded one got, and for what it did not get.

    `seen` returns the number of a machine that a coarse claim must have seen to be placed. The log has the order of
    placed claims, and that of rejected ones, not both together. Rejected claims that saw an older number, or are on
    machines of their own, come first: they are independent of the others. The rest follow, as further tasks of a placed
    claim of the same group.
    """
    claims: list[Claim] = []
    rest: list[tuple[Claim, bool]] = []
    victims: list[tuple[int, int]] = []
    for words in part.facts:
        if words[0] == "evicted" and _transaction_of(words, size):
            victims.append((int(words[1]), ranges.count(words[5])))
        elif words[0] == "place":
            machine, group = int(words[2]), int(words[4])
            claims.append(Claim(machine, group, ranges.count(words[5]), seen=seen(machine), evict=tuple(victims)))
            victims = []
        elif words[0] == "aborted":
            for each in words[2:]:
                machine, group, count = map(int, each.split(":"))
                claims.append(Claim(machine, group, count, seen=seen(machine)))
        elif words[0] == "conflict":
            machine, verdict, count, group = int(words[2]), Verdict(int(words[3])), int(words[4]), int(words[5])
            number = int(words[6]) if verdict is Verdict.MOVED else seen(machine)
            rest.append((Claim(machine, group, count, seen=number), verdict is Verdict.MOVED))
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
