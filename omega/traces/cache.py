"""Parsed columns of traces, kept in files of numpy: a second read of the same files parses nothing.

A file belongs to the names, sizes and times of change of the trace's files, to the options that decide what is parsed,
and to the source of the readers. One that is damaged is ignored and written again.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

MOST_FILES = 8
"""Files that are kept in a cache; the oldest are removed."""
_FACTS = "facts"
_DAMAGED = (OSError, EOFError, KeyError, ValueError, TypeError, zipfile.BadZipFile, zlib.error)

Columns = Mapping[str, NDArray[Any]]
T = TypeVar("T")


def cache_key(paths: Iterable[Path], options: Mapping[str, object]) -> str:
    """Return the name of the cache of these files, read with these options by the readers as they are."""
    digest = sha256()
    for source in sorted(files("omega.traces").iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            digest.update(source.read_bytes())
    for path in sorted(paths):
        status = path.stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    digest.update(json.dumps(options, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def cache_directory() -> Path:
    """Return the user's directory of caches: ``$XDG_CACHE_HOME/omega/traces``, else ``~/.cache/omega/traces``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification: a relative path is to be ignored
    return (Path(named) if named.startswith("/") else Path("~/.cache").expanduser()) / "omega" / "traces"


def load(directory: Path, key: str, restore: Callable[[Columns, dict[str, Any]], T]) -> T | None:
    """Return what `restore` makes of the columns and facts of a cache; None without one, or if it is damaged."""
    try:
        with (directory / f"{key}.npz").open("rb") as file, np.load(file, allow_pickle=False) as found:
            columns = {name: found[name] for name in found.files}
        return restore(columns, json.loads(columns.pop(_FACTS).tobytes()))
    except _DAMAGED:
        return None


def save(directory: Path, key: str, columns: Columns, facts: Mapping[str, Any]) -> None:
    """Write a cache, and remove the oldest ones. Without space or permission nothing is written."""
    path = directory / f"{key}.npz"
    partial = path.with_name(f"{key}.{os.getpid()}.part")
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            arrays: dict[str, Any] = {**columns, _FACTS: np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
            np.savez(file, **arrays)
        partial.replace(path)
        found = sorted(directory.glob("*.npz"), key=lambda each: each.stat().st_mtime_ns)
        for old in found[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    with suppress(OSError):
        partial.unlink(missing_ok=True)
