"""The figures of the page on delay scheduling."""

from pathlib import Path

import pytest

from omega.experiments.plots import slots
from omega.experiments.slot_report import FIGURES
from omega.experiments.slot_runs import BinResult
from omega.experiments.sticky_slots import Sticky


def test_each_figure_of_the_page_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Sticky(jobs=5, without=0.5, with_delay=1.0, seconds_without=15.0, seconds_with=10.0, penalty=2.0)
    monkeypatch.setattr(slots, "macro", lambda *_: [BinResult(0.5, 0.9, [10.0])] * 9)
    monkeypatch.setattr(slots, "sticky", lambda *_: one)
    monkeypatch.setattr(slots, "sensitivity", lambda *_: 0.5)
    slots.draw(tmp_path, range(2))
    for name, title in FIGURES.items():
        text = (tmp_path / f"{name}.svg").read_text()
        assert title.split(":")[0] in text
        assert "medians over 2 seeds" in text
