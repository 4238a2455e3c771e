"""Numbers, times, amounts and stories as people read them."""

from collections import Counter
from typing import Any

import pytest

from omega.cellstate.model import GroupStatus, Job, JobState
from omega.cellstate.resources import Dimensions
from omega.cli.job.progress_text import ProgressText
from omega.queries import units
from omega.queries.events import Event
from omega.queries.job_state import state, tally
from omega.queries.recent import Recently


def job(*groups: dict[str, int], state: JobState = JobState.ACTIVE, names: tuple[str, ...] = ()) -> Job:
    """A job submitted at 1 s whose groups have these counts."""
    none: dict[str, Any] = dict.fromkeys(("unplaced", "placed", "finished", "failed", "stopped"), 0)
    made = [GroupStatus(need=(1, 1), total=sum(counts.values()), waiting="-", **none | counts) for counts in groups]
    spec = {"groups": [{"name": name} for name in names]} if names else {}
    return Job(id="4f1c", name="crawl", kind="batch", order=1, state=state, submitted_ms=1000, groups=made, spec=spec)


def place(version: int, group: int, by: str, at_ms: int) -> Event:
    return Event(
        version=version,
        at_ms=at_ms,
        by=by,
        kind="place",
        job="4f1c",
        machine=0,
        count=1,
        more={"group": group, "placement": version, "tasks": "0"},
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (0.0042, "4 ms"),
        (0.25, "0.25 s"),
        (9.44, "9.4 s"),
        (125, "2m05s"),
        (11_520, "3h12m"),
        (187_200, "2d04h"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert units.seconds(value) == text


def test_counts_and_listings() -> None:
    assert [units.count(1, "task"), units.count(1240, "job")] == ["1 task", "1,240 jobs"]
    assert units.listing(["a", "b", "c"]) == "a, b, c"
    assert units.listing(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert [units.percent(1, 3), units.percent(0, 0)] == ["33 %", "–"]


def test_what_went_wrong_lately() -> None:
    assert (
        units.recently(Recently(total=Counter(evicted=12, conflict=1))) == "12 evicted, 1 conflict in the last 15m00s"
    )
    assert units.recently(Recently(total=Counter(lost=1, conflict=2))) == "1 lost, 2 conflicts in the last 15m00s"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 5_320_000, "5,320"),
        ("cpu", 1500, "1.5"),
        ("memory", 4_928_307, "4.7 TiB"),
        ("memory", 2048, "2 GiB"),
        ("memory", 12, "12 MiB"),
        ("gpu", 1234, "1,234"),
    ],
)
def test_sums_of_amounts(name: str, value: int, text: str) -> None:
    assert units.amount(name, value) == text


def test_amounts() -> None:
    assert units.amounts(Dimensions(), (500, 256)) == "cpu 500m, memory 256Mi"
    assert units.amounts(Dimensions(), (0, 0)) == "nothing"
    assert units.in_use("memory", 12_800, 65_536) == "12.5/64Gi"
    assert units.in_use("cpu", 250, 16_000) == "0.25/16"
    assert units.in_use("gpu", 1, 4) == "1/4"


@pytest.mark.parametrize(
    ("counts", "stored", "word"),
    [
        ({"unplaced": 1, "placed": 9}, JobState.ACTIVE, "running"),
        ({"placed": 9, "failed": 1}, JobState.ACTIVE, "running"),
        ({"unplaced": 1}, JobState.HELD, "held"),
        ({"placed": 1}, JobState.HELD, "running"),
        ({"finished": 3}, JobState.DONE, "finished"),
        ({"finished": 3, "failed": 1}, JobState.DONE, "failed"),
        ({"placed": 1, "stopped": 2}, JobState.STOPPED, "stopped"),
        ({"finished": 1, "stopped": 2}, JobState.ABANDONED, "abandoned"),
    ],
)
def test_the_word_for_a_state(counts: dict[str, int], stored: JobState, word: str) -> None:
    assert state(job(counts, state=stored)) == word
    assert tally([state(job(counts, state=stored))])[word] == 1


def test_progress_text_from_submission_to_end() -> None:
    lines = ProgressText(job({"unplaced": 3}))
    assert lines.update(job({"unplaced": 3}), 1000) == []
    lines.add_event(place(5, 0, "batch/1", 1020))
    assert lines.update(job({"unplaced": 2, "placed": 1}), 1100) == []
    lines.add_event(
        Event(
            version=6,
            at_ms=1040,
            by="batch/0",
            kind="conflict",
            job="4f1c",
            machine=0,
            count=1,
            more={"verdict": "full"},
        )
    )
    lines.add_event(place(7, 0, "batch/0", 1250))
    told = "  0.25 s  3 tasks placed by batch/1, batch/0 in 2 transactions (1 conflict)"
    assert lines.update(job({"placed": 3}), 1300) == [told]
    assert lines.update(job({"placed": 1, "finished": 2}), 2000) == []
    assert lines.update(job({"finished": 2, "failed": 1}), 10_400) == ["  9.4 s   2 finished, 1 failed"]
    assert lines.update(job({"finished": 2, "failed": 1}), 11_000) == []


def test_progress_text_of_several_groups_names_them() -> None:
    lines = ProgressText(job({"unplaced": 2}, {"unplaced": 1}, names=("fetch", "")))
    lines.add_event(place(5, 0, "batch/0", 1020))
    told = lines.update(job({"placed": 2}, {"unplaced": 1}, names=("fetch", "")), 1500)
    assert told == ["  20 ms   fetch: 2 tasks placed by batch/0 in 1 transaction (0 conflicts)"]
    told = lines.update(job({"placed": 2}, {"finished": 1}, names=("fetch", "")), 3000)
    assert told == ["  2.0 s   1: 1 task placed", "  2.0 s   1: 1 finished"]


def test_progress_text_of_tasks_that_come_back() -> None:
    lines = ProgressText(job({"placed": 2}))
    lines.update(job({"placed": 2}), 1100)
    lines.add_event(
        Event(version=9, at_ms=3000, by="ada", kind="lost", job="4f1c", machine=0, count=2, more={"group": 0})
    )
    back = "  2.0 s   2 tasks lost with their machine, pending again"
    assert lines.update(job({"unplaced": 2}), 3000) == [back]
    lines.add_event(place(10, 0, "batch/0", 4000))
    told = lines.update(job({"placed": 2}), 4000)
    assert told == ["  3.0 s   2 tasks placed by batch/0 in 1 transaction (0 conflicts)"]


def test_progress_text_read_after_its_job_does_not_place_anew_what_came_back_meanwhile() -> None:
    lines = ProgressText(job({"unplaced": 2}))
    lines.add_event(place(5, 0, "batch/0", 2000))
    assert len(lines.update(job({"placed": 2}), 2000)) == 1
    lines.add_event(
        Event(version=9, at_ms=3000, by="ada", kind="lost", job="4f1c", machine=0, count=2, more={"group": 0})
    )
    back = "  2.0 s   2 tasks lost with their machine, pending again"
    assert lines.update(job({"placed": 2}), 3000) == [back]
    assert lines.update(job({"unplaced": 2}), 3100) == []


def test_progress_text_of_surplus_that_comes_late_and_is_given_up() -> None:
    def seen(surplus: dict[str, int]) -> Job:
        found = job({"placed": 2}, surplus, names=("workers", "surplus"))
        found.groups[1].optional = True
        return found

    lines = ProgressText(seen({}))
    assert lines.update(seen({}), 1100) == ["  0.10 s  workers: 2 tasks placed"]
    assert lines.update(seen({"placed": 3}), 2000) == ["  1.0 s   surplus: 3 tasks placed"]
    lines.add_event(
        Event(version=9, at_ms=3000, by="service/0", kind="evicted", job="4f1c", machine=0, count=1, more={"group": 1})
    )
    assert lines.update(seen({"placed": 2}), 3000) == ["  2.0 s   surplus: 1 task evicted, not placed again (optional)"]
    assert lines.update(seen({}), 4000) == []


def test_progress_text_of_waiting_says_each_reason_once() -> None:
    lines = ProgressText(job({"unplaced": 2}))
    assert lines.pending("RESOURCES", 3000) == ["  2.0 s   2 tasks pending: no machine has room for what is left"]
    assert lines.pending("RESOURCES", 5000) == []
    assert lines.pending("LIMIT", 6000) == ["  5.0 s   2 tasks pending: a limit of its kind or of its pools is reached"]


def test_progress_text_of_a_job_that_is_stopped_before_it_is_placed() -> None:
    lines = ProgressText(job({"unplaced": 2}))
    assert lines.update(job({"stopped": 2}, state=JobState.STOPPED), 3000) == ["  2.0 s   2 stopped"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1, "0.001"), (20, "0.02"), (250, "0.25"), (1_250, "1.2"), (3_500, "3.5"), (123_456, "123")],
)
def test_cores(amount: int, text: str) -> None:
    assert units.amount("cpu", amount) == text
    assert units.in_use("cpu", min(amount, 4_000), 4_000).removesuffix("/4") == (text if amount < 4_000 else "4")
