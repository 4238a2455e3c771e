"""The output of tasks over HTTP: from the agent that has it, else from the store."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from uuid import uuid4

import httpx
import pytest

from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import MOST_OUTPUT, EndKind, StoredTail, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.agent.open_output import PIECE, OpenOutput
from omega.live.agent.output_answers import answer_requests
from omega.live.agent.places import AgentPlaces, PlacementKey
from omega.web.api import logs
from omega.web.service import Service
from tests.integration.stage import made_cell
from tests.web.serving_app import client, serve
from tests.web.test_streams import Events

pytestmark = pytest.mark.server


class Stand:
    """A cell with a job of one task on the machine of an agent on another computer, which this thread plays."""

    def __init__(self, cell: RedisCell, folder: Path) -> None:
        self.cell, self.places, self.listens = cell, AgentPlaces(folder, cell.name, "h1"), True
        self.thread = Thread(target=self.answer, daemon=True)
        self.places.make()
        self.member = cell.schedulers.register("batch/0", "n", 60_000, 0)
        self.agent = cell.executors.register_agent("h1", "nonce", 60_000, 0)
        self.index = cell.machines.join(self.agent.member, [MachineSpec("h1", (4_000, 4_096))], 0)[0]
        cell.jobs.submit([JobSpec("talk", "talk", "batch", (TaskGroup((100, 64), 1),))], 0, "ada")
        self.numbers, self.placement = 0, 0

    def place(self) -> None:
        self.numbers += 1
        transaction = Transaction("talk", (Claim(self.index, 0, 1),))
        self.cell.schedulers.commit(CommitRequest(self.member, self.numbers, [transaction], Position(), 0))
        (run,) = self.cell.machines.runs([self.index])
        self.placement = run.placement
        self.make_place()

    def make_place(self) -> None:
        self._place.mkdir()

    @property
    def _place(self) -> Path:
        return self.places.task(PlacementKey("talk", 0, 0, self.placement))

    def say(self, data: bytes) -> None:
        with (self._place / "stdout.0").open("ab") as file:
            file.write(data)

    def end(self) -> None:
        self.cell.executors.end([TaskEnd(self.index, self.placement, EndKind.FINISHED, "0")], 1, self.agent.member)

    def stop_listening(self) -> None:
        self.listens = False
        self.thread.join(10)

    def answer(self) -> None:
        own = RedisCell.connect(self.cell.url, self.cell.name)
        number = own.executors.number(self.agent.member)
        with suppress(StoreError):
            while self.listens:
                answer_requests(own.tasks, self.places, own.executors.receive(number, wait_seconds=0.1))
        own.close()


@pytest.fixture
def stand(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "of-the-server"))
    monkeypatch.setattr(logs, "FASTEST_SECONDS", 0.05)
    monkeypatch.setattr(logs, "FIND_SECONDS", 0.1)
    monkeypatch.setattr(logs, "ANSWER_SECONDS", 1.0)
    with made_cell(store_url, f"logs-{uuid4().hex[:8]}") as cell:
        made = Stand(cell, tmp_path / "of-the-agent")
        made.place()
        made.thread.start()
        yield made
        made.stop_listening()


@pytest.fixture
def web(stand: Stand, tmp_path: Path) -> Iterator[httpx.Client]:
    with serve(Service(stand.cell.url, stand.cell.name), tmp_path) as (_, path), client(path) as found:
        yield found


def test_output_on_another_computer_comes_from_its_agent(stand: Stand, web: httpx.Client) -> None:
    stand.say("one\ntwo é\n".encode())
    found = web.get("/v1/jobs/talk/logs").json()
    assert (found["source"], found["text"], found["cut_bytes"]) == ("agent", "one\ntwo é\n", 0)
    assert web.get("/v1/jobs/talk/logs?tail=1").json()["text"] == "two é\n"
    stand.say(b"x" * MOST_OUTPUT)
    found = web.get("/v1/jobs/talk/logs").json()
    assert (len(found["text"]), found["cut_bytes"]) == (MOST_OUTPUT, 11)
    assert found["missing"] == "cut at 64 KiB: 11 bytes before it"


def test_an_agent_that_does_not_answer_leaves_the_stored_output(stand: Stand, web: httpx.Client) -> None:
    stand.stop_listening()
    stand.cell.tasks.keep_tails({("talk", 0, 0, "stdout"): StoredTail(664_798, b"the end\n").pack()})
    found = web.get("/v1/jobs/talk/logs").json()
    assert (found["source"], found["text"], found["cut_bytes"]) == ("store", "the end\n", 664_798)
    assert found["missing"] == "agent away; cut at 4 KiB: 664,798 bytes before it"


def test_output_that_its_agent_no_longer_has_is_expired(stand: Stand, web: httpx.Client) -> None:
    stand.end()
    stand._place.rmdir()
    found = web.get("/v1/jobs/talk/logs").json()
    assert (found["text"], found["missing"]) == ("", "expired")


def test_followed_output_comes_as_it_is_written_and_ends_with_the_job(stand: Stand, web: httpx.Client) -> None:
    stand.say(b"one\n")
    with web.stream("GET", "/v1/jobs/talk/logs?follow=1") as answer:
        events = Events(answer)
        assert [events.next()[0] for _ in range(2)] == ["source", "reset"]
        assert events.next() == ("message", f"{stand.placement}.4", {"text": "one\n"})
        stand.say("zwei é"[:-1].encode() + "é".encode()[:1])
        assert events.next()[2] == {"text": "zwei "}
        stand.say("é".encode()[1:])
        assert events.next() == ("message", f"{stand.placement}.11", {"text": "é"})
        stand.say(b"y" * (MOST_OUTPUT + 10))
        assert [len(events.next()[2]["text"]) for _ in range(2)] == [MOST_OUTPUT, 10]
        stand.end()
        name, _, last = events.next()
    assert (name, last["reason"], last["again"]) == ("end", "over", False)


def test_a_reader_resumes_after_the_last_byte_that_it_had(stand: Stand, web: httpx.Client) -> None:
    stand.say(b"one\ntwo\n")
    headers = {"Last-Event-ID": f"{stand.placement}.4"}
    with web.stream("GET", "/v1/jobs/talk/logs?follow=1", headers=headers) as answer:
        events = Events(answer)
        assert (events.next()[0], events.next()[2]) == ("source", {"text": "two\n"})


def test_a_task_that_is_placed_again_begins_anew(stand: Stand, web: httpx.Client) -> None:
    stand.say(b"first\n")
    with web.stream("GET", "/v1/jobs/talk/logs?follow=1") as answer:
        events = Events(answer)
        while events.next()[0] != "message":
            pass
        stand.placement += 1
        stand.make_place()
        stand.say(b"second\n")
        assert [events.next()[0] for _ in range(2)] == ["reset", "message"]
        assert events.last_id == f"{stand.placement}.7"


def test_an_agent_that_falls_silent_is_replaced_by_the_stored_output(
    stand: Stand, web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ANSWER_SECONDS", 0.2)
    stand.say(b"one\n")
    with web.stream("GET", "/v1/jobs/talk/logs?follow=1") as answer:
        events = Events(answer)
        while events.next()[0] != "message":
            pass
        stand.listens = False
        stand.cell.tasks.keep_tails({("talk", 0, 0, "stdout"): b"one\ntwo\n"})
        name, _, data = events.next()
        assert (name, data["source"]) == ("source", "store")
        assert events.next()[2] == {"text": "two\n"}


@pytest.mark.parametrize("after", ["nonsense", "1", "1.2.3", "-1.0"])
def test_an_id_of_nonsense_is_refused(web: httpx.Client, after: str) -> None:
    answer = web.get("/v1/jobs/talk/logs", params={"follow": 1, "after": after})
    assert (answer.status_code, "is no id" in answer.json()["detail"]) == (422, True)


def test_a_job_and_a_task_that_do_not_exist_are_refused_before_the_stream_begins(web: httpx.Client) -> None:
    assert web.get("/v1/jobs/other/logs?follow=1").status_code == 404
    assert "has no task 7" in web.get("/v1/jobs/talk/logs?follow=1&task=7").json()["detail"]


def followed(web: httpx.Client, query: str) -> tuple[str, list[dict[str, object]], str]:
    """Return the text of a stream, its gaps, and the detail of its end."""
    text, gaps = "", list[dict[str, object]]()
    with web.stream("GET", f"/v1/jobs/talk/logs?follow=1{query}") as answer:
        events = Events(answer)
        while True:
            name, _, data = events.next()
            if name == "end":
                return text, gaps, str(data["detail"])
            gaps += [data] if name == "gap" else []
            text += str(data["text"]) if name == "message" else ""


LINES = [f"{number:06} {'x' * 92}\n" for number in range(1_000)]
"""1,000 lines of 100 bytes: more than an answer of an agent has."""


def test_followed_output_is_all_of_it(stand: Stand, web: httpx.Client) -> None:
    stand.say("".join(LINES).encode())
    stand.end()
    assert followed(web, "") == ("".join(LINES), [], "The job has ended; this is all of the output.")
    assert followed(web, "&tail=900") == ("".join(LINES[100:]), [], "The job has ended; this is the end of the output.")


def test_followed_output_says_what_is_not_shown(stand: Stand, web: httpx.Client) -> None:
    many = "".join(LINES) * 15
    stand.say(many.encode())
    stand.end()
    text, gaps, end = followed(web, "&tail=14900")
    (gap,) = gaps
    assert gap["bytes"] == len(many) - len(text)
    assert many.endswith(text)
    assert len(text) >= logs.MOST_TAIL
    assert end == f"The job has ended; {gap['bytes']:,} bytes of the output are not shown."


def test_output_that_was_dropped_is_a_gap_too(stand: Stand, web: httpx.Client) -> None:
    stand.say(b"first\n")
    (stand._place / "stdout.100").write_bytes(b"last\n")
    stand.end()
    text, gaps, end = followed(web, "")
    assert (text, [gap["bytes"] for gap in gaps]) == ("first\nlast\n", [94])
    assert "94 bytes of the output are not shown" in end


@pytest.fixture
def here(stand: Stand, tmp_path: Path) -> Stand:
    stand.places = AgentPlaces(tmp_path / "of-the-server", stand.cell.name, "h1")
    stand.places.make()
    stand.make_place()
    return stand


def test_output_on_this_computer_is_sent_in_pieces(
    here: Stand, web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, read = "".join(LINES).encode() * 20 + "é\x00\u202e".encode() + b"\xff", list[int]()
    here.say(said)
    before = OpenOutput.read

    def counted(self: OpenOutput, at: int, most: int = PIECE) -> bytes:
        data = before(self, at, most)
        read.append(len(data))
        return data

    monkeypatch.setattr(OpenOutput, "read", counted)
    answer = web.get("/v1/jobs/talk/logs")
    found = answer.json()
    shown = said.decode(errors="replace").replace("\u202e", "\\u202e")
    assert (found["source"], found["cut_bytes"], found["missing"]) == ("files", 0, None)
    assert found["text"].replace("\u202e", "\\u202e") == shown
    assert max(read) == PIECE
    assert web.get("/v1/jobs/talk/logs", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    read.clear()
    assert web.get("/v1/jobs/talk/logs?tail=10").json()["text"].startswith(LINES[-9])
    assert sum(read) < 3 * PIECE, "the last lines are read from the end"


def test_a_page_shows_at_most_a_mib_of_the_last_lines(here: Stand, web: httpx.Client) -> None:
    here.say(b"y" * (3 << 20) + b"\nend\n")
    page = web.get(f"/cells/{here.cell.name}/jobs/talk/logs").text
    assert len(page) < (1 << 20) + (64 << 10)
    assert "of which only the last MiB is here" in page
