"""``omega bench all``: every measurement in turn, compared with recorded ones (ranges.toml)."""

from dataclasses import dataclass
from typing import Any

from benchmarks import commit, conflict, durability, instructions, lists, place, shards, web, web_submissions
from benchmarks.computer import computer
from benchmarks.launch import Document, launch
from benchmarks.ranges import compare, load
from benchmarks.store import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """On which store; `quick` for a first impression within two minutes."""

    quick: bool = False

    def parts(self) -> list[tuple[str, str, Any]]:
        """Return the benchmarks that are run: the name of the document, that of the module, its settings."""
        where: dict[str, Any] = {"store": self.store, "append_only": self.append_only}
        less: dict[str, Any] = {"repeat": 1, "seconds": 2.0} if self.quick else {}
        fewer: dict[str, Any] = {"clients": (2,), "rounds": 3} if self.quick else {}
        some: dict[str, Any] = {"rounds": 1, "calls": 100} if self.quick else {"rounds": 3}
        few: dict[str, Any] = {"rounds": 1, "calls": 8} if self.quick else {"rounds": 4, "calls": 24}
        counted = [("instructions", "instructions", instructions.Settings())] if instructions.countable() else []
        return [
            ("commit", "commit", commit.Settings(**where, **fewer)),
            ("headline", "conflict", conflict.chosen("headline", **where, **less)),
            ("contended", "conflict", conflict.chosen("contended", **where, **less)),
            ("place", "place", place.Settings(**where)),
            ("lists", "lists", lists.Settings(**where)),
            ("web", "web", web.Settings(**where)),
            ("submissions", "web_submissions", web_submissions.Settings(**where, rate=1_400, list_rate=12)),
            ("durability", "durability", durability.Settings(**some)),  # on servers of their own
            ("shards", "shards", shards.Settings(shards=(2,), **few)),
            *counted,
        ]


def measure(settings: Settings) -> Document:
    """Measure all and compare."""
    on = computer()
    modules = {
        "commit": commit, "conflict": conflict, "place": place, "lists": lists, "web": web, "durability": durability,
        "web_submissions": web_submissions, "shards": shards, "instructions": instructions,
    }  # fmt: skip
    documents: dict[str, Document] = {
        name: modules[module].measure(chosen) for name, module, chosen in settings.parts()
    }
    return {**documents, "ranges": compare(documents), "measured": dict(load()[0]), "computer": on}


if __name__ == "__main__":
    launch(Settings, measure)
