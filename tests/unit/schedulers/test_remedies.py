"""What would let the rest of a job fit."""

from typing import Any

import pytest

from omega.schedulers.constraints.explanation import explain
from omega.schedulers.remedies import MoreMachines, more_machines
from omega.schedulers.work import Work
from tests.unit.schedulers.constraints.site import asking, racks, site
from tests.unit.schedulers.drive import copy, group, say, work


def remedy(found: Work, *machines: dict[str, str], free: tuple[int, int] = (4, 4)) -> MoreMachines | None:
    snapshot = site(*machines, free=free)
    (part,) = explain(found, snapshot).parts
    return more_machines(found, part, snapshot)


@pytest.mark.parametrize(
    ("extra", "tasks", "wanted"),
    [
        ({}, 8, None),
        ({}, 9, MoreMachines(1, 0)),
        ({}, 17, MoreMachines(3, 0)),
        ({"different_machines": True}, 5, MoreMachines(3, 0)),
        ({"spread": [{"domain": "rack", "most": 3}]}, 8, MoreMachines(1, 0, {"rack": 1})),
        ({"spread": [{"domain": "rack", "most": 2}]}, 9, MoreMachines(3, 0, {"rack": 3})),
        ({"constraints": ["rack == 'r9'"]}, 1, None),
        ({"constraints": ["rack == 'r1'"]}, 6, MoreMachines(1, 1)),
    ],
)
def test_machines_of_a_size_that_is_there(extra: dict[str, Any], tasks: int, wanted: MoreMachines | None) -> None:
    """Two racks of a machine each that holds four tasks; `wanted` counts machines, and domains where bounded."""
    assert remedy(asking(extra, tasks), *racks(2, 1)) == wanted


def test_a_task_too_large_for_any_machine_is_not_helped() -> None:
    assert remedy(asking({}, 1, need=(5, 1)), {}, {}) is None


def test_the_smallest_machine_that_holds_as_many_as_are_left() -> None:
    snapshot = copy((8, 8), (2, 2), (4, 4))
    for machine in range(3):
        snapshot.take(machine, (int(snapshot.room[0][machine]),) * 2, 1)
    found = work("a", group((1, 1), 3))
    assert more_machines(found, explain(found, snapshot).parts[0], snapshot) == MoreMachines(1, 2)


def test_a_machine_that_is_not_up_is_no_example() -> None:
    snapshot = copy((8, 8), (1, 1))
    say(snapshot, 0, -1, -1)
    snapshot.rows[2, 0] = 2
    found = work("a", group((4, 4), 3))
    assert more_machines(found, explain(found, snapshot).parts[0], snapshot) is None
