"""A digest of the sources that determine the results of simulations."""

from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable

DECIDING = ("omega.cellstate", "omega.schedulers", "omega.simulation", "omega.traces", "omega.workload")
"""Packages whose sources determine results; the rest of Omega requests simulations and reads results."""
ENDINGS = (".py", ".csv")
"""Sources, and the tables workloads are drawn from. The scripts of stores are left out: a sweep uses the twin."""


def program_version() -> str:
    """Return the version of Omega that simulates, as text."""
    try:
        return version("omega-scheduler")
    except PackageNotFoundError:
        return "unknown"


@cache
def sources_digest() -> str:
    """Return a digest of names and contents; equal exactly when the code that simulates is. Read once a process."""
    digest = blake2b(digest_size=8)
    for package in DECIDING:
        _take(files(package), package, digest)
    return digest.hexdigest()


def _take(folder: Traversable, name: str, digest: "blake2b") -> None:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{each.name}"
        if each.is_dir():
            _take(each, path, digest)
        elif each.name.endswith(ENDINGS):
            content = each.read_bytes()
            digest.update(f"{path} {len(content)}\n".encode())
            digest.update(content)
