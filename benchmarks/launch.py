"""How a benchmark is started: settings as one line of JSON on stdin, progress on stderr, the document on stdout."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from benchmarks.estimates import estimate
from omega.cellstate.errors import OmegaError
from omega.cli.pace import ticking
from omega.queries import units

S = TypeVar("S")
Document = dict[str, object]


def progress(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


def launch(settings: Callable[..., S], measure: Callable[[S], Document]) -> NoReturn:
    """Read the settings, measure, print the document and end.

    Exit 0, or 1 with one line on stderr. Whoever sets ``attached`` keeps stdin open: its end means that
    nobody waits for the figures any more, and everything that was started is stopped.
    """
    signal.signal(signal.SIGTERM, _leave)
    said = "" if sys.stdin.isatty() else sys.stdin.readline()
    options: dict[str, object] = json.loads(said or "{}")
    if options.pop("attached", False):
        threading.Thread(target=_watch, daemon=True).start()
    try:
        chosen = settings(**options)
        with _estimated(chosen):
            document = measure(chosen)
        print(json.dumps(document), flush=True)
    except (OmegaError, TypeError, ValueError) as error:
        if not isinstance(error, OmegaError):
            raise
        progress(f"error: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


@contextmanager
def _estimated(settings: object) -> Iterator[None]:
    """Print how long it takes, and every ten seconds how much of that is over."""
    spec = sys.modules["__main__"].__spec__
    name = spec.name.rpartition(".")[2] if spec else ""
    seconds = estimate(name, settings)
    if seconds is None:
        yield
        return
    progress(f"{name}: takes about {units.age(seconds)}")
    with ticking(lambda spent: progress(f"{name}: {units.age(spent)} of about {units.age(seconds)}")):
        yield


def _leave(*_: object) -> NoReturn:
    sys.exit(143)


def _watch() -> None:
    while sys.stdin.read(1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
