"""Which reader reads a path."""

from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.traces.alibaba import AlibabaReader
from omega.traces.google import GoogleReader
from omega.traces.swf import SwfReader
from omega.traces.swim import SwimReader
from omega.traces.trace import Trace, TraceOptions, TraceReader

READERS: tuple[TraceReader, ...] = (GoogleReader(), AlibabaReader(), SwfReader(), SwimReader())
"""Readers in the order in which they are asked."""
OTHERS = {
    ".json": "JSON", ".parquet": "Parquet", ".avro": "Avro", ".zip": "zip", ".tar": "tar", ".xz": "xz", ".bz2": "bzip2",
    ".zst": "Zstandard", ".db": "SQLite", ".sqlite": "SQLite",
}  # a table # fmt: skip
"""Formats that no reader reads, by the end of a name."""


def reader_of(path: Path) -> TraceReader:
    """Return the reader of a file or directory. Raises BadInput when there is none."""
    if not path.exists():
        raise BadInput(f"trace {path}: no such file or directory")
    for reader in READERS:
        if reader.recognises(path):
            return reader
    known = "; ".join(reader.title for reader in READERS)
    kind = OTHERS.get(path.suffix.lower())
    what = f"{kind} is an unsupported format" if kind and path.is_file() else "no trace of a supported format"
    raise BadInput(f"trace {path}: {what}; supported: {known} (docs/traces.md)")


def read_trace(path: Path | str, options: TraceOptions | None = None) -> Trace:
    """Read a trace of any supported format. Raises BadInput with file and row."""
    found = Path(path)
    return reader_of(found).read(found, options or TraceOptions())
