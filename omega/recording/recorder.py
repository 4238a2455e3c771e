"""Recording of a live cell: a picture of it, then its log page by page, with the records of new jobs.

The recorder only reads. It follows the log, fetches the records of the jobs of a page in one batch, and notes how far
behind the cell it is. Where entries were trimmed before it read them, or the store lost some, it notes the gap and
takes a new picture.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omega.cellstate.events import JobEvent, LogEntry, events_in
from omega.recording.file import FORMAT, Sink
from omega.recording.job_rows import row_of
from omega.recording.picture import take

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

PAGE = 500
"""Entries of the log read at once: a few milliseconds of the server's time."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """What a recorder has written so far.

    `behind`: versions of the cell that were not read when the last page was. `lost`: versions that
    were trimmed, or lost by the store, before they were read. `missing`: jobs whose records were deleted before they
    were read.
    """

    version: int = 0
    versions: int = 0
    jobs: int = 0
    missing: int = 0
    gaps: int = 0
    lost: int = 0
    behind: int = 0
    most_behind: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass
class Recorder:
    """Records one cell into a sink. `cpu_seconds` returns the processor time of this process."""

    cell: "Cell"
    sink: Sink
    cpu_seconds: Callable[[], float] = lambda: 0.0
    on_gap: Callable[[str], object] = str
    """Called with a line about missing entries."""
    progress: Progress = field(default_factory=Progress)
    _read_ms: int = field(default=0, init=False)
    _idle: bool = field(default=False, init=False)
    _partings: int = field(default=0, init=False)

    def begin(self) -> None:
        """Write the header and a picture. Raises Refused when the cell changes too fast."""
        cell = self.cell
        self.sink.write(
            "header",
            format=FORMAT,
            cell=cell.name,
            resources=list(cell.dimensions.names),
            page=PAGE,
            at_ms=cell.store_ms(),
        )
        self._take_picture()

    def _take_picture(self) -> None:
        self.progress.version = take(self.cell, self.sink)
        self.cell.look_back()
        self._partings = self.cell.sightings.partings
        self._read_ms = self.cell.store_ms()

    def step(self) -> bool:
        """Read and write the next page; return whether it was full, so that more is likely there.

        Raises StoreError while the store is away: call `resume` before the next step.
        """
        entries = self.cell.log.entries(self.progress.version, PAGE)
        if entries or not self._idle:
            self._idle = not entries
            self.cell.look_back()  # afterwards it has seen at least the versions of these entries
        if self._lost():
            return True
        if not entries:
            return False
        if entries[0].version > self.progress.version + 1:
            self._note_gap(entries[0].version - 1, "trimmed from the log before they were read")
            return True
        self._write(entries)
        return len(entries) == PAGE

    def _write(self, entries: Sequence[LogEntry]) -> None:
        now_ms, progress = self.cell.store_ms(), self.progress
        rows = [[each.version, each.at_ms, each.by, each.facts, each.basis, each.settings] for each in entries]
        self.sink.write("log", from_ms=self._read_ms, to_ms=now_ms, entries=rows)
        self._fetch(entries)
        progress.version, self._read_ms = entries[-1].version, now_ms
        progress.versions += len(entries)
        progress.behind = 0 if len(entries) < PAGE else self._newest() - progress.version
        progress.most_behind = max(progress.most_behind, progress.behind)

    def _fetch(self, entries: Sequence[LogEntry]) -> None:
        """Write the records of the jobs that these entries submit, and of those that get a new version."""
        ids, again = jobs_in(entries, "submit"), jobs_in(entries, "update")
        if again:
            jobs = self.cell.jobs.by_id(again)
            self.sink.write("updated", rows=[row_of(job, {}) for job in jobs.values()])
        if not ids:
            return
        jobs, specs = self.cell.jobs.by_id(ids), self.cell.jobs.specs(ids)
        missing = [each for each in ids if each not in jobs]
        rows = [row_of(jobs[each], specs.get(each, {})) for each in ids if each in jobs]
        self.sink.write("submitted", rows=rows, missing=missing)
        self.progress.jobs += len(rows)
        self.progress.missing += len(missing)

    def _lost(self) -> bool:
        """Note a gap if the store lost versions that were read; return whether it did."""
        seen = self.cell.sightings
        if seen.partings == self._partings:
            return False
        self._partings = seen.partings
        if seen.agreed < self.progress.version:
            self._note_gap(seen.agreed, "lost by the store after they were read")
            return True
        return False

    def _newest(self) -> int:
        return self.cell.log.changed_records(0, 0).version

    def resume(self) -> None:
        """After an error of the store: let the next step compare what was read with the store."""
        self._idle = False

    def _note_gap(self, to: int, why: str) -> None:
        progress = self.progress
        lost = abs(to - progress.version)
        text = f"{lost:,} versions after {min(to, progress.version):,} were {why}"
        self.sink.write("gap", after=progress.version, to=to, lost=lost, why=why, at_ms=self.cell.store_ms())
        progress.gaps, progress.lost = progress.gaps + 1, progress.lost + lost
        self.on_gap(f"{text}; the recording continues with a new picture of the cell")
        self._take_picture()

    def end(self, why: str) -> Mapping[str, Any]:
        """Read what is there, write the last frame and return it; `why` the recording ends."""
        newest = self._newest()
        while self.progress.version < newest and self.step():
            pass
        progress = self.progress
        progress.behind = max(0, newest - progress.version)
        final = {**progress.as_json(), "why": why, "cpu_seconds": round(self.cpu_seconds(), 3)}
        self.sink.write("end", at_ms=self.cell.store_ms(), **final)
        return final


def jobs_in(entries: Sequence[LogEntry], word: str) -> list[str]:
    """Return the ids of the jobs in the facts of a word."""
    events = (event for entry in entries if word in entry.facts for event in events_in(entry.facts, (word,)))
    return [event.job for event in events if isinstance(event, JobEvent)]
