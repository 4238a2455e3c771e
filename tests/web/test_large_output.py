"""``omega serve`` with 200 MB of output of a task on its computer, for four readers at once."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from omega.live.agent.places import AgentPlaces
from tests.integration.stage import made_cell
from tests.web.api.test_logs import Stand
from tests.web.serving import Console, serving

SIZE, READERS, MOST_MORE = 200_000_000, 4, 64 << 20
"""Bytes of output; readers; bytes by which the memory of the server may grow."""

pytestmark = [pytest.mark.server, pytest.mark.chaos]


def most_memory(console: Console) -> int:
    """Return the largest number of bytes that the server had in memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{console.process.pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def received(console: Console, query: str) -> int:
    """Return the size of the answer to a request for the output."""
    size, sent = 0, {"Authorization": f"Bearer {console.tokens['reader']}"}
    with httpx.stream("GET", console.address_of(f"/v1/jobs/talk/logs{query}"), headers=sent, timeout=300) as answer:
        assert answer.status_code == 200
        for piece in answer.iter_raw():
            size += len(piece)
            tail = piece
    assert tail.endswith(b'"}')
    return size


def test_the_memory_of_the_server_does_not_grow_with_the_output(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with made_cell(store_url, f"large-{uuid4().hex[:8]}") as cell:
        stand = Stand(cell, tmp_path / "agent")
        stand.place()
        stand.places = AgentPlaces(tmp_path / "state", cell.name, "h1")
        stand.places.make()
        stand.make_place()
        stand.say(b"%098d\n\n" % 0 * (SIZE // 100))
        with serving(cell.url, cell.name, tmp_path) as console:
            assert received(console, "?tail=10") < 4_000
            before = most_memory(console)
            with ThreadPoolExecutor(READERS) as threads:
                sizes = list(threads.map(lambda _: received(console, ""), range(READERS)))
            assert min(sizes) > SIZE
            assert received(console, "?tail=10") < 4_000
            more = most_memory(console) - before
            assert more < MOST_MORE, f"{before >> 20} MiB became {(before + more) >> 20}"
            print(f"memory: {before >> 20} MiB, {(before + more) >> 20} after {READERS} times {SIZE:,} bytes")  # noqa: T201
