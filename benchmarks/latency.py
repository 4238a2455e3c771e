"""``omega bench latency``: the time from a submission until its task runs and has ended, on an agent of a quiet cell.

One scheduler and one agent of this computer are processes; the other machines of the cell are too small for the task.
Jobs of one task are submitted one after another, each when the one before has ended.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.computer import computer, cpu_seconds, wait_calm
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import LEASE_MS, join
from benchmarks.store import Store, StoreSettings
from omega.cellstate.clock import since_1970
from omega.cellstate.errors import StoreError
from omega.cellstate.events import ENDS
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.live.agent.process_tree import below, processes
from omega.live.processes.supervisor import ProcessSupervisor
from omega.queries.events import events, extent

TOO_SMALL, NEED = (500, 512), (1_000, 1_024)
"""Capacity of the other machines, and what the task asks for."""
AGENT = "agent/latency"
WARM = 5
"""Submissions before the measured ones: the first of each process imports and connects."""
DEADLINE_SECONDS = 20.0
PARTS = ("submitted", "decided", "started", "ended", "to start")
"""Milliseconds: the client's call; from its begin until a scheduler sends its decision; from there until the command
runs; from there until the end is stored; from the begin of the call until the command runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Machines of the cell and submissions."""

    machines: int = 1_000
    submissions: int = 100
    calm_seconds: float = 10.0


def measure(settings: Settings) -> Document:
    """Return the quantiles of each part."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        join(cell, settings.machines - 1, TOO_SMALL, LEASE_MS)
        own = {"OMEGA_STATE": str(store.directory / "state")}
        with ProcessSupervisor(store.url, store.cell, store.directory / "logs", settings=own, bound=True) as group:
            for member in ("batch/0", AGENT):
                group.start(member)
            group.wait_ready(cell)
            wait_calm(settings.calm_seconds)
            used, rows = _cpu(store, group), list(_runs(store, cell, WARM + settings.submissions))[WARM:]
            cpu = {role: seconds - used[role] for role, seconds in _cpu(store, group).items()}
        document: Document = {
            "parts": [{"part": part, **_quantiles([row[part] for row in rows])} for part in PARTS],
            "cpu_ms": {role: round(1000 * each / (len(rows) + WARM), 1) for role, each in cpu.items()},
            "store": store.describe(),
            "computer": about,
            "chosen": settings.values("machines", "submissions"),
        }
        cell.close()
        return document


def _runs(store: Store, cell: RedisCell, number: int) -> Iterator[dict[str, float]]:
    """Submit jobs one after another; yield the parts of each in milliseconds."""
    files = store.directory / "started"
    files.mkdir()
    with Client(store=store.url, cell=store.cell) as client:
        for i in range(number):
            yield _run(client, cell, files / str(i), i)
            if i == WARM:
                progress(f"latency: {number - i} submissions")


def _run(client: Client, cell: RedisCell, file: Path, number: int) -> dict[str, float]:
    command = ["sh", "-c", 'date +%s%N > "$0.new" && mv "$0.new" "$0"', str(file)]
    group = TaskGroup(NEED, 1, spec={"command": command})
    newest, began = extent(cell).newest, since_1970()
    client.submit(JobSpec(f"j{number}", f"j{number}", "batch", (group,)))
    submitted = since_1970()
    deadline = time.monotonic() + DEADLINE_SECONDS
    times: dict[str, float] = {}
    while not times.keys() & set(ENDS):
        if time.monotonic() > deadline:
            raise StoreError(f"task {number} did not end in {DEADLINE_SECONDS:g} s")
        time.sleep(0.05)
        times = {event.kind: event.at_ms / 1000 for event in events(cell, newest, extent(cell).newest)}
    started = int(file.read_text()) / 1e9
    spans = (
        submitted - began,
        times["place"] - began,
        started - times["place"],
        next(at for kind, at in times.items() if kind in ENDS) - started,
    )
    return dict(zip(PARTS, (1000 * seconds for seconds in (*spans, started - began)), strict=True))


def _cpu(store: Store, group: ProcessSupervisor) -> dict[str, float]:
    """Return the processor time of each role so far; the tasks are those of the agent's guard, which adopts them."""
    pids = {member.partition("/")[0]: process.pid for member, process in group.members.items()}
    guards = below([pids["agent"]], processes())
    roles = {role: cpu_seconds(pid) for role, pid in pids.items()}
    children = sum(cpu_seconds(pid, children=True) for pid in guards)
    return {"client": time.process_time(), "server": store.cpu_seconds(), **roles, "guard and tasks": children}


def _quantiles(values: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(values)
    return {f"p{share}_ms": round(ordered[(len(ordered) - 1) * share // 100], 1) for share in (50, 99)}


if __name__ == "__main__":
    launch(Settings, measure)
