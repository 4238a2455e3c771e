"""A worker of a MapReduce job: claims shards from the store, runs the job's commands on them, keeps their output.

Any number of workers run concurrently, and each may be evicted, lost or killed at any time. A worker's output
is marked as its own until the store has recorded that it finished the shard, and only then do others
read it (shards.py); the result is therefore that of one run of every shard.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import Signals
from typing import IO, TypeVar

from omega.cellstate.errors import Fenced, OmegaError, Refused, StoreError
from omega.cellstate.model import JobState
from omega.cellstate.redis import RedisCell
from omega.cellstate.shards import KEPT_MS, MAP, MOST_IN_A_ROW, REDUCE, TRIES, Errand, Worker
from omega.mapreduce import shuffle
from omega.mapreduce.near import NearShards
from omega.mapreduce.output import OutputMarker
from omega.mapreduce.plan import MapReducePlan
from omega.queries.job_state import ended

SHORTEST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds before a waiting worker asks again, while others process the rest of the phase."""
AFTER_FAILURE = 0.2
T = TypeVar("T")


class JobFailed(Refused):
    """The job has failed: another attempt of a worker cannot change that."""


class CommandFailed(OmegaError):
    """A mapper or a reducer failed."""


@dataclass(slots=True)
class ShardWorker:
    """One worker of job `job_id` named `name`. `now` is seconds of any clock, `pause` sleeps.

    `report` receives each error in one line. `surplus`: leave when no further shard can be claimed.
    """

    cell: RedisCell
    job_id: str
    name: str
    plan: MapReducePlan
    worker: Worker
    environment: Mapping[str, str]
    now: Callable[[], float]
    pause: Callable[[float], None]
    report: Callable[[str], None]
    near: NearShards | None = None
    """The maps near the worker's machine; None for an input without locality."""
    surplus: bool = False
    done: int = 0
    owns: bool = False
    """Whether the output directory was marked as the job's."""

    def run(self) -> int:
        """Process shards until none is left; returns the number of shards done here.

        Raises Fenced when the task is not this worker's any more, JobFailed when the job cannot be finished or its
        output belongs to another job.
        """
        wait, told = SHORTEST_WAIT, False
        while True:
            errand = self._patiently(self._claim)
            match errand.what:
                case "done":
                    self._publish()
                    return self.done
                case "failed":
                    self._clear()
                    where = f"{errand.phase} shard {errand.shard}"
                    raise JobFailed(f"job {self.name}: {where} failed {TRIES} times; see its tasks' logs")
                case "fenced":
                    self.clear_if_over()  # a stop is met here, too, before the agent asks this worker to end
                    raise Fenced(f"job {self.name}: task {self.worker.task} is no longer placed here; it ends")
                case "wait" | "out":
                    if errand.what == "out" and not told:
                        self.report(f"machine excluded: the last {MOST_IN_A_ROW} shards or more failed here")
                    told = errand.what == "out"
                    if self.surplus and (told or self._reducing()):
                        return self.done
                    self.pause(wait)
                    wait = min(LONGEST_WAIT, 2 * wait)
                case "far":
                    self.pause(max(SHORTEST_WAIT, min(wait, self._refuse())))
                    wait = min(LONGEST_WAIT, 2 * wait)
                case _:
                    wait = SHORTEST_WAIT
                    self._own_output()
                    self._do(errand)

    def _claim(self) -> Errand:
        near = () if self.near is None else self.near.taken(self.now())
        counts = self.plan.maps, self.plan.reduces
        return self.cell.shards.claim(self.job_id, self.worker, *counts, self.cell.store_ms(), near)

    def _refuse(self) -> float:
        """Leave the unclaimed shards to other machines; return for how long at most (seconds)."""
        if self.near is None:
            return LONGEST_WAIT
        if self.near.waiting.since is None:
            self.report(f"the unclaimed shards are on other machines; this worker takes {self.near.describe()}")
        return self.near.refuse(self.now())

    def _reducing(self) -> bool:
        progress = self._patiently(lambda: self.cell.shards.progress(self.job_id))
        return progress is not None and progress.phase == REDUCE

    def _do(self, errand: Errand) -> None:
        phase, shard, _ = errand
        began, failed = self.now(), False
        try:
            if phase == MAP:
                self._map(shard)
            else:
                self._reduce(shard)
        except (OSError, OmegaError) as error:
            failed = True
            self.report(f"{phase} shard {shard}: {error}")
        milliseconds = int((self.now() - began) * 1000)

        def end() -> bool:
            failed_ms = self.cell.store_ms() if failed else None
            level = self.near.level(shard) if self.near is not None and phase == MAP else None
            return self.cell.shards.end(
                self.job_id, self.name, self.worker, phase, shard, milliseconds, failed_ms=failed_ms, level=level
            )

        if self._patiently(end) and not failed:
            self.done += 1
        elif failed:
            self.pause(AFTER_FAILURE)

    # The output directory

    @property
    def marker(self) -> OutputMarker:
        """The file that names the job to which the output directory belongs."""
        return OutputMarker(Path(self.plan.output), self.cell.name, self.job_id)

    def _own_output(self) -> None:
        """Mark the output directory as this job's. Raises JobFailed while it belongs to another one."""
        replaced = set[str]()

        def live(job_id: str) -> bool:
            job = self._patiently(lambda: self.cell.jobs.get(job_id))
            if job is not None and not ended(job):
                return True
            replaced.add(job_id)
            return False

        if not self.owns:
            claim = partial(self.cell.shards.claim_directory, self.plan.output, self.job_id, expire_ms=KEPT_MS)
            if (other := self._patiently(claim)) is not None:
                raise JobFailed(f"job {self.name}: output {self.plan.output} overlaps that of the live job {other}")
            try:
                holder = self.marker.take(live)
            except OSError as error:
                raise JobFailed(f"job {self.name}: output {self.plan.output}: {error.strerror}") from None
            if holder is not None:
                raise JobFailed(f"job {self.name}: output {self.plan.output} holds {holder}; name another directory")
            self._clear_others(replaced)
            self.owns = True

    # The two phases

    @property
    def _scratch(self) -> Path:
        return Path(self.plan.scratch) / self.job_id

    @property
    def _scratch_is_within(self) -> bool:
        """Whether the scratch directory is one of Omega's own, in the output directory."""
        return self._scratch.parent.parent == Path(self.plan.output)

    def _mapped(self, shard: int, mark: str) -> Path:
        return self._scratch / f"map-{shard:05d}.{mark}"

    def _reduced(self, shard: int, mark: str) -> Path:
        """Return the scratch directory next to the output: a rename needs the same file system."""
        return Path(self.plan.output) / f".part-{shard:05d}.{mark}"

    def _map(self, shard: int) -> None:
        self._scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile() as said:
            self._run(self.plan.map, self.plan.input(shard), said, MAP, shard)
            said.seek(0)
            shuffle.write(self._mapped(shard, self.worker.mark), shuffle.partition(said, self.plan.reduces))

    def _reduce(self, shard: int) -> None:
        Path(self.plan.output).mkdir(parents=True, exist_ok=True)
        marks = self._patiently(lambda: self.cell.shards.finishers(self.job_id, MAP, self.plan.maps))
        sources = [self._mapped(number, mark or "") for number, mark in enumerate(marks)]
        target = self._reduced(shard, self.worker.mark)
        with shuffle.written(target) as said:
            self._run(self.plan.reduce, shuffle.gather(sources, shard), said, REDUCE, shard)

    def _publish(self) -> None:
        """Rename every part of the result; each worker that finds the job complete does so, idempotently.

        Raises JobFailed when the directory belongs to another job by now.
        """
        marks = self._patiently(lambda: self.cell.shards.finishers(self.job_id, REDUCE, self.plan.reduces))
        foreign = self.marker.is_foreign()
        for shard, mark in enumerate(marks):
            target = Path(self.plan.output) / f"part-{shard:05d}"
            if not foreign:
                with suppress(FileNotFoundError):
                    self._reduced(shard, mark or "").replace(target)
            if not target.exists():  # otherwise another worker was first
                why = f"is missing{f', and {self.plan.output} belongs to another job' if foreign else ''}"
                raise JobFailed(f"job {self.name}: {target} {why}; run the job again")
        self._clear()

    def _clear(self) -> None:
        """Remove what the job needs no longer: the intermediate files, and the marker of its output."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        if self._scratch_is_within:  # created by this worker
            with suppress(OSError):
                self._scratch.parent.rmdir()
        if self.marker.is_foreign():
            return
        for leftover in Path(self.plan.output).glob(".part-*"):
            leftover.unlink(missing_ok=True)
        self.marker.remove()

    def clear_if_over(self) -> None:
        """Remove the files of the job if it was stopped, or has ended otherwise: this worker leaves.

        Each worker of a stopped job does so; what those write that have not left yet, they remove themselves.
        """
        job = self._patiently(lambda: self.cell.jobs.get(self.job_id))
        if job is not None and job.state > JobState.HELD:
            self._clear()

    def _clear_others(self, replaced: Collection[str]) -> None:
        """Remove the intermediate files of jobs that are over: their last worker was killed, or lost.

        `replaced` are ended jobs whose marker this one replaced. A directory of another name is nobody's, or a user's.
        """
        try:
            names = {each.name for each in self._scratch.parent.iterdir() if each.is_dir() and not each.is_symlink()}
        except FileNotFoundError:
            return
        names.discard(self.job_id)
        known = self._patiently(lambda: self.cell.jobs.by_id(sorted(names)))
        over = [job.id for job in known.values() if ended(job) and not any(group.runs for group in job.groups)]
        plans = {
            job_id: MapReducePlan.read(spec)
            for job_id, spec in self._patiently(lambda: self.cell.jobs.specs(over)).items()
        }
        theirs = {job_id for job_id, plan in plans.items() if plan is not None and plan.scratch == self.plan.scratch}
        if self._scratch_is_within:
            theirs |= names & set(replaced) - known.keys()
        for name in theirs:
            shutil.rmtree(self._scratch.parent / name, ignore_errors=True)

    def _run(self, command: Sequence[str], blocks: Iterable[bytes], said: IO[bytes], phase: str, shard: int) -> None:
        """Run a command over its input; its stdout goes to a file, its stderr to this task's log."""
        surroundings = {**self.environment, "OMEGA_PHASE": phase, "OMEGA_SHARD": str(shard)}
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, env=surroundings)
        except FileNotFoundError:
            raise CommandFailed(f"command not found: {command[0]}") from None
        except OSError as error:
            raise CommandFailed(f"cannot run {command[0]}: {error.strerror}") from None
        try:
            _feed(process, blocks)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        if code:
            raise CommandFailed(f"{command[0]}: {f'exit {code}' if code > 0 else f'killed by {Signals(-code).name}'}")

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeat a call while the store is unavailable; the agent ends this task when that takes too long."""
        wait, told = SHORTEST_WAIT, False
        while True:
            try:
                return call()
            except StoreError as error:
                if not told:
                    self.report(f"waits: {error}")
                told = True
                self.pause(wait)
                wait = min(LONGEST_WAIT, 2 * wait)


def _feed(process: "subprocess.Popen[bytes]", blocks: Iterable[bytes]) -> None:
    """Write a command's input; stops when the command closes it."""
    stdin = process.stdin
    if stdin is None:
        raise RuntimeError("started without a pipe")
    with suppress(BrokenPipeError):
        try:
            for block in blocks:
                stdin.write(block)
        finally:
            stdin.close()
