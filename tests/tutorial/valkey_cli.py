"""Prints what valkey-cli prints into a pipe, for computers without it: ``valkey_cli.py [-p PORT] COMMAND WORD…``."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import redis


def lines(answer: Any) -> Iterator[str]:
    """Yield the lines of an answer, as valkey-cli does without a terminal."""
    if isinstance(answer, list):
        for each in answer:
            yield from lines(each)
    else:
        yield "" if answer is None else str(answer).rstrip("\n")


def main() -> None:
    """Send one command and print the answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-p", dest="port", type=int, default=6379)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    server: type[Any] = redis.Connection
    connection = server(port=asked.port, protocol=2, decode_responses=True)
    try:
        connection.connect()
        connection.send_command(*asked.words)
        sys.stdout.write("".join(f"{line}\n" for line in lines(connection.read_response())))
    except redis.RedisError as error:
        sys.stdout.write(f"{error}\n")
    finally:
        connection.disconnect()


if __name__ == "__main__":
    main()
