"""``GET /v1/jobs/JOB/logs``: the output of a task, as a document or, with ``follow=1``, as a stream.

The output comes from the files of the agent that ran the task, by a request in the agent's mailbox, else from the last
output in the store. ``source`` says which. The id of an event is ``PLACEMENT.BYTE``, the place behind its output.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response

from omega.cellstate.errors import BadInput, Forbidden
from omega.cellstate.task_output import MOST_OUTPUT, STREAMS, TAIL_BYTES, OutputPart, StoredTail
from omega.live.agent.output import last_lines
from omega.live.agent_output import ANSWER_SECONDS, EXPIRED, OutputPlace, ask_agent, find_output, missing
from omega.live.task_log import TaskLog, task_of
from omega.queries.jobs import find_job
from omega.web.access.visitors import Reader
from omega.web.api.answers import answer
from omega.web.api.parameters import CellName, JobName, one_of, words_query
from omega.web.service import Served, Service
from omega.web.sse import ALIVE, EventStream, event, last_event

if TYPE_CHECKING:
    from omega.cellstate.ports import JobStore

FASTEST_SECONDS, SLOWEST_SECONDS = 1.0, 5.0
"""Time between requests for new output of a task, for each reader: shorter while there is some."""
MOST_MISSED = 3
"""Answers in sequence that an agent may be late with before the stored output is read instead."""
FIND_SECONDS = 5.0
"""Time between looks for the machine of a task, which may be placed again."""
LOOK_SECONDS = 0.05
"""Time between looks for the answer of an agent."""
MOST_LINES, MOST_NUMBER = 1_000_000, 1 << 31
_PLACE = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@dataclass(slots=True)
class TaskOutput:
    """The output of one task, part by part."""

    served: Service
    cell: str
    place: OutputPlace
    stream: str
    expired: bool = False
    """Whether the agent answered that it has none."""

    async def part(self, start: int) -> OutputPart | None:
        """Return output from a byte on, from the agent; None when it does not answer in time. No thread waits."""
        try:
            name = await self.served.read(self.cell, lambda cell: ask_agent(cell, self.place, self.stream, start))
        except Forbidden:  # the service has the store's user of a role that may not ask
            return None
        if name is None:
            return None
        with anyio.move_on_after(ANSWER_SECONDS):
            while True:
                await anyio.sleep(LOOK_SECONDS)
                found = await self.served.read(self.cell, lambda cell: cell.output_part(name))
                if found is not None:
                    self.expired = not found.placement
                    return found if found.placement else None
        return None

    async def stored(self) -> StoredTail:
        """Return the last output in the store."""
        at = self.place
        tail = await self.served.read(self.cell, lambda cell: cell.tail(at.job, at.source, at.task, self.stream))
        return StoredTail.unpack(tail)


async def _which(
    task: Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Number of the task")] = 0,
    index: Annotated[int | None, Query(ge=0, le=MOST_NUMBER, description="Index in its array, instead")] = None,
    group: Annotated[str | None, Query(description="Name of its task group; the first by default")] = None,
    generation: Annotated[int | None, Query(ge=1, le=MOST_NUMBER, description="By default the newest")] = None,
) -> dict[str, Any]:
    return {"task": task, "index": index, "group": group, "generation": generation}


def found_output(cell: "JobStore", job: str, which: Mapping[str, Any]) -> OutputPlace:
    """Find the output of a task, which is named as in `TaskLog.of`. Raises Refused."""
    record = find_job(cell, job)
    named = (which["task"], which["group"], which["generation"], which["index"])
    return find_output(cell, record, *task_of(record, *named))


def kept_output(cell: "JobStore", job: str, which: Mapping[str, Any], stream: str, lines: int | None) -> dict[str, Any]:
    """Return the output of a task from files of this computer or the store; no agent is asked. Raises Refused."""
    record = find_job(cell, job)
    named = (which["task"], which["group"], which["generation"], which["index"])
    return TaskLog(cell, record, *task_of(record, *named), stream, silent=None).as_json(lines)


class _How(NamedTuple):
    """How output is shown: which stream, how many lines at first, whether new output follows, and after what."""

    stream: str
    lines: int | None
    follow: bool
    after: tuple[int, int] | None


async def _how(
    stream: Annotated[
        str, one_of("stream", STREAMS), words_query(STREAMS, "Its output or its error stream")
    ] = "stdout",
    tail: Annotated[int | None, Query(ge=0, le=MOST_LINES, description="Only the last lines")] = None,
    follow: Annotated[bool, Query(description="Stream the output until the job has ended")] = False,  # noqa: FBT002 - a parameter of a request
    after: Annotated[str | None, Query(description="With `follow`: only output after an event of this id")] = None,
    last_event_id: Annotated[str | None, Header(description="As `after`; sent by clients that connect again")] = None,
) -> _How:
    """Raise BadInput for what is no id of an event of this stream."""
    text = last_event_id or after
    found = _PLACE.fullmatch(text) if text else None
    if text and found is None:
        raise BadInput(f"after {text[:40]!r}: is no id of an event of this stream; leave it out to begin again")
    return _How(stream, tail, follow, (int(found[1]), int(found[2])) if found else None)


@router.get("/{job}/logs", responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}})
async def show_output(
    request: Request,
    _: Reader,
    served: Served,
    cell: CellName,
    job: JobName,
    which: Annotated[dict[str, Any], Depends(_which)],
    how: Annotated[_How, Depends(_how)],
) -> Response:
    """Show the output of a task (omega job logs), at most its last 64 KiB when it ran on another computer."""

    async def find() -> TaskOutput:
        place = await served.read(cell, lambda opened: found_output(opened, job, which))
        return TaskOutput(served, cell, place, how.stream)

    if how.follow:
        output = await find()  # Refused, before the stream begins
        return EventStream(_follow(find, output, how.after, how.lines), request)
    document = await served.read(cell, lambda opened: kept_output(opened, job, which, how.stream, how.lines))
    if document["source"] == "store":
        output = await find()
        part = await output.part(-MOST_OUTPUT)
        if part is not None:
            data = part.data if how.lines is None else last_lines(part.data, how.lines)
            text = data.decode(errors="replace")
            document |= {"source": "agent", "cut_bytes": part.start, "text": text}
            document["missing"] = missing(part.start, None, MOST_OUTPUT)
        elif output.expired:
            document["missing"] = missing(document["cut_bytes"], EXPIRED, TAIL_BYTES)
    return answer(request, document)


@dataclass(slots=True)
class _Shown:
    """What a reader has: the placement, the byte after its last output, and the end of that output."""

    placement: int = 0
    at: int = 0
    source: str = ""
    end: bytes = b""
    _decoder: Any = field(default_factory=lambda: getincrementaldecoder("utf-8")(errors="replace"))

    def take(self, part: OutputPart, lines: int | None) -> bytes:
        """Return the events of output from the agent; that of another placement begins anew."""
        pieces, data = self._from("agent", "the files of its agent"), part.data
        if part.placement != self.placement or part.start < self.at:
            pieces += self._reset()
            data = data if lines is None else last_lines(data, lines)
        elif part.start > self.at:
            detail = f"{part.start - self.at} bytes before this are not kept"
            pieces += event({"bytes": part.start - self.at, "detail": detail}, name="gap")
        self.placement, self.at = part.placement, part.start + len(part.data)
        return pieces + self._output(data, f"{self.placement}.{self.at}")

    def take_stored(self, stored: StoredTail, lines: int | None) -> bytes:
        """Return the events of the last output in the store; it begins anew when it does not follow what was sent."""
        pieces = self._from("store", "the last output in the store; no agent has answered")
        start, tail = stored
        known = next((n for n in range(len(tail), 0, -1) if self.end.endswith(tail[:n])), 0)
        self.placement = self.at = 0
        if not known and tail:
            pieces += self._reset()
            if start:
                pieces += event({"bytes": start, "detail": missing(start, None, TAIL_BYTES)}, name="gap")
            tail = tail if lines is None else last_lines(tail, lines)
        return pieces + self._output(tail[known:], "0.0")

    def _from(self, source: str, detail: str) -> bytes:
        if source == self.source:
            return b""
        self.source = source
        return event({"source": source, "detail": f"Source: {detail}."}, name="source")

    def _reset(self) -> bytes:
        self._decoder.reset()
        return event({"detail": "the output begins anew"}, name="reset")

    def _output(self, data: bytes, place: str) -> bytes:
        self.end = (self.end + data)[-TAIL_BYTES:]
        text = self._decoder.decode(data)
        return event({"text": text}, id=place) if text else b""


async def _follow(
    find: Callable[[], Awaitable[TaskOutput]], output: TaskOutput, after: tuple[int, int] | None, lines: int | None
) -> AsyncGenerator[bytes]:
    """Yield the output of a task until its job has ended and all of it was sent."""
    shown, pause, missed = _Shown(*(after or (0, 0))), FASTEST_SECONDS, 0
    found = anyio.current_time()
    while True:
        part = await output.part(shown.at if shown.placement else -MOST_OUTPUT)
        missed = 0 if part is not None else missed + 1
        if part is not None:
            pieces = shown.take(part, lines)
        elif missed < MOST_MISSED and shown.source == "agent":
            pieces = b""  # a late answer; the files are still there
        else:
            pieces = shown.take_stored(await output.stored(), lines)
        yield pieces or ALIVE
        if part is not None and (len(part.data) == MOST_OUTPUT or (part.data and output.place.over)):
            continue
        if output.place.over and (part is not None or shown.source == "store"):
            yield last_event("over", "The job has ended; this is all of the output.", again=False)
            return
        pause = FASTEST_SECONDS if pieces else min(SLOWEST_SECONDS, 1.5 * pause)
        await anyio.sleep(pause)
        if part is None or anyio.current_time() - found > FIND_SECONDS:
            output, found = await find(), anyio.current_time()
