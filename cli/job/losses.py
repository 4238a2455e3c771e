"""Losses of a job's tasks as lines of text (semantics 26)."""

from collections.abc import Iterator
from typing import Any

from omega.cli import words


def lines(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each: ``tasks 3,5 of web: lost 2 times of at most 10, placed again in 3.2 s``."""
    for each in found:
        delay = f", delayed for {words.seconds(each['delay_ms'] / 1000)}" if each["delay_ms"] else ""
        times = words.count(each["lost"], "time")
        yield f"tasks {each['tasks']} of group {each['name']}: lost {times} of at most {each['budget']}{delay}"
