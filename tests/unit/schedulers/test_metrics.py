"""The metrics of a scheduler are the figures that its list shows, in the form Prometheus reads."""

from types import SimpleNamespace
from typing import cast
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from omega.cellstate.cuts import Cuts
from omega.cellstate.errors import BadInput
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.refused_writes import StoreState
from omega.cellstate.transaction import Claim, Outcome, Transaction, Verdict
from omega.live.metrics import ExecutorMetrics, shown
from omega.schedulers.epochs import epoch_of
from omega.schedulers.heartbeat_state import HeartbeatState
from omega.schedulers.instruments import BOUNDS, DurationHistogram, Figures, Instrument
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.loop import Receive
from omega.schedulers.metrics import COUNTS, DURATIONS, MOST_MACHINES, SchedulerMetrics
from omega.schedulers.presets import batch
from omega.schedulers.process.endpoint import endpoint, parse
from omega.schedulers.scheduler import Scheduler
from omega.testing import snapshot, work
from tests.unit.schedulers.rig import Rig, spec

STATE = HeartbeatState(
    renewed_at=12.5,
    store=StoreState(refuses="its memory is full", replicas=2, memory_bytes=3, memory_limit_bytes=4),
    pending={"batch": 7, "service": 9},
    machines={"up": 5, "offline": 1},
    tasks={"pending": 6, "running": 8},
    cuts=Cuts((), 3, 40),
)
LABELS = {"cell": "c", "scheduler": "batch/0"}


def registered(figures: Figures, scheduler: Scheduler | None = None, of: LiveDriver | None = None) -> CollectorRegistry:
    registry = CollectorRegistry()
    own = scheduler or Scheduler("batch")
    registry.register(SchedulerMetrics("c", "batch/0", own, figures, lambda: of, lambda: STATE))
    return registry


def value(registry: CollectorRegistry, name: str, **more: str) -> float | None:
    return registry.get_sample_value(name, LABELS | more)


def test_counts_are_those_of_the_figures() -> None:
    figures = Figures(jobs=5, tasks=40, transactions=6, conflicts=2, busy_seconds=1.5, attempts=9)
    registry = registered(figures)
    for name, (field, _) in COUNTS.items():
        assert value(registry, f"omega_scheduler_{name}_total") == getattr(figures, field)
    assert value(registry, "omega_scheduler_accepted_total") == 4
    assert value(registry, "omega_cell_cuts_total") == 3
    assert value(registry, "omega_cell_lost_versions_total") == 40


def test_durations_are_histograms() -> None:
    figures = Figures()
    for seconds in (0.0004, 0.0005, 0.004, 70.0):
        figures.synced(seconds, 1, 0.0, full=seconds > 1)
    registry = registered(figures)
    name = "omega_scheduler_sync_seconds"
    bounds = ("0.0005", "0.001", "0.005", "60.0", "+Inf")
    assert [value(registry, f"{name}_bucket", le=le) for le in bounds] == [2, 2, 3, 3, 4]
    assert value(registry, f"{name}_sum") == pytest.approx(70.0049)
    assert value(registry, f"{name}_count") == 4
    assert value(registry, "omega_scheduler_resyncs_total") == 1
    assert {f"omega_scheduler_{each}_seconds" for each in DURATIONS} <= {each.name for each in registry.collect()}


def test_a_duration_is_counted_in_one_class() -> None:
    durations = DurationHistogram()
    for bound in BOUNDS:
        durations.add(bound)
    assert durations.classes == [1] * len(BOUNDS) + [0]
    assert DurationHistogram().mean() is None


def test_what_is_in_hand() -> None:
    scheduler = Scheduler("batch")
    scheduler.queue.ready.add(work(((1,), 1), name="a"))
    scheduler.queue.blocked.add(work(((1,), 1), name="b"))
    scheduler.working["c"] = work(((1,), 1), name="c")
    registry = registered(Figures(), scheduler)
    names = ("queue_depth", "blocked", "unacknowledged", "pending")
    assert [value(registry, f"omega_scheduler_{name}") for name in names] == [1, 1, 1, 7]


def test_what_the_last_heartbeat_read() -> None:
    registry = registered(Figures())
    assert value(registry, "omega_scheduler_renewed_timestamp_seconds") == 12.5
    names = ("refuses_writes", "replicas", "memory_bytes", "memory_limit_bytes")
    assert [value(registry, f"omega_store_{name}") for name in names] == [1, 2, 3, 4]
    assert [value(registry, "omega_cell_machines", state=state) for state in ("up", "offline")] == [5, 1]
    assert [value(registry, "omega_cell_tasks", state=state) for state in ("pending", "running")] == [6, 8]


def test_only_the_worst_machines_are_named() -> None:
    figures = Figures()
    for machine in range(MOST_MACHINES + 3):
        for _ in range(machine + 1):
            outcome = Outcome(((0, Verdict.FULL),))
            figures.committed(Transaction("j", (Claim(machine, 0, 1),)), outcome, 0.0)
    registry = registered(figures)
    assert value(registry, "omega_scheduler_rejections", machine=str(MOST_MACHINES + 2)) == MOST_MACHINES + 3
    assert value(registry, "omega_scheduler_rejections", machine="0") is None
    assert value(registry, "omega_scheduler_rejections", machine="other") == 1 + 2 + 3


def test_the_cells_utilisation_is_that_of_the_copy() -> None:
    cell = SimpleNamespace(dimensions=SimpleNamespace(names=("cpu", "memory")))
    of = cast("LiveDriver", SimpleNamespace(cell=cell, snapshot=snapshot((3, 0), used=1)))
    registry = registered(Figures(), of=of)
    assert value(registry, "omega_cell_utilisation", resource="cpu") == 0.25
    assert value(registry, "omega_cell_utilisation", resource="memory") == 1
    assert value(registered(Figures()), "omega_cell_utilisation", resource="cpu") is None


def test_the_live_loop_announces_what_takes_time() -> None:
    rig = Rig((4000, 4000), (4000, 4000))
    rig.submit(spec("a", 3))
    rig.until_placed("a")
    figures = rig.figures
    assert (figures.attempts, figures.think.count, figures.submit.count) == (1, 1, 1)
    assert figures.sync.count >= 1
    assert figures.resyncs == 1, "the first sync reads everything"
    assert figures.dequeue.count >= 2
    told = figures.as_dict(1.0, 0, 0)
    assert told["attempts"] == 1
    assert set(told["mean_seconds"]) == {"dequeue", "sync", "think", "submit"}


class Heard(Instrument):
    """Remembers what happens to a scheduler."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def registered(self, incarnation: int, now: float) -> None:
        self.events.append(f"joined {incarnation}")

    def deregistered(self, now: float) -> None:
        self.events.append("left")

    def fenced(self, now: float) -> None:
        self.events.append("fenced")

    def store_away(self, error: str, now: float) -> None:
        self.events.append("away")

    def store_back(self, seconds: float, now: float) -> None:
        self.events.append("back")


def test_the_live_loop_announces_what_happens_to_it() -> None:
    heard, scheduler = Heard(), batch("s")
    scheduler.instruments.append(heard)
    rig = Rig((4000, 4000), scheduler=scheduler)
    rig.submit(spec("a", 3))
    rig.until_placed("a")
    rig.server.connected = False
    rig.clock.after(60.0, lambda: setattr(rig.server, "connected", True))
    rig.until(lambda: rig.server.connected)
    rig.rest()
    rig.expire()
    rig.submit(spec("b", 3))
    rig.until_placed("b")
    rig.until(lambda: isinstance(rig.effect, Receive))
    rig.live.stopping = True
    rig.live.run()
    assert heard.events == ["joined 2", "away", "back", "fenced", "joined 3", "left"]
    assert (rig.figures.stalls, rig.figures.fencings) == (1, 1)


# The endpoint


def test_served_on_a_port_that_is_free_until_the_end() -> None:
    metrics = SchedulerMetrics("c", "batch/0", Scheduler("batch"), Figures(), lambda: None)
    with endpoint("batch/0", "0", metrics) as url:
        assert url is not None
        assert url.startswith("http://127.0.0.1:")
        with urlopen(url, timeout=10) as answer:  # noqa: S310 - it is our own
            families = {each.name for each in text_string_to_metric_families(answer.read().decode())}
        assert {"omega_scheduler_jobs", "omega_scheduler_wait_seconds", "process_cpu_seconds"} <= families
        port = url.split(":")[2].split("/")[0]
        said = f"metrics '{port}': .*; choose another port, or 0 for any"
        with pytest.raises(BadInput, match=said), endpoint("x", port):
            pass
    with pytest.raises(OSError, match="refused"):
        urlopen(url, timeout=10)  # noqa: S310 - it is our own


def test_off_unless_asked_for() -> None:
    with endpoint("batch/0", None) as url:
        assert url is None
    with endpoint("batch/0", "") as url:
        assert url is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [("9100", ("127.0.0.1", 9100)), ("10.0.0.1:0", ("10.0.0.1", 0)), (":9100", ("127.0.0.1", 9100)),
     ("[::]:9100", ("::", 9100))],
)  # fmt: skip
def test_where_it_is(said: str, meant: tuple[str, int]) -> None:
    assert parse(said) == meant


@pytest.mark.parametrize("said", ["nope", "-1", "70000", "1.2.3.4:", "x:y"])
def test_what_is_no_port(said: str) -> None:
    with pytest.raises(BadInput, match="want a port from 0 to 65535"):
        parse(said)


def test_numbers_of_an_executor() -> None:
    registry = CollectorRegistry()
    numbers = {
        "omega_simulated_executor_runs": ("runs", lambda: 3),
        "omega_simulated_executor_tasks_ended_total": ("ended", lambda: 5),
    }
    registry.register(ExecutorMetrics("c", "simulated/here", numbers))
    labels = {"cell": "c", "executor": "simulated/here"}
    assert registry.get_sample_value("omega_simulated_executor_runs", labels) == 3
    assert registry.get_sample_value("omega_simulated_executor_tasks_ended_total", labels) == 5
    with shown(None, "c", "simulated/here", numbers) as url:
        assert url is None


def test_shares_of_pools_are_those_of_the_epoch() -> None:
    cell = SimpleNamespace(dimensions=SimpleNamespace(names=("cpu", "memory")))
    live = SimpleNamespace(snapshot=snapshot((4, 4)), cell=cell)
    before = registered(Figures(), of=cast("LiveDriver", live))
    assert value(before, "omega_pool_fair_share", pool="a", resource="cpu") is None
    live.snapshot.epoch = epoch_of(Pools((Pool("a"),)), [], {"default": (4, 4)}, ("cpu", "memory"), at_ms=1)
    registry = registered(Figures(), of=cast("LiveDriver", live))
    assert value(registry, "omega_pool_fair_share", pool="a", resource="cpu") == 0
    assert value(registry, "omega_pool_satisfaction", pool="a") == float("inf")
    assert registry.get_sample_value("omega_epoch") == 1
