"""A task of an agent: started under a supervisor or found again, and its result."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omega.cellstate.descriptors import with_spare
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import JobState
from omega.cellstate.tasks import Consumption, EndKind
from omega.file_lock import held
from omega.live.agent.guard import kill_tasks
from omega.live.agent.guard_line import GuardLine
from omega.live.agent.lease_file import NOTICE, ROOM, ask_to_end, now, write_within
from omega.live.agent.places import PlacementKey
from omega.live.agent.process_tree import processes
from omega.live.agent.supervisor import CLEAN_PAUSE_SECONDS, CLEAN_TRIES
from omega.live.agent.task_start import CLEAN_SECONDS, clean_up, end_clean_up

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell

LONGEST_REASON = 200
"""Characters of a reason that the store keeps; commands may be long."""
SWEEP_SECONDS = 5.0
"""Time that the agent waits for a clean-up after a runner."""
SWEEPS, PAUSE_SECONDS = 3, 0.02
"""Searches for what a clean-up left behind, and the pause after each."""
GONE = {"how": "lost", "reason": "its supervisor was killed"}


@dataclass(slots=True)
class Kept:
    """One task. `leaving`: the store waits for its end; `unlisted`: the store no longer lists it.

    `guard` is the process id of the guard that reports its end, 0 for a task found again.
    """

    key: PlacementKey
    place: Path
    guard: int = 0
    _: KW_ONLY
    leaving: bool = False
    unlisted: bool = False
    swept: bool = False
    """Whether the processes of a killed supervisor were killed."""
    order_of: dict[str, Any] | None = None
    """Its order without the environment, as far as known."""
    found: dict[str, Any] | None = None
    """Its result, as read."""
    warned: bool = False
    """Whether the time between its warning and its end was decided (`give_notice`)."""

    @classmethod
    def start(cls, key: PlacementKey, place: Path, order: dict[str, Any], line: GuardLine, store: str = "") -> "Kept":
        """Have the guard start a supervisor with an order, in a new directory. Raises OSError.

        `store` is the store's URL for a task that may have it. A task started without an answer is found later.
        """
        if held(place / "lock"):
            return cls(key, place)
        if place.exists():
            shutil.rmtree(place)  # a store restored to an older state reuses ids
        place.mkdir(mode=0o700)
        place.chmod(0o711 if order["user"] else 0o700)
        (place / "work").mkdir()
        if order["user"]:
            os.chown(place / "work", order["user"]["uid"], order["user"]["gid"])
        write_within(place / "result", b" " * ROOM)  # now, as the disk may be full later
        handle = os.open(place / "order.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w") as file:  # noqa: PTH123 - a descriptor with its mode
            file.write(json.dumps(order))  # json.dump encodes in Python: 0.7 ms
        return cls(key, place, line.start(place, store), order_of=_brief(order))

    @property
    def order(self) -> dict[str, Any]:
        """Its order without the environment. Raises OSError, ValueError for one found again that cannot be read."""
        if self.order_of is None:
            self.order_of = _brief(json.loads(with_spare((self.place / "order.json").read_bytes)))
        return self.order_of

    @property
    def lives(self) -> bool:
        """Return whether the supervisor lives, by its lock, which the kernel releases."""
        return with_spare(lambda: held(self.place / "lock"))

    @property
    def supervisor(self) -> int:
        """Return the supervisor's process id; 0 where it is not known."""
        with suppress(OSError, ValueError):
            return int(with_spare((self.place / "supervisor").read_text))
        return 0

    @property
    def longest_grace(self) -> float:
        """Return the seconds within which a task that is asked to end does so, its clean-up included."""
        with suppress(OSError, ValueError):
            order, notice = self.order, 0.0
            with suppress(OSError, ValueError):
                notice = float(with_spare((self.place / NOTICE).read_text))
            cleans = CLEAN_TRIES * (CLEAN_SECONDS + CLEAN_PAUSE_SECONDS) if order.get("clean_up") else 0.0
            return float(max(order["grace_ms"] / 1000, notice) + cleans)
        return 0.0

    def stop(self) -> None:
        """Ask the supervisor to end its task; idempotent."""
        if self.lives and (pid := self.supervisor):
            with suppress(OSError):
                ask_to_end(self.place)
                os.kill(pid, signal.SIGUSR2)

    def result(self) -> dict[str, Any]:
        """Return the result after the task's end; kills the processes of a killed supervisor."""
        if not self.has_result:
            sweep([self])
        return self.found or GONE

    @property
    def has_result(self) -> bool:
        """Return whether the ended task has a result: its supervisor was not killed."""
        if self.found is None:
            with suppress(OSError, ValueError):
                self.found = json.loads(with_spare((self.place / "result").read_bytes))
        return self.found is not None

    @property
    def ended_ago(self) -> float:
        """Return the seconds since the recorded end; 0 without a record."""
        return max(0.0, now() - float(self.result().get("at", now())))

    @property
    def measured(self) -> Consumption | None:
        """Return the measured use of the ended task; None without a report of its supervisor."""
        used = self.result().get("measured")
        return Consumption(**used) if used else None

    def ending(self) -> tuple[EndKind, str]:
        """Return the result as reported to the store."""
        result = self.result()
        if self.leaving:
            return EndKind.LEFT, _short(result["reason"])
        if result["how"] == "unfit":
            return EndKind.EVICTED, "unfit"
        if result["how"] == "finished":
            return EndKind.FINISHED, ""
        if result["how"] == "failed":
            reason = _short(result["reason"])
            kind = EndKind.RETRIED if result.get("elsewhere") else EndKind.FAILED
            tries = result["attempts"]
            return kind, reason if tries == 1 else f"{reason} after {tries} attempts"
        return EndKind.LOST, "agent"


def sweep(ended: Iterable[Kept]) -> None:
    """Kill processes of killed supervisors that no guard killed, of all tasks at once, and clean up: once."""
    left = [kept for kept in ended if not kept.swept and not kept.has_result]
    if left:
        kill_tasks([kept.place for kept in left])
    for kept in left:
        kept.swept = True
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            process = clean_up(json.loads(with_spare((kept.place / "order.json").read_bytes)), kept.place)
            if process is not None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SWEEP_SECONDS)
                for _ in range(SWEEPS):  # this process adopts no orphans: one that forks and ends may hide its child
                    end_clean_up(kept.place, process, processes)
                    process.wait(SWEEP_SECONDS)
                    time.sleep(PAUSE_SECONDS)


def _brief(order: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in order.items() if name != "environment"}


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def give_notice(cell: "RedisCell", leaving: Iterable[Kept]) -> None:
    """Write the time from warning (SIGTERM) to end of tasks that are about to be warned, once for each task.

    The pool of an evicted task whose job continues may state it (`allocation_timeout`, docs/pool-rules.md); otherwise
    the `grace` of the job applies. The evicting task holds the room and starts when the store has this task's end.
    """
    new = [kept for kept in leaving if not kept.warned]
    if not new:
        return
    pools = cell.pools.get()
    jobs = cell.jobs.by_id(sorted({kept.key.job for kept in new})) if pools.configured else {}
    for kept in new:
        job = jobs.get(kept.key.job)
        if job is not None and job.state in (JobState.ACTIVE, JobState.HELD):
            lane = lane_of(job.kind, job.precedence, job.spec)
            seconds = pools.preemption(pools.pool_of(lane.pool, lane.user)).allocation_timeout
            if seconds is not None:
                write_within(kept.place / NOTICE, f"{seconds:<24}".encode())
        kept.warned = True
