"""The form of the records that outlive the log, for the audit (cellstate/digest, cellstate/cuts.py)."""

import re

from omega.cellstate import ranges
from omega.cellstate.cuts import read_cut
from omega.cellstate.digest.history import History
from omega.cellstate.digest.hours import Hour, Position
from omega.cellstate.digest.results import unpack_results
from omega.cellstate.inspection import Inspection

_CHUNKS = re.compile(r"\d+:[\d,-]+(;\d+:[\d,-]+)*")


def read_history(inspection: Inspection, field: str, value: bytes) -> None:
    """Keep the id of a job with a history. Raises ValueError for a record that is none."""
    History.unpack(value)
    inspection.records.histories.add(field)


def read_results(inspection: Inspection, field: str, value: bytes) -> None:
    """Keep a chunk of results by job, group and chunk, or the list of the chunks of a job. Raises ValueError."""
    job, _, place = field.partition(" ")
    if place:
        group, chunk = map(int, place.split(" "))
        inspection.records.chunks[job, group, chunk] = [result.state for result in unpack_results(value, 0)]
        return
    text = value.decode()
    if not _CHUNKS.fullmatch(text):
        raise ValueError(f"{text!r} is not a list of chunks")
    for piece in text.split(";"):
        group_text, _, chunks = piece.partition(":")
        inspection.records.listed |= {(job, int(group_text), chunk) for chunk in ranges.indices(chunks)}


def read_usage(inspection: Inspection, field: str, value: bytes) -> None:
    """Keep the position of the digest. Raises ValueError for a record that is neither that nor of an hour."""
    if field == "position":
        inspection.records.position = Position.unpack(value)
        return
    int(field)
    Hour.unpack(value)


def read_cuts_field(_: Inspection, field: str, value: bytes) -> None:
    """Read a report of lost versions, or one of their sums. Raises ValueError for anything else."""
    if field in ("last", "lost"):
        int(value)
        return
    cut = read_cut(int(field), value.decode())
    if not cut.agreed < cut.first_lost <= cut.seen:
        raise ValueError("its versions do not rise")


RECORDS = {"history": read_history, "results": read_results, "usage": read_usage, "cuts": read_cuts_field}
"""Readers of the fields of each key."""
