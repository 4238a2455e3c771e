"""Answers of an agent to clients that ask for the output of its tasks (cellstate/tasks.py)."""

from collections.abc import Iterable
from contextlib import suppress

from omega.cellstate.redis.tasks import RedisTasks
from omega.cellstate.tasks import MOST_OUTPUT, OutputPart, OutputRequest
from omega.live.agent.output import files
from omega.live.agent.places import AgentPlaces

MOST_ANSWERS = 16
"""Requests answered per reading of the mailbox; the oldest are left out: their clients have asked again."""


def answer_requests(tasks: RedisTasks, places: AgentPlaces, messages: Iterable[str]) -> None:
    """Answer those of the messages that are requests for output."""
    requests = [message for message in messages if message.startswith("? ")]
    for message in requests[-MOST_ANSWERS:]:
        with suppress(ValueError):  # of another version of Omega: its client gets no answer
            request = OutputRequest.read(message)
            tasks.answer_output(request.name, output_part(places, request))


def output_part(places: AgentPlaces, request: OutputRequest) -> OutputPart:
    """Return output of a placement of a task on this machine, by default of the newest."""
    wanted = (request.job, request.group, request.task)
    keys = (
        key
        for key in places.task_keys()
        if key[:3] == wanted and request.placement in (0, key.placement) and key.submitted_ms == request.submitted_ms
    )
    key = max(keys, key=lambda each: each.placement, default=None)
    if key is None:
        return OutputPart(0, 0, b"")
    kept = files(places.task(key), request.stream)
    try:
        sizes = [path.stat().st_size for _, path in kept]
    except OSError:  # removed meanwhile: the client asks again
        return OutputPart(0, 0, b"")
    end = kept[-1][0] + sizes[-1] if kept else 0
    start = request.start
    if start < 0:  # the end of the stream: after what was dropped
        ends = [first + size for (first, _), size in zip(kept, sizes, strict=True)]
        joined = max(
            (first for (first, _), before in zip(kept, [-1, *ends], strict=False) if first != before), default=0
        )
        start = max(end + start, joined)
    data = b""
    for first, path in kept:
        if start + len(data) < first:  # output between the files was dropped: an answer ends there, or begins behind
            if data:
                break
            start = first
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(start + len(data) - first)
            data += file.read(MOST_OUTPUT - len(data))
    return OutputPart(key.placement, start, data)
