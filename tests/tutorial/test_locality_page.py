"""docs/locality.md is true: its commands run and print what it shows, its file is a scheduler, it names each field."""

from pathlib import Path

import pytest

import omega
from omega.cellstate.redis.cell import RedisCell
from omega.jobfile.form import Locality
from omega.jobfile.mapreduce import InputLocality
from omega.schedulers.composition import compose
from omega.schedulers.placement.delay import DelayReset
from tests.tutorial.page import DOCS, blocks
from tests.tutorial.test_tour import pasted

PAGE = (DOCS / "locality.md").read_text(encoding="utf-8")


@pytest.mark.server
@pytest.mark.chaos
def test_the_example(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = [(language, text) for language, text in blocks("locality.md") if language in ("sh", "")]
    pasted(page, store_url, tmp_path)
    left = RedisCell.connect(store_url, "locality")
    left.delete()
    left.close()


def test_the_file_of_the_page_is_a_scheduler() -> None:
    text = next(text for language, text in blocks("locality.md") if language == "toml")
    placement = compose("paper.toml", text).placement
    assert isinstance(placement, omega.Delay)
    assert (placement.skips, placement.reset) == ((40, 10), DelayReset.JOB)


def test_the_page_names_every_field() -> None:
    fields = (*Locality.model_fields, *InputLocality.model_fields)
    assert [name for name in fields if f"`{name}`" not in PAGE] == []
