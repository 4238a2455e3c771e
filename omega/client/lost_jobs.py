"""Jobs whose submission the store lost: the client that submitted them notices it, and may submit them again.

A submission belongs to the version that it made. Its tag shows whether the store still has that version (semantics 16);
a job that was deleted, or ended long ago, is missing although the store has it.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from omega.cellstate.cuts import Cut, Report
from omega.cellstate.errors import JobLost
from omega.cellstate.transaction import Position
from omega.submission import WORDS, submit

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.replies import Submitted

Send = Callable[..., "Iterator[Submitted]"]
MOST = 1_000
"""Submitted jobs that a client keeps, the newest ones."""


@dataclass(frozen=True, slots=True)
class _Submission:
    """A submitted job: the version of its submission or a later one, one before it, and the last cut known then."""

    spec: "JobSpec"
    position: Position
    before: Position
    known: int
    _: KW_ONLY
    held: bool


def _once(spec: "JobSpec") -> bool:
    """Return whether some tasks of a job run at most once."""
    return any(group.once for group in spec.groups)


class Submissions:
    """The last jobs that a client submitted, by id."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_id: dict[str, _Submission] = {}
        self._lock = threading.Lock()

    def submit(
        self, cell: "RedisCell", specs: "Sequence[JobSpec]", now_ms: Callable[[], int], by: str, *, hold: bool = False,
        send: "Send" = submit,
    ) -> "Iterator[Submitted]":  # fmt: skip
        """Submit jobs as `omega.submission.submit`, or `send`, does, and keep those that the store took."""
        if cell.dry:
            yield from send(cell, specs, now_ms(), by, hold=hold)
            return
        if not cell.sightings.last.version:
            cell.look_back()
        before = cell.sightings.last
        for spec, answer in zip(specs, send(cell, specs, now_ms(), by, hold=hold), strict=True):
            if answer.status not in WORDS:
                yield answer
                continue
            if cell.sightings.last.version < answer.modified:
                cell.look_back()  # its connection was opened anew: the version is not known to be its own
            self._keep(_Submission(spec, cell.sightings.last, before, cell.sightings.known, held=hold))
            yield answer

    def _keep(self, submission: _Submission) -> None:
        with self._lock:
            self._by_id.pop(submission.spec.id, None)
            self._by_id[submission.spec.id] = submission
            if len(self._by_id) > MOST:
                del self._by_id[next(iter(self._by_id))]

    def _kept(self) -> list[_Submission]:
        with self._lock:
            return list(self._by_id.values())

    def forget(self, job_id: str) -> None:
        """Drop a job that ended, or that this client stopped."""
        with self._lock:
            self._by_id.pop(job_id, None)

    def check(self, cell: "RedisCell", asked: str) -> None:
        """Raise JobLost if a kept job, by id or name, is missing because the store lost its submission."""
        mine = [each for each in self._kept() if asked in (each.spec.id, each.spec.name)]
        for each in mine[-1:]:
            if (cut := self._lost_in(cell, each)) is not None:
                raise JobLost.of(each.spec.name, each.position.version, cut.agreed, once=_once(each.spec))

    def again(
        self, cell: "RedisCell", now_ms: Callable[[], int], by: str, ids: Collection[str] | None = None
    ) -> "list[JobSpec]":
        """Submit the kept jobs that the store lost, by the same ids and in the same order; return them.

        A job with tasks that run at most once is left to the person who submitted it: they may have run.
        `ids`: those of the jobs that are meant; None for all.
        """
        kept = (each for each in self._kept() if not _once(each.spec))
        meant = [each for each in kept if ids is None or each.spec.id in ids]
        gone = [each for each in meant if self._lost_in(cell, each) is not None]
        for held in (False, True):
            specs = [each.spec for each in gone if each.held == held]
            if specs:
                list(self.submit(cell, specs, now_ms, by, hold=held))
        return [each.spec for each in gone]

    def unreported(self, cell: "RedisCell") -> bool:
        """Return whether a kept job is missing whose versions the store lost, and nobody told until when it has them.

        A process that began after these versions cannot tell; one that saw older ones does when it connects again.
        """
        for each in self._kept():
            standing = cell.standing([at for at in (each.position, each.before) if at.version])
            if standing.agreed is None and standing.first_lost is not None and cell.jobs.get(each.spec.id) is None:
                return True
        return False

    def _lost_in(self, cell: "RedisCell", kept: _Submission) -> Cut | None:
        """Return the cut that a submission was lost in; None when the store has its version, or the job."""
        version = kept.position.version
        standing = cell.standing([each for each in (kept.position, kept.before) if each.version])
        if standing.agreed == version or cell.jobs.get(kept.spec.id) is not None:
            return None
        for cut in reversed(cell.cuts().kept):
            # Of a version before the change list only the reports tell.
            if cut.number > kept.known and cut.agreed < version and (standing.first_lost or version <= cut.seen):
                return cut
        if standing.first_lost != version or standing.agreed is None:
            return None  # another cell of this name, as far as anybody can tell
        report = Report(known=kept.known, agreed=standing.agreed, first_lost=version, seen=version, by="")
        return cell.report_cut(report)
