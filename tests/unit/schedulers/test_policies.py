"""What a policy returns is checked where it is asked."""

from random import Random
from typing import Any, ClassVar

import pytest

import omega
from omega.cellstate.errors import BadInput
from omega.schedulers.placement.arranging import arranged
from omega.testing import snapshot, work


class Returns:
    """A policy that returns what it was made with; "iterator" stands for one."""

    evicts: ClassVar[bool] = True
    by: ClassVar[str] = "policy"
    follows_use: ClassVar[bool] = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def suspects(self, *_: Any) -> list[int]:
        return []

    def place(self, *_: Any) -> Any:
        return iter(()) if self.value == "iterator" else self.value


@pytest.mark.parametrize(("value", "got"), [(None, "None"), (1, "int"), ("iterator", "tuple_iterator")])
def test_a_place_that_returns_no_claims_is_named(value: Any, got: str) -> None:
    said = f"^policy Returns: place returned {got}; return a list of claims, \\[\\] when nothing fits$"
    for trial in (
        omega.Scheduler("cold", placement=Returns(value)),
        omega.Scheduler("cold", placement=Returns([]), preemption=Returns(value)),
    ):
        with pytest.raises(BadInput, match=said):
            omega.simulate(trial, cluster="C", days=0.002, machines=100)
    with pytest.raises(BadInput, match=said):
        arranged(Returns(value), work(((1000, 1), 1)), snapshot((4000, 4096)), Random(1))
