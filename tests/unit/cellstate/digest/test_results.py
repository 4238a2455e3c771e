"""Results of tasks as a few bytes each."""

import pytest
from hypothesis import given, strategies as st
from msgpack import packb

from omega.cellstate.digest.results import (
    CHUNK,
    FAILED,
    FINISHED,
    LOST,
    NONE,
    NOTHING,
    RUNNING,
    JobResults,
    TaskResult,
    pack_results,
    unpack_results,
)
from omega.cellstate.events import TaskEvent, parse

BASE = 1_700_000_000_000
DAY_MS = 24 * 3_600_000


@st.composite
def result(draw: st.DrawFn) -> TaskResult:
    state = draw(st.sampled_from([NONE, RUNNING, FINISHED, FAILED, LOST]))
    if state == NONE:
        return NOTHING
    start = BASE + draw(st.integers(-DAY_MS, 360 * DAY_MS))
    end = 0 if state == RUNNING else start + draw(st.integers(0, 360 * DAY_MS))
    reason = draw(st.integers(0, 120)) if state == FAILED else 0
    return TaskResult(state, draw(st.integers(0, (1 << 21) - 1)), (start, end), reason)


@given(st.lists(result(), max_size=CHUNK))
def test_a_chunk_is_read_as_it_was_written_in_26_bytes_a_task(results: list[TaskResult]) -> None:
    record = pack_results(results, BASE)
    assert unpack_results(record, BASE) == results
    assert len(record) <= 26 * len(results) + 19


def test_equal_neighbours_are_one_run() -> None:
    alike = [TaskResult(FINISHED, 3, (BASE + 1, BASE + 5))] * CHUNK
    assert len(pack_results(alike, BASE)) <= 16


RUN = (1, FINISHED, 0, 0, 0, 0)
DAMAGED = [
    b"", b"\xc1", packb({}), packb([[1]] * 5), packb([[1], [1], [0], [0], [0], []]),
    *(packb([[x] for x in (*RUN[:at], wrong, *RUN[at + 1 :])])
      for at, wrong in ((0, CHUNK + 1), (0, 0), (1, 8), (1, "1"), (2, -1), (3, 0.5), (4, -1), (5, -1))),
]  # fmt: skip


@pytest.mark.parametrize("record", DAMAGED)
def test_damaged_chunks_are_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match=r"run|readable|values|zip|[Uu]npack"):
        unpack_results(record, BASE)


def of_tasks(line: str) -> TaskEvent:
    (event,) = parse(line)
    assert isinstance(event, TaskEvent)
    return event


def test_an_end_keeps_the_time_of_the_placement() -> None:
    results = JobResults()
    results.add(of_tasks("place 7 4 a 0 254-257 1,1"), 100)
    results.add(of_tasks("failed 7 4 a 0 255-256 9 0,0 exit 3"), 160, 1)
    assert results.chunks[0, 0][254:] == [TaskResult(RUNNING, 4, (100, 0)), TaskResult(FAILED, 4, (100, 160), 1)]
    assert results.chunks[0, 1] == [TaskResult(FAILED, 4, (100, 160), 1), TaskResult(RUNNING, 4, (100, 0))]
    results.add(of_tasks("lost 7 4 a 0 254 9 0,0 -"), 170)
    results.add(of_tasks("late 7 4 a 0 254 finished"), 190)
    assert results.chunks[0, 0][254] == TaskResult(FINISHED, 4, (100, 170))
