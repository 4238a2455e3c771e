"""``omega bench place`` and ``omega bench sync``: the cost of decisions, syncs, memory and fair shares."""

from collections.abc import Callable, Sequence
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
    without_store: dict[str, Callable[[], object]] = {
        "placement": lambda: measure_placement(list(settings.machines)),
        "fair-shares": measure_fair_shares,
        "pools": measure_pool_scheduling,
        "lanes": measure_attempts,
    }
    for part, measured in without_store.items():
        if part in settings.parts:
            document[part.replace("-", "_")] = measured()
            progress(f"place: {part} measured")
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
                machines, tasks, first = settings.memory_machines, settings.memory_tasks, settings.per_job[0]
                cases = [(per_job, "packed", True) for per_job in settings.per_job]
                cases += [(first, "spread", True), (first, "packed", False), (first, "spread", False)]
                server = [
                    measure_server(store, empty, machines, tasks // 2, per_job, form, own_ids=own_ids)
                    for per_job, form, own_ids in cases
                ]
                scheduler = measure_scheduler(store, empty, machines, tasks)
                document["memory"] = {"server": server, "scheduler": scheduler}
                progress("place: memory measured")
    return document


if __name__ == "__main__":
    launch(Settings, measure)
