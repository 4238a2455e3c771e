"""Job files, documents and forms that clients send: bounded by bytes, values and depth, and never parsed on the loop.

A parser in C holds the interpreter's lock until it is done: about 65 ms for a MiB of JSON, ten seconds for one of YAML.
So a small text is parsed in a thread, and a larger one in a process of its own, one at a time.
"""

import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgpack
from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process, to_thread
from fastapi import Request
from starlette.datastructures import ImmutableMultiDict

from omega.cellstate.errors import BadInput
from omega.jobfile.document import Document, parse
from omega.jobfile.reader import JobFile, entries
from omega.web.problems import TooLarge, Unsupported

SMALL_JSON, SMALL_YAML = 256 << 10, 32 << 10
"""Bytes of a text that is parsed in a thread."""
SMALL_VALUES, MOST_VALUES = 5_000, 500_000
"""Values of JSON that is parsed in a thread, and of any text: what a process found is copied value by value."""
PROCESS_SECONDS, PROCESS_BYTES = 5.0, 512 << 20
"""Time and memory of the process for one text; then it is ended, and the next text starts another."""
MOST_FIELDS = 2_000
"""Fields of a form; that of pools has 60 rows of about ten."""
LARGE = 1
"""Kind of MessagePack's extensions for whole numbers that it has not."""
FORM = "application/x-www-form-urlencoded"

_threads, _turn, _process, _large_jobs = (CapacityLimiter(most) for most in (2, 1, 1, 1))


@asynccontextmanager
async def read_jobs(name: str, text: str, *, is_json: bool) -> AsyncIterator[JobFile]:
    """Yield a text as a job file of another computer, with its document unless the text is small.

    All work on large ones takes turns: the loop waits for each thread that wants the interpreter's lock, and such a
    thread wants it for a while. This is the only place of `omega.web` that makes a job file. Raises BadInput, TooLarge.
    """
    file = JobFile(name, text, is_json=is_json)
    if _is_small(text, is_json=is_json):
        yield file  # it is parsed on the thread that submits it
        return
    read = replace(file, document=Document(name, await _in_process(_found_jobs, file)))
    async with _large_jobs:
        yield read


async def read_document(name: str, text: str, content: str, *, is_json: bool) -> Any:
    """Return the value of a text; `content` says what it should have. Raises BadInput, TooLarge."""
    file = JobFile(name, text, is_json=is_json)
    if not _is_small(text, is_json=is_json):
        return await _in_process(partial(_found, content), file)
    call = partial(parse, name, text, content, is_json=is_json)
    return (await to_thread.run_sync(call, limiter=_threads)).value


async def read_form(request: Request) -> ImmutableMultiDict[str, str]:
    """Return the fields of a form; `get` returns the last one of a field that is there twice.

    Raises BadInput, Unsupported.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Unsupported(f"the form is not {FORM}; send it as a page of the console does")
    body = (await request.body()).decode("latin-1")

    def fields() -> ImmutableMultiDict[str, str]:
        return ImmutableMultiDict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))

    try:
        return await to_thread.run_sync(fields, limiter=_threads)
    except ValueError:
        raise BadInput(f"the form has more than {MOST_FIELDS:,} fields; change fewer things at a time") from None


def _is_small(text: str, *, is_json: bool) -> bool:
    if not is_json:
        return len(text) <= SMALL_YAML
    return len(text) <= SMALL_JSON and sum(map(text.count, ",[{")) <= SMALL_VALUES


async def _in_process(found: Callable[[JobFile], bytes], file: JobFile) -> Any:
    """Return what a function in the process finds in a text."""
    slow = f"{file.name}: takes too long to read, or too much memory; send it in parts, or as JSON"
    async with _turn:
        try:
            await to_process.run_sync(_started, limiter=_process)  # its start counts for no text
            with fail_after(PROCESS_SECONDS):
                data = await to_process.run_sync(found, file, cancellable=True, limiter=_process)
        except (BrokenWorkerProcess, TimeoutError):
            raise TooLarge(slow) from None
    return await to_thread.run_sync(_received, data, limiter=_threads)


def _received(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=lambda _, digits: int(digits), unicode_errors="surrogatepass")


# In the process


def _started() -> None:
    """Do nothing."""


def _found(content: str, file: JobFile) -> bytes:
    with _bounded():
        return _sent(file.name, parse(file.name, file.text, content, is_json=file.is_json).value)


def _found_jobs(file: JobFile) -> bytes:
    """Return the value of a job file whose fields are valid. Errors in JSON name the job and field, and no line."""
    with _bounded():
        document = parse(file.name, file.text, is_json=file.is_json)
        document.json = None
        for _ in entries(document, local=file.local):
            pass
        return _sent(file.name, document.value)


def _sent(name: str, value: Any) -> bytes:
    count, ahead = 0, [value]
    while ahead:
        each = ahead.pop()
        count += 1
        if isinstance(each, dict):
            ahead += each.values()
        elif isinstance(each, list):
            ahead += each
        if count + len(ahead) > MOST_VALUES:
            raise BadInput(f"{name}: more than {MOST_VALUES:,} values; send it in parts")
    packed: bytes = msgpack.packb(value, default=_large, unicode_errors="surrogatepass")
    return packed


def _large(number: int) -> msgpack.ExtType:
    """Return a whole number of more than 64 bits as what `_received` reads."""
    return msgpack.ExtType(LARGE, str(number).encode())


@contextmanager
def _bounded() -> Iterator[None]:
    """Bound the memory of this process, which ends when it needs more."""
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = PROCESS_BYTES if most == resource.RLIM_INFINITY else min(PROCESS_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))
    try:
        yield
    except MemoryError:
        signal.raise_signal(signal.SIGKILL)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))
