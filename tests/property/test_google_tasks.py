"""The columns of Google's tasks against the rules applied to one task at a time, for any order of events."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings, strategies as st

from omega.traces.google_events import Jobs, TaskEvents
from omega.traces.google_tasks import ARRIVES, GONE, RUNS, WAITS, Tasks, Window, tasks_of
from omega.traces.trace import Defects

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)
ENDS = (EVICT, FAIL, FINISH, KILL, LOST)
RULES = dict.fromkeys(("no-submission", "early-schedule", "no-run", "only-end"), "")


class Event(NamedTuple):
    time: int
    job: int
    place: int
    event: int
    machine: int


class Known(NamedTuple):
    """What the rules say of a task."""

    state: int
    submitted: int = -1
    machine: int = -1
    ran: int = -1
    seen: int = 0


def state_of(events: list[Event], begin: int) -> tuple[int, Event]:
    """Return the state at the beginning by a task's own rows, and the row that decides."""
    before = [event for event in events if event.time < begin]
    last = before[-1] if before else events[0]
    if before:
        if last.event in (SCHEDULE, UPDATE_RUNNING):
            return RUNS, last
        return (GONE if last.event in ENDS else WAITS), last
    if last.event == SUBMIT or (last.event == SCHEDULE and len(events) > 1 and events[1].event == SUBMIT):
        return ARRIVES, last
    if last.event == UPDATE_RUNNING or (last.event in ENDS and last.machine >= 0):
        return RUNS, last
    return WAITS, last


def rules(events: list[Event], window: Window, job_begins: int) -> Known:
    """Apply the rules of docs/traces.md to the rows of one task; `job_begins`: -1 before the window."""
    begin = window.begin_us
    state, deciding = state_of(events, begin)
    submits = [event.time for event in events if event.event == SUBMIT and event.time >= begin]
    submitted, missing = (submits[0] if submits else -1), False
    if state in (RUNS, WAITS) and events[0].time >= begin and (job_begins >= 0 or window.snapshot):
        if job_begins < 0 and events[0].event in ENDS:
            return Known(GONE)
        state, missing = ARRIVES, True
        submitted = job_begins if job_begins >= 0 else events[0].time
    if state == GONE and submits:
        state = ARRIVES
    if state == GONE:
        return Known(GONE)
    start, ran, seen, rest = -1, -1, 0, [event for event in events if SCHEDULE <= event.event <= LOST]
    if state == RUNS:
        start = begin
    elif missing and events[0].event in ENDS and events[0].machine >= 0:
        start = submitted
    for at, event in enumerate(rest):
        time = max(event.time, begin)
        if event.event == SCHEDULE:
            start = time
            continue
        if start >= 0 and not (at and rest[at - 1].event != SCHEDULE):
            length = max(0, time - start)
            seen = max(seen, length)
            if event.event in (FAIL, FINISH, KILL) and ran < 0:
                ran = length
        start = -1
    if rest and rest[-1].event == SCHEDULE:
        seen = max(seen, window.end_us - max(rest[-1].time, begin))
    if not rest and state == RUNS:
        seen = window.end_us - begin
    shifted = submitted - begin if state == ARRIVES else -1
    return Known(state, shifted, deciding.machine if state == RUNS else -1, ran, seen)


def columns(events: list[Event]) -> TaskEvents:
    time, job, index, event, machine = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    nothing = np.zeros(len(events))
    return TaskEvents(
        time, job.astype(np.int32), index.astype(np.int32), event.astype(np.int8), machine,
        nothing.astype(np.int32), nothing.astype(np.int8), nothing, nothing, nothing.astype(bool),
    )  # fmt: skip


def jobs_of(submitted: list[int]) -> Jobs:
    count = len(submitted)
    texts = np.array([""] * count)
    return Jobs(np.arange(count), np.array(submitted), np.zeros(count, dtype=np.int8), texts, texts)


EVENT = st.builds(
    Event,
    time=st.integers(0, 60),
    job=st.integers(0, 1),
    place=st.just(0),
    event=st.sampled_from((*range(9), SCHEDULE, SCHEDULE, FINISH)),
    machine=st.sampled_from((-1, 5, 6)),
)


@settings(max_examples=400, deadline=None)
@given(
    given=st.lists(EVENT, min_size=1, max_size=14),
    begin=st.integers(0, 40),
    snapshot=st.booleans(),
    submitted=st.lists(st.integers(0, 60), min_size=2, max_size=2),
)
def test_columns_follow_the_rules_of_one_task(
    given: list[Event], begin: int, submitted: list[int], *, snapshot: bool
) -> None:
    events = sorted(given, key=lambda event: event.time)
    window = Window(begin, max(events[-1].time, begin), snapshot=snapshot)
    found = tasks_of(columns(events), jobs_of(submitted), window, Defects(RULES))
    by_task: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        by_task[event.job, event.place].append(event)
    assert list(zip(found.job.tolist(), found.index.tolist(), strict=True)) == sorted(by_task)
    for at, task in enumerate(sorted(by_task)):
        begins = submitted[task[0]] if submitted[task[0]] >= begin else -1
        wanted = rules(by_task[task], window, begins)
        assert found.state[at] == wanted.state, task
        if wanted.state != GONE:
            assert _known(found, at) == wanted, task


def _known(found: Tasks, at: int) -> Known:
    columns = (found.state, found.submitted, found.machine, found.ran, found.seen)
    return Known(*(int(column[at]) for column in columns))
