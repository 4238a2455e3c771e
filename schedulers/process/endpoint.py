"""Where a long process shows its metrics: an HTTP endpoint in the format of Prometheus, off unless asked for.

OMEGA_METRICS is a port (on 127.0.0.1), or ``ADDRESS:PORT``; port 0 takes one that is free. Any long process uses it so:

    with endpoint("agent/here", environment.get(METRICS), collector) as url: ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cellstate.errors import BadInput
from schedulers.process.log import log

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

METRICS = "OMEGA_METRICS"
LOCAL = "127.0.0.1"
LARGEST_PORT = 65_535


def parse(where: str) -> tuple[str, int]:
    """(address, port) of ``9100``, ``0.0.0.0:9100`` or ``[::]:9100``; BadInput for anything else."""
    address, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > LARGEST_PORT:
        raise BadInput(f"metrics {where!r}: want a port from 0 to {LARGEST_PORT}, or ADDRESS:PORT")
    return address.strip("[]") or LOCAL, int(port)


@contextmanager
def endpoint(member: str, where: str | None, *collectors: "Collector") -> Iterator[str | None]:
    """Serve what the collectors and the operating system say of a member, until the end; yields the URL.

    Without `where` nothing is served and None is yielded. A collector is asked on the server's own thread, at
    every scrape. Raises BadInput when the port cannot be had.
    """
    if not where:
        yield None
        return
    # It takes as long to import as a scheduler, and most do not ask for it.
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
    tell = log.info if port else log.warning  # which port was taken is not known otherwise
    tell("metrics", member=member, url=url)
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
