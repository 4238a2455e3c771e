"""Prints what valkey-cli prints into a pipe, for computers without it: ``valkey_cli.py -p PORT COMMAND WORD…``.

It starts in a twentieth of the time that an import of redis-py takes: a page calls it often.
"""

import socket
import sys
from collections.abc import Iterator
from typing import BinaryIO

SECONDS = 10.0


def lines(answers: BinaryIO) -> Iterator[str]:
    """Yield the lines of one answer in the form RESP2."""
    kind, rest = answers.read(1), answers.readline().decode().rstrip("\r\n")
    if kind == b"*":
        for _ in range(int(rest)):
            yield from lines(answers)
    elif kind == b"$" and int(rest) >= 0:
        yield answers.read(int(rest) + 2).decode().rstrip("\r\n")
    else:
        yield "" if kind == b"$" else rest


def main() -> None:
    """Send one command and print the answer."""
    option, port, *words = sys.argv[1:]
    assert option == "-p"
    with (
        socket.create_connection(("127.0.0.1", int(port)), SECONDS) as connection,
        connection.makefile("rb") as answers,
    ):
        parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        sys.stdout.write("".join(f"{line}\n" for line in lines(answers)))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"Could not connect: {error}")
