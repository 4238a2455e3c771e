"""An epoch follows within 100 ms when a job waits for one that names it: the live reader, on its clock (rule 34)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.replies import EpochMark
from omega.schedulers.process import epochs
from omega.schedulers.process.epochs import EpochReader, publish

MEMBERS = [f"batch/{i}" for i in range(8)]
LATE = 0.001
"""Rounding of the times, in seconds."""


class Naming:
    """A reader whose time passes while it sleeps. A job has no name in the epoch from `since` on, in seconds."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, rank: int, since: float | None, epoch: float, *, prepared: bool = True
    ) -> None:
        self.now, self.since, self.epoch = 1_000.0, since, epoch
        self.published: list[tuple[float, int]] = []
        self.snapshot = ArraySnapshot(2)
        self.snapshot.pools = Pools((Pool("a"),), version=1)
        self.reader = EpochReader("none://", "c", MEMBERS[rank])
        self.prepared = prepared
        monkeypatch.setattr(epochs, "time", SimpleNamespace(monotonic=self._time))
        monkeypatch.setattr(epochs, "since_1970", self._time)
        monkeypatch.setattr(anyio, "sleep", self._sleep)
        monkeypatch.setattr(anyio.to_thread, "run_sync", self._at_once)
        monkeypatch.setattr(anyio.to_process, "run_sync", self._publish)
        monkeypatch.setattr(EpochReader, "read", self._mark)
        monkeypatch.setattr(EpochReader, "_has_many_jobs", lambda _: False)

    def _time(self) -> float:
        return self.now

    def _mark(self, _: object) -> EpochMark:
        now_ms, at_ms = round(1000 * self.now), round(1000 * self.epoch)
        return EpochMark(
            read=0, number=1, at_ms=at_ms, published=1, version=2, pools_version=1, configured=True, now_ms=now_ms
        )

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.since is not None and self.now >= self.since and not self.published:
            self.snapshot.unnamed_since = self.since

    async def _at_once(self, call: Callable[..., Any], *given: Any, abandon_on_cancel: bool = False) -> Any:
        if call is not publish:
            return call(*given)
        assert not self.prepared, "a thread computes an epoch beside a process that could"
        return self._note(given[-1])

    async def _publish(self, call: object, *given: Any, cancellable: bool) -> None:
        assert self.prepared, "an epoch waits for the start of a process"
        if call is publish:
            self._note(given[-1])

    def _note(self, period_ms: int) -> None:
        self.published.append((self.now, period_ms))
        self.epoch, self.snapshot.unnamed_since = self.now, None

    async def _follow(self, until: float) -> None:
        if self.prepared:
            self.reader._ready.set()
        while self.now < until and not self.published:
            await self.reader.rest(self.snapshot, await self.reader.step(self.snapshot, MEMBERS))

    def first(self, until: float) -> tuple[float, int]:
        """Return when the first epoch was published, and its period; (infinite, 0) for none until then."""
        anyio.run(self._follow, until)
        return self.published[0] if self.published else (float("inf"), 0)


@pytest.mark.parametrize("rank", [0, 1, 2, 7])
@pytest.mark.parametrize("phase", [0.0, 0.003, 0.011, 0.019])
@pytest.mark.parametrize("prepared", [True, False])
def test_an_epoch_names_a_job_within_100_ms_whoever_lives(
    rank: int, phase: float, prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last epoch is 70 ms older than the job. Each rank waits for the one before it, the third and later do not.

    It waits for no process that starts: until then a thread computes it.
    """
    since = 1_000.05 + phase
    at, period = Naming(monkeypatch, rank, since, 999.98, prepared=prepared).first(since + 1)
    gathered = epochs.GATHER_SECONDS + epochs.LOOK_SECONDS * min(rank, 2)
    assert since + gathered - LATE <= at <= since + gathered + epochs.LOOK_SECONDS + LATE <= since + 0.1
    assert period == epochs.NAMING_MS


def test_epochs_that_name_jobs_are_100_ms_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    at, _ = Naming(monkeypatch, 0, 1_000.01, 1_000.0).first(1_001)
    assert 1_000.1 - LATE <= at <= 1_000.1 + epochs.LOOK_SECONDS + LATE


def test_nothing_is_brought_forward_while_no_job_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    at, period = Naming(monkeypatch, 0, None, 999.9).first(1_002)
    assert 1_000.9 - LATE <= at <= 1_000.9 + epochs.POLL_SECONDS + LATE
    assert period == epochs.PERIOD_MS


@pytest.mark.parametrize(
    ("took_ms", "period_ms", "last"), [(25, 100, 1_000.0), (60, 240, 1_000.0), (10**9, 60_000, 940.2)]
)
def test_an_epoch_that_took_long_to_compute_is_longer_up_to_a_minute(
    took_ms: int, period_ms: int, last: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    naming = Naming(monkeypatch, 0, 1_000.01, last)
    naming.snapshot.epoch = SimpleNamespace(took_ms=took_ms)  # type: ignore[assignment]
    at, period = naming.first(1_001)
    assert period == period_ms
    assert at >= last + period_ms / 1000 - LATE
