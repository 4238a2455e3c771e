"""What a working copy keeps of the runs on machines."""

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.snapshot import Resident
from tests.unit.cellstate.test_snapshot import reply, row


def test_a_full_read_forgets_what_ran_on_machines() -> None:
    """A store that went back in time may have other runs under the same sequence number (semantics 16)."""
    snapshot = ArraySnapshot(2)
    snapshot.apply(reply(5, row(0, (4, 4), number=3), full=True))
    snapshot.residents.learn(
        [0], snapshot.number, [Resident(machine=0, placement=1, job="a", precedence=0, need=(1, 1), tasks=1)]
    )
    assert snapshot.residents.known(snapshot.number).tolist() == [True]
    snapshot.apply(reply(2, row(0, (4, 4), number=3), full=True))
    assert snapshot.residents.known(snapshot.number).tolist() == [False]
    assert snapshot.residents.on(0) == ()
