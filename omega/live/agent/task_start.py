"""Start the command of a task, as its user and within its limits. Standard library only.

The order after the fork: cgroup and limits, which need the agent's rights; the task's user;
the signal at the supervisor's death, which a change of user would cancel; the directory, entered with that user's
rights; finally the lease, which may have ended since.
"""

import os
import pwd
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omega.live.agent.lease_file import now
from omega.live.agent.process_control import signal_at_parents_death
from omega.live.agent.process_tree import Table, has_mark, kill_all, label, labelled, set_label

DECIDED = 65
"""Exit code of an Omega command as task whose next attempt would fail as well (EX_DATAERR): it is not restarted."""
STORE_FD = "OMEGA_STORE_FD"
"""Variable with the descriptor from which a MapReduce worker reads the store's URL, kept out of the environment."""

MARK = "OMEGA_TASK_DIRECTORY"
"""Variable with the task's directory in its processes' environment, which identifies them in any process group."""

CLEANS = "OMEGA_CLEAN_UP"
"""Variable with the task's directory in the processes of its clean-up."""
CLEAN_SECONDS = 10.0
"""Time of a clean-up."""


@contextmanager
def giving(url: str) -> Iterator[socket.socket]:
    """Yield an inheritable socket from which a process can read `url` once."""
    ours, theirs = socket.socketpair()
    try:
        ours.sendall(url.encode())
        ours.close()
        yield theirs
    finally:
        theirs.close()


def account(name: str) -> dict[str, Any]:
    """Return a user's account as stored in an order. Raises KeyError for an unknown name."""
    entry = pwd.getpwnam(name)
    groups = os.getgrouplist(name, entry.pw_gid)
    return {"name": name, "uid": entry.pw_uid, "gid": entry.pw_gid, "groups": groups, "home": entry.pw_dir}


def become(user: Mapping[str, Any] | None) -> None:
    """Change this process to a user permanently; None keeps the current one."""
    if user is not None:
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])


def start(
    order: Mapping[str, Any],
    command: Sequence[str],
    environment: Mapping[str, str],
    lease_end: float,
    store: str = "",
    *,
    output: int = subprocess.PIPE,
) -> "subprocess.Popen[bytes]":
    """Start `command` in a new session. `store` is a URL that it may read once from a socket.

    Raises OSError and ValueError when it cannot be started, SubprocessError also when the lease has ended.
    """
    parent = os.getpid()

    def confine() -> None:
        set_label(order["label"])
        _limit(order)
        if order["protected"]:
            drop_protection()
        become(order["user"])
        signal_at_parents_death(signal.SIGKILL)
        if os.getppid() != parent:  # the supervisor ended since the fork
            os.kill(os.getpid(), signal.SIGKILL)
        if lease_end <= now():  # it was halted since
            raise TimeoutError
        if order["user"] is not None:
            _enter(order["directory"])

    with giving(store) as source:
        number = source.fileno()
        return subprocess.Popen(
            command,
            cwd=order["directory"] if order["user"] is None else "/",
            env={**environment, "PWD": order["directory"], **({STORE_FD: str(number)} if store else {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(number,) if store else (),
            umask=order["umask"],
            preexec_fn=confine,  # noqa: PLW1509 - a supervisor has one thread
        )


def clean_up(order: Mapping[str, Any], place: Path) -> "subprocess.Popen[bytes] | None":
    """Start the command that removes what a runner left outside of the task's processes; None without one.

    Whoever starts it waits for `CLEAN_SECONDS` at most, and ends it with all that it started (`end_clean_up`).
    Raises OSError and subprocess.SubprocessError when it cannot be started.
    """
    command = order.get("clean_up")
    if not command:
        return None
    environment = {name: value for name, value in order["environment"].items() if name != MARK}  # it is not the task
    environment[CLEANS] = str(place)
    user = order["user"]
    before = resource.getrlimit(resource.RLIMIT_RSS)[0]
    set_label(label(f"{place}{CLEANS}"))  # which the child has from its fork on
    try:
        return subprocess.Popen(
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **({} if user is None else {"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]}),
        )
    finally:
        set_label(before)


def end_clean_up(place: Path, process: "subprocess.Popen[bytes]", read: Callable[[], Table]) -> None:
    """Kill a clean-up that runs, and what it left behind, which `read` has among others; also in other sessions."""
    mark, pid = f"{CLEANS}={place}".encode(), process.pid if process.returncode is None else 0
    own = label(f"{place}{CLEANS}")

    def is_its(each: int) -> bool:
        return each == pid or labelled(each) == own or has_mark(each, mark)

    kill_all(lambda table: {each for each in table if is_its(each)}, read)


def _enter(directory: str) -> None:
    """Change to the directory as the task's user, which may have fewer rights than the agent."""
    try:
        os.chdir(directory)
    except OSError as error:
        os.write(2, f"directory {directory}: {(error.strerror or str(error)).lower()}\n".encode())
        raise


def is_protected(score: Path = Path("/proc/self/oom_score_adj")) -> bool:
    """Return whether this process is protected from the kernel's out-of-memory killer."""
    with suppress(OSError, ValueError):
        return int(score.read_text()) < 0
    return False


def drop_protection(score: Path = Path("/proc/self/oom_score_adj")) -> None:
    """Give up a protection from the kernel's out-of-memory killer, which is the agent's; a positive score is kept."""
    with suppress(OSError, ValueError):
        if int(score.read_text()) < 0:
            score.write_text("0")


def _limit(order: Mapping[str, Any]) -> None:
    """Limit memory as requested, and enter the task's cgroup."""
    limit = order["memory_bytes"]
    if order["cgroup"]:
        with suppress(OSError):
            Path(order["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
            limit = 0 if Path(order["cgroup"], "memory.max").exists() else limit
    if limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def why_not(order: Mapping[str, Any], error: Exception) -> str:
    """Return why a command could not be started, in one line."""
    command, directory = order["command"][0], order["directory"]
    if isinstance(error, ValueError):  # a zero byte, or an invalid variable name
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
