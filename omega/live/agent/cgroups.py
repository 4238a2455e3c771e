"""Cgroups (version 2) for tasks, where this process may create them: limits on cores and memory as requested.

The kernel's rules (Documentation/admin-guide/cgroup-v2.rst): a cgroup that shares out controllers has no processes of
its own, the topmost one excepted; controllers are shared out from the top down; one that has processes or cgroups in
it cannot be removed.
"""

import errno
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omega.live.agent.offer import CGROUPS, OWN

PERIOD_MICROSECONDS = 100_000
LEAST_QUOTA = 1_000
"""Minimum quota that the kernel accepts."""
CONTROLLERS = ("cpu", "memory")
TRIES = 5
"""Maximum number of attempts to move processes aside, since each may start another meanwhile."""


@dataclass(slots=True)
class Cgroups:
    """Parent cgroup of the tasks' cgroups; `why_not` is the reason if it is absent or lacks controllers."""

    top: Path | None
    why_not: str = ""
    _left: list[Path] = field(default_factory=list)
    """Cgroups that still had processes when they were to be removed."""

    @property
    def limit_memory(self) -> bool:
        """Whether the kernel limits the memory of a whole task, not only of each of its processes."""
        try:
            return self.top is not None and "memory" in (self.top / "cgroup.subtree_control").read_text().split()
        except OSError:
            return False

    @classmethod
    def prepare(
        cls, name: str, cgroups: Path = CGROUPS, own: Path = OWN, wanted: tuple[str, ...] = CONTROLLERS
    ) -> "Cgroups":
        """Create the cgroup of agent `name` inside the one of this process, with the available ones of `wanted`."""
        try:
            here = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
            inner = cgroups / here.lstrip("/")
            there = (inner / "cgroup.controllers").read_text().split()
            lacking = [each for each in wanted if each not in there]
            why_not = f"no {' and no '.join(lacking)} controller in {inner}" if lacking else ""
            if len(lacking) == len(wanted):
                return cls(None, why_not)
            shared = " ".join(f"+{each}" for each in wanted if each in there)
            _share_out(inner, shared, inner / f"omega-{name}-agent")
            top = inner / f"omega-{name}"
            top.mkdir(exist_ok=True)
            (top / "cgroup.subtree_control").write_text(shared)
            prepared = cls(top, why_not, [each for each in top.iterdir() if each.is_dir()])
        except StopIteration:
            return cls(None, "this system has no cgroups of version 2")
        except FileNotFoundError as error:
            return cls(None, f"no cgroups of version 2: no {error.filename}")
        except OSError as error:
            return cls(None, f"{error.filename or cgroups}: {error.strerror}")
        prepared._sweep()
        return prepared

    def make(self, name: str, order: dict[str, Any]) -> None:
        """Create a task's cgroup with the limits of its order; does nothing where cgroups are unavailable."""
        if self.top is None:
            return
        place, memory = self.top / name, order["memory_bytes"]
        quota = max(LEAST_QUOTA, order["cpu_millicores"] * PERIOD_MICROSECONDS // 1000)
        limits = {
            "cpu.max": f"{quota} {PERIOD_MICROSECONDS}" if order["cpu_millicores"] else "",
            "memory.max": str(memory or ""),
            "memory.swap.max": "0" if memory else "",  # swap would be memory beyond the request
            "memory.oom.group": "1" if memory else "",  # a task cannot continue without one of its processes
        }
        try:
            place.mkdir(exist_ok=True)
            for file, limit in limits.items():
                if limit and (place / file).exists():
                    (place / file).write_text(limit)
        except OSError:
            return
        order["cgroup"] = str(place)

    def remove(self, name: str) -> None:
        """Remove the cgroup of an ended task and kill the processes left in it."""
        if self.top is not None:
            with suppress(OSError):
                (self.top / name / "cgroup.kill").write_text("1")
            self._left.append(self.top / name)
            self._sweep()

    def _sweep(self) -> None:
        """Remove empty cgroups; killed processes take a moment to exit."""
        self._left = [place for place in self._left if not _removed(place)]


def _removed(place: Path) -> bool:
    with suppress(OSError):
        place.rmdir()
    return not place.exists()


def _share_out(inner: Path, controllers: str, aside: Path) -> None:
    """Delegate controllers to the cgroups inside; moves the processes of this cgroup aside if necessary."""
    for _ in range(TRIES):
        try:
            (inner / "cgroup.subtree_control").write_text(controllers)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            return
        aside.mkdir(exist_ok=True)
        for process in (inner / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (aside / "cgroup.procs").write_text(process)
    raise OSError(errno.EBUSY, "processes in it start others too fast", str(inner))
