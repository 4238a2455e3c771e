"""``omega bench place`` and ``omega bench sync``: the cost of decisions, syncs, memory and fair shares."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.attempts import measure_attempts
from benchmarks.computer import computer, wait_calm
from benchmarks.epochs import measure_epochs
from benchmarks.fair_shares import measure_fair_shares
from benchmarks.launch import Document, launch, progress
from benchmarks.memory import measure_scheduler, measure_server
from benchmarks.placement import measure_placement
from benchmarks.pool_scheduling import measure_pool_scheduling
from benchmarks.store import Saved, StoreSettings
from benchmarks.sync import measure_sync
from omega.cellstate.errors import BadInput

PARTS = ("placement", "sync", "memory", "fair-shares", "pools", "lanes", "epochs")
_WITH_STORE = {"sync", "memory", "epochs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """What to measure: cell sizes, numbers of changed machines, running tasks for the memory part."""

    parts: Sequence[str] = PARTS
    machines: Sequence[int] = (1_000, 10_000, 100_000)
    sync_machines: Sequence[int] = (10_000, 100_000)
    changed: Sequence[int] = (0, 100, 1_000, 10_000)
    memory_machines: int = 10_000
    memory_tasks: int = 200_000
    per_job: Sequence[int] = (10, 1_000)
    calm_seconds: float = 10.0


def measure(settings: Settings) -> Document:
    """Measure the parts that are asked for."""
    if unknown := set(settings.parts) - set(PARTS):
        raise BadInput(f"part {', '.join(sorted(unknown))}: there is {', '.join(PARTS)}")
    document: Document = {"computer": computer()}
    wait_calm(settings.calm_seconds)
    if "placement" in settings.parts:
        document["placement"] = measure_placement(list(settings.machines))
        progress("place: placement measured")
    if "fair-shares" in settings.parts:
        document["fair_shares"] = measure_fair_shares()
        progress("place: fair shares measured")
    if "pools" in settings.parts:
        document["pools"] = measure_pool_scheduling()
        progress("place: scheduling by pools measured")
    if "lanes" in settings.parts:
        document["lanes"] = measure_attempts()
        progress("place: lanes measured")
    if _WITH_STORE & set(settings.parts):
        with settings.measured_store() as store:
            document["store"] = store.describe()
            store.make_cell()
            empty = Saved.save(store, "empty")
            if "sync" in settings.parts:
                document["sync"] = measure_sync(store, empty, list(settings.sync_machines), list(settings.changed))
                progress("place: sync measured")
            if "epochs" in settings.parts:
                document["epochs"] = measure_epochs(store, empty)
            if "memory" in settings.parts:
                machines, tasks = settings.memory_machines, settings.memory_tasks
                document["memory"] = {
                    "server": [
                        *(measure_server(store, empty, machines, tasks // 2, each) for each in settings.per_job),
                        measure_server(store, empty, machines, tasks // 2, settings.per_job[0], "spread"),
                        *(
                            measure_server(store, empty, machines, tasks // 2, settings.per_job[0], form, own_ids=False)
                            for form in ("packed", "spread")
                        ),
                    ],
                    "scheduler": measure_scheduler(store, empty, machines, tasks),
                }
                progress("place: memory measured")
    return document


if __name__ == "__main__":
    launch(Settings, measure)
