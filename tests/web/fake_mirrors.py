"""A service whose mirror the test itself sets, for streams and polls without a store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import SimpleNamespace
from typing import Any

import anyio
from fastapi import FastAPI

from omega.cellstate.errors import CellGone, NotFound
from omega.queries.mirror.index import Index
from omega.web.service import Service
from tests.web.serving_app import serve

KEPT = 100


class FakeMirror:
    """Events of which each has a version of its own; `push` is a reading."""

    def __init__(self) -> None:
        self.lock, self.index = RLock(), Index(10, "aa")
        self.known = {"aa"}
        self.at_ms, self.unavailable, self.loading, self.again = 1_000, "", (1, 1), None
        self.topics: dict[str, Index] = {}
        self.log: list[dict[str, Any]] = []

    def has(self, index: Index) -> bool:
        return index.tag in self.known and index.version <= self.index.version

    def topic_index(self, topic: str) -> Index:
        return self.topics.get(topic, Index(0, self.index.tag))

    def jobs(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"cell": "main", "total": 0, "next": None, "jobs": []}

    def find_job(self, asked: str) -> Any:
        return SimpleNamespace(id=asked)

    def events(
        self, after: Index, *, kinds: Sequence[str] = (), job: str | None = None, limit: int = 50
    ) -> dict[str, Any]:  # fmt: skip
        first = self.log[0]["version"] if self.log else self.index.version + 1
        found = [
            each for each in self.log
            if each["version"] > after.version and (not kinds or each["kind"] in kinds) and job in (None, each["job"])
        ]  # fmt: skip
        gap = {"from": after.version + 1, "to": first - 1} if after.version + 1 < first else None
        shown = found[:limit]
        at = shown[-1]["version"] if len(found) > limit else self.index.version
        return {"version": at, "gap": gap, "events": shown}

    def push(self, count: int = 1, *topics: str, kind: str = "submit", job: str = "j") -> None:
        """Let a reading bring events."""
        with self.lock:
            for version in range(self.index.version + 1, self.index.version + 1 + count):
                self.log.append({"version": version, "kind": kind, "job": job, "text": "é\n" * 20})
            del self.log[:-KEPT]
            self.index = Index(self.index.version + count, self.index.tag)
            self.topics |= dict.fromkeys((*topics, "events", f"job:{job}"), self.index)

    def cut(self, version: int, tag: str) -> None:
        """Lose the versions from one on, as in a failover."""
        with self.lock:
            self.log = [each for each in self.log if each["version"] < version]
            self.index, self.known = Index(version, tag), {tag}


class FakeMirrors:
    """The mirrors of a store with one cell, ``main``; waits end when it has another index."""

    shown_url = "fake"

    def __init__(self) -> None:
        self.mirror, self.gone, self.waiting = FakeMirror(), False, 0

    async def names(self) -> list[str]:
        return ["main"]

    async def cell(self, name: str) -> FakeMirror:
        if name != "main":
            raise NotFound(f"cell {name}: there is none on the store")
        return self.mirror

    async def changed(self, name: str, after: Index, timeout: float, topics: Sequence[str] = ()) -> bool:  # noqa: ASYNC109
        self.waiting += 1
        try:
            with anyio.move_on_after(timeout):
                while self.mirror.index == after and not self.gone:  # noqa: ASYNC110 - the test sets them in a thread
                    await anyio.sleep(0.005)
        finally:
            self.waiting -= 1
        if self.gone:
            raise CellGone("cell main: was deleted")
        return self.mirror.index != after

    async def close(self) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[tuple[FastAPI, FakeMirrors, str]]:
    """Serve the fake's cell on a unix socket; yields the application, the mirrors, and the path of the socket."""
    service, mirrors = Service("unix:///nowhere.sock", "main"), FakeMirrors()
    service.mirrors = mirrors  # type: ignore[assignment]
    with serve(service, folder) as (app, path):
        yield app, mirrors, path
