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

    def __init__(self, path: Path, target: Path) -> None:
        """Listen; nothing is forwarded before `run`."""
        self.path, self.target = path, target
        self.mode, self.seconds = "pass", 0.2
        self._stop = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._listener.settimeout(0.1)

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"unix://{self.path}"

    def run(self) -> None:
        """Accept connections until `stop`; each has a thread."""
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()
        self._listener.close()

    def stop(self) -> None:
        """Close everything."""
        self._stop.set()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            if self.mode == "cut":
                return
            server.connect(str(self.target))
            with selectors.DefaultSelector() as waiting:
                waiting.register(client, selectors.EVENT_READ, server)
                waiting.register(server, selectors.EVENT_READ, client)
                while not self._stop.is_set() and self.mode != "cut":
                    if self.mode == "half-open":
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


@contextmanager
def between(target: Path) -> Iterator[Proxy]:
    """A proxy in front of a store's socket, at work."""
    proxy = Proxy(target.with_name("proxy.sock"), target)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join()
