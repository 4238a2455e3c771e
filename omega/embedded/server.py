"""The embedded store: one Valkey server per user, shared by all commands, started on demand.

It listens on a unix socket in the user's state directory, logs every write to append-only files and
outlives the command that started it. A lock, not a pid, shows whether it runs: the server
inherits the locked file, so the kernel releases the lock when the server ends, also after kill -9.
Two servers can therefore never write the same files, and a starter needs no other protection.
"""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate import server
from omega.cellstate.errors import StoreError, Unreachable
from omega.cellstate.server import Answer
from omega.embedded.places import Places, state_directory
from omega.file_lock import held, take_lock

TIMEOUT_SECONDS = 120.0
"""Maximum time to wait for a server that starts, reads its files or stops."""
_PING_SECONDS = 2.0
_LAUNCH_SECONDS = 30.0
_PAUSE_SECONDS = 0.03
_LARGEST_LOG = 1 << 20


@dataclass(frozen=True, slots=True)
class EmbeddedStore:
    """A running embedded store; `started` is set if this call started it, `repaired` names what it cut."""

    url: str
    directory: Path
    pid: int
    version: str
    started: bool
    repaired: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The fields of `omega store status`; those of a running server are None when it is stopped."""

    running: bool
    url: str
    directory: Path
    persistence: str
    server: Path | None
    """The server's program; when none runs, the one that would be started."""
    pid: int | None = None
    version: str | None = None
    """Product and version, such as ``valkey 9.1.2``."""
    uptime_seconds: int | None = None
    memory_bytes: int | None = None
    script_bytes: int | None = None
    """Memory of scripts."""
    refuses_writes: str | None = None
    """Why it refuses writes; None when it does not."""
    scripts_fill: str = ""
    """How much memory scripts take, where that is much."""
    loading: bool = False
    allocator: str | None = None
    """Memory allocator of the running process, read from the process itself."""


def default_url(directory: Path | None = None) -> str:
    """Return the URL of the user's embedded store without starting anything.

    `directory` is the state directory, by default the one the environment names.
    """
    return Places(state_directory(directory)).url


def ensure(directory: Path | None = None, *, timeout: float = TIMEOUT_SECONDS) -> EmbeddedStore:
    """Start the embedded store unless it runs, wait until it serves, and return it.

    Safe to call from many processes at once: one server results. After a crash the server comes back
    on the same files, without a torn last write or a damaged end (damaged_log.py). `timeout` is in seconds. Raises
    StoreError when the directory is not the user's alone, no server program is found or it fails, Unreachable when
    it does not serve within `timeout`, Unsuitable when it is no server for a cell.
    """
    places = Places(state_directory(directory))
    places.make()
    limit = time.monotonic() + timeout
    started, log_start, repaired = False, 0, ""
    while (answer := server.ping(places.url, timeout=_PING_SECONDS)) is not Answer.READY:
        lock = take_lock(places.lock) if answer is Answer.ABSENT else None
        if lock is not None and started:
            said = _last_words(places, log_start)
            cut = "" if repaired else _cut_damaged_end(places, said)
            if not cut:
                os.close(lock)
                raise StoreError(f"the embedded store ended while starting: {said}")
            repaired = cut
        if lock is not None:
            try:
                log_start = _launch(places, lock)
                started = True
            finally:
                os.close(lock)
        elif time.monotonic() >= limit:
            raise _too_slow(places, answer, timeout)
        else:
            time.sleep(_PAUSE_SECONDS)
    info = server.server_info(places.url)
    server.check_suitable(info)
    return EmbeddedStore(places.url, places.state, info.pid, f"{info.product} {info.version}", started, repaired)


def _cut_damaged_end(places: Places, said: str) -> str:
    """Cut the damaged end of the files of a server that ended with the words `said`; return what was cut as text."""
    if "append only file" not in said:
        return ""
    from omega.embedded.damaged_log import cut_damaged_end  # noqa: PLC0415 - most starts need none

    try:
        cut = cut_damaged_end(places.data)
        if cut is not None:
            with places.log.open("a", encoding="utf-8") as log:
                log.write(f"omega: {cut.text}\n")
    except OSError as error:
        raise StoreError(f"the embedded store did not start: {said}; its end was not cut: {error}") from None
    return "" if cut is None else cut.text


def running(directory: Path | None = None) -> bool:
    """Return whether the embedded store runs and answers; starts and creates nothing. Raises as `status`."""
    places = Places(state_directory(directory))
    return places.check() and _answers(places)


def status(directory: Path | None = None) -> StoreStatus:
    """Return the status of the embedded store; starts and creates nothing.

    Raises Unreachable when it runs and does not answer, StoreError for an unsafe directory.
    """
    from omega.embedded.program import allocator_of, find_server  # noqa: PLC0415 - clients of a live store need none

    places = Places(state_directory(directory))
    persistence = "append-only files, flushed to disk every second"
    if not places.check() or not _answers(places):
        try:
            program = find_server(_last_program(places)).path
        except StoreError:
            program = None
        return StoreStatus(
            running=False, url=places.url, directory=places.state, persistence=persistence, server=program
        )
    info = server.server_info(places.url)
    return StoreStatus(
        running=True,
        url=places.url,
        directory=places.state,
        persistence=persistence if info.append_only else "none",
        server=Path(info.executable) if info.executable else None,
        pid=info.pid,
        version=f"{info.product} {info.version}",
        uptime_seconds=info.uptime_seconds,
        memory_bytes=info.used_memory_bytes,
        script_bytes=info.script_bytes,
        refuses_writes=info.refuses or None,
        scripts_fill=info.scripts_fill,
        loading=info.loading,
        allocator=allocator_of(info.pid, info.allocator),
    )


def stop(directory: Path | None = None, *, timeout: float = TIMEOUT_SECONDS) -> bool:
    """Stop the embedded store, data kept; return whether there was one. `timeout` is in seconds.

    Raises Unreachable when it does not end within `timeout`, StoreError when it refuses to.
    """
    places = Places(state_directory(directory))
    if not places.check():
        return False
    limit = time.monotonic() + timeout
    asked = False
    while True:
        answer = server.ping(places.url, timeout=_PING_SECONDS)
        if answer is Answer.ABSENT and not held(places.lock):
            return asked
        if asked and answer is not Answer.ABSENT:
            return True  # ours closed its connection, so another was started since
        if answer in (Answer.READY, Answer.LOADING):
            server.shutdown(places.url, timeout=timeout)
            asked = True
        elif time.monotonic() >= limit:
            raise _too_slow(places, answer, timeout)
        else:
            time.sleep(_PAUSE_SECONDS)


def _answers(places: Places) -> bool:
    """Return whether a server answers, also while it loads its data. Raises Unreachable when a running one does not."""
    limit = time.monotonic() + _PING_SECONDS
    while (answer := server.ping(places.url, timeout=_PING_SECONDS)) not in (Answer.READY, Answer.LOADING):
        if answer is Answer.ABSENT and not held(places.lock):
            return False
        if time.monotonic() >= limit:
            raise _too_slow(places, answer, _PING_SECONDS)
        time.sleep(_PAUSE_SECONDS)  # it may be just starting or just ending
    return True


def _launch(places: Places, lock: int) -> int:
    """Start the server, which inherits `lock`; return where its part of the log begins.

    The program daemonizes itself, so no parent process has to reap it.
    """
    import subprocess  # noqa: PLC0415 - only the command that starts the server needs these

    from omega.embedded.program import find_server, server_environment  # noqa: PLC0415

    program = find_server(_last_program(places))
    if places.log.exists() and places.log.stat().st_size > _LARGEST_LOG:
        places.log.replace(places.log.with_suffix(".log.1"))
    command = [str(program.path), *(word for name, value in _options(places).items() for word in (f"--{name}", value))]
    try:
        with places.log.open("ab") as log:
            start = log.tell()
            done = subprocess.run(
                command,
                check=False,
                cwd=places.data,
                env=server_environment(program),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
                umask=0o077,
                timeout=_LAUNCH_SECONDS,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise StoreError(f"the embedded store did not start: {program.path}: {error}") from None
    if done.returncode:
        raise StoreError(f"the embedded store did not start: {_last_words(places, start)}")
    places.program.write_text(f"{program.path}\n", "utf-8")
    return start


def _last_program(places: Places) -> Path | None:
    """Return the program that served the data last; None for a new store.

    Another program may be older and not read the files. A store without a recorded program accepts any.
    """
    try:
        return Path(places.program.read_text("utf-8").strip())
    except OSError:
        return Path() if places.data.exists() and any(places.data.iterdir()) else None


def _options(places: Places) -> dict[str, str]:
    return {
        "port": "0",
        "unixsocket": str(places.socket),
        "unixsocketperm": "700",
        "dir": str(places.data),
        "daemonize": "yes",
        "logfile": str(places.log),
        "pidfile": str(places.pid),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
    }


def _last_words(places: Places, start: int) -> str:
    """Return the last line of the log after `start`, and where to read more."""
    try:
        with places.log.open("rb") as log:
            log.seek(max(start, places.log.stat().st_size - 4096))
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    last = re.sub(r"^\d+:\w .*?[0-9.]+ [-*#.] ", "", lines[-1]) if lines else "no output"
    return f"{last.strip()} (see {places.log})"


def _too_slow(places: Places, answer: Answer, seconds: float) -> Unreachable:
    if answer is Answer.LOADING:
        return Unreachable(f"the embedded store still reads its data after {seconds:g} s; try again (see {places.log})")
    try:
        pid = places.pid.read_text("utf-8").strip()
    except OSError:
        pid = ""
    who = f"process {pid}" if pid else f"a process that holds {places.lock}"
    return Unreachable(f"the embedded store runs as {who} but did not answer for {seconds:g} s; wait, or end it")
