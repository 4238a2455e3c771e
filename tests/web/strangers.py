"""Clients without a token, as a process: they hold connections and open them again, until its input ends.

``python -m tests.web.strangers HOST PORT NUMBER RATE``: so many connections, of which so many a second are replaced.
It prints a line when it begins, and one when all were opened once, and some again. A third sends nothing, a third half
a head, a third half a body.
"""

import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

SENT = (
    b"",
    b"GET /v1/cells HTTP/1.1\r\nHost: local",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\ntoken=",
)


SETTLED_SECONDS = 2.0
"""Time after which their first rush, at more than the rate, is over."""


def stranger(address: tuple[str, int], number: int) -> socket.socket:
    """Begin a connection, without waiting for it."""
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(address)
    with suppress(OSError):
        made.send(SENT[number % len(SENT)])  # where the connection stands already, as on this computer
    return made


def main(host: str, port: int, number: int, rate: int) -> None:
    """Hold the connections."""
    held, made, began = deque[socket.socket](), 0, 0.0
    print("rush", flush=True)  # noqa: T201 - what the test waits for
    while len(held) < number:
        held.append(stranger((host, port), made))
        made += 1
        if not made % 100:
            time.sleep(0.05)
    made, began, told = 0, time.monotonic(), False
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        while made < (time.monotonic() - began) * rate:
            held.popleft().close()
            held.append(stranger((host, port), made))
            made += 1
        if not told and made > SETTLED_SECONDS * rate:
            told = print("held", flush=True) is None  # noqa: T201 - what the test waits for


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
