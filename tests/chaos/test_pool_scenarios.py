"""The scenario files of pools on live cells: a real store, simulated machines, four scheduler processes.

Pools come by `omega pool import`, jobs by `omega job submit`; the jobs of a pool are spread over all schedulers. On a
busy computer an expectation may come true later than in the file, and everything after it is postponed by as much. That
something does not happen is checked once, at its time.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omega.cellstate import ranges
from omega.cellstate.errors import StoreError
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega
from tests.integration.stage import DEFAULT_EXECUTOR, check, join, made_cell, seen, started_processes, until
from tests.simulation.pool_scenario import FILES, MILLI, Scenario, Seen, job_file

pytestmark = [pytest.mark.server, pytest.mark.chaos]
SCHEDULERS = tuple(f"batch/{number}" for number in range(4))
PATIENCE_SECONDS = 20.0
"""How much later than in the file an expectation may come true."""
LOOK_SECONDS = 0.2


class Stage:
    """A live cell that plays a scenario."""

    def __init__(self, scenario: Scenario, cell: RedisCell, folder: Path) -> None:
        """Nothing is submitted yet."""
        self.scenario, self.cell, self.folder = scenario, cell, folder
        self.omega = Omega(cell.url, cell.name)
        self.began, self.seen = time.monotonic(), dict[float, Seen]()

    def play(self) -> None:
        """Do everything in the order of its times."""
        scenario = self.scenario
        self.import_pools(0.0)
        if self.cell.pools.epoch_mark().configured:  # schedulers know the pools with the first epoch
            until(lambda: self.cell.pools.epoch_mark().number > 0, "an epoch")
        times: list[tuple[float, int, str]] = [(job.get("at", 0.0), i, "job") for i, job in enumerate(scenario.jobs)]
        times += [(each["at"], i, "change") for i, each in enumerate(scenario.changes)]
        times += [(each["at"], i, "expect") for i, each in enumerate(scenario.expect)]
        self.began = time.monotonic()
        while times:
            at = min(times)[0]
            time.sleep(max(0.0, self.began + at - time.monotonic()))
            due = [(i, what) for when, i, what in sorted(times) if when == at]
            times = [each for each in times if each[0] > at]
            self.submit([i for i, what in due if what == "job"])
            for i, what in due:
                if what == "change":
                    self.change(i)
                elif what == "expect":
                    self.expect(i)

    def import_pools(self, at: float) -> None:
        """Give the cell the pools of a time."""
        path = self.folder / "pools.json"
        path.write_text(json.dumps(self.scenario.pools(at)))
        self.omega.run("pool", "import", str(path))

    def submit(self, jobs: list[int]) -> None:
        """Submit jobs that come at one time, by one command."""
        if jobs:
            path = self.folder / "jobs.json"
            path.write_text(json.dumps([job_file(self.scenario.jobs[i]) for i in jobs]))
            self.omega.run("job", "submit", str(path))

    def change(self, number: int) -> None:
        """Change pools, or sizes of jobs."""
        change = self.scenario.changes[number]
        self.import_pools(change["at"])
        for job, count in change.get("resize", {}).items():
            self.omega.run("job", "resize", job, str(count))

    def expect(self, number: int) -> None:
        """Wait until an expectation holds; the clock of the scenario stands meanwhile."""
        expected, started = self.scenario.expect[number], time.monotonic()
        while True:
            try:
                now = self.look()
                self.scenario.check(expected, now, self.seen)
                break
            except (AssertionError, StoreError) as error:  # a busy computer may not answer in time
                if time.monotonic() > started + PATIENCE_SECONDS:
                    raise AssertionError(f"{error}\n{self.story()}") from error
            time.sleep(LOOK_SECONDS)
        for job, text in expected.get("why", {}).items():
            assert text in self.omega.text("job", "why", job)
        self.seen[expected["at"]] = now
        self.began += time.monotonic() - started

    def story(self) -> str:
        """What people would look at: pools, schedulers, why jobs wait, the last events."""
        jobs = [("job", "why", job["name"]) for job in self.scenario.jobs if self.cell.jobs.id_of(job["name"])]
        commands = [("pool", "list"), ("scheduler", "list"), *jobs, ("events",)]
        return "\n".join(self.omega.text(*words) for words in commands)

    def look(self) -> Seen:
        """The cell now."""
        running = {job.id: sum(group.placed for group in job.groups) for job in self.cell.jobs.all()}
        evicted = sum(ranges.count(fact.event[5]) for fact in seen(self.cell, "evicted"))
        epoch = self.cell.pools.epoch()
        known = {} if epoch is None else epoch.pools
        shares = {name: share.fair_share for name, share in known.items()}
        shares |= {} if epoch is None else dict(epoch.jobs)
        return Seen(running, evicted, shares, {name: share.volume for name, share in known.items()})


@contextmanager
def live(scenario: Scenario, url: str, folder: Path) -> Iterator[Stage]:
    """A live cell with the machines of a scenario."""
    with made_cell(url, f"scenario-{scenario.name}") as cell:
        join(
            cell,
            [
                MachineSpec(name, (round(of["cpu"] * MILLI), of.get("memory", 0)), of.get("attributes", {}))
                for name, of in scenario.fields["machines"].items()
            ],
        )
        members = *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}"
        with started_processes(cell, url, folder / "logs", *members) as group:
            yield Stage(scenario, cell, folder)
            assert group.dead() == {}
            check(cell)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, store_url: str, tmp_path: Path) -> None:
    scenario = Scenario(path)
    if scenario.refused is not None:
        with made_cell(store_url, "refused") as cell:
            (tmp_path / "pools.json").write_text(json.dumps(scenario.pools()))
            error = Omega(cell.url, cell.name).error("pool", "import", str(tmp_path / "pools.json"))
            assert scenario.refused in error
        return
    with live(scenario, store_url, tmp_path) as stage:
        stage.play()
