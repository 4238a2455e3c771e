"""A proxy between clients and a store: cuts connections, drops replies after execution, delays, goes half-open."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = 1 << 16


class Proxy:
    """Listens on `path` and forwards to the unix socket `target`; what it does to traffic is set by `mode`.

    ``pass``; ``cut``: every connection is closed, new ones are refused; ``drop``: requests are forwarded, and the
    connection is closed when the reply comes; ``delay``: replies come `seconds` late; ``half-open``: connections stay
    open, and nothing is forwarded in either direction.
    """

    def __init__(self, place: Path | int, target: Path | int) -> None:
        """Listen on a socket or a port; nothing is forwarded before `run`."""
        self.place, self.target = place, target
        self.mode, self.seconds = "pass", 0.2
        self.apart: frozenset[str] = frozenset()
        """Hosts whose connections are half-open."""
        self._stop = threading.Event()
        self._listener = _socket(place)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(_address(place))
        self._listener.listen(64)
        self._listener.settimeout(0.1)

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"unix://{self.place}" if isinstance(self.place, Path) else f"redis://127.0.0.1:{self.place}"

    def run(self) -> None:
        """Accept connections until `stop`; each has a thread."""
        while not self._stop.is_set():
            try:
                client, source = self._listener.accept()
            except TimeoutError:
                continue
            host = source[0] if isinstance(source, tuple) else ""
            threading.Thread(target=self._serve, args=(client, host), daemon=True).start()
        self._listener.close()

    def stop(self) -> None:
        """Close everything."""
        self._stop.set()

    def _serve(self, client: socket.socket, host: str) -> None:
        server = _socket(self.target)
        with client, server, suppress(OSError):
            if self.mode == "cut":
                return
            server.connect(_address(self.target))
            with selectors.DefaultSelector() as waiting:
                waiting.register(client, selectors.EVENT_READ, server)
                waiting.register(server, selectors.EVENT_READ, client)
                while not self._stop.is_set() and self.mode != "cut":
                    if self.mode == "half-open" or host in self.apart:
                        time.sleep(0.05)
                        continue
                    for key, _ in waiting.select(0.1):
                        if not self._forward(key.fileobj, key.data, reply=key.fileobj is server):  # type: ignore[arg-type]
                            return

    def _forward(self, source: socket.socket, sink: socket.socket, *, reply: bool) -> bool:
        """Pass on what there is; False when the connection is to be closed."""
        found = source.recv(CHUNK)
        if not found or (reply and self.mode == "drop"):
            return False
        if reply and self.mode == "delay":
            time.sleep(self.seconds)
        sink.sendall(found)
        return True


def _socket(place: Path | int) -> socket.socket:
    return socket.socket(socket.AF_UNIX if isinstance(place, Path) else socket.AF_INET)


def _address(place: Path | int) -> str | tuple[str, int]:
    return str(place) if isinstance(place, Path) else ("127.0.0.1", place)


@contextmanager
def between(target: Path | int, place: Path | int | None = None) -> Iterator[Proxy]:
    """A proxy in front of a store's socket or port, at work; its own place is beside the socket when none is given."""
    beside = target.with_name("proxy.sock") if isinstance(target, Path) else target + 1
    proxy = Proxy(beside if place is None else place, target)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join()
