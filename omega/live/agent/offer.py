"""Capacity of this computer: its cores and memory, or the limits of its container."""

import os
import platform
import re
import socket
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
NO_LIMIT = 1 << 60
"""Cgroups of version 1 write a number near 2^63 for no limit."""


def cpu_millicores() -> int:
    """Return the usable cores in thousandths: the CPU affinity, or the cgroup's quota if less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([1000 * cores, *_quotas()])


def memory_mib() -> int:
    """Return the usable memory in MiB: the computer's, or the cgroup's limit if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_limits()]) // MIB


def default_name() -> str:
    """Return this computer's host name, reduced to the characters of machine names."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")
    return name[:64] or "here"


def attributes() -> dict[str, str]:
    """Return the default attributes: operating system and processor architecture."""
    return {"arch": platform.machine() or "unknown", "os": platform.system().lower() or "unknown"}


def _files(name: str, controller: str, old: str) -> Iterator[str]:
    """Yield a file's contents in this process's cgroup and all enclosing ones; `old` is its name in version 1."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        if not names:
            top, file = CGROUPS, name
        elif controller in names.split(","):
            top, file = CGROUPS / controller, old
        else:
            continue
        inner = top / path.lstrip("/")
        # Inside a container the path may refer to the host: the visible top is used then.
        for place in [inner, *inner.parents]:
            if place == top.parent:
                break
            try:
                yield (place / file).read_text().strip()
            except OSError:
                continue


def _quotas() -> Iterator[int]:
    for text in _files("cpu.max", "cpu", "cpu.cfs_quota_us"):
        quota, _, period = text.partition(" ")
        if quota not in ("max", "-1") and quota.isdigit():
            yield max(1, 1000 * int(quota) // int(period or 100_000))


def _limits() -> Iterator[int]:
    for text in _files("memory.max", "memory", "memory.limit_in_bytes"):
        if text.isdigit() and int(text) < NO_LIMIT:
            yield int(text)
