"""``python -m benchmarks.web_pages``: what open pages cost ``omega serve`` and the store while a cell changes.

A cell is filled, changed at a fixed rate without and with a console, and looked at by pages as ``console.js`` does it:
each has an event stream, and asks for its changed parts at the pace that the server sets. Every page has a browser of
its own: a worse case than tabs, which share one stream.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.computer import computer, resident_bytes
from benchmarks.launch import Document, launch
from benchmarks.store import Store, StoreSettings
from benchmarks.web import OF_A_CYCLE, Asker, Changer, fill
from benchmarks.web_browsers import TOKEN
from omega.cellstate.errors import StoreError

MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Size of the cell; open pages; changes a second, and for how many seconds."""

    machines: int = 10_000
    jobs: int = 10_000
    pages: int = 200
    changes: int = 1_000
    seconds: float = 20.0


def measure(settings: Settings) -> Document:
    """Fill a cell, and measure a server with open pages."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        fill(cell, settings.machines, settings.jobs)
        changes = Changes(Changer(cell, settings.machines), store, settings.changes)
        without = changes.for_seconds(settings.seconds)
        with _serving(store.url, cell.name) as server:
            with _browsers(server, cell.name, 1):
                changes.for_seconds(settings.seconds / 2)
                used, start = server.used(), resident_bytes(server.pid) / MIB
                before = changes.for_seconds(settings.seconds)
                alone, resident = (server.used() - used) / settings.seconds, resident_bytes(server.pid) / MIB
            with _browsers(server, cell.name, settings.pages) as ask:
                changes.for_seconds(settings.seconds)  # the pace settles
                ask("count")
                used = server.used()
                beside = changes.for_seconds(settings.seconds)
                cores = (server.used() - used) / settings.seconds
                figures = ask(f"figures {settings.seconds}")
                total = resident_bytes(server.pid) / MIB
            grown = total - resident - 2 * (resident - start)  # without that of the mirror, which has the new jobs
        chosen = settings.values("machines", "jobs", "pages", "changes", "seconds")
        return {
            "server_cores": round(cores, 3),
            "server_cores_with_one_page": round(alone, 3),
            "mib_per_10_pages": round(10 * grown / settings.pages, 2),
            "resident_mib": round(total, 1),
            "store_cores": round(beside["store_cores"] - without["store_cores"], 4),
            **figures,
            "changes": {"without": without, "with_one_page": before, "beside": beside},
            "store": store.describe(),
            "computer": about,
            "chosen": chosen,
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a cell at a rate (versions a second)."""

    changer: Changer
    store: Store
    rate: int

    def for_seconds(self, seconds: float) -> dict[str, float]:
        """Make changes; return the rate that was reached, and the cores of the store."""
        before, began, made = self.store.cpu_seconds(), time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < seconds:
            if made > self.rate * spent:
                time.sleep(0.002)
                continue
            self.changer.change(OF_A_CYCLE)
            made += OF_A_CYCLE
        lasted = time.perf_counter() - began
        used = self.store.cpu_seconds() - before
        return {"changes_per_second": made / lasted, "store_cores": used / lasted}


@dataclass(frozen=True, slots=True)
class Server:
    """A running ``omega serve``."""

    pid: int
    path: str

    def used(self) -> float:
        """Return its processor time in seconds."""
        words = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS


@contextmanager
def _serving(url: str, cell: str) -> Iterator[Server]:
    with TemporaryDirectory(prefix="omega-web-") as folder:
        path, tokens = f"{folder}/web.sock", Path(folder) / "tokens"
        tokens.write_text(f"sha256:{sha256(TOKEN.encode()).hexdigest()} ada operator\n", "utf-8")
        tokens.chmod(0o600)
        program = [str(Path(sys.executable).with_name("omega")), "--store", url, "--cell", cell, "serve"]
        options = ["--listen", f"unix:{path}", "--tokens", str(tokens), "--no-start-token", "--streams", "10000"]
        process = subprocess.Popen([*program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 30
            while not Path(path).exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise StoreError("omega serve did not start; see above")
                time.sleep(0.05)
            yield Server(process.pid, path)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _browsers(server: Server, cell: str, number: int) -> Iterator[Asker]:
    """Yield a process with open pages."""
    command = [sys.executable, "-m", "benchmarks.web_browsers", server.path, cell, str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            ask = Asker(process)
            ask.answer()
            yield ask
        finally:
            process.kill()


if __name__ == "__main__":
    launch(Settings, measure)
