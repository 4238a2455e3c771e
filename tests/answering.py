"""A server that is none: it gives every command the same answer."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def answering(reply: Callable[[], bytes]) -> Iterator[str]:
    """Answer every command with what `reply` gives (nothing when empty); yields the server's URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(65536):
                commands = sum(line.startswith(b"*") for line in data.split(b"\r\n"))
                self.request.sendall(reply() * commands)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        listener.block_on_close = False
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        yield f"redis://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()
        thread.join()
