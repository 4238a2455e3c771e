"""An agent: one executor of one machine; its tasks are processes.

Each iteration renews the lease; the reply of the same call lists the runs of the machine. Missing runs are
started, runs that are not listed are stopped. The agent therefore needs no state of its own: a message in its
mailbox only triggers an iteration, and the next iteration also corrects a store that was restored to an older
state, or an agent that was (semantics 16). Tasks run under supervisors (supervisor.py), which the guard
(guard.py) starts; both stop them when the lease is not renewed (semantics 28).
"""

import os
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput, OmegaError
from omega.cellstate.model import Job, MachineSpec, MachineState, Run
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Heartbeat, executor_of
from omega.cellstate.tasks import STREAM, Consumption, EndKind, TaskEnd, unpack_consumption
from omega.live.agent.cgroups import Cgroups
from omega.live.agent.fitness import Fitness, StalledError
from omega.live.agent.guard import kill_tasks
from omega.live.agent.guard_line import GuardLine, UnansweredError
from omega.live.agent.health_reports import HealthReports
from omega.live.agent.kept import LONGEST_REASON, Kept, give_notice, sweep
from omega.live.agent.lease_file import now
from omega.live.agent.orders import Site, group_spec, order
from omega.live.agent.output import KEEP_BYTES, EndedTasks, Tails, said_bytes
from omega.live.agent.places import AgentPlaces, PlacementKey
from omega.live.agent.progress_reports import ProgressReports
from omega.live.agent.renewal import BEATS, Renewal
from omega.live.agent.run_as import may_enter
from omega.live.runners.runner import Runner
from omega.schedulers.constraints.demands import runner_attribute
from omega.schedulers.process.housekeeping import housekeep
from omega.upkeep import restarts

LEASE_MS = 20_000
MOST_STARTS, MOST_ASKED = 32, 1_000
"""Maximum of tasks started, and of runs queried, per iteration."""
OWN_KINDS = ("mapreduce",)
"""Job types with tasks that run a command of Omega itself."""
CHECK_SECONDS = 0.004
"""Time between two looks at the locks of all tasks, for each of them: a look takes some 30 µs."""
LATE_SECONDS = 1.0
"""Ends reported later than this carry the time of the end."""


class BlindError(OSError):
    """The agent cannot tell which of its tasks run."""


@dataclass(slots=True)
class Agent:
    """Offers `machine` to a cell. `cell` is used by one thread; tasks inherit the environment `surroundings`."""

    cell: RedisCell
    machine: MachineSpec
    places: AgentPlaces
    lease_ms: int = LEASE_MS
    surroundings: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cgroups: Cgroups = field(default_factory=lambda: Cgroups(None))
    user: dict[str, Any] | None = None
    """The account that tasks run as (task_start.py); None for the agent's own."""
    runners: Mapping[str, Runner] = field(default_factory=dict)
    """The task runners of this computer, by name."""
    keep_bytes: int = KEEP_BYTES
    """Bytes of disk that the directories of tasks may take."""
    kept: dict[PlacementKey, Kept] = field(default_factory=dict)
    waiting: bool = False
    """Whether a task must wait for the end of another before it starts (semantics 2)."""
    behind: bool = False
    """Whether more tasks may start than the iteration started."""
    blind: float = field(default=0.0, init=False)
    """Since when the agent cannot tell what runs; 0 while it can."""
    removed: bool = field(default=False, init=False)
    """Whether an operator removed the machine after this agent offered it."""
    lease: Renewal = field(init=False)
    guard: GuardLine = field(init=False)
    fitness: Fitness = field(init=False)
    _index: int | None = None
    _submitted: dict[str, int] = field(default_factory=dict)
    """When the jobs of listed runs were submitted; read again after the store lost versions."""
    _offered: bool = field(default=False, init=False)
    health: HealthReports = field(default_factory=HealthReports)
    progress: ProgressReports = field(default_factory=ProgressReports)
    _tails: Tails = field(default_factory=Tails)
    _rng: Random = field(default_factory=lambda: Random(0))
    _clock: tuple[int, float] = (0, 0.0)
    _looked_after: float = 0.0
    _checked: float = 0.0
    _ended: EndedTasks = field(init=False)

    def __post_init__(self) -> None:
        self._ended = EndedTasks(self.places, self.keep_bytes)
        self.lease = Renewal(self.places, self.lease_ms)
        self.guard = GuardLine(self.places.top)
        self.fitness = Fitness(self.places, self.guard, self.user, self.runners)

    @property
    def name(self) -> str:
        """Name of the agent and of its machine."""
        return self.machine.name

    @property
    def executor(self) -> str:
        """Name of the agent's executor."""
        return executor_of(self.name)

    def ms(self) -> int:
        """Time of the store's clock, read once per lease; this computer's clock may be hours off."""
        at = now()
        if not self._clock[0] or at - self._clock[1] > self.lease_ms / 1000:
            self._clock = self.cell.store_ms(), at
        return self._clock[0] + int((at - self._clock[1]) * 1000)

    # Registering and leaving

    def find(self) -> None:
        """Adopt the tasks that an earlier agent of this name left running."""
        for key in self._ended.find():
            self.kept.setdefault(key, Kept(key, self.places.task(key)))

    def come(self, until_gone: Callable[[], None]) -> None:
        """Register the name, stop tasks that the cell does not list, and offer the machine.

        `until_gone` waits until tasks being stopped have ended: the offered resources must be free.
        What operators set of the machine stays. Raises Duplicate when another agent has the name.
        """
        self.cell.schedulers.read_live()
        self._rng = Random(f"{self.name}/{self.places.nonce()}")
        self.fitness.reported, self.lease.stalled, self.lease.iterated = "unknown", "", now()
        self.lease.membership = self.cell.executors.register_agent(
            self.name, self.places.nonce(), self.lease_ms, self.ms()
        )
        self._index = self.lease.machine = self.cell.machines.index_of(self.name)
        self._submitted.clear()
        state = self._reconcile().state
        self.removed = self._offered and state is MachineState.GONE
        if self.removed:
            return
        if any(kept.unlisted for kept in self.kept.values()):
            until_gone()
        self._index = self.lease.machine = self.cell.machines.join(self.executor, [self._offer(state)], self.ms())[0]
        self._offered = True
        self._report_fitness()

    def _offer(self, state: MachineState | None) -> MachineSpec:
        """Return the machine with its attributes in the cell; attributes of this agent override them.

        Those of runners are the agent's alone: a runner that was removed from the computer gets no tasks.
        """
        new = self._index is None or state is MachineState.GONE
        stored = {} if new else dict(self.cell.machines.described([self._index or 0])[0][1])
        known = {name: value for name, value in stored.items() if not name.startswith(runner_attribute(""))}
        return replace(self.machine, attributes=known | dict(self.machine.attributes))

    def leave(self) -> None:
        """Deregister the agent: its machine is offline, tasks that have not ended return to pending."""
        if self.lease.membership is not None:
            self.lease.renew(self.cell)
            self._report()
            self.cell.executors.deregister(self.lease.membership, self.ms(), self.executor, reaped=False)

    def stop(self) -> None:
        """Ask all tasks to end."""
        for kept in self.kept.values():
            kept.stop()

    @property
    def longest_grace(self) -> float:
        """Return the seconds within which its tasks end after they were asked to."""
        return max((kept.longest_grace for kept in self.kept.values()), default=0.0)

    def kill(self) -> None:
        """Kill the tasks that still run, and their supervisors, which stand still."""
        left = [kept for kept in self.kept.values() if kept.lives]
        supervisors = {pid for kept in left if (pid := kept.supervisor)}
        kill_tasks([kept.place for kept in left], supervisors)
        for pid in supervisors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # Iterating

    def look(self) -> None:
        """Renew the lease, report ended tasks, start and stop tasks.

        Raises Fenced when the lease expired: register again.
        """
        heartbeat = self._reconcile()
        self.fitness.look()
        self._report_fitness()
        self.removed = heartbeat.state is MachineState.GONE
        if self.kept:
            self.guard.look()
        self.cell.tasks.keep_tails(self._tails.changed(self.kept.values()))
        if self._index is not None:
            self.health.report(self.cell, self._index, self.kept, self.ms())
            self.progress.report(self.cell, self._index, self.kept)
        # In each round about one of all agents does the cell's housekeeping.
        if now() - self._looked_after > self.lease_ms / 1000 / BEATS:
            self._looked_after = now()
            self._ended.live_bytes = sum(said_bytes(kept.place) for kept in self.kept.values())
            self._ended.bound(self.cell)
            self.cell.schedulers.read_live()
            if self._rng.random() * heartbeat.agents < 1:
                housekeep(self.cell, self.ms(), self.executor)
        self.lease.iterated = now()

    def stumbled(self, error: OSError) -> None:
        """Take note of an iteration that did not come through, and say so where that is possible."""
        self.fitness.failed(error)
        with suppress(OmegaError, OSError):  # the renewal says it later
            self._report_fitness()

    def give_up(self, why: str) -> None:
        """Let the lease lapse, and say why: by its end the tasks here have ended, and may run elsewhere."""
        self.fitness.failed(OSError(f"gives up its lease: {why}"))
        with suppress(OmegaError):
            self._report_fitness()
        self.lease.membership = None

    def _report_fitness(self) -> None:
        """Tell the store whether this computer can start tasks, when that changed."""
        if self.lease.stalled:
            self.fitness.failed(StalledError(self.lease.stalled))
            self.fitness.reported, self.lease.stalled = self.fitness.reason, ""
        said, membership, index = self.fitness.reason, self.lease.membership, self._index
        if said != self.fitness.reported and membership is not None and index is not None:
            self.cell.executors.report_fitness(membership, [index], said, self.ms())
            self.fitness.reported = said

    @property
    def ended(self) -> bool:
        """Return whether there are ends to report."""
        return bool(self._over())

    def _over(self) -> list[Kept]:
        """Return the tasks that ended: those of which the guard said so, and now and then any by their locks."""
        self.guard.hear()
        whole = now() - self._checked >= CHECK_SECONDS * len(self.kept)
        if whole:
            self._checked = now()
            self.guard.ended &= {str(kept.place) for kept in self.kept.values()}
        ended, guard = self.guard.ended, self.guard.pid
        try:
            over = [
                kept
                for kept in self.kept.values()
                if (whole or kept.guard != guard or str(kept.place) in ended) and not kept.lives
            ]
        except OSError as error:
            self.blind = self.blind or now()
            raise BlindError(f"cannot tell what runs: {error}") from None
        self.blind = 0.0 if whole else self.blind
        return over

    @property
    def has_output(self) -> bool:
        """Return whether running tasks have new output, or have come further, to show to other computers."""
        return self._tails.due(self.kept.values()) or self.progress.due(self.kept.values())

    @property
    def unwatched(self) -> bool:
        """Return whether the current guard does not watch some tasks."""
        return any(kept.guard != self.guard.pid for kept in self.kept.values())

    def _compare(self, runs: Sequence[Run]) -> dict[PlacementKey, Run]:
        """Mark each local task as listed or not; returns the listed runs by key.

        A copy that continues as its task has another group by now, and the placement, files and process it began with.
        """
        groups = {(key.placement, key.task): key.group for key in self.kept}
        self._submitted = self._read_submitted({run.job for run in runs})
        at = self._submitted
        listed = {
            PlacementKey(run.job, groups.get((run.placement, task), run.group), task, run.placement, at[run.job]): run
            for run in runs
            for task in ranges.indices(run.tasks)
        }
        for key, kept in self.kept.items():
            kept.unlisted, kept.leaving = key not in listed, key in listed and listed[key].leaving
        return listed

    def _read_submitted(self, jobs: set[str]) -> dict[str, int]:
        """Return when jobs were submitted, 0 for one that is not stored; those that are known are not read again."""
        unknown = sorted(jobs - self._submitted.keys())
        stored = self.cell.jobs.by_id(unknown) if unknown else {}
        read = {job: stored[job].submitted_ms if job in stored else 0 for job in unknown}
        return {job: at for job, at in (self._submitted | read).items() if job in jobs}

    def _reconcile(self) -> Heartbeat:
        """Start and stop tasks to match the listed runs; does not restart tasks with an end that was just reported."""
        heartbeat = self.lease.renew(self.cell)
        if self.lease.failed is not None:
            self.fitness.failed(self.lease.failed)
        if heartbeat.unsettled:  # the store lost versions: jobs may be others of the same ids
            self._submitted.clear()
        listed = self._compare(heartbeat.runs)
        give_notice(self.cell, (kept for kept in self.kept.values() if kept.leaving))
        for kept in self.kept.values():
            if kept.unlisted or kept.leaving:
                kept.stop()
        wanted = {key: run for key, run in listed.items() if key not in self.kept}
        for key in self._ended_before(wanted):
            del wanted[key]
        self._report()
        if heartbeat.unsettled and not any(kept.unlisted for kept in self.kept.values()):
            self.cell.executors.confirm_runs(self.executor)
        self._end([key for key, run in wanted.items() if run.leaving], EndKind.LEFT)
        self._begin({key: run for key, run in wanted.items() if not run.leaving})
        return heartbeat

    def _ended_before(self, wanted: Mapping[PlacementKey, Run]) -> list[PlacementKey]:
        """Take up listed tasks that ended here: the store lost the reports of their ends, so they are repeated (16)."""
        ended = [key for key in wanted if self._ended.has(key)]
        for key in ended:
            self.kept[key] = Kept(key, self.places.task(key), leaving=wanted[key].leaving)
            self._ended.drop(key)
        return ended

    def _end(self, keys: Sequence[PlacementKey], kind: EndKind, reason: str = "") -> None:
        """Report the end of runs that have no process here: they never started, or have ended."""
        if keys and self._index is not None:
            ends = [
                TaskEnd(self._index, key.placement, kind, str(key.task), reason, key.job, key.submitted_ms)
                for key in keys
            ]
            self.cell.executors.end(ends, self.ms(), self.executor)

    def _begin(self, wanted: Mapping[PlacementKey, Run]) -> None:
        """Start tasks, limited per iteration so that the lease is renewed in time; the next iteration continues.

        None starts while tasks that the cell does not list still hold room here.
        """
        if any(kept.unlisted and kept.lives for kept in self.kept.values()):
            self.waiting = True
            return
        runs = dict(islice({run.placement: run for run in wanted.values()}.items(), MOST_ASKED))
        answers = (
            self.cell.executors.may_start([(run.machine, placement) for placement, run in runs.items()]) if runs else []
        )
        answer = dict(zip(runs, answers, strict=True))
        ready = [key for key in wanted if answer.get(key.placement) == "go"]
        self.behind, self.waiting = len(ready) > MOST_STARTS, "wait" in answers
        jobs: dict[str, Job | None] = {}
        for key in ready[:MOST_STARTS]:
            if key.job not in jobs:
                jobs[key.job] = self.cell.jobs.get(key.job)
            job = jobs[key.job]
            if job is not None and job.submitted_ms == key.submitted_ms:
                self._start(key, job)

    def _start(self, key: PlacementKey, job: Job) -> None:
        place = self.places.task(key)
        size, incarnation = self.cell.dimensions, self.lease.membership.incarnation if self.lease.membership else 0
        enter = partial(may_enter, user=self.user)
        lease, own = self.places.lease, job.kind in OWN_KINDS
        site = Site(self.name, incarnation, lease, size, self.surroundings, enter, self.user, self.runners)
        try:
            self.fitness.ask(str(group_spec(job, key.group).get("runner") or ""))
        except OSError as error:
            self.fitness.failed(error)
            self._end([key], EndKind.EVICTED, "unfit")
            return
        try:
            what = order(job, key, place, site, self._own() if own else {})
        except BadInput as error:
            again = restarts(job.kind, group_spec(job, key.group).get("restart"), once=job.groups[key.group].once)
            kind = EndKind.RETRIED if again.elsewhere else EndKind.FAILED
            self._end([key], kind, str(error)[:LONGEST_REASON])
            return
        if not what["command"]:
            self._end([key], EndKind.FAILED, "no command and no duration: nothing to run")
            return
        try:
            self.cgroups.make(str(key), what)
            self.kept[key] = Kept.start(key, place, what, self.guard, self.cell.url if own else "")
        except UnansweredError:  # the next iteration finds the task, or starts it
            raise
        except OSError as error:
            self.fitness.failed(error)
            shutil.rmtree(place, ignore_errors=True)
            self._end([key], EndKind.EVICTED, "unfit")

    def _own(self) -> dict[str, str]:
        """Return the variables by which an Omega command finds itself and the cell; a socket passes the store's URL."""
        path = os.pathsep.join([str(Path(sys.executable).parent), self.surroundings.get("PATH", os.defpath)])
        return {"PATH": path, "OMEGA_CELL": self.cell.name}

    # Ended tasks

    def _report(self) -> None:
        """Report ended tasks right after the store listed the runs; a task is kept until the store has its end."""
        over = self._over()
        if not over or self._index is None:
            return
        endings = defaultdict[int, list[TaskEnd]](list)
        at = self._read_submitted({kept.key.job for kept in over})
        # Nothing of a job that the store lost is said of the job that has its id now.
        own = [kept for kept in over if at[kept.key.job] in (0, kept.key.submitted_ms)]
        sweep(own)
        for kept in own:
            how, reason = kept.ending()
            if kept.result()["how"] == "unfit":
                self.fitness.failed(OSError(kept.result()["reason"]))
            # A task that ended did so before its deadline, so its end counts although its placement was given up (27).
            if not kept.unlisted or how in (EndKind.FINISHED, EndKind.FAILED):
                ago = int(kept.ended_ago) if kept.ended_ago >= LATE_SECONDS else 0
                key = kept.key
                ending = TaskEnd(self._index, key.placement, how, str(key.task), reason, key.job, key.submitted_ms)
                endings[ago].append(ending)
        self.cell.tasks.keep_tails(self._tails.last(own) | self._measured(own))
        for ago, ended in sorted(endings.items(), reverse=True):
            self.cell.executors.end(ended, self.ms() - 1000 * ago, self.executor)
        for kept in over:
            self._ended.add(kept.key)
            self.cgroups.remove(str(kept.key))
            self.guard.ended.discard(str(kept.place))
            del self.kept[kept.key]
        self._ended.bound(self.cell)

    def _measured(self, over: Sequence[Kept]) -> dict[tuple[str, int, int, str], bytes]:
        """Return what this machine measured of the jobs of ended tasks, these included."""
        sums: dict[tuple[str, int, int, str], Consumption] = {}
        for kept in over:
            used = kept.measured
            if used is not None and self._index is not None:
                field = (kept.key.job, kept.key.group, self._index, STREAM)
                if field not in sums:
                    sums[field] = unpack_consumption(self.cell.tasks.tail(*field) or b"")
                sums[field] = sums[field].plus(used)
        return {field: used.pack() for field, used in sums.items()}
