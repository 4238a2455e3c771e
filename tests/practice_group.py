"""A group of servers to practise on: ``python -m tests.practice_group sentinels|cluster PORT,…``.

It runs until Ctrl-C. A server that was killed is started again some seconds later, as systemd would do, and empty:
these servers keep their data in memory alone.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence

from tests.server_groups import Server, cluster, sentinels

RESTART_SECONDS = 4.0
"""Longer than Sentinels wait for a server that does not answer."""


def keep(servers: Sequence[Server], stop: threading.Event) -> None:
    """Start servers again that ended, until `stop`."""
    ended: dict[int, float] = {}
    while not stop.wait(0.2):
        for each in servers:
            if each.process is not None and each.process.poll() is None:
                ended.pop(each.port, None)
            elif time.monotonic() - ended.setdefault(each.port, time.monotonic()) > RESTART_SECONDS:
                each.start()


def main() -> None:
    """Run the group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("sentinels", "cluster"))
    parser.add_argument("ports", help="of the servers, then of three Sentinels, with commas between them")
    asked = parser.parse_args()
    ports = [int(port) for port in asked.ports.split(",")]
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if asked.kind == "sentinels":
        with sentinels(len(ports) - 4, ports=ports) as watched:
            _run(watched.servers, watched.url, stop)
    else:
        with cluster(len(ports), ports=ports) as nodes:
            _run(nodes.servers, nodes.url, stop)


def _run(servers: Sequence[Server], url: str, stop: threading.Event) -> None:
    sys.stdout.write(f"{url}\nready · Ctrl-C stops all servers\n")
    sys.stdout.flush()
    keep(servers, stop)


if __name__ == "__main__":
    main()
