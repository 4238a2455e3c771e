"""``GET /metrics``: a cell and this process for Prometheus, under the names that schedulers use."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from omega.web.access.visitors import Reader
from omega.web.api.looking import Cell

router = APIRouter(tags=["metrics"])


class CellMetrics(Collector):
    """The figures of a cell, as the mirror has them."""

    def __init__(self, status: Mapping[str, Any], reasons: Mapping[str, Mapping[str, int]], at_ms: int) -> None:
        self._status, self._reasons, self._at_ms = status, reasons, at_ms

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        status, cell = self._status, self._status["cell"]
        for name in ("machines", "jobs", "tasks"):
            rows = ((state, count) for state, count in status[name].items() if state not in ("total", "stored"))
            yield _gauge(
                f"omega_cell_{name}", f"{name.capitalize()} of the cell by state", rows, cell=cell, label="state"
            )
        use = status["utilisation"]
        for name, about in (("allocated", "Allocated on machines that are up or drained"), ("capacity", "Capacity")):
            rows = ((resource, each[name]) for resource, each in use.items())
            yield _gauge(f"omega_cell_{name}", f"{about}, in the smallest unit", rows, cell=cell, label="resource")
        waiting = ((reason, each["jobs"]) for reason, each in self._reasons.items())
        yield _gauge(
            "omega_cell_waiting_jobs", "Jobs with unplaced tasks by reason", waiting, cell=cell, label="reason"
        )
        live = [("live", len(status["schedulers"]["live"])), ("lapsed", len(status["schedulers"]["lapsed"]))]
        yield _gauge("omega_cell_schedulers", "Schedulers of the cell by state", live, cell=cell, label="state")
        for name, value in (("cuts", status["cuts"]["number"]), ("lost_versions", status["cuts"]["lost"])):
            count = CounterMetricFamily(f"omega_cell_{name}", f"{name} of the cell's store", labels=["cell"])
            count.add_metric([cell], value)
            yield count
        read_at = GaugeMetricFamily("omega_web_read_timestamp_seconds", "Last reading of the cell", labels=["cell"])
        read_at.add_metric([cell], self._at_ms / 1000)
        yield read_at


def _gauge(name: str, about: str, rows: Iterable[tuple[str, float]], *, cell: str, label: str) -> Metric:
    gauge = GaugeMetricFamily(name, about, labels=["cell", label])
    for value, number in rows:
        gauge.add_metric([cell, value], number)
    return gauge


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(_: Reader, mirror: Cell) -> Response:
    """Return the metrics of a cell and of omega serve, for Prometheus."""
    with mirror.lock:
        figures = CellMetrics(mirror.cell_status(), mirror.reasons(), mirror.at_ms)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(figures)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
