"""The working copy: what the store said, less what is claimed and not validated yet."""

from collections import deque
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omega.cellstate.array_snapshot import ArraySnapshot, Take
from omega.cellstate.model import MachineState
from omega.cellstate.replies import Reply, StaleSnapshot
from omega.cellstate.transaction import Position

UP, DRAINED, DOWN = MachineState.UP, MachineState.DRAINED, MachineState.DOWN
Record = tuple[int, ...]


def row(index: int, free: tuple[int, int], used: tuple[int, int] = (0, 0), state: int = UP, number: int = 1) -> Record:
    """A machine's record with so much free and so much used."""
    capacity = tuple(f + u for f, u in zip(free, used, strict=True))
    return index, number, state, 7, *capacity, *used


def reply(version: int, *rows: Record, full: bool = False) -> Reply:
    records = np.array(rows, dtype=np.int64).reshape(-1, 8)
    return Reply(Position(version, f"tag{version}"), full, records)


def room(snapshot: ArraySnapshot) -> list[tuple[int, ...]]:
    """The working amounts, machine by machine; the two ways of reading them are one memory."""
    read = [tuple(int(amounts[machine]) for amounts in snapshot.room) for machine in range(snapshot.size)]
    assert read == [tuple(word[machine] for word in snapshot.free) for machine in range(snapshot.size)]
    return read


def copy(*free: tuple[int, int]) -> ArraySnapshot:
    """A copy of so many machines, all of them up, with nothing freed since."""
    snapshot = ArraySnapshot(2)
    snapshot.apply(reply(1, *(row(index, amounts) for index, amounts in enumerate(free)), full=True))
    snapshot.freed()
    return snapshot


def test_it_starts_empty_and_grows_with_the_rows_it_is_given() -> None:
    snapshot = ArraySnapshot(2)
    assert (snapshot.size, room(snapshot), snapshot.utilisation()) == (0, [], [0.0, 0.0])
    snapshot.apply(reply(1, row(0, (4, 4))))
    snapshot.take(0, (1, 2), 1)
    snapshot.apply(reply(2, row(5, (8, 8))))
    assert snapshot.size == 6
    assert room(snapshot)[0] == (3, 2), "what was taken stays taken when the copy grows"
    assert room(snapshot)[1:5] == [(-1, -1)] * 4, "a machine nobody told of takes nothing"
    assert room(snapshot)[5] == (8, 8)
    assert snapshot.up.tolist() == [True, False, False, False, False, True]


def test_growth_by_one_machine_makes_room_for_more() -> None:
    snapshot = copy(*[(1, 1)] * 100)
    snapshot.apply(reply(2, row(100, (2, 2))))
    assert snapshot.size > 101
    assert room(snapshot)[100] == (2, 2)
    assert set(room(snapshot)[101:]) == {(-1, -1)}


@pytest.mark.parametrize("state", [DRAINED, DOWN, MachineState.GONE])
def test_a_machine_that_is_not_up_takes_nothing(state: int) -> None:
    snapshot = copy((4, 4), (4, 4))
    snapshot.apply(reply(2, row(0, (4, 4), state=state)))
    assert room(snapshot) == [(-1, -1), (4, 4)]
    assert snapshot.up.tolist() == [False, True]
    snapshot.apply(reply(3, row(0, (4, 4))))
    assert room(snapshot) == [(4, 4), (4, 4)]


def test_a_machine_that_is_over_in_one_dimension_takes_nothing_in_any() -> None:
    snapshot = copy((4, 4))
    snapshot.apply(reply(2, (0, 2, UP, 7, 4, 4, 5, 0)))
    assert room(snapshot) == [(-1, -1)]


def test_columns_and_utilisation_read_what_the_store_said() -> None:
    snapshot = ArraySnapshot(2)
    snapshot.apply(
        reply(1, row(0, (3, 3), (1, 0)), row(1, (4, 4), state=DOWN), row(2, (0, 5), (4, 3), number=9), full=True)
    )
    assert snapshot.capacity.tolist() == [[4, 4, 4], [3, 4, 8]]
    assert snapshot.allocated.tolist() == [[1, 0, 4], [0, 0, 3]]
    assert snapshot.number.tolist() == [1, 1, 9]
    assert snapshot.executors([0, 2]) == {7}
    assert snapshot.utilisation() == [5 / 8, 3 / 11]


def test_of_repeated_rows_the_last_one_holds() -> None:
    snapshot = copy((4, 4))
    snapshot.apply(reply(3, row(0, (3, 3), number=2), row(0, (1, 2), number=3)))
    assert (room(snapshot), snapshot.number.tolist()) == ([(1, 2)], [3])


def test_a_delta_that_ends_before_the_copy_is_refused_and_changes_nothing() -> None:
    snapshot = copy((4, 4))
    snapshot.apply(reply(5, row(0, (2, 2))))
    with pytest.raises(StaleSnapshot):
        snapshot.apply(reply(4, row(0, (9, 9))))
    assert (room(snapshot), snapshot.position.version) == ([(2, 2)], 5)


def test_a_full_read_may_go_back_and_forgets_the_machines_it_does_not_list() -> None:
    snapshot = copy((4, 4), (6, 6), (8, 8))
    snapshot.take(1, (1, 1), 2)
    snapshot.apply(reply(0, row(0, (3, 3)), full=True))
    assert room(snapshot)[0] == (3, 3)
    assert all(amount < 0 for machine in (1, 2) for amount in room(snapshot)[machine]), "the store lost them"
    assert snapshot.up.tolist() == [True, False, False]
    assert snapshot.position == Position(0, "tag0")
    snapshot.apply(reply(0, full=True))
    assert not snapshot.up.any()
    assert all(amount < 0 for machine in range(3) for amount in room(snapshot)[machine])


# Deciding


def test_undo_goes_back_to_its_mark_and_no_further() -> None:
    snapshot = copy((10, 10), (10, 10))
    snapshot.take(0, (1, 2), 3)
    mark = snapshot.mark()
    snapshot.take(0, (1, 0), 1)
    snapshot.take(1, (2, 2), 5)
    assert room(snapshot) == [(6, 4), (0, 0)]
    snapshot.undo(mark)
    assert room(snapshot) == [(7, 4), (10, 10)]
    snapshot.undo(0)
    assert room(snapshot) == [(10, 10), (10, 10)]
    snapshot.launch()
    snapshot.land(reply(2))
    assert room(snapshot) == [(10, 10), (10, 10)], "what was undone is not claimed"


def test_accepted_claims_are_not_subtracted_twice() -> None:
    snapshot = copy((10, 10))
    snapshot.take(0, (2, 1), 3)
    snapshot.launch()
    assert room(snapshot) == [(4, 7)]
    snapshot.land(reply(2, row(0, (4, 7), (6, 3))))
    assert room(snapshot) == [(4, 7)]


@pytest.mark.parametrize("placed", [0, 1])
def test_rejected_claims_leave_no_phantom_use_behind(placed: int) -> None:
    snapshot = copy((10, 10), (10, 10))
    snapshot.take(0, (2, 2), 3)
    snapshot.take(1, (1, 1), 4)
    snapshot.launch()
    rows = [row(0, (10 - 2 * placed, 10 - 2 * placed))] if placed else []
    snapshot.land(reply(2, *rows, row(1, (6, 6))))
    assert room(snapshot) == [(10 - 2 * placed, 10 - 2 * placed), (6, 6)]


def test_a_claim_decided_while_another_is_in_flight_survives_its_landing() -> None:
    snapshot = copy((10, 10), (5, 5))
    snapshot.take(0, (1, 1), 4)
    snapshot.launch()
    snapshot.take(0, (1, 1), 2)
    snapshot.take(1, (1, 1), 1)
    snapshot.launch()
    snapshot.take(1, (1, 1), 1)
    assert room(snapshot) == [(4, 4), (3, 3)]
    snapshot.land(reply(2))  # rejected
    assert room(snapshot) == [(8, 8), (3, 3)]
    snapshot.land(
        reply(3, row(0, (7, 8)), row(1, (4, 4)))
    )  # one of two stood on machine 0, something else was placed there
    assert room(snapshot) == [(7, 8), (3, 3)], "the open claim on machine 1 is still open"


def test_a_full_read_that_answers_a_commit_keeps_what_is_still_in_flight() -> None:
    snapshot = copy((10, 10), (5, 5))
    snapshot.take(0, (1, 1), 4)
    snapshot.launch()
    snapshot.take(0, (1, 1), 2)
    snapshot.land(reply(9, row(0, (6, 6)), row(1, (5, 5)), full=True))
    assert room(snapshot) == [(4, 4), (5, 5)]


def test_forgetting_restores_what_the_store_said() -> None:
    snapshot = copy((10, 10))
    snapshot.take(0, (1, 1), 1)
    snapshot.launch()
    snapshot.take(0, (1, 1), 2)
    snapshot.forget()
    assert (room(snapshot), snapshot.mark()) == ([(10, 10)], 0)
    snapshot.apply(reply(2, row(0, (9, 9))))
    assert room(snapshot) == [(9, 9)]


# What became free


def freed(snapshot: ArraySnapshot) -> list[int]:
    return [int(machine) for machine in snapshot.freed()]


def test_machines_that_gained_room_are_told_once() -> None:
    snapshot = ArraySnapshot(2)
    snapshot.apply(reply(1, row(0, (4, 4)), row(1, (4, 4)), row(2, (4, 4), state=DRAINED), full=True))
    assert freed(snapshot) == [0, 1]
    assert freed(snapshot) == []
    snapshot.apply(reply(2, row(0, (3, 4)), row(1, (3, 5)), row(2, (4, 4))))
    snapshot.apply(reply(3, row(1, (3, 6))))
    assert freed(snapshot) == [1, 2], "gained in one dimension, came up; machine 0 only lost"
    assert freed(snapshot) == []


def test_room_given_back_by_a_rejected_claim_counts_as_freed() -> None:
    snapshot = copy((4, 4), (4, 4))
    snapshot.take(0, (4, 4), 1)
    snapshot.take(1, (4, 4), 1)
    snapshot.launch()
    snapshot.land(reply(2, row(1, (0, 0))))
    assert freed(snapshot) == [0], "machine 0 is free again though the store's record never changed"


def test_room_freed_by_others_under_an_accepted_claim_counts_as_freed() -> None:
    snapshot = copy((4, 4))
    snapshot.take(0, (1, 1), 2)
    snapshot.launch()
    snapshot.land(reply(2, row(0, (4, 4))))  # two placed, two others ended: what the store calls free did not change
    assert freed(snapshot) == [0]


def test_an_accepted_claim_frees_nothing() -> None:
    snapshot = copy((4, 4))
    snapshot.take(0, (1, 1), 2)
    snapshot.launch()
    snapshot.land(reply(2, row(0, (2, 2))))
    assert freed(snapshot) == []


# Any history

MACHINES = st.integers(0, 5)
SOME = st.integers(0, 4)


class Store:
    """The least that a store does: records by index, and which of them changed under which version."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.changed: list[int] = []

    def put(self, index: int, **words: int) -> None:
        record = self.rows.setdefault(index, [index, 0, UP, 7, 10, 10, 0, 0])
        record[1] += 1
        for name, value in words.items():
            record[{"state": 2, "capacity": 4, "used": 6}[name]] = value
            if name != "state":
                record[{"capacity": 5, "used": 7}[name]] = value
        self.changed.append(index)

    def answer(self, since: int | None) -> Reply:
        """What changed after the version `since`, everything when that is None."""
        indices = self.rows if since is None else set(self.changed[since:])
        records = [tuple(self.rows[index]) for index in indices]
        return reply(len(self.changed), *records, full=since is None)

    def free(self, index: int) -> int:
        record = self.rows.get(index)
        if record is None or record[2] != UP or record[4] < record[6]:
            return -1
        return record[4] - record[6]

    def validate(self, takes: Iterable[Take]) -> None:
        """Place of every claim what fits."""
        for machine, need, count in takes:
            fits = min(count, self.free(machine) // need[0])
            if fits > 0:
                self.put(machine, used=self.rows[machine][6] + fits * need[0])


class Histories(RuleBasedStateMachine):
    """One scheduler's copy beside a store that others change: every order of launches, validations, landings.

    Both dimensions move alike here; that they are told apart is tested above.
    """

    @initialize()
    def begin(self) -> None:
        self.store, self.snapshot = Store(), ArraySnapshot(2)
        self.said: dict[int, int] = {}
        self.open: list[Take] = []
        self.flights: deque[tuple[list[Take], int]] = deque()
        self.validated: deque[tuple[list[Take], Reply, dict[int, int]]] = deque()
        for index in range(3):
            self.store.put(index)
        self.sync(everything=True)

    def numbers(self) -> dict[int, int]:
        return {index: self.store.free(index) for index in self.store.rows}

    def follow(self, answer: Reply, said: dict[int, int], landed: bool) -> None:
        before = dict(enumerate(room(self.snapshot)))
        if landed:
            self.snapshot.land(answer)
        else:
            self.snapshot.apply(answer)
        self.said = said
        gained = {m for m, amounts in enumerate(room(self.snapshot)) if amounts > before.get(m, (-1, -1))}
        assert gained <= set(freed(self.snapshot)), "a job may sleep for this room"

    # The scheduler

    @rule(machine=MACHINES, need=st.integers(1, 4), count=st.integers(1, 3))
    def take(self, machine: int, need: int, count: int) -> None:
        if machine < self.snapshot.size and self.snapshot.free[0][machine] >= need * count:
            self.snapshot.take(machine, (need, need), count)
            self.open.append((machine, (need, need), count))

    @rule(mark=SOME)
    def undo(self, mark: int) -> None:
        if mark <= self.snapshot.mark():
            self.snapshot.undo(mark)
            del self.open[mark:]

    @rule()
    def launch(self) -> None:
        self.snapshot.launch()
        self.flights.append((self.open, self.snapshot.position.version))
        self.open = []

    @precondition(lambda self: self.flights)
    @rule(everything=st.booleans())
    def validate(self, everything: bool) -> None:
        takes, since = self.flights.popleft()
        self.store.validate(takes)
        self.validated.append((takes, self.store.answer(None if everything else since), self.numbers()))

    @precondition(lambda self: self.validated)
    @rule()
    def land(self) -> None:
        _, answer, said = self.validated.popleft()
        self.follow(answer, said, landed=True)

    @precondition(lambda self: not (self.flights or self.validated))
    @rule(everything=st.booleans())
    def sync(self, everything: bool) -> None:
        since = None if everything else self.snapshot.position.version
        self.follow(self.store.answer(since), self.numbers(), landed=False)

    @rule()
    def renew(self) -> None:
        self.snapshot.forget()
        self.open = []
        self.flights.clear()
        self.validated.clear()

    # Others

    @rule(machine=MACHINES, used=st.integers(0, 10))
    def others_place_or_end(self, machine: int, used: int) -> None:
        self.store.put(machine, used=used)

    @rule(machine=MACHINES, state=st.sampled_from([UP, DRAINED, DOWN]), capacity=st.sampled_from([5, 10]))
    def others_change_a_machine(self, machine: int, state: int, capacity: int) -> None:
        self.store.put(machine, state=state, capacity=capacity)

    # What holds at any time

    @invariant()
    def working_amounts_are_what_was_said_less_what_is_not_validated(self) -> None:
        if not hasattr(self, "snapshot"):
            return
        expected = {machine: self.said.get(machine, -1) for machine in range(self.snapshot.size)}
        for takes in (self.open, *(t for t, _ in self.flights), *(t for t, _, _ in self.validated)):
            for machine, need, count in takes:
                expected[machine] -= need[0] * count
        assert room(self.snapshot) == [(amount, amount) for amount in expected.values()]

    def teardown(self) -> None:
        """Whatever was open lands in the end, and then the copy is the store's."""
        if not hasattr(self, "snapshot"):
            return
        self.launch()
        while self.flights:
            self.validate(everything=False)
        while self.validated:
            self.land()
        self.sync(everything=False)
        assert room(self.snapshot) == [(self.store.free(m), self.store.free(m)) for m in range(self.snapshot.size)]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40)
