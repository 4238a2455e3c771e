"""``omega bench web --hostile``: the longest time for which ``omega serve`` answers nobody while it reads bodies.

The server runs in a process of its own, with a task in its loop that wakes every millisecond. The processor time that
the process uses between two of its turns is a gap: the loop's own work, and that of threads that hold the interpreter's
lock. Other load of the computer does not count, and neither does the process that reads large texts.
"""

import asyncio
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlencode

from benchmarks.launch import progress
from benchmarks.store import Store
from omega.web.server import Serving, Settings, WebServer

TURN_SECONDS = 0.001
TARGET_MS = 50.0
MIB = 1 << 20
AT_ONCE = 4
"""Requests with the same body at the same time."""
JSON, YAML, FORM = "application/json", "application/yaml", "application/x-www-form-urlencoded"
PATHS: Mapping[str, tuple[str, ...]] = {
    JSON: ("POST /v1/jobs/plan", "POST /v1/pool-file/plan", "POST /v1/jobs/stop", "PATCH /v1/limits/batch"),
    YAML: ("POST /v1/jobs/plan", "POST /v1/pool-file/plan", "PATCH /v1/pools/x"),
    FORM: ("POST /login", "POST /cells/{cell}/plan"),
}
UPDATES: Mapping[str, tuple[str, ...]] = {
    JSON: ("POST /v1/jobs/update?dry_run=true",),
    FORM: ("POST /cells/{cell}/jobs/{job}/change",),
}


def service(word: str, letters: int = 0) -> str:
    """Return the job file of a service with 200 groups, whose commands have a word and so many letters a group."""
    need, command = {"cpu": "1m", "memory": "1Mi"}, ["sleep", word, *["x" * (letters // 10)] * 10]
    tasks = [{"name": f"g{i}", "count": 2, "resources": need, "command": command} for i in range(200)]
    return json.dumps({"name": "large", "kind": "service", "tasks": tasks})


BODIES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "json, 7 MiB of lists": (JSON, lambda: '{"a": [' + "[]," * (7 * MIB // 3) + "1]}"),
    "json, 7 MiB of one text": (JSON, lambda: json.dumps({"a": "x" * (7 * MIB)})),
    "json, 250 KiB of errors": (JSON, lambda: '{"name": "a", "tasks": [' + "1," * (125 << 10) + "1]}"),
    "json, 20 KiB of errors": (JSON, lambda: '{"name": "a", "tasks": [' + "1," * 9_000 + "1]}"),
    "json, 2,000 jobs": (JSON, lambda: json.dumps([{"name": f"j{i}", "tasks": [{"count": 2}]} for i in range(2_000)])),
    "yaml, a MiB of lists": (YAML, lambda: "a: [" + "1, " * (MIB // 3) + "1]"),
    "yaml, 31 KiB of lists": (YAML, lambda: "a: [" + "1, " * 10_000 + "1]"),
    "form, 8 MiB of fields": (FORM, lambda: "a=b&" * (2 * MIB)),
    "json, an update of 3 MiB": (JSON, lambda: service("new", 15_000)),
    "form, an update of 60 KiB": (FORM, lambda: urlencode({"action": "update", "text": service("new", 100)})),
}


def measure(store: Store) -> dict[str, Any]:
    """Send each body to the paths of its type, some at once; return the longest gap of each in ms."""
    rows = dict[str, Any]()
    with serving(store) as ask:
        said = ask("where")
        made = _sent(said, store.cell, "POST /v1/jobs", JSON, service("old").encode())[1]
        job = json.loads(made)["jobs"][0]["id"]
        for name, (kind, make) in BODIES.items():
            body, paths = make().encode(), UPDATES if "update" in name else PATHS
            requests = [(said, store.cell, path.replace("{job}", job), kind) for path in paths[kind]]
            for each in requests:
                _sent(*each, b"{}")  # what is imported and loaded once
            ask("gap")
            found = set[int]()
            with ThreadPoolExecutor(AT_ONCE) as threads:
                for each in requests:
                    found.update(one[0] for one in threads.map(_sent, *zip(*[(*each, body)] * AT_ONCE, strict=True)))
            answers = sorted(found)
            rows[name] = {"kib": len(body) >> 10, "longest_gap_ms": ask("gap")["longest_ms"], "answers": answers}
            progress(f"web: {name}: {rows[name]}")
    longest = max(row["longest_gap_ms"] for row in rows.values())
    return {"bodies": rows, "longest_gap_ms": longest, "target_ms": TARGET_MS, "met": longest <= TARGET_MS}


def _sent(said: Mapping[str, Any], cell: str, path: str, kind: str, body: bytes) -> tuple[int, bytes]:
    """Send a body; return the status and body of the answer, 0 where the server closed the connection."""
    method, _, place = path.partition(" ")
    if place.startswith("/v1"):
        place += ("&" if "?" in place else "?") + "cell={cell}"
    place = place.format(cell=cell)
    with closing(http.client.HTTPConnection("127.0.0.1", said["port"], timeout=120)) as client:
        try:
            client.request(method, place, body, {"Authorization": f"Bearer {said['token']}", "Content-Type": kind})
            answer = client.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 0, b""


Ask = Callable[[str], dict[str, Any]]


@contextmanager
def serving(store: Store) -> Iterator[Ask]:
    """Serve the store in a process of its own; yield what asks it."""
    command = [sys.executable, "-m", "benchmarks.web_hostile", store.url, store.cell, str(store.directory / "token")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:

        def ask(word: str) -> dict[str, Any]:
            print(word, file=process.stdin, flush=True)
            found: dict[str, Any] = json.loads(process.stdout.readline() if process.stdout else "")
            return found

        try:
            yield ask
        finally:
            process.terminate()


class Gaps:
    """Watches a loop."""

    def __init__(self) -> None:
        self.longest, self._task = 0.0, asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(TURN_SECONDS)
            self.longest = max(self.longest, time.process_time() - began)

    def take(self) -> float:
        """Return the longest gap since the last call in seconds."""
        longest, self.longest = self.longest, 0.0
        return longest


def main() -> None:
    """Serve a store, and answer the commands ``where`` and ``gap`` on stdin."""
    url, cell, file = sys.argv[1:]
    server = WebServer(url, cell, Settings(listen="127.0.0.1:0", token_file=file))

    def ready(serving: Serving) -> None:
        gaps, port = Gaps(), int(serving.url.rpartition(":")[2].strip("/"))

        def answer() -> None:
            for line in sys.stdin:
                found: dict[str, Any] = {"port": port, "token": server.token}
                if line.strip() == "gap":
                    found = {"longest_ms": round(1_000 * gaps.take(), 1)}
                print(json.dumps(found), flush=True)

        threading.Thread(target=answer, daemon=True).start()

    server.run(ready)


if __name__ == "__main__":
    main()
