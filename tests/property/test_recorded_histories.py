"""Random histories are recorded while they happen; each recorded transaction gets the same verdict again."""

from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from omega.cellstate.server import connect
from omega.recording.file import Writer
from omega.recording.judge import Judgement, judge
from omega.recording.recorder import Recorder
from omega.recording.recording import load
from tests.property.history import CALLS, History
from tests.property.worlds import Worlds

BEFORE = 40


def recorded(store_url: str, path: Path, seed: int, calls: int) -> Judgement:
    """Begin to record after some calls, read a page after each third call, and judge what was recorded."""
    client = connect(store_url, timeout=None)
    worlds = Worlds(client, f"recorded-{uuid4().hex[:8]}", 1 + seed % 4)
    try:
        history = History(worlds, Random(f"{seed}/recorded"))
        words, weights = [word for word, _ in CALLS], [weight for _, weight in CALLS]
        drawn = history.rng.choices(words, weights, k=BEFORE + calls)
        for word in drawn[:BEFORE]:
            getattr(history, word)()
        with path.open("wb") as file:
            recorder = Recorder(worlds.store, Writer(file))
            recorder.begin()
            for call, word in enumerate(drawn[BEFORE:]):
                getattr(history, word)()
                if call % 3 == 0:
                    recorder.step()
            recorder.end("time")
        recording = load(path)
        assert not recording.cut
        assert recording.end is not None
        return judge(recording.longest, recording.dimensions)
    finally:
        worlds.store.delete()
        client.close()


@pytest.mark.parametrize("seed", range(8))
def test_recorded_transactions_get_the_same_verdicts(store_url: str, tmp_path: Path, seed: int) -> None:
    judgement = recorded(store_url, tmp_path / "a.rec.gz", seed, 250)
    assert judgement.ok, judgement.differences
    assert not judgement.stopped
    assert judgement.judged > 20
    assert judgement.compared > 20


def test_the_histories_have_every_verdict(store_url: str, tmp_path: Path) -> None:
    """The test above judges placed, moved, full and aborted claims, and leaves out some transactions."""
    judgements = [recorded(store_url, tmp_path / f"{seed}.rec.gz", seed, 150) for seed in range(4)]
    assert {word for each in judgements for word in each.verdicts} == {"placed", "moved", "full", "aborted"}
    assert {word for each in judgements for word in each.left_out} >= {"other verdicts"}
