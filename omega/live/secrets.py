"""Passing the store's URL between Omega's processes: by a socket, never by environment or argv.

Other processes of the same user can read a process's environment and open its pipes by /proc, and all users can
read its argv. A socket cannot be opened by /proc.
"""

import socket
from collections.abc import Mapping, MutableMapping

from omega.live.agent.process_control import hide_memory
from omega.live.agent.task_start import STORE_FD

MOST_BYTES = 1 << 16


def take_store(environment: MutableMapping[str, str]) -> str | None:
    """Read the store's URL from the socket in OMEGA_STORE_FD; None when it is not set.

    This process is hidden from others of its user first. The variable is removed: children get no such socket.
    """
    number = environment.pop(STORE_FD, None)
    if number is None:
        return None
    hide_memory()
    with socket.socket(fileno=int(number)) as source:
        parts = list(iter(lambda: source.recv(MOST_BYTES), b""))
    return b"".join(parts).decode()


def without_store(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for another process without the variables of the store."""
    return {name: value for name, value in environment.items() if not name.startswith("OMEGA_STORE")}
