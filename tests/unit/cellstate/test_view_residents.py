"""What a private copy keeps of the runs on machines."""

from cellstate.residents import Resident
from cellstate.view import View
from tests.unit.cellstate.test_view import reply, row


def test_a_full_read_forgets_what_ran_on_machines() -> None:
    """A store that went back in time may have other runs under the same sequence number (semantics 16)."""
    view = View(2)
    view.apply(reply(5, row(0, (4, 4), number=3), full=True))
    view.residents.learn([0], view.number, [Resident(0, 1, "a", 0, (1, 1), 1)])
    assert view.residents.known(view.number).tolist() == [True]
    view.apply(reply(2, row(0, (4, 4), number=3), full=True))
    assert view.residents.known(view.number).tolist() == [False]
    assert view.residents.on(0) == ()
