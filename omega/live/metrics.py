"""Numbers of an executor as metrics of Prometheus: what a fleet or an agent has in hand."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedulers.process_endpoint import endpoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Numbers = Mapping[str, tuple[str, Callable[[], float]]]
"""By name: what it is, and how to learn it. A name that ends in ``_total`` only ever rises."""


@dataclass(slots=True, eq=False)
class ExecutorMetrics:
    """A collector of prometheus_client; the numbers are learned on the server's thread when somebody asks."""

    cell: str
    executor: str
    numbers: Numbers

    def collect(self) -> "Iterator[Metric]":
        """See prometheus_client's Collector."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - only once somebody asks

        for name, (about, learn) in self.numbers.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            found = family(name, about, labels=["cell", "executor"])
            found.add_metric([self.cell, self.executor], learn())
            yield found


def shown(where: str | None, cell: str, executor: str, numbers: Numbers) -> AbstractContextManager[str | None]:
    """Show an executor's numbers at `where` (schedulers/process_endpoint.py) until the end; yields the URL, or None.

    Raises BadInput when the port cannot be had.
    """
    return endpoint(executor, where, ExecutorMetrics(cell, executor, numbers))
