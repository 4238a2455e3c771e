"""Finished simulations in a file of JSON lines, so that interrupted work resumes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from omega.cellstate.errors import BadInput
from omega.experiments.sources import program_version, sources_digest

Record = Mapping[str, Any]
"""A finished simulation: configuration, seed, version, sources that simulated, digest, seconds it took, result."""
FIELDS = ("key", "configuration", "seed", "version", "digest", "seconds", "result")


class Point(Protocol):
    """A simulation as plain values, of either simulator (Configuration, TraceRun)."""

    @property
    def seed(self) -> int:
        """Seed of all random numbers."""
        ...

    @property
    def weight(self) -> float:
        """How long it takes beside others, roughly."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Return every parameter by name."""
        ...

    def content(self) -> str:
        """Return a digest of the files that it reads, ``""`` for none. Raises BadInput."""
        ...

    def about(self) -> str:
        """Read or draw the workload, once for runs in a row that share it; return one line about it."""
        ...

    def document(self) -> dict[str, Any]:
        """Simulate; return the result as plain values, with its ``digest``."""
        ...


def key_of(point: Point) -> str:
    """Return the key of a result: every parameter, the simulator's sources, and the content of files."""
    facts: dict[str, Any] = {**point.as_json(), "sources": sources_digest()}
    if content := point.content():
        facts["content"] = content
    text = json.dumps(facts, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def simulated(point: Point, clock: Callable[[], float]) -> dict[str, Any]:
    """Run one simulation and return its record; `clock` measures the seconds. Runs in worker processes."""
    key, about = key_of(point), point.about()
    began = clock()
    result = point.document()
    return {
        "key": key,
        "configuration": point.as_json(),
        "seed": point.seed,
        "version": program_version(),
        "sources": sources_digest(),
        "digest": result["digest"],
        "seconds": round(clock() - began, 3),
        "workload": about,
        "result": result,
    }


class Results:
    """The records of a file, by key; without a path they are only kept in memory.

    A last line that an interruption cut short is dropped. Raises BadInput (file, line) when the file holds
    something else, or cannot be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Read the file's records."""
        self.path = path
        self._records: dict[str, Record] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(f"results {path}: cannot be read ({error.strerror}); name another file") from None
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                record = json.loads(line)
                if not set(FIELDS) <= set(record):
                    raise ValueError
            except (ValueError, TypeError):
                raise BadInput(f"{path}:{number}: no result of a simulation; name another file") from None
            self._records[record["key"]] = record
        if whole < len(content):
            with _writing(path, "r+b") as file:
                file.truncate(whole)

    def add(self, record: Record) -> None:
        """Keep a record, in the file at once."""
        self._records[record["key"]] = record
        if self.path is not None:
            with _writing(self.path, "ab") as file:
                file.write(json.dumps(record, allow_nan=False).encode() + b"\n")

    def get(self, configuration: Point) -> Record | None:
        """Return the record of a configuration, made by the code that runs now."""
        return self._records.get(key_of(configuration))

    def outdated(self, configurations: Iterable[Point]) -> list[Record]:
        """Records of these configurations that other code made, oldest first."""
        wanted = {_parameters(configuration.as_json()) for configuration in configurations}
        ours = sources_digest()
        return [
            record
            for record in self
            if record.get("sources") != ours and _parameters(record["configuration"]) in wanted
        ]

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, oldest first."""
        return iter(self._records.values())

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._records)


def _parameters(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


@contextmanager
def _writing(path: Path, mode: Literal["r+b", "ab"]) -> Iterator[BinaryIO]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            yield file
    except OSError as error:
        raise BadInput(f"results {path}: cannot be written ({error.strerror}); name another file") from None
