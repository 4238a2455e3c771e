"""``omega bench questions``: what a command costs in a cell: its own processor time and memory, and the server's.

Each command is a process of its own, started through this interpreter as a person starts it. What it costs beyond one
that only connects and pings (`NOTHING`) is the cost of its question.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.computer import computer
from benchmarks.large_cells import SIZES, fill_large
from benchmarks.launch import Document, launch, progress
from benchmarks.store import Store, StoreSettings

MIB = 1 << 20
TIMES = 3
NOTHING = "from omega.cli.main import main; from omega.cellstate.server import connect; connect({url!r}).ping()"
"""The program that only connects and pings."""
NUMBERS = count(1)
Command = Callable[[int], Sequence[str]]
"""The words of a command for its n-th process: a job can be submitted, or stopped, once."""
OMEGA = ("-c", "from omega.cli.main import main; main()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Cells by the names of `SIZES`, processes of each command, and whether `cell verify` is one of them."""

    cells: Sequence[str] = ("small", "running", "pending")
    times: int = TIMES
    verify: bool = False


@dataclass(frozen=True, slots=True)
class Used:
    """What one process used: milliseconds of processor time of its own and of the server, and resident MiB."""

    own_ms: float
    server_ms: float
    resident_mib: float
    code: int


def measure(settings: Settings) -> Document:
    """Make each cell, and run every command in it."""
    about, rows, described = computer(), [], {}
    for name in settings.cells:
        with settings.measured_store() as store:
            running, pending = fill_large(store.make_cell(), SIZES[name])
            commands = commands_of(running, pending, store.directory, verify=settings.verify)
            rows += [{"cell": name} | row for row in measure_commands(store, commands, settings.times)]
            described = store.describe()
    chosen = settings.values("cells", "times", "verify") | {"sizes": {name: asdict(SIZES[name]) for name in SIZES}}
    return {"commands": rows, "store": described, "computer": about, "chosen": chosen}


def run(store: Store, arguments: Sequence[str]) -> Used:
    """Run this interpreter with arguments on the store of the measurement; its output is discarded."""
    environment = os.environ | {"OMEGA_STORE": store.url, "OMEGA_CELL": store.cell, "PYTHONSAFEPATH": "1"}
    before = store.cpu_seconds()
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Used(
        1_000 * (usage.ru_utime + usage.ru_stime),
        1_000 * (store.cpu_seconds() - before),
        usage.ru_maxrss * 1_024 / MIB,
        process.returncode,
    )


def measure_commands(store: Store, commands: Mapping[str, Command], times: int) -> list[dict[str, Any]]:
    """Return the medians of each command, beside those of a process that only connects and pings."""
    nothing = _median(store, "connect and ping", lambda _: ("-c", NOTHING.format(url=store.url)), times)
    rows = [nothing]
    for name, words in commands.items():
        row = _median(store, name, lambda number, words=words: (*OMEGA, *words(number)), times)  # type: ignore[misc]
        row["beyond_ping_ms"] = round(row["client_cpu_ms"] - nothing["client_cpu_ms"], 1)
        rows.append(row)
    return rows


def _median(store: Store, name: str, arguments: Command, times: int) -> dict[str, Any]:
    run(store, arguments(next(NUMBERS)))  # its modules and scripts are cached
    used = [run(store, arguments(next(NUMBERS))) for _ in range(times)]
    row = {
        "command": name,
        "client_cpu_ms": round(median(each.own_ms for each in used), 1),
        "server_cpu_ms": round(median(each.server_ms for each in used), 2),
        "resident_mib": round(median(each.resident_mib for each in used), 1),
        "beyond_ping_ms": 0.0,
        "code": used[-1].code,
    }
    progress(f"{name}: {row['client_cpu_ms']} + {row['server_cpu_ms']} ms, {row['resident_mib']} MiB")
    return row


def commands_of(running: str, pending: str, directory: Path, *, verify: bool) -> dict[str, Command]:
    """Return the measured commands by name; `running`, `pending`: jobs of the cell."""
    first, last = f"{os.getpid()}", int(pending, 16)

    def submit(number: int) -> Sequence[str]:
        file = directory / f"question-{number}.yaml"
        task = "{count: 1, resources: {cpu: 1, memory: 1Gi}, duration: 1s}"
        file.write_text(f"name: question-{first}-{number}\nkind: batch\ntasks: [{task}]\n", "utf-8")
        return "job", "submit", str(file)

    def always(*words: str) -> Command:
        return lambda _: words

    return {
        "job submit": submit,
        "job status, running": always("job", "status", running),
        "job status, pending": always("job", "status", pending),
        "job status by name": always("job", "status", f"job{last}"),
        "job why": always("job", "why", pending),
        "job stop": lambda number: ("job", "stop", f"job{last - number}", "--force"),
        "job list --limit 50": always("job", "list", "--limit", "50"),
        "machine list --limit 50": always("machine", "list", "--limit", "50"),
        "machine status": always("machine", "status", "m17"),
        "events": always("events", "--limit", "50"),
        "cell status": always("cell", "status"),
        "top --once": always("top", "--once"),
        "cell list": always("cell", "list"),
        **({"cell verify": always("cell", "verify")} if verify else {}),
    }


if __name__ == "__main__":
    launch(Settings, measure)
