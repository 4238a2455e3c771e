"""Where the embedded store keeps its files, and whether those places are safe to use.

The state directory is ``$OMEGA_STATE``, else ``$XDG_STATE_HOME/omega``, else ``~/.local/state/omega``:

    store.sock          the socket (elsewhere when its path would be too long)
    store.lock          held by the server for as long as it lives
    store/              append-only files, log, pid
"""

import os
import stat
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from omega.cellstate.errors import StoreError

LONGEST_SOCKET = 100
"""Bytes of a socket's path: Linux takes 107, macOS 103."""
SOCKETS = Path("/tmp")  # noqa: S108
"""Parent of the socket's own directory when the state directory's path is too long. Not $TMPDIR or
$XDG_RUNTIME_DIR: they differ between a login and a service of one user, who must find one server."""


def state_directory(directory: Path | None = None) -> Path:
    """Return the absolute state directory: `directory`, or that of the environment. Creates nothing."""
    if directory is None:
        named, data = os.environ.get("OMEGA_STATE", ""), os.environ.get("XDG_STATE_HOME", "")
        if named:
            directory = Path(named)
        elif data.startswith("/"):  # the XDG specification: a relative path is to be ignored
            directory = Path(data) / "omega"
        else:
            directory = Path("~/.local/state/omega")
    try:
        return directory.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise StoreError(f"no state directory: {error}; set OMEGA_STATE to a directory of your own") from None


class Places:
    """The files of one embedded store, all derived from its state directory."""

    def __init__(self, state: Path) -> None:
        self.state, self.data = state, state / "store"
        self.log, self.pid = self.data / "store.log", self.data / "store.pid"
        self.lock = state / "store.lock"
        """Locked by the running server, or by the process about to start it."""
        self.program = self.data / "program"
        """Names the server program which served the data last."""
        self.socket = state / "store.sock"
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET:
            digest = sha256(os.fsencode(state)).hexdigest()[:16]
            self.socket = SOCKETS / f"omega-{os.geteuid()}-{digest}" / "store.sock"
        self.url = "unix://" + quote(str(self.socket))

    def check(self) -> bool:
        """Return whether the store's directories exist. Raises StoreError when one is not the user's alone."""
        if not self.state.exists():
            return False
        _check(self.state, stat.S_IWGRP | stat.S_IWOTH)
        if self.socket.parent != self.state and os.path.lexists(self.socket.parent):
            _check(self.socket.parent, stat.S_IRWXG | stat.S_IRWXO)
        return True

    def make(self) -> None:
        """Create the directories, readable by the user only. Raises StoreError."""
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.check()
            self.data.mkdir(mode=0o700, exist_ok=True)
            if not os.path.lexists(self.socket.parent):
                self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise StoreError(f"cannot use {self.state} for the embedded store: {why}; set OMEGA_STATE") from None
        self.check()


def _check(directory: Path, forbidden: int) -> None:
    """Raise StoreError unless `directory` is a real one, ours, and has none of the `forbidden` mode bits."""
    facts = directory.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        wrong, remedy = "is not a directory", "move it away"
    elif facts.st_uid != os.geteuid():
        wrong, remedy = f"belongs to user {facts.st_uid}, not to you ({os.geteuid()})", "set OMEGA_STATE to another"
    elif facts.st_mode & forbidden:
        wrong, remedy = f"is open to others (mode {stat.S_IMODE(facts.st_mode):o})", f"run chmod 700 {directory}"
    else:
        return
    raise StoreError(f"refused {directory} for the embedded store: it {wrong}; {remedy}")
