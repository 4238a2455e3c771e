"""The process of ``benchmarks.web_pages`` that has pages open, as ``console.js`` does it: prints a line of JSON each.

Arguments: path of the server's socket, cell, number of pages. It prints a line when they are open. Commands on stdin:
``count`` begins to count updates, ``figures SECONDS`` prints what they were.
"""

import asyncio
import gzip
import json
import re
import sys
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

TOKEN = "benchmark"  # noqa: S105 - of a server that only the benchmark reaches
USERS = 50
PATHS = ("", "jobs", "jobs?user=user{}", "jobs?state=pending&user=user{}", "machines", "schedulers", "pools", "events")
"""Pages that are open, in turn; those of a user differ from one another."""
_PART = re.compile(rb'data-part="([\w-]+)" data-topics="([^"]*)" data-hash="(\w+)"')


@dataclass(slots=True)
class Page:
    """One open page in a browser of its own."""

    path: str
    url: str
    live: str
    parts: dict[str, tuple[set[str], str]] = field(default_factory=dict)
    """By name: the topics, and the hash that it has."""
    sizes: list[int] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    """Seconds from the message of a change to the end of the update."""
    paces: list[float] = field(default_factory=list)
    failed: int = 0
    received: int = 0
    """Bytes of the last answer, as they were sent."""

    async def look(self) -> None:
        """Open the page, and keep it up to date until it is cancelled."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        dirty: dict[str, float] = {}
        woken = asyncio.Event()
        stream: asyncio.Task[None] | None = None
        try:
            _, body, _ = await self._ask(reader, writer, {})
            self.parts = {
                name.decode(): (set(topics.decode().split()), known.decode())
                for name, topics, known in _PART.findall(body)
            }
            stream = asyncio.create_task(self._listen(dirty, woken))
            while True:
                await woken.wait()
                woken.clear()
                names, since = list(dirty), min(dirty.values(), default=0.0)
                dirty.clear()
                asked = ",".join(f"{name}={self.parts[name][1]}" for name in names)
                status, body, pace = await self._ask(reader, writer, {"Omega-Parts": asked})
                self._take(status, body, since, dirty)
                self.paces.append(pace)
                await asyncio.sleep(pace)
                if dirty:
                    woken.set()
        finally:
            if stream is not None:
                stream.cancel()
            writer.close()

    def _take(self, status: int, body: bytes, since: float, dirty: dict[str, float]) -> None:
        if status != 200:
            self.failed += 1
            return
        self.sizes.append(self.received)
        self.late.append(time.monotonic() - since)
        found = re.findall(rb'"([\w-]+)":\{"hash":"(\w+)"', body)
        for name, known in found:
            self.parts[name.decode()] = self.parts[name.decode()][0], known.decode()
        more = re.search(rb'"more":\[([^\]]*)\]', body)
        for name in re.findall(rb'"([\w-]+)"', more[1] if more else b""):
            dirty[name.decode()] = time.monotonic()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> tuple[int, bytes, float]:
        writer.write(_request(self.url, headers))
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        self.received = len(body)
        if b"content-encoding: gzip" in head:
            body = gzip.decompress(body)
        pace = re.search(rb"omega-pace: ([\d.]+)", head)
        return int(head.split(b" ", 2)[1]), body, float(pace[1]) if pace else 2.0

    async def _listen(self, dirty: dict[str, float], woken: asyncio.Event) -> None:
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(_request(self.live, {}))
        try:
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    topics = set(re.findall(rb'"(\w+)"', line.partition(b'"topics"')[2]))
                    for name, (wanted, _) in self.parts.items():
                        if any(topic.encode() in topics for topic in wanted):
                            dirty.setdefault(name, time.monotonic())
                    if dirty:
                        woken.set()
        finally:
            writer.close()


def _request(url: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {url} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}", "Accept-Encoding: gzip"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def figures(pages: list[Page], seconds: float) -> dict[str, Any]:
    """Return what the updates were, `seconds` after `count`."""
    sizes = sorted(size for page in pages for size in page.sizes)
    late = sorted(each for page in pages for each in page.late)
    return {
        "updates_per_second": round(len(sizes) / seconds, 1),
        "update_bytes": {"median": median(sizes), "p99": sizes[int(0.99 * len(sizes))], "max": sizes[-1]},
        "update_seconds": {"median": round(median(late), 2), "p99": round(late[int(0.99 * len(late))], 2)},
        "pace_seconds": round(median(pace for page in pages for pace in page.paces), 1),
        "failed": sum(page.failed for page in pages),
    }


def count(pages: list[Page]) -> dict[str, Any]:
    """Forget the updates so far."""
    for page in pages:
        page.sizes, page.late, page.paces = [], [], []
    return {}


async def main() -> None:
    """Open the pages, and answer commands until stdin ends."""
    path, cell, number = sys.argv[1:]
    top = f"/cells/{cell}/"
    paths = [PATHS[i % len(PATHS)].format(i % USERS) for i in range(int(number))]
    pages = [Page(path, top + each, f"{top}live") for each in paths]
    tasks = []
    for page in pages:
        tasks.append(asyncio.create_task(page.look()))
        await asyncio.sleep(0.02)
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, _, seconds = line.strip().partition(" ")
        answer = count(pages) if word == "count" else figures(pages, float(seconds))
        print(json.dumps(answer | {"gave_up": sum(task.done() for task in tasks)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
