"""Files of the user that a task's output is written to, beside the agent's own (task_output.py). Standard library only.

They are opened, renamed and removed with the rights of the task's user, by a child of the supervisor, which hands the
descriptors back: a change of the supervisor's own user would cancel the signal that it gets when its guard ends.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.live.agent.task_start import become

ATTEMPT = "{attempt}"
COPY = ".copy"
MOST_ATTEMPTS = 100_000
MODE = 0o666
"""Permissions of a new file, less the umask of the agent."""


class OutputFiles:
    """The files of the streams of one task. `order` has their directory, their paths and whether it is a copy."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        """Read the order without opening anything."""
        said = order.get("files") or {}
        self.user, self.umask = order["user"], order["umask"]
        self.directory, self.copy = str(said.get("directory", "")), bool(said.get("copy"))
        self.patterns: dict[str, str] = dict(said.get("paths", {}))
        self.paths: dict[str, Path] = {}
        """The files that are open, by stream."""
        self.handles: dict[str, int] = {}
        self.attempt = 0
        """The number that `{attempt}` had last."""
        self.failed = ""
        """Why output is missing in a file."""

    def open(self) -> None:
        """Open the files of a new attempt, empty. Raises OSError, with the path of the file in `filename`."""
        self.close()
        self.failed = ""
        if self.patterns:
            streams = list(dict.fromkeys(self.patterns.values()))
            text, handles = as_user(self.user, lambda: self._opened(streams))
            self.attempt = int(text)
            at = dict(zip(streams, handles, strict=True))
            for stream, pattern in self.patterns.items():
                self.handles[stream], self.paths[stream] = at[pattern], self._path(pattern, self.attempt)

    def _path(self, pattern: str, attempt: int) -> Path:
        return Path(self.directory, pattern.replace(ATTEMPT, str(attempt)))

    def _opened(self, patterns: list[str]) -> tuple[str, list[int]]:
        os.umask(self.umask)
        anew = any(ATTEMPT in pattern for pattern in patterns)
        for attempt in range(self.attempt + 1, self.attempt + 1 + (MOST_ATTEMPTS if anew else 1)):
            paths = [self._path(pattern, attempt) for pattern in patterns]
            fresh = [path for path, pattern in zip(paths, patterns, strict=True) if ATTEMPT in pattern]
            if any(path.exists() or path.with_name(path.name + COPY).exists() for path in fresh):
                continue
            handles: list[int] = []
            try:
                for path in paths:
                    handles.append(self._open(path, exclusive=path in fresh))  # noqa: PERF401 - kept where one fails
            except OSError as error:
                for path, handle in zip(paths, handles, strict=False):
                    os.close(handle)
                    if path in fresh:
                        self._written(path).unlink()
                if not isinstance(error, FileExistsError):  # another attempt took the number at the same moment
                    raise
            else:
                return str(attempt), handles
        raise FileExistsError(errno.EEXIST, f"{MOST_ATTEMPTS:,} attempts have files", str(paths[0]))

    def _written(self, path: Path) -> Path:
        return path.with_name(path.name + COPY) if self.copy else path

    def _open(self, path: Path, *, exclusive: bool) -> int:
        path = self._written(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would wait for a reader
        handle = os.open(path, flags | (os.O_EXCL if exclusive else 0), MODE)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        os.ftruncate(handle, 0)
        return handle

    def take(self, stream: str, data: bytes) -> None:
        """Append output; a write that fails is remembered in `failed`, and the task continues."""
        handle = self.handles.get(stream)
        if handle is None or self.failed:
            return
        try:
            while data:
                data = data[os.write(handle, data) :]
        except OSError as error:
            self.failed = f"output {self.paths[stream]}: {(error.strerror or str(error)).lower()}"

    def close(self) -> None:
        """Close the files; errors of writes that come only now are remembered."""
        for stream, handle in {handle: stream for stream, handle in self.handles.items()}.items():
            try:
                os.close(stream)
            except OSError as error:
                self.failed = self.failed or f"output {self.paths[handle]}: {(error.strerror or str(error)).lower()}"
        self.handles.clear()

    def settle(self, *, finished: bool) -> None:
        """Give the files of a copy that finished the names of its task's; remove those of one that did not."""
        if not (self.copy and self.paths):
            return
        paths = sorted(set(self.paths.values()))

        def act() -> tuple[str, list[int]]:
            for path in paths:
                if finished:
                    self._written(path).rename(path)
                else:
                    self._written(path).unlink(missing_ok=True)
            return "", []

        try:
            as_user(self.user, act)
        except OSError as error:
            self.failed = self.failed or f"output {paths[0]}: {(error.strerror or str(error)).lower()}"
        self.paths.clear()


def as_user(user: Mapping[str, Any] | None, act: Callable[[], tuple[str, list[int]]]) -> tuple[str, list[int]]:
    """Return what `act` returns, a text and descriptors, with the rights of a user, in a child; None: as this process.

    Raises OSError as `act` does.
    """
    ours, theirs = socket.socketpair()
    with ours:
        child = os.fork()
        if not child:
            _answer(theirs, user, act)
        theirs.close()
        data, handles, _, _ = socket.recv_fds(ours, 1 << 13, 8)
        with suppress(ChildProcessError):  # reaped with the task's orphans
            os.waitpid(child, 0)
    number, _, rest = data.decode(errors="surrogateescape").partition("\n")
    if number == "0":
        return rest, handles
    for handle in handles:
        os.close(handle)
    text, _, name = rest.partition("\n")
    raise OSError(int(number or errno.EIO), text or "its child ended", name)


def _answer(line: socket.socket, user: Mapping[str, Any] | None, act: Callable[[], tuple[str, list[int]]]) -> None:
    """Run `act` in the child, and end it."""
    try:
        become(user)
        text, handles = act()
        socket.send_fds(line, [f"0\n{text}".encode()], handles)
    except OSError as error:
        said = f"{error.errno or errno.EIO}\n{error.strerror or error}\n{error.filename or ''}"
        line.sendall(said.encode(errors="surrogateescape")[: 1 << 13])
    finally:
        os._exit(0)
