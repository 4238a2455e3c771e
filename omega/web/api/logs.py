"""``GET /v1/jobs/JOB/logs``: the output of a task, as a document or, with ``follow=1``, as a stream.

The output comes from the files of the agent that ran the task, by a request in the agent's mailbox, else from the last
output in the store. ``source`` says which. The id of an event is ``PLACEMENT.BYTE``, the place behind its output.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from omega.cellstate.errors import BadInput, Forbidden
from omega.cellstate.tasks import MOST_OUTPUT, STREAMS, TAIL_BYTES, OutputPart, StoredTail
from omega.live.agent.open_output import OpenOutput
from omega.live.agent.output import last_lines
from omega.live.agent_output import ANSWER_SECONDS, EXPIRED, OutputPlace, ask_agent, find_output, missing
from omega.live.task_log import TaskLog, task_of
from omega.queries.jobs import find_job
from omega.web.access.exchange import too_many
from omega.web.access.visitors import Reader
from omega.web.api.answers import MEDIA_TYPE, answer, encoded, matches
from omega.web.api.parameters import CellName, JobName, one_of, words_query
from omega.web.service import Served, Service
from omega.web.sse import ALIVE, EventStream, event, last_event

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell

FASTEST_SECONDS, SLOWEST_SECONDS = 1.0, 5.0
"""Time between requests for new output of a task, for each reader: shorter while there is some."""
MOST_MISSED = 3
"""Answers in sequence that an agent may be late with before the stored output is read instead."""
FIND_SECONDS = 5.0
"""Time between looks for the machine of a task, which may be placed again."""
LOOK_SECONDS = 0.05
"""Time between looks for the answer of an agent."""
MOST_TAIL = 1 << 20
"""Bytes of last lines that a page shows, and that a stream begins with."""
_reading = anyio.CapacityLimiter(4)
"""Threads that read files of output."""
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
            name = await self.served.read(self.cell, lambda cell: ask_agent(cell.tasks, self.place, self.stream, start))
        except Forbidden:  # the service has the store's user of a role that may not ask
            return None
        if name is None:
            return None
        with anyio.move_on_after(ANSWER_SECONDS):
            while True:
                await anyio.sleep(LOOK_SECONDS)
                found = await self.served.read(self.cell, lambda cell: cell.tasks.output_part(name))
                if found is not None:
                    self.expired = not found.placement
                    return found if found.placement else None
        return None

    async def first(self, lines: int | None) -> OutputPart | None:
        """Return the beginning of the output, or its last lines and perhaps more, of at most a MiB."""
        if lines is None:
            return await self.part(0)
        found = await self.part(-MOST_OUTPUT)
        while found is not None and found.start and len(found.data) < MOST_TAIL:
            if found.data.count(b"\n") > lines:
                break
            start = max(0, found.start - MOST_OUTPUT)
            before = await self.part(start)
            joins = before is not None and before.placement == found.placement and before.start < found.start
            if before is None or not joins or before.start + len(before.data) < found.start:
                break  # it was dropped, or the task is placed again
            data = before.data[: found.start - before.start] + found.data
            found = OutputPart(found.placement, before.start, data)
        return found

    async def stored(self) -> StoredTail:
        """Return the last output in the store."""
        at = self.place
        tail = await self.served.read(self.cell, lambda cell: cell.tasks.tail(at.job, at.source, at.task, self.stream))
        return StoredTail.unpack(tail)


async def _which(
    task: Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Number of the task")] = 0,
    index: Annotated[int | None, Query(ge=0, le=MOST_NUMBER, description="Index in its array, instead")] = None,
    group: Annotated[str | None, Query(description="Name of its task group; the first by default")] = None,
    generation: Annotated[int | None, Query(ge=1, le=MOST_NUMBER, description="By default the newest")] = None,
) -> dict[str, Any]:
    return {"task": task, "index": index, "group": group, "generation": generation}


def found_output(cell: "RedisCell", job: str, which: Mapping[str, Any]) -> OutputPlace:
    """Find the output of a task, which is named as in `TaskLog.of`. Raises Refused."""
    record = find_job(cell, job)
    named = (which["task"], which["group"], which["generation"], which["index"])
    return find_output(cell, record, *task_of(record, *named))


def _log(cell: "RedisCell", job: str, which: Mapping[str, Any], stream: str) -> TaskLog:
    record = find_job(cell, job)
    named = (which["task"], which["group"], which["generation"], which["index"])
    return TaskLog(cell, record, *task_of(record, *named), stream, silent=None)


def kept_output(cell: "RedisCell", job: str, which: Mapping[str, Any], stream: str, lines: int) -> dict[str, Any]:
    """Return the last lines of the output of a task from files of this computer or the store, as the console shows it.

    ``left_bytes`` are missing from the lines, of which at most the last MiB is returned. Raises Refused.
    """
    log = _log(cell, job, which, stream)
    opened = log.open()
    if opened is None:
        return {**log.as_json(lines), "left_bytes": 0}
    with closing(opened):
        start = opened.last_lines(lines, MOST_TAIL)
        left = start - opened.last_lines(lines) if opened.size - start == MOST_TAIL else 0
        text = b"".join(opened.pieces(start)).decode(errors="replace")
    return {**log.about(), "text": text, "left_bytes": left}


def _opened(
    cell: "RedisCell", job: str, which: Mapping[str, Any], stream: str, lines: int | None
) -> tuple[dict[str, Any], OpenOutput | None, int]:
    """Return the document of an output, its files on this computer (None: it is whole), and where its text begins."""
    log = _log(cell, job, which, stream)
    opened = log.open()
    if opened is None:
        return log.as_json(lines), None, 0
    try:
        return log.about(), opened, 0 if lines is None else opened.last_lines(lines)
    except BaseException:
        opened.close()
        raise


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
    if not request.state.exchange.begin():
        raise too_many()
    document, files, start = await served.read(cell, lambda opened: _opened(opened, job, which, how.stream, how.lines))
    if files is not None:
        return _document(request, document, files, start)
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


def _document(request: Request, document: Mapping[str, Any], files: OpenOutput, start: int) -> Response:
    """Answer with a document whose text is sent in pieces, as it is read from files."""
    head = encoded(document)[:-1] + b',"text":"'
    digest = blake2b(head + b"%d %d" % (start, files.size), digest_size=8).hexdigest()
    headers = {"ETag": f'W/"{digest}"', "Cache-Control": "no-cache"}
    if matches(request.headers.getlist("if-none-match"), headers["ETag"]):
        files.close()
        return Response(status_code=304, headers=headers)
    return StreamingResponse(_pieces(head, files, start), 200, headers, MEDIA_TYPE)


async def _pieces(head: bytes, files: OpenOutput, start: int) -> AsyncGenerator[bytes]:
    decoder, pieces = getincrementaldecoder("utf-8")(errors="replace"), files.pieces(start)

    def piece() -> bytes | None:
        data = next(pieces, None)
        return None if data is None else encoded(decoder.decode(data))[1:-1]

    with closing(files):
        yield head
        while (data := await anyio.to_thread.run_sync(piece, limiter=_reading)) is not None:
            yield data
        yield encoded(decoder.decode(b"", final=True))[1:-1] + b'"}'


@dataclass(slots=True)
class _Shown:
    """What a reader has: the placement, the byte after its last output, and the end of that output."""

    placement: int = 0
    at: int = 0
    source: str = ""
    end: bytes = b""
    whole: bool = True
    """Whether all of it was asked for, not only its last lines."""
    missed: int = 0
    """Bytes of the output that were announced as gaps."""
    _decoder: Any = field(default_factory=lambda: getincrementaldecoder("utf-8")(errors="replace"))

    def take(self, part: OutputPart, lines: int | None) -> bytes:
        """Return the events of output from the agent; that of another placement begins anew, with its last lines."""
        pieces, data, at = self._from("agent", "the files of its agent"), part.data, part.start
        if part.placement != self.placement or at < self.at:
            pieces += self._reset()
            if lines is not None:
                kept = last_lines(data, lines)
                enough = len(kept) < len(data) or not lines
                at, data = at + len(data) - len(kept), kept
            if at and (lines is None or not enough):
                pieces += self._gap(at)
        elif at > self.at:
            pieces += self._gap(at - self.at)
        self.placement, self.at = part.placement, part.start + len(part.data)
        return pieces + self._output(data, f"{self.placement}.{self.at}")

    def _gap(self, size: int) -> bytes:
        self.missed += size
        return event({"bytes": size, "detail": f"{size:,} bytes before this are not shown"}, name="gap")

    def last(self) -> bytes:
        """Return the last event, when the job has ended."""
        if self.missed:
            said = f"{self.missed:,} bytes of the output are not shown"
        elif self.source == "store":
            said = "this is what the store has of the output"
        else:
            said = "this is all of the output" if self.whole else "this is the end of the output"
        return last_event("over", f"The job has ended; {said}.", again=False)

    def take_stored(self, stored: StoredTail, lines: int | None) -> bytes:
        """Return the events of the last output in the store; it begins anew when it does not follow what was sent."""
        pieces = self._from("store", "the last output in the store; no agent has answered")
        start, tail = stored
        known = next((n for n in range(len(tail), 0, -1) if self.end.endswith(tail[:n])), 0)
        self.placement = self.at = 0
        if not known and tail:
            pieces += self._reset()
            self.missed += start
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
        self.missed = 0
        return event({"detail": "the output begins anew"}, name="reset")

    def _output(self, data: bytes, place: str) -> bytes:
        self.end = (self.end + data)[-TAIL_BYTES:]
        text = self._decoder.decode(data)
        return event({"text": text}, id=place) if text else b""


async def _follow(
    find: Callable[[], Awaitable[TaskOutput]], output: TaskOutput, after: tuple[int, int] | None, lines: int | None
) -> AsyncGenerator[bytes]:
    """Yield the output of a task until its job has ended and all of it was sent."""
    shown, pause, missed = _Shown(*(after or (0, 0)), whole=lines is None), FASTEST_SECONDS, 0
    found = anyio.current_time()
    while True:
        part = await output.part(shown.at) if shown.placement else await output.first(lines)
        if part is not None and shown.placement not in (0, part.placement):  # placed again meanwhile
            part = await output.first(lines)
        missed = 0 if part is not None else missed + 1
        if part is not None:
            pieces = shown.take(part, lines)
        elif missed < MOST_MISSED and shown.source == "agent":
            pieces = b""  # a late answer; the files are still there
        else:
            pieces = shown.take_stored(await output.stored(), lines)
        yield pieces or ALIVE
        if part is not None and (len(part.data) >= MOST_OUTPUT or (part.data and output.place.over)):
            continue
        if output.place.over and (part is not None or shown.source == "store"):
            yield shown.last()
            return
        pause = FASTEST_SECONDS if pieces else min(SLOWEST_SECONDS, 1.5 * pause)
        await anyio.sleep(pause)
        if part is None or anyio.current_time() - found > FIND_SECONDS:
            output, found = await find(), anyio.current_time()
