"""The history of a job tells its versions apart."""

from omega.cellstate.digest.history import History
from omega.cellstate.replies import Fact


def test_losses_are_counted_by_group() -> None:
    history = History()
    for version, (group, count) in enumerate((("0", 2), ("2", 1), ("0", 1)), 1):
        history.add(Fact(version, 0, "batch/0", ("lost", "7", "4", "a", group, "0", "9", "0", "0", "agent")), count)
    kept = History.unpack(history.pack())
    assert (kept.lost_of({0}), kept.lost_of({2}), kept.lost_of({0, 2})) == (3, 1, 4)
    assert kept.lost_of({5}) == 0, "a version without losses does not show those of the versions before"
