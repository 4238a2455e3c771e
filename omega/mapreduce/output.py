"""The marker in an output directory: the job to which it belongs, beside the record in the store.

Workers of cells that do not know one another may share a file system, and a user may name a directory by two names.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARKER = ".omega-job"


class OutputMarker(NamedTuple):
    """The marker of job `job` of a cell in the directory `output`."""

    output: Path
    cell: str
    job: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.output / MARKER

    @property
    def _text(self) -> str:
        return f"{self.cell} {self.job}\n"

    def is_ours(self) -> bool:
        """Return whether the directory belongs to this job."""
        return self._read() == self._text

    def is_foreign(self) -> bool:
        """Return whether the directory belongs to another job."""
        return self._read() not in ("", self._text)

    def take(self, live: Callable[[str], bool]) -> str | None:
        """Mark the directory as this job's; return what it holds or belongs to otherwise, None when it is ours.

        `live` returns whether a job of the cell has not ended; the marker of a job that has ended is replaced.
        """
        self.output.mkdir(parents=True, exist_ok=True)
        while True:
            if self._create():
                if any(self.output.glob("part-*")):
                    self.remove()
                    return "the result of an earlier run"
                return None
            found = self._read()
            if found == self._text:
                return None
            cell, _, job = found.strip().partition(" ")
            if found and (cell != self.cell or live(job)):
                return f"job {job} of cell {cell}, by {self.path}"
            self._discard(found)

    def remove(self) -> None:
        """Remove the marker, if it is this job's, and what workers left that were killed while they wrote one."""
        if self.is_ours():
            self.path.unlink(missing_ok=True)
            for left in self.output.glob(f"{MARKER}.*"):
                left.unlink(missing_ok=True)

    def _create(self) -> bool:
        """Create the marker whole or not at all; return whether there was none."""
        while True:
            draft = self._beside()
            try:
                draft.write_text(self._text, encoding="utf-8")
                os.link(draft, self.path)  # fails when the file exists, on network file systems too
            except FileExistsError:
                return False
            except FileNotFoundError:  # another worker removed it, with what killed ones left
                if not self.output.is_dir():
                    raise
            else:
                return True
            finally:
                draft.unlink(missing_ok=True)

    def _discard(self, found: str) -> None:
        """Remove a marker with a text; one that was created meanwhile comes back."""
        aside = self._beside()
        with suppress(FileNotFoundError):
            self.path.rename(aside)
            if aside.read_text(encoding="utf-8") != found:
                with suppress(FileExistsError):
                    os.link(aside, self.path)
            aside.unlink(missing_ok=True)

    def _read(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def _beside(self) -> Path:
        return self.output / f"{MARKER}.{secrets.token_hex(6)}"
