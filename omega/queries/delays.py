"""Jobs that their scheduler delays because its placement prefers other machines: level and time left."""

from typing import Any

from omega.cellstate.model import MACHINE


def delay_json(delay: tuple[int, str] | None, now_ms: int) -> dict[str, Any] | None:
    """Return a delay, its time (ms since 1970) and level, as plain values; None for a job that is not delayed.

    ``level`` is ``machine``, or the attribute of a domain; None where the policy names none. After ``left_seconds``
    the job is tried at the next level.
    """
    if delay is None:
        return None
    until_ms, level = delay
    return {"level": level or None, "until_ms": until_ms, "left_seconds": max(0, until_ms - now_ms) / 1000}


def delay_text(delay: dict[str, Any], left: str) -> str:
    """Return a delay as a sentence, with the time `left` as text."""
    level = delay["level"]
    if level is None:
        where = "machines that its placement prefers"
    else:
        where = "a machine with its data" if level == MACHINE else f"a machine in one {level} with its data"
    return f"waits for {where}, {left} more at most"
