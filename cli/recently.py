"""Recent failures, losses, evictions and conflicts of a cell as text."""

from omega.cli import words
from omega.queries.recent import Recently


def text(recent: Recently) -> str:
    """Return ``3 failed, 12 evicted in the last 15m00s``; empty when there were none."""
    one = {"conflicts": "conflict"}
    said = [f"{n:,} {one.get(name, name) if n == 1 else name}" for name, n in recent.as_json().items() if n]
    return f"{', '.join(said)} in the last {words.age(recent.seconds)}" if said else ""
