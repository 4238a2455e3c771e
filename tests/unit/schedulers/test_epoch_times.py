"""When the live reader publishes the next epoch, on its clock (rule 34)."""

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


class Reading:
    """A reader whose time passes while it sleeps. The last epoch was published at `epoch`, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rank: int, epoch: float, *, prepared: bool = True) -> None:
        self.now, self.epoch = 1_000.0, epoch
        self.published: list[tuple[float, int]] = []
        self.snapshot = ArraySnapshot(2)
        self.snapshot.pools = Pools((Pool("a"),), version=1)
        self.reader = EpochReader("none://", "c", MEMBERS[rank])
        self.prepared = prepared
        monkeypatch.setattr(epochs, "time", SimpleNamespace(monotonic=self._time))
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
        self.epoch = self.now

    async def _follow(self, until: float) -> None:
        if self.prepared:
            self.reader._ready.set()
        while self.now < until and not self.published:
            self.now += await self.reader.step(self.snapshot, MEMBERS)

    def first(self, until: float) -> tuple[float, int]:
        """Return when the first epoch was published, and its period; (infinite, 0) for none until then."""
        anyio.run(self._follow, until)
        return self.published[0] if self.published else (float("inf"), 0)


@pytest.mark.parametrize("rank", [0, 1, 2, 7])
@pytest.mark.parametrize("prepared", [True, False])
def test_each_rank_waits_a_part_of_a_period_longer(rank: int, prepared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no process that starts: until then a thread computes the epoch."""
    due = 999.9 + (1 + min(1.0, rank * epochs.STAGGER)) * epochs.PERIOD_MS / 1000
    at, period = Reading(monkeypatch, rank, 999.9, prepared=prepared).first(1_003)
    assert due - LATE <= at <= due + epochs.POLL_SECONDS + LATE
    assert period == epochs.PERIOD_MS


@pytest.mark.parametrize(
    ("took_ms", "period_ms", "last"), [(25, 1_000, 1_000.0), (400, 1_600, 1_000.0), (10**9, 60_000, 940.2)]
)
def test_an_epoch_that_took_long_to_compute_is_longer_up_to_a_minute(
    took_ms: int, period_ms: int, last: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch, 0, last)
    reading.snapshot.epoch = SimpleNamespace(took_ms=took_ms)  # type: ignore[assignment]
    at, period = reading.first(1_003)
    assert period == period_ms
    assert at >= last + period_ms / 1000 - LATE
