"""A member that registers again while the cell is verified is no violation; one with a wrong incarnation is."""

from omega.cellstate.audit.directories import members_follow_from_log
from omega.cellstate.audit.reading import CellState
from omega.cellstate.audit.register import Register
from omega.cellstate.inspection import Inspection


def places(on_record: int, by_the_log: int) -> set[str]:
    found, register = Inspection(1), Register(1, complete=True)
    found.members, found.leases = {"batch/0": on_record}, {}
    found.counters["incarnations"] = 9
    register.members = {"batch/0": by_the_log}
    return {violation.where for violation in members_follow_from_log(found, CellState(1), register)}


def test_only_the_same_incarnation_is_found_twice() -> None:
    assert places(3, 3) == set()
    assert places(3, 4) & places(3, 4)
    assert not places(3, 4) & places(4, 5)
