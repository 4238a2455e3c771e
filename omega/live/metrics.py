"""Prometheus metrics of an executor: simulated machines or an agent."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omega.schedulers.process.endpoint import endpoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Numbers = Mapping[str, tuple[str, Callable[[], float]]]
"""Name → description and reader. A name that ends in ``_total`` never decreases."""


@dataclass(slots=True, eq=False)
class ExecutorMetrics:
    """A collector of prometheus_client; a scrape reads the numbers on the server's thread."""

    cell: str
    executor: str
    numbers: Numbers

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics; the registry calls it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - only needed for a scrape

        for name, (about, learn) in self.numbers.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = family(name, about, labels=["cell", "executor"])
            metric.add_metric([self.cell, self.executor], learn())
            yield metric


def shown(where: str | None, cell: str, executor: str, numbers: Numbers) -> AbstractContextManager[str | None]:
    """Serve an executor's metrics at `where` (schedulers/process/endpoint.py) during the block; yields the URL or None.

    Raises BadInput when the port is unavailable.
    """
    return endpoint(executor, where, ExecutorMetrics(cell, executor, numbers))
