"""The truth tables of validation, on every implementation; each line also says why it stands there."""

from pathlib import Path

import pytest

from omega.cellstate.transaction import Verdict
from tests.contract.conftest import Make
from tests.contract.scene import Scene
from tests.contract.table import Case, read

FOLDER = Path(__file__).parent / "verdicts"
CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read(path)]


@pytest.mark.parametrize("case", CASES, ids=[case.place for case in CASES])
def test_validated(case: Case, make: Make) -> None:
    scene = Scene(make, case)
    assert scene.commit() == case["outcome"]
    assert scene.left() == case["left"]
    assert scene.leaving() == case["leaving"]


def test_every_verdict_is_shown() -> None:
    words = {word.partition(":")[2] for case in CASES for word in case["outcome"].split() if ":" in word}
    assert words == {verdict.name.lower() for verdict in Verdict}


def test_every_order_of_two_is_shown() -> None:
    """Aborted and placed are what is left, so they stand behind all others by themselves."""
    names = [verdict.name.lower() for verdict in Verdict if verdict not in (Verdict.PLACED, Verdict.ABORTED)]
    shown = [case["case"] for case in CASES]
    pairs = [f"{first} before {second}" for i, first in enumerate(names) for second in names[i + 1 :]]
    assert [pair for pair in pairs if pair not in shown] == []
