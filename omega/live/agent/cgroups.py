"""Cgroups (version 2) for tasks, where this process may make them: cores and memory as they were asked for."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omega.live.agent.offer import CGROUPS, OWN

PERIOD_MICROSECONDS = 100_000
LEAST_QUOTA = 1_000
"""The kernel takes no less in a period."""


@dataclass(slots=True)
class Cgroups:
    """The cgroup below which every task gets one of its own; `why_not` says why there is none."""

    top: Path | None
    why_not: str = ""

    @classmethod
    def prepare(cls, name: str, cgroups: Path = CGROUPS, own: Path = OWN) -> "Cgroups":
        """Make the cgroup of the agent `name` inside the one this process is in, if that is permitted."""
        try:
            here = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
            inner = cgroups / here.lstrip("/")
            lacking = {"cpu", "memory"} - set((inner / "cgroup.controllers").read_text().split())
            if lacking:
                return cls(None, f"no {' and no '.join(sorted(lacking))} controller in {inner}")
            # A cgroup with processes of its own shares nothing out: this process steps aside first.
            aside = inner / f"omega-{name}-agent"
            aside.mkdir(exist_ok=True)
            (aside / "cgroup.procs").write_text(str(os.getpid()))
            (inner / "cgroup.subtree_control").write_text("+cpu +memory")
            top = inner / f"omega-{name}"
            top.mkdir(exist_ok=True)
            (top / "cgroup.subtree_control").write_text("+cpu +memory")
        except StopIteration:
            return cls(None, "this system has no cgroups of version 2")
        except OSError as error:
            return cls(None, f"{error.filename}: {error.strerror}")
        return cls(top)

    def make(self, name: str, order: dict[str, Any]) -> None:
        """Give a task a cgroup by its order; without one where there is none."""
        if self.top is None:
            return
        place = self.top / name
        try:
            place.mkdir(exist_ok=True)
            if order["cpu_millicores"]:
                quota = max(LEAST_QUOTA, order["cpu_millicores"] * PERIOD_MICROSECONDS // 1000)
                (place / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
            if order["memory_bytes"]:
                (place / "memory.max").write_text(str(order["memory_bytes"]))
        except OSError:
            return
        order["cgroup"] = str(place)

    def remove(self, name: str) -> None:
        """Remove the cgroup of a task that ended, with whoever is left in it."""
        if self.top is not None:
            with suppress(OSError):
                (self.top / name / "cgroup.kill").write_text("1")
            with suppress(OSError):
                (self.top / name).rmdir()
