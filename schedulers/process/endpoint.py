"""Metrics endpoint of a process: HTTP in the format of Prometheus, off by default.

OMEGA_METRICS is a port (on 127.0.0.1), or ``ADDRESS:PORT``; port 0 takes one that is free. Any long process uses it so:

    with endpoint("agent/here", environment.get(METRICS), collector) as url: ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omega.cellstate.errors import BadInput
from omega.schedulers.process.log import log

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

METRICS = "OMEGA_METRICS"
LOCAL = "127.0.0.1"
LARGEST_PORT = 65_535


def parse(where: str) -> tuple[str, int]:
    """Return (address, port) of ``9100``, ``0.0.0.0:9100`` or ``[::]:9100``. Raises BadInput for anything else."""
    address, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > LARGEST_PORT:
        raise BadInput(f"metrics {where!r}: want a port from 0 to {LARGEST_PORT}, or ADDRESS:PORT")
    return address.strip("[]") or LOCAL, int(port)


@contextmanager
def endpoint(member: str, where: str | None, *collectors: "Collector") -> Iterator[str | None]:
    """Serve the metrics of collectors and of the process during the block; yield the URL.

    Without `where` nothing is served and None is yielded. Collectors run on the server's own thread at every scrape.
    Raises BadInput when the port cannot be opened.
    """
    if not where:
        yield None
        return
    # The import takes as long as that of a scheduler, and most processes have no endpoint.
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server  # noqa: PLC0415

    address, port = parse(where)
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise BadInput(f"metrics {where!r}: {error.strerror or error}; choose another port, or 0 for any") from None
    shown = f"[{address}]" if ":" in address else address
    url = f"http://{shown}:{server.server_port}/metrics"
    tell = log.info if port else log.warning  # with port 0 only the log has the number
    tell("metrics", member=member, url=url)
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
