"""Crowds of MapReduce workers, closed after each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mapreduce.crowd import Crowd
from tests.mapreduce.words import write_text

Make = Callable[..., Crowd]


@pytest.fixture
def crowd(store_url: str, tmp_path: Path) -> Iterator[Make]:
    """Makes a job with so many workers."""
    made: list[Crowd] = []

    def make(**words: Any) -> Crowd:
        made.append(Crowd(store_url, words.pop("folder", tmp_path), **words))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """2 MB of text in three files."""
    folder = tmp_path_factory.mktemp("texts")
    for i, size in enumerate((1_200_000, 100_000, 700_000)):
        write_text(folder / f"{i}.txt", size, seed=i)
    return sorted(folder.iterdir())
