"""A member that registers again while the cell is verified is no violation; one with a wrong incarnation is."""

from omega.cellstate.fold import Books
from omega.cellstate.primary import Primary
from omega.cellstate.verify import settings_follow_from_log


def places(on_record: int, by_the_log: int) -> set[str]:
    primary, books = Primary(resources=("cpu",), members={"batch/0": on_record}), Books(1, 2)
    books.settings = {"member batch/0": by_the_log}
    return {violation.where for violation in settings_follow_from_log(primary, books)}


def test_only_the_same_incarnation_is_found_twice() -> None:
    assert places(3, 3) == set()
    assert places(3, 4) & places(3, 4)
    assert not places(3, 4) & places(4, 5)
