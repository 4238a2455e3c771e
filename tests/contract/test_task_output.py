"""Requests for the output of tasks that agents keep, and their answers."""

from dataclasses import replace

import pytest

from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import MOST_ASKED, MOST_OUTPUT, OutputPart, OutputRequest

REQUEST = OutputRequest("ab" * 8, "j", 1, 2, "stderr", -500)


def _agent(stored: RedisCell) -> int:
    member = stored.executors.register_agent("h1", "nonce", 60_000, 0)
    stored.machines.join(member.member, [], 0)
    return 2 * len(stored.executors.records())


def test_a_request_is_a_message_for_the_agent_and_its_answer_is_found_by_name(stored: RedisCell) -> None:
    agent, version = _agent(stored), stored.counters()["version"]
    assert stored.tasks.request_output(agent, REQUEST)
    (message,) = stored.executors.receive(agent)
    assert OutputRequest.read(message) == REQUEST
    assert stored.executors.receive(agent) == []
    assert stored.tasks.output_part(REQUEST.name) is None
    part = OutputPart(7, 4_000, b"line\n\xff\x00more")
    stored.tasks.answer_output(REQUEST.name, part)
    assert stored.tasks.output_part(REQUEST.name) == part
    assert stored.counters()["version"] == version


def test_a_mailbox_that_nobody_reads_takes_a_bounded_number_of_requests(stored: RedisCell) -> None:
    agent = _agent(stored)
    asked = [stored.tasks.request_output(agent, replace(REQUEST, name=f"{i:08x}")) for i in range(MOST_ASKED + 2)]
    assert asked == [True] * MOST_ASKED + [False, False]


@pytest.mark.parametrize(
    "message", ["? ab", "? zz j 0 0 stdout 0", "? abababab j 0 0 work 0", "? abababab j x 0 stdout 0"]
)
def test_a_message_that_no_client_writes_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=r"is no request|not enough values|invalid literal"):
        OutputRequest.read(message)


@pytest.mark.parametrize("answer", [b"", b"1 2", b"x 2\nabc", b"1\nabc", b"1 0\n" + b"x" * (MOST_OUTPUT + 1)])
def test_an_answer_that_no_agent_writes_is_refused(answer: bytes) -> None:
    with pytest.raises(ValueError, match="is no answer"):
        OutputPart.unpack(answer)
