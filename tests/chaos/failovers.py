"""Failovers of a store with Sentinels under load: what the witnesses had acknowledged, what the next primary has."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, fields
from random import Random
from statistics import median
from typing import Any

from omega.cellstate.model import Job
from omega.cellstate.redis import RedisCell
from tests.chaos.load import CELL, SETTLED, Load
from tests.chaos.witnesses import Acknowledged
from tests.integration.stage import all_facts
from tests.server_groups import DOWN_AFTER_MS, Sentinels, Server, until

LAG_SECONDS = 1.0
"""How long a replica is cut off before the primary is killed."""
NOTED_SECONDS = 0.2
"""Time in which a witness notes what the killed primary still acknowledged."""


@dataclass(frozen=True, slots=True)
class Row:
    """One failover; times are seconds from the kill."""

    number: int
    lagging: int
    """Replicas that were cut off before."""
    larger: bool
    """Whether the promoted replica had the larger offset."""
    promoted: float
    """Until a Sentinel named the next primary."""
    resumed: float
    """Until the store acknowledged a commit."""
    placed: float
    """Until a scheduler of the product placed a task."""
    submissions: int
    """Acknowledged submissions that the promoted replica lacks; likewise the next two."""
    commits: int
    ends: int
    versions: int
    """Versions that the promoted replica lacks, up to the last that the test's scheduler had acknowledged."""
    reported: int
    """Versions that the product reports as surely lost."""

    @property
    def lost(self) -> int:
        """Acknowledged calls that are missing."""
        return self.submissions + self.commits + self.ends


def table(rows: Sequence[Row]) -> str:
    """Return rows as a table of Markdown, with medians."""
    names = [each.name for each in fields(Row)]
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    lines += ["| " + " | ".join(_text(each) for each in astuple(row)) + " |" for row in rows]
    medians = [
        f"{name} {median(getattr(row, name) for row in rows):.2f} s" for name in ("promoted", "resumed", "placed")
    ]
    after = median(row.resumed - row.promoted for row in rows)
    return "\n".join([*lines, f"medians: {', '.join(medians)}; resumed after promotion {after:.2f} s", ""])


def _text(value: Any) -> str:
    return (
        f"{value:.2f}"
        if isinstance(value, float)
        else "yes"
        if value is True
        else "no"
        if value is False
        else str(value)
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What a replica held after its primary had died, before any server was promoted."""

    version: int
    offset: int
    submissions: list[Acknowledged]
    commits: list[Acknowledged]
    ends: list[Acknowledged]


@dataclass
class Failovers:
    """Failovers of a store with Sentinels under load."""

    group: Sentinels
    load: Load
    rows: list[Row] = field(default_factory=list)
    unplanned: int = 0
    """Failovers that the test did not make."""
    _epoch: int = 0
    _from: float = 0.0
    """The last promotion: what was acknowledged later is known to the next primary."""

    def fail_over(
        self,
        lagging: int,
        rng: Random,
        *,
        preferred: bool = False,
        as_configured: bool = False,
        silent: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Row:
        """Cut off some replicas for a moment, kill the primary, follow what happens, and start the killed one again.

        With `preferred` the Sentinels are to promote one of those that were cut off. With `as_configured` the killed
        server returns as the primary that it was, without data. One that is `silent` is halted until then, so that its
        connections stay open. `meanwhile` is called before its return.
        """
        self.settle()
        old, replicas = self.group.primary(), self.group.replicas()
        behind = rng.sample(replicas, lagging)
        for each in replicas:
            each.client.config_set("replica-priority", 10 if preferred and each in behind else 100)
        for each in behind:
            each.cut_off()
        if behind:
            time.sleep(LAG_SECONDS)
        if silent:
            old.halt()
        else:
            old.kill()
        killed = time.monotonic()
        time.sleep(NOTED_SECONDS)
        read = time.monotonic()
        held = {each: self._held(each, read, silent=silent) for each in replicas}
        for each in behind:
            each.rejoin()
        known = time.monotonic() - killed
        new = until(lambda: next(iter(self.group.named() - {old}), None), SETTLED)
        promoted = time.monotonic() - killed
        assert known < promoted, "the replicas were read too late to know what they held"
        until(lambda: new.replication["role"] == "master")
        meanwhile()
        old.kill()
        if as_configured:
            old.start()
        else:
            self.group.start_again(old, new)
        row = self._row(lagging, killed, promoted, held, new)
        self.rows.append(row)
        self._from, self._epoch = killed + promoted, self.group.epoch()
        return row

    def settle(self) -> None:
        """Return when work goes on and all servers are in step.

        On a loaded machine Sentinels take a primary for dead that lives: such failovers are counted.
        """
        while True:
            until(self.group.in_step, SETTLED)
            epoch = self.group.epoch()
            self.unplanned += self._epoch not in (0, epoch)
            self._epoch = epoch
            self.load.work()
            if self.group.in_step() and self.group.epoch() == epoch:
                return

    def _row(self, lagging: int, killed: float, promoted: float, held: dict[Server, Held], new: Server) -> Row:
        def resumed() -> float:
            later = (each.at for each in list(self.load.commits.placed) if each.at > killed + DOWN_AFTER_MS / 2_000)
            return next(later, 0.0)

        until(resumed, SETTLED)
        kept = held[new]
        last = max((each.version for each in self.load.commits.placed if each.at <= killed), default=0)
        versions = max(0, last - kept.version)
        return Row(
            len(self.rows) + 1,
            lagging,
            kept.offset == max(each.offset for each in held.values()),
            promoted,
            resumed() - killed,
            self._placed(killed, kept.version) - killed,
            len(kept.submissions),
            len(kept.commits),
            len(kept.ends),
            versions,
            self._reported(versions),
        )

    def _reported(self, versions: int) -> int:
        """Return how many versions were reported as lost since the last failover; wait while there must be a report."""
        before = sum(row.reported for row in self.rows)
        until(lambda: not versions or self.load.cell.cuts().lost > before, SETTLED)
        return self.load.cell.cuts().lost - before

    def _placed(self, killed: float, version: int) -> float:
        """Return when a scheduler of the product first placed a task after the kill, by its clock."""
        since = time.time() - (time.monotonic() - killed)

        def first() -> float:
            facts = [
                each for each in all_facts(self.load.cell, version) if each.event[0] == "place" and "batch/" in each.by
            ]
            return min((each.at_ms / 1000 for each in facts if each.at_ms / 1000 > since), default=0.0)

        return float(until(first, SETTLED)) - since + killed

    def _held(self, replica: Server, until_then: float, *, silent: bool) -> Held:
        """Read what a replica holds; its primary is gone, so that it changes no more."""
        if not silent:
            until(lambda: replica.replication["master_link_status"] == "down")
        with closing(RedisCell.connect(f"redis://127.0.0.1:{replica.port}", CELL)) as cell:

            def lacking(known: Sequence[Acknowledged], least: int) -> list[Acknowledged]:
                """Return those acknowledged since the last failover whose job has not come so far."""
                recent = [each for each in list(known) if self._from < each.at <= until_then]
                jobs = cell.jobs.by_id([each.job for each in recent])
                return [each for each in recent if _stage(jobs.get(each.job)) < least]

            offset = int(replica.replication["slave_repl_offset"])
            commits = self.load.commits
            return Held(
                cell.counters()["version"],
                offset,
                lacking([*self.load.client.acknowledged, *commits.submitted], 1),
                lacking(commits.placed, 2),
                lacking(commits.ended, 3),
            )


def _stage(job: Job | None) -> int:
    """Return how far a job of one task has come: 0 unknown, 1 submitted, 2 placed, 3 finished."""
    if job is None:
        return 0
    return 1 if job.unplaced else 2 if job.placed else 3
