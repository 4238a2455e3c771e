"""The durability of a cell as text."""

import pytest

from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("none", Durability()),
        ("fsync", Durability(fsync=True)),
        ("replicas=2", Durability(2, 1_000)),
        ("replicas=1,timeout=250ms", Durability(1, 250)),
        ("timeout=2s, replicas=99", Durability(99, 2_000)),
        ("replicas=1,timeout=1.5", Durability(1, 1_500)),
    ],
)
def test_text_is_read_and_written(text: str, wanted: Durability) -> None:
    assert Durability.parse(text) == wanted
    assert Durability.parse(wanted.text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "all", "replicas", "replicas=", "replicas=0", "replicas=-1", "replicas=100", "replicas=1.5", "replicas=\u0661",
     "replicas=1,replicas=2", "replicas=1,timeout=0", "replicas=1,timeout=3s", "replicas=1,timeout=", "timeout=1s",
     "fsync,replicas=1", "replicas=1,x=2", "none,", "replicas=1,", "x" * 10_000],
)  # fmt: skip
def test_other_text_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(BadInput) as error:
        Durability.parse(text)
    assert len(str(error.value)) < 250
    assert "\n" not in str(error.value)
