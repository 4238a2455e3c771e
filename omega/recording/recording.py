"""A recording as read: pictures of a cell, each followed by the entries of its log up to the next gap."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.events import LogEntry
from omega.cellstate.model import Job
from omega.cellstate.resources import Dimensions
from omega.recording.clock import Window
from omega.recording.file import Reading
from omega.recording.job_rows import job_of

_TEXTS = ("by", "facts", "basis", "settings")


@dataclass
class Segment:
    """A picture of the cell and what the log has after it."""

    picture: Mapping[str, Any]
    machines: list[list[Any]] = field(default_factory=list)
    runs: list[list[Any]] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    """Jobs of the picture by id."""
    submitted: dict[str, Job] = field(default_factory=dict)
    """Jobs submitted later, as they were when their records were read."""
    updated: dict[str, Job] = field(default_factory=dict)
    """Jobs that got a new version, as they were when their records were read again."""
    missing: set[str] = field(default_factory=set)
    """Submitted jobs that were deleted before their records were read."""
    entries: list[LogEntry] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    """When each page of the log was read."""
    closed_ms: int = 0
    """When the recorder ended; 0 before a gap, and where the file is cut."""

    @property
    def end_ms(self) -> int:
        """The end of what was recorded, on the server's clock."""
        return max(self.closed_ms, self.windows[-1].to_ms if self.windows else int(self.picture["at_ms"]))

    @property
    def seconds(self) -> float:
        """The length of what was recorded."""
        return max(0, self.end_ms - int(self.picture["at_ms"])) / 1000


@dataclass
class Recording:
    """All segments of a file. `cut`: the file ends within a frame; `end`: its last frame, if it was written."""

    path: Path
    cell: str
    dimensions: Dimensions
    segments: list[Segment] = field(default_factory=list)
    gaps: list[Mapping[str, Any]] = field(default_factory=list)
    end: Mapping[str, Any] | None = None
    cut: bool = False

    @property
    def longest(self) -> Segment:
        """The longest segment. Raises BadInput when there is none."""
        if not self.segments:
            raise BadInput(f"recording {self.path}: ends before the picture of the cell; record again")
        return max(self.segments, key=lambda each: each.seconds)

    def notes(self) -> list[str]:
        """Return in lines what the recording lacks."""
        lines = []
        if self.cut:
            lines.append(f"{self.path} is cut; it is read up to the cut")
        elif self.end is None:
            lines.append(f"{self.path} has no end; it is read up to its last frame")
        if self.gaps:
            lost = sum(int(gap["lost"]) for gap in self.gaps)
            used = self.longest.seconds
            lines.append(f"{len(self.gaps)} gaps, {lost:,} versions missing; the longest part is used, {used:.1f} s")
        if missing := sum(len(each.missing) for each in self.segments):
            lines.append(f"{missing:,} jobs were deleted before their records were read")
        return lines


def load(path: Path) -> Recording:
    """Read a recording. Raises BadInput for another file, and for one that is damaged before its end."""
    reading = Reading(path)
    recording: Recording | None = None
    page = 0
    for frame in reading:
        try:
            if recording is None:
                dimensions = Dimensions(tuple(frame["resources"]))
                recording, page = Recording(path, str(frame["cell"]), dimensions), int(frame["page"])
            else:
                _add(recording, frame, page)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            kind = frame["frame"]
            raise BadInput(f"recording {path}: frame {reading.frames} ({kind}) cannot be read: {error!r}") from None
    if recording is None:
        raise BadInput(f"recording {path}: is cut before its first frame ends; record again")
    recording.cut = reading.cut
    return recording


def _add(recording: Recording, frame: Mapping[str, Any], page: int) -> None:
    kind = frame["frame"]
    if kind == "picture":
        recording.segments.append(Segment(frame))
        return
    if kind == "gap":
        recording.gaps.append(frame)
    segment = recording.segments[-1]
    if kind == "end":
        recording.end, segment.closed_ms = frame, int(frame["at_ms"])
        return
    if kind == "machines":
        segment.machines += frame["rows"]
    elif kind == "runs":
        segment.runs += frame["rows"]
    elif kind == "jobs":
        segment.jobs |= {row["id"]: job_of(row) for row in frame["rows"]}
    elif kind == "submitted":
        segment.submitted |= {row["id"]: job_of(row) for row in frame["rows"]}
        segment.missing |= set(frame["missing"])
    elif kind == "updated":
        segment.updated |= {row["id"]: job_of(row) for row in frame["rows"]}
    elif kind == "log":
        entries = [
            LogEntry(version=int(row[0]), at_ms=int(row[1]), **dict(zip(_TEXTS, map(str, row[2:]), strict=True)))
            for row in frame["entries"]
        ]
        segment.entries += entries
        caught_up = bool(segment.windows) and segment.windows[-1].entries < page
        from_ms = int(frame["from_ms"]) if caught_up else None
        segment.windows.append(Window(len(entries), from_ms, int(frame["to_ms"])))
