"""Recordings whose log was changed."""

from pathlib import Path

from omega.recording.file import Reading, Writer


def forged(recording: Path, path: Path, before: str, after: str) -> Path:
    """Write a recording with one text of its log replaced."""
    found = 0
    with path.open("wb") as file:
        writer = Writer(file)
        for frame in Reading(recording):
            fields = {name: value for name, value in frame.items() if name != "frame"}
            for row in fields.get("entries", ()):
                for i, cell in enumerate(row):
                    if isinstance(cell, str) and before in cell:
                        row[i], found = cell.replace(before, after), found + 1
            writer.write(frame["frame"], **fields)
    assert found == 1, f"{before!r} is there {found} times"
    return path
