"""The history of a job tells its versions apart."""

from omega.cellstate.digest.history import History
from omega.cellstate.events import Fact, parse


def test_losses_are_counted_by_group() -> None:
    history = History()
    for version, (group, tasks) in enumerate((("0", "0-1"), ("2", "0"), ("0", "0")), 1):
        history.add(Fact(version, 0, "batch/0", parse(f"lost 7 4 a {group} {tasks} 9 0,0 agent")[0]))
    kept = History.unpack(history.pack())
    assert (kept.lost_of({0}), kept.lost_of({2}), kept.lost_of({0, 2})) == (3, 1, 4)
    assert kept.lost_of({5}) == 0, "a version without losses does not show those of the versions before"
