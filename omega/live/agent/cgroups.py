"""Cgroups (version 2) for tasks, where this process may make them: cores and memory as they were asked for.

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
"""The kernel takes no less in a period."""
CONTROLLERS = ("cpu", "memory")
TRIES = 5
"""How often to move processes aside: each of them may start another meanwhile."""


@dataclass(slots=True)
class Cgroups:
    """The cgroup below which every task gets one of its own; `why_not` says why there is none, or what it lacks."""

    top: Path | None
    why_not: str = ""
    _left: list[Path] = field(default_factory=list)
    """Those that still had somebody in them when they were to go."""

    @classmethod
    def prepare(
        cls, name: str, cgroups: Path = CGROUPS, own: Path = OWN, wanted: tuple[str, ...] = CONTROLLERS
    ) -> "Cgroups":
        """Make the cgroup of the agent `name` inside the one this process is in, with what there is of `wanted`."""
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
            found = cls(top, why_not, [each for each in top.iterdir() if each.is_dir()])
        except StopIteration:
            return cls(None, "this system has no cgroups of version 2")
        except FileNotFoundError as error:
            return cls(None, f"no cgroups of version 2: no {error.filename}")
        except OSError as error:
            return cls(None, f"{error.filename or cgroups}: {error.strerror}")
        found._sweep()
        return found

    def make(self, name: str, order: dict[str, Any]) -> None:
        """Give a task a cgroup by its order; without one where there is none."""
        if self.top is None:
            return
        place, memory = self.top / name, order["memory_bytes"]
        quota = max(LEAST_QUOTA, order["cpu_millicores"] * PERIOD_MICROSECONDS // 1000)
        limits = {
            "cpu.max": f"{quota} {PERIOD_MICROSECONDS}" if order["cpu_millicores"] else "",
            "memory.max": str(memory or ""),
            "memory.swap.max": "0" if memory else "",  # memory that was not asked for, only slower
            "memory.oom.group": "1" if memory else "",  # a task that lost one of its processes is of no use
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
        """Remove the cgroup of a task that ended, with whoever is left in it."""
        if self.top is not None:
            with suppress(OSError):
                (self.top / name / "cgroup.kill").write_text("1")
            self._left.append(self.top / name)
            self._sweep()

    def _sweep(self) -> None:
        """Remove what can be removed; who was killed may take a moment to be gone."""
        self._left = [place for place in self._left if not _removed(place)]


def _removed(place: Path) -> bool:
    try:
        place.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _share_out(inner: Path, controllers: str, aside: Path) -> None:
    """Let the cgroups inside one have its controllers; its processes, this one among them, step aside if they must."""
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
