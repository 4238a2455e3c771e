"""Start the command of a task, as its user and within its limits. Standard library only.

What follows the fork happens in this order: cgroup and limits, which need the rights of the agent; the task's user;
the signal at the supervisor's death, which a change of user would cancel; the directory, entered with the rights of
that user; at last the lease, which may have ended meanwhile.
"""

import os
import pwd
import resource
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.live.agent.lease_file import now
from omega.live.agent.process_control import signal_at_parents_death

STORE_FD = "OMEGA_STORE_FD"
"""Names the descriptor from which a MapReduce worker reads the store's URL: no environment holds it, and no argv."""

MARK = "OMEGA_TASK_DIRECTORY"
"""Holds the directory of the task in the environment of its processes: by this they are found, wherever they went."""


def account(name: str) -> dict[str, Any]:
    """The user that tasks run as, as an order holds it. Raises KeyError when there is none of that name."""
    found = pwd.getpwnam(name)
    groups = os.getgrouplist(name, found.pw_gid)
    return {"name": name, "uid": found.pw_uid, "gid": found.pw_gid, "groups": groups, "home": found.pw_dir}


def become(user: Mapping[str, Any] | None) -> None:
    """Give up the rights of this process for those of a user, for good; None keeps them."""
    if user is not None:
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])


def start(
    order: Mapping[str, Any], command: Sequence[str], environment: Mapping[str, str], lease_end: float,
    store: str = "", *, output: int = subprocess.PIPE,
) -> "subprocess.Popen[bytes]":  # fmt: skip
    """Start `command` in a session of its own. `store` is a URL that it may read from a socket, once.

    Raises OSError and ValueError when it cannot be started.
    """
    parent = os.getpid()

    def confine() -> None:
        _limit(order)
        become(order["user"])
        signal_at_parents_death(signal.SIGKILL)
        if os.getppid() != parent or lease_end <= now():  # the supervisor ended, or stood still, since the fork
            os.kill(os.getpid(), signal.SIGKILL)
        if order["user"] is not None:
            _enter(order["directory"])

    given: tuple[int, ...] = ()
    ours, theirs = socket.socketpair()
    ours.sendall(store.encode())
    ours.close()
    if store:
        given, environment = (theirs.fileno(),), {**environment, STORE_FD: str(theirs.fileno())}
    with theirs:
        return subprocess.Popen(
            command, cwd=order["directory"] if order["user"] is None else "/", env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, pass_fds=given,
            umask=order["umask"], preexec_fn=confine,  # noqa: PLW1509 - a supervisor has one thread
        )  # fmt: skip


def _enter(directory: str) -> None:
    """Change to the directory as the task's user, who may have fewer rights than the agent."""
    try:
        os.chdir(directory)
    except OSError as error:
        os.write(2, f"directory {directory}: {(error.strerror or str(error)).lower()}\n".encode())
        raise


def _limit(order: Mapping[str, Any]) -> None:
    """No core files, no more memory than requested, and the cgroup that was made for the task."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = order["memory_bytes"]
    if order["cgroup"]:
        with suppress(OSError):
            Path(order["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
            limit = 0 if Path(order["cgroup"], "memory.max").exists() else limit
    if limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def why_not(order: Mapping[str, Any], error: Exception) -> str:
    """Why a command could not be started, in one line."""
    command, directory = order["command"][0], order["directory"]
    if isinstance(error, ValueError):  # a zero byte, or a variable's name that is none
        return f"cannot run {command!r}: {error}"
    if isinstance(error, subprocess.SubprocessError):
        return f"cannot run {command} as {order['user']['name']} in {directory}" if order["user"] else str(error)
    if isinstance(error, OSError) and error.filename == directory:
        return f"directory {directory}: {(error.strerror or str(error)).lower()}"
    if isinstance(error, FileNotFoundError):
        return f"command not found: {command}"
    if isinstance(error, PermissionError):
        return f"not executable: {command}"
    return f"cannot run {command}: {(getattr(error, 'strerror', None) or str(error)).lower()}"
