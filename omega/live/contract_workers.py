"""Processes that hold sources of a plug-in file to the contracts of their policies (`omega.live.examiner`).

A policy may loop without end: a process that does not answer in time is killed, and the next source gets another one.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, Any, Self, cast

from omega.cellstate.errors import BadInput

FIRST_SECONDS = 900.0
"""Time limit of the file itself."""
TIMES, MORE_SECONDS = 4.0, 20.0
"""Time limit of a mutant: so many times what the file itself took, and so many seconds."""


class ContractWorkers:
    """So many processes for the sources of one file; a context, which ends them."""

    def __init__(self, path: Path, number: int) -> None:
        """Start nothing yet."""
        self.path, self.number, self.limit = path, number, FIRST_SECONDS
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._not_greedy: list[str] = []
        """Names of contracts of placements that leave out tasks that would fit."""
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def examine(self, source: str) -> list[dict[str, Any]]:
        """Return what the contracts find in the file itself. Raises BadInput when it cannot be tested."""
        began = time.monotonic()
        found = self._ask({"source": source})
        self.limit = TIMES * (time.monotonic() - began) + MORE_SECONDS
        if found is None:
            raise BadInput(f"{self.path}: its tests did not end within {FIRST_SECONDS:g} s; look for an endless loop")
        if "error" in found:
            raise BadInput(found["error"])
        examined: list[dict[str, Any]] = found["examined"]
        self._not_greedy = [each["contract"] for each in examined if each["greedy"] is False]
        return examined

    def found(self, sources: Sequence[str], done: Callable[[], object]) -> list[str]:
        """Return for each mutant the first error that the contracts find, ``""`` for none; calls `done` after each."""
        pool = ThreadPoolExecutor(self.number)
        try:
            return list(pool.map(lambda source: self._first(source, done), sources))
        finally:
            self._end()
            pool.shutdown(cancel_futures=True)

    def _first(self, source: str, done: Callable[[], object]) -> str:
        answer = self._ask({"source": source, "not_greedy": self._not_greedy})
        done()
        if answer is None:
            return f"ends the process of its tests, or does not end within {self.limit:.0f} s"
        if "error" in answer:
            return str(answer["error"])
        return str(answer["failure"] or "")

    def _ask(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer of a process; None when there is none in time."""
        process = self._process()
        question, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        timer = threading.Timer(self.limit, process.kill)
        timer.start()
        try:
            question.write(json.dumps(asked) + "\n")
            question.flush()
            line = answers.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            return None
        self._idle.put(process)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _process(self) -> "subprocess.Popen[str]":
        with suppress(Empty):
            while True:
                idle = self._idle.get_nowait()
                if idle.poll() is None:
                    return idle
        words = [sys.executable, "-m", "omega.live.examiner", str(self.path)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nothing, text=True, encoding="utf-8")
        self._started.append(process)
        return process

    def _end(self) -> None:
        """Kill the processes, so that threads that wait for an answer end."""
        for process in self._started:
            process.kill()
