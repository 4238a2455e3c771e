"""``omega bench all``: every measurement in turn, compared with recorded ones (ranges.toml)."""

from dataclasses import dataclass
from typing import Any

from benchmarks import commit, conflict, instructions, lists, place
from benchmarks.computer import computer
from benchmarks.launch import Document, launch
from benchmarks.ranges import compare, load


@dataclass(frozen=True, slots=True)
class Settings:
    """On which store; `quick` for a first impression within two minutes."""

    store: str | None = None
    append_only: bool = False
    quick: bool = False


def measure(settings: Settings) -> Document:
    """Measure all and compare."""
    where: dict[str, Any] = {"store": settings.store, "append_only": settings.append_only}
    less: dict[str, Any] = {"repeat": 1, "seconds": 2.0} if settings.quick else {}
    fewer: dict[str, Any] = {"clients": (2,), "rounds": 3} if settings.quick else {}
    on = computer()
    documents: dict[str, Document] = {
        "commit": commit.measure(commit.Settings(**where, **fewer)),
        "headline": conflict.measure(conflict.chosen("headline", **where, **less)),
        "contended": conflict.measure(conflict.chosen("contended", **where, **less)),
        "place": place.measure(place.Settings(**where)),
        "lists": lists.measure(lists.Settings(**where)),
    }
    if instructions.countable():
        documents["instructions"] = instructions.measure(instructions.Settings())
    return {**documents, "ranges": compare(documents), "measured": dict(load()[0]), "computer": on}


if __name__ == "__main__":
    launch(Settings, measure)
