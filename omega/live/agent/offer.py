"""What this computer has to offer: its cores and memory, or what a container lets us have of them."""

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
"""Old cgroups write a number near 2^63 where there is no limit."""


def cpu_millicores() -> int:
    """Cores this process may use, in thousandths: those it is bound to, or the quota of its cgroup if less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([1000 * cores, *_quotas()])


def memory_mib() -> int:
    """Memory this process may use, in MiB: what the computer has, or the limit of its cgroup if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_limits()]) // MIB


def default_name() -> str:
    """The name of this computer in the network, in letters that a machine's name may have."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")
    return name[:64] or "here"


def attributes() -> dict[str, str]:
    """What constraints may ask for without anybody saying it: the operating system, the processor's kind."""
    return {"arch": platform.machine() or "unknown", "os": platform.system().lower() or "unknown"}


def _files(name: str, controller: str, old: str) -> Iterator[str]:
    """Yield what a file says in this process's cgroup and in all around it; `old` is its name in version 1."""
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
        # Inside a container the path may be that of the computer outside: what is there then is the top.
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
