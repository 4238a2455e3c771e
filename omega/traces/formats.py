"""Which reader reads a path."""

from dataclasses import replace
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.traces.alibaba import AlibabaReader
from omega.traces.google import GoogleReader
from omega.traces.google_parts import WIDTHS
from omega.traces.recording import RecordingReader
from omega.traces.swf import SwfReader
from omega.traces.swim import SwimReader
from omega.traces.trace import Trace, TraceOptions, TraceReader

GOOGLE = GoogleReader()
READERS: tuple[TraceReader, ...] = (GOOGLE, AlibabaReader(), SwfReader(), SwimReader(), RecordingReader())
"""Readers in the order in which they are asked."""
MOST_ENTRIES = 100
"""Entries of a directory that are looked at for traces."""
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
    for directory in (path.parent, path.parent.parent):
        if GOOGLE.recognises(directory) and path.relative_to(directory).parts[0] in WIDTHS:
            raise BadInput(f"trace {path}: a part of a trace; name {directory}")
    if inside := _traces_in(path):
        raise BadInput(f"trace {path}: a directory with traces; name one, such as {inside[0]}")
    known = "; ".join(reader.title for reader in READERS)
    kind = OTHERS.get(path.suffix.lower())
    what = f"{kind} is an unsupported format" if kind and path.is_file() else "no trace of a supported format"
    raise BadInput(f"trace {path}: {what}; supported: {known} (docs/traces.md)")


def _traces_in(path: Path) -> list[Path]:
    """Return the traces among the entries of a directory."""
    if not path.is_dir():
        return []
    entries = sorted(path.iterdir())[:MOST_ENTRIES]
    return [entry for entry in entries if any(reader.recognises(entry) for reader in READERS)]


def read_trace(path: Path | str, options: TraceOptions | None = None) -> Trace:
    """Read a trace of any supported format. Raises BadInput with file and row."""
    found, wanted = Path(path), options or TraceOptions()
    trace = reader_of(found).read(found, wanted)
    return trace if wanted.seconds is None else replace(trace, seconds=min(trace.seconds, wanted.seconds))
