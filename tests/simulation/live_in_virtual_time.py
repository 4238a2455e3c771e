"""The live driver of the attempt loop on the in-memory cell of a simulation, in its virtual time.

Everything else of the simulation stays: arrivals, ends of tasks, epochs, evictions. Only the scheduler is driven by the
code that runs live, so that both drivers can be compared start by start.
"""

from typing import Any, cast

import numpy as np

from omega.cellstate.cell import Cell
from omega.cellstate.model import Job, JobState
from omega.cellstate.replies import CommitRequest, Reply, Waits
from omega.schedulers import loop
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.work import Work
from omega.simulation import Simulation
from omega.simulation.drive import SimulatedScheduler
from omega.simulation.engine import NEVER, SECOND, microseconds
from omega.simulation.records import TaskRecords

LEASE_MS = 10**9


class EndOfTime(Exception):
    """The simulation is over."""


class VirtualCell:
    """The in-memory cell as a live scheduler's: commits start simulated tasks, and waiting lets events happen."""

    def __init__(self, live: "LiveInVirtualTime") -> None:
        """Make a connection."""
        self._world, self._cell = live.world, live.simulation.store.cell
        self.schedulers, self.jobs = VirtualSchedulers(live), VirtualJobs(live)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cell, name)

    def store_ms(self) -> int:
        return self._world.engine.now // 1000


class VirtualSchedulers:
    def __init__(self, live: "LiveInVirtualTime") -> None:
        self._live, self._world = live, live.world
        self._schedulers: Any = live.simulation.store.cell.schedulers
        self._reply: Reply | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedulers, name)

    def sync(self, *asked: Any) -> Reply:
        reply: Reply = self._schedulers.sync(*asked)
        snapshot = self._live.driver.snapshot if self._live.driver is not None else None
        if snapshot is not None and self._world.epoch is not None:
            snapshot.pools, snapshot.epoch = self._world.pools, self._world.epoch
            snapshot.resources = self._world.resources
        return reply

    def begin(self, request: CommitRequest) -> None:
        live, outcomes = self._live, []
        for transaction in request.transactions:
            job = live.scheduler.working[transaction.job].job
            copy = self._world.copy()  # nobody decided on it
            outcomes.append(self._world.commit(0, live.name, job, transaction, copy))
        self._reply = self.sync(request.since, request.intake)
        self._reply.outcomes.extend(outcomes)

    def finish(self) -> Reply:
        assert self._reply is not None
        reply, self._reply = self._reply, None
        return reply

    def set_blocked(self, member: str, waits: Waits | None) -> None:
        watching, awaiting = self._world.watching, self._world.awaiting
        watching.pop(0, None)
        awaiting.pop(0, None)
        if waits is not None:
            watching[0] = self._live.wake
            awaiting[0] = waits.awaited, self._live.wake

    def wait_for_work(self, member: str, seconds: float) -> str:
        return "1" if self._live.pass_time(seconds, wakes=True) else ""


class VirtualJobs:
    def __init__(self, live: "LiveInVirtualTime") -> None:
        self._world, self._jobs = live.world, live.simulation.store.cell.jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def stop(self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, *, keep: bool = False) -> None:
        assert state is JobState.ABANDONED, "what a scheduler does"
        self._world.abandon(job_id, 0, by)


class LiveInVirtualTime:
    """A simulation whose only scheduler is driven live. In its place, the simulation delivers and tells to this."""

    number, idle = 0, True

    def __init__(self, simulation: Simulation) -> None:
        """Take a simulation that did not run."""
        self.simulation, self.world = simulation, simulation.world
        (simulated,) = (each for each in simulation.simulated_schedulers if each.name == "batch/0")
        self.scheduler, self.name, self.meter = simulated.scheduler, simulated.name, simulated.meter
        simulation._ahead = 1  # live, no job is there before it is submitted
        simulation._route = lambda _: cast("SimulatedScheduler", self)
        self.driver: LiveDriver | None = None
        self.woken = False
        cell = cast("Cell", VirtualCell(self))
        self._cell = cell

    def run(self) -> TaskRecords:
        """Run until the horizon; return all starts."""
        simulation, engine = self.simulation, self.world.engine
        simulation._begin()
        if simulation.pools.configured:
            simulation.clock.start()
        arrivals = simulation.workload.arrivals
        times = np.rint(np.array([each.at_seconds for each in arrivals]) * SECOND).astype(np.int64).tolist()
        engine.feed(times, [each.job for each in arrivals], simulation._arrive)
        driver = self.driver = LiveDriver(
            self._cell, self.scheduler, self.name, lambda: engine.seconds, self.pause, lease_ms=LEASE_MS,
            pipelined=False,
        )  # fmt: skip
        attempts = loop.attempts(self.scheduler)
        effect = next(attempts)
        try:
            while True:
                if isinstance(effect, loop.Receive):
                    self._fetch_jobs(driver)
                effect = attempts.send(driver.answer(effect))
        except EndOfTime:
            pass
        assert simulation.recorder is not None
        return simulation.recorder.records(simulation.workload.residents, arrivals[: simulation._arrived])

    @staticmethod
    def _fetch_jobs(driver: LiveDriver) -> None:
        """Bring the jobs that are there: live, one call says that a lane has more and the next one, ms later, reads."""
        if driver._owns is driver.ownership:
            driver._sync()
            for _ in range(8):
                if driver._intakes.short(driver.snapshot.lanes):
                    driver._sync()

    def pause(self, seconds: float) -> None:
        """Sleep. A wait of less than 50 ms, which live no token ends, ends here as a longer one does."""
        driver = self.driver
        assert driver is not None
        if self.pass_time(seconds, wakes=driver.waiting):
            driver._watch.told()

    def pass_time(self, seconds: float, *, wakes: bool = False) -> bool:
        """Let events happen, one instant after the other; return whether the scheduler was woken."""
        woken = self._pass(seconds, wakes=wakes)
        if self.driver is not None and self.driver.waiting:
            self._fetch_jobs(self.driver)
        return woken

    def _pass(self, seconds: float, *, wakes: bool) -> bool:
        engine, horizon = self.world.engine, self.world.horizon
        until = engine.now + microseconds(seconds)
        while not (wakes and self.woken):
            due = min(engine._queue[0][0] if engine._queue else NEVER, engine._due)
            if min(due, until) > horizon:
                engine.run(horizon)
                raise EndOfTime
            if due > until:
                engine.now, engine.seconds = until, until / SECOND
                return False
            engine.run(due)
        self.woken = False
        return True

    def wake(self) -> None:
        """Leave the token that ends the scheduler's wait, as the store does."""
        self.woken = True

    # As the scheduler of the simulation: jobs come from the cell

    def deliver(self, work: Work) -> None:
        """A job arrived."""
        self.wake()

    def tell(self, job: Job) -> None:
        """A job is pending again."""
        self.wake()
