"""A client whose jobs the store lost: it learns that, submits again what it waits for, and nothing else."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from omega.cellstate.errors import JobLost, Refused
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.client.lost_jobs import MOST
from omega.live.waiting import patiently, watch
from tests.taken_back import copied

pytestmark = pytest.mark.server
LINE = r"job lost: submitted at version \d+; the store's history was cut after version \d+ at a failover or restart; "


def job(name: str, **words: object) -> dict[str, object]:
    return {"name": name, "kind": "batch", "tasks": [{"count": 1, "duration": "0s"}], **words}


@pytest.fixture
def after_a_loss(client: Client, cell: RedisCell) -> Callable[[], None]:
    """Loses what the client submits from now on, when it is called."""
    client.submit(job("before"))
    return copied(cell)


def test_a_job_that_is_waited_for_is_submitted_again(
    client: Client, cell: RedisCell, after_a_loss: Callable[[], None], at_work: Callable[..., None]
) -> None:
    first = client.submit(job("lost"), job("after", after=["lost"]))["jobs"]
    second = client.submit(job("too", id="too"), hold=True)["jobs"]
    after_a_loss()
    assert {each["name"] for each in client.jobs()["jobs"]} == {"before"}
    with pytest.raises(JobLost, match=LINE + "submit it again"):
        client.status("lost")
    with pytest.raises(JobLost, match="job too: "):
        client.stop("too")
    answers = list[object]()
    waiting = threading.Thread(target=lambda: answers.append(client.wait("lost", 60.0)))
    waiting.start()
    at_work()
    waiting.join()
    (answer,) = answers
    assert isinstance(answer, dict)
    assert (answer["state"], answer["submitted_again"], answer["id"]) == ("finished", 3, first[0]["id"])
    assert {each["id"] for each in client.jobs()["jobs"]} >= {each["id"] for each in (*first, *second)}
    assert client.status("too")["held"]
    assert client.wait("after", 60.0)["submitted_again"] == 0
    assert [cut.number for cut in cell.cuts().kept] == [1]


def test_a_job_that_runs_at_most_once_is_not_submitted_again(
    client: Client, cell: RedisCell, after_a_loss: Callable[[], None]
) -> None:
    """Its tasks may have run: the person who submitted it decides."""
    client.submit(job("lost", requeue="never"))
    client.submit(job("other"))
    after_a_loss()
    with pytest.raises(JobLost, match=LINE + "submit it again only if it may run twice"):
        client.wait("lost", 5.0)
    assert {each["name"] for each in client.jobs()["jobs"]} == {"before", "other"}


@pytest.mark.chaos
def test_a_client_that_saw_lost_versions_alone_waits_until_another_reports_them(
    cell: RedisCell, store_url: str
) -> None:
    with Client(store_url, cell.name) as first:
        first.submit(job("before"))
        cell.look_back()
        back = copied(cell)
        first.submit(job("gone"))
    with Client(store_url, cell.name) as client:
        client.submit(job("lost"))
        cell.look_back()
        back()
        reporter = threading.Timer(0.7, lambda: patiently(cell.look_back))
        reporter.start()
        assert client.wait("lost", 2.0)["submitted_again"] == 1
        reporter.join()
    assert [cut.number for cut in cell.cuts().kept] == [1]


def test_a_job_that_is_lost_before_its_submission_returns_is_submitted_again(
    client: Client, cell: RedisCell, after_a_loss: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(used: RedisCell, submissions: Sequence[object], *_: object) -> list[list[str]]:
        after_a_loss()
        used.look_back()  # as each connection that is opened anew does
        return [[] for _ in submissions]

    monkeypatch.setattr("omega.client.together.warnings_of", losing)
    answer = client.submit(job("late"))
    assert client.status("late")["id"] == answer["jobs"][0]["id"]
    assert [cut.number for cut in cell.cuts().kept] == [1]


def test_a_job_that_somebody_removed_is_not_lost(
    client: Client, cell: RedisCell, after_a_loss: Callable[[], None]
) -> None:
    job_id = client.submit(job("gone"))["jobs"][0]["id"]
    cell.client.hdel(cell.prefix + "jobs", job_id)
    for call in (client.status, client.wait):
        with pytest.raises(Refused, match="not in cell") as error:
            call("gone")
        assert not isinstance(error.value, JobLost)
    assert cell.cuts().kept == []


@pytest.mark.chaos
def test_a_cell_that_was_made_anew_gets_no_job_of_the_one_before(client: Client, cell: RedisCell) -> None:
    empty = copied(cell)
    job_id = client.submit(job("other"))["jobs"][0]["id"]
    empty()
    cell.jobs.submit([], 0, "ada")
    with pytest.raises(Refused, match="not in cell") as error:
        client.wait(job_id)
    assert not isinstance(error.value, JobLost)
    assert client.jobs()["jobs"] == []


def test_a_job_that_ended_or_was_stopped_is_not_submitted_again(
    client: Client, after_a_loss: Callable[[], None], at_work: Callable[..., None]
) -> None:
    client.submit(job("over"))
    client.submit(job("stopped"), job("lost"), hold=True)
    client.stop("stopped")
    at_work()
    client.wait("over", 60.0)
    after_a_loss()
    with pytest.raises(Refused, match=r"not in cell .*; a job that was submitted in one of these must be "):
        client.status("over")
    assert client.wait("lost", 0.0)["submitted_again"] == 1
    assert {each["name"] for each in client.jobs()["jobs"]} == {"before", "lost"}


def test_another_client_that_waits_is_told(
    client: Client, cell: RedisCell, store_url: str, after_a_loss: Callable[[], None]
) -> None:
    looks = list[None]()

    def see(_: object) -> None:
        looks.append(None)
        if len(looks) == 2:
            after_a_loss()

    with closing(RedisCell.connect(store_url, cell.name)) as other:
        other.look_back()
        job_id = client.submit(job("lost"), hold=True)["jobs"][0]["id"]
        with pytest.raises(JobLost, match=LINE):
            watch(other, [job_id], see)


def test_the_newest_jobs_are_kept(client: Client, after_a_loss: Callable[[], None]) -> None:
    client.submit(*(job(f"j{number}") for number in range(MOST + 5)), hold=True)
    after_a_loss()
    for number, lost in ((0, False), (4, False), (5, True), (MOST + 4, True)):
        with pytest.raises(Refused) as error:
            client.status(f"j{number}")
        assert isinstance(error.value, JobLost) == lost
