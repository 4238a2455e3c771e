"""Memory: of a scheduler process beside a large cell, and of the server per 100,000 running tasks."""

import time
from functools import partial

from benchmarks.computer import resident_bytes
from benchmarks.residents import BENCH_EXECUTOR, LEASE_MS, Filler, chunks, join, queue_jobs
from benchmarks.store import Saved, Store
from omega.cellstate.errors import StoreError
from omega.cellstate.model import TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor

NEED = (500, 1_024)
"""Twenty such tasks fit on a machine beside one another, with room to spare."""
MIB = 1 << 20
PER = 100_000
PACKED = 16
"""Tasks of a job on a machine, as a batch scheduler packs them."""
JOBS_PER_CALL = 16
SETTLING_SECONDS = 2.0
TIMEOUT_SECONDS = 60.0


def run_tasks(
    cell: RedisCell, machines: int, tasks: int, per_job: int, *, beside: int = PACKED, own_ids: bool = False
) -> int:
    """Let so many identical tasks run in jobs of `per_job`, at most `beside` tasks of a job on a machine."""
    filler = Filler(cell, f"memory-{per_job}", own_ids=own_ids)
    count = min(beside, per_job)
    places = [(i % machines, count) for i in range(tasks // count)]
    for call in chunks(chunks(places, per_job // count), JOBS_PER_CALL):
        filler.place(NEED, call)
        cell.executors.receive(1)  # as the executor takes its messages
    filler.leave()
    return filler.tasks


def measure_scheduler(store: Store, empty: Saved, machines: int, tasks: int) -> dict[str, object]:
    """Resident memory of a real scheduler process that has read the cell and placed some jobs."""
    empty.restore()
    cell = store.open_cell()
    join(cell, machines, lease_ms=LEASE_MS)
    running = run_tasks(cell, machines, tasks, 10)
    used = scheduler_bytes(store, cell)
    cell.close()
    return {"machines": machines, "running_tasks": running, "resident_mib": round(used / MIB, 1)}


def scheduler_bytes(store: Store, cell: RedisCell) -> int:
    """Resident memory of a batch scheduler that has read the cell and placed 1,000 jobs; the cell has no other."""
    queue_jobs(cell, "batch", 1_000, (TaskGroup(NEED, 10, 60_000),))
    with ProcessSupervisor(store.url, store.cell, store.directory / "logs", bound=True) as group:
        pid = group.start("batch/0")
        group.wait_ready(cell)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while store.client.zcard(f"{store.prefix}pending:batch"):
            if time.monotonic() > deadline or group.dead():
                raise StoreError(f"the scheduler places nothing: {group.last_words('batch/0')}")
            time.sleep(0.05)
        time.sleep(SETTLING_SECONDS)
        return resident_bytes(pid)


def measure_server(
    store: Store, empty: Saved, machines: int, tasks: int, per_job: int, form: str = "packed", *, own_ids: bool = True
) -> dict[str, object]:
    """Server memory that running tasks take, per 100,000, and which keys take it; `form`: packed or spread.

    `own_ids`: ids and names of jobs as with ``omega job submit``; otherwise long ids that are the names.

    The text of scripts, which the server keeps from their first call on, does not count. The change list counts as a
    whole, because the entry of the machines that joined is trimmed meanwhile.
    """
    fill = partial(run_tasks, per_job=per_job, beside=1 if form == "spread" else PACKED, own_ids=own_ids)
    cell = store.open_cell()
    empty.restore()
    join(cell, machines)
    fill(cell, machines, JOBS_PER_CALL * per_job)
    cell.close()
    empty.restore()
    cell = store.open_cell()  # the last one saw versions that are gone
    join(cell, machines)
    keys_before, before = _by_key(store), store.memory_bytes()
    before -= keys_before.pop("changes")
    running = fill(cell, machines, tasks)
    after, keys_after = store.memory_bytes(), _by_key(store)
    cell.close()
    share = PER / running / 1e6
    grown = {name: round((size - keys_before.get(name, 0)) * share, 2) for name, size in keys_after.items()}
    return {
        "running_tasks": running,
        "tasks_per_job": per_job,
        "form": form,
        "ids": "own" if own_ids else "long",
        "executor": BENCH_EXECUTOR,
        "megabytes_per_100000": round((after - before) * share, 2),
        "by_key": {name: size for name, size in sorted(grown.items(), key=lambda item: -item[1]) if size >= 0.01},
    }


def _by_key(store: Store) -> dict[str, int]:
    found = {}
    for key in store.client.scan_iter(match=store.prefix + "*", count=500):
        name = key.decode().removeprefix(store.prefix)
        found[name] = int(store.client.memory_usage(key, samples=0) or 0)
    return found
