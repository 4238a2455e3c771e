"""Live: no pool with work stays without a share in a quiet cell, as `omega pool list --json` states it.

A job that is submitted between the reading of the demands and the publication of an epoch is in neither.
"""

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import click.testing
import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cli.main import omega as program
from tests.integration.stage import check, made_cell, serve, started_processes, until

pytestmark = pytest.mark.server
NAMES = ("a", "b", "c")
SPARE = tuple(f"s{number}" for number in range(40))
PAUSES = (0.0, 0.01, 0.1, 0.4, 1.0)
"""Between two changes: an epoch is published once a second."""


def pools_of(cell: RedisCell) -> list[dict[str, Any]]:
    """What the command prints."""
    words = ["--store", cell.url, "--cell", cell.name, "--json", "pool", "list"]
    said = click.testing.CliRunner().invoke(program, words, env={"OMEGA_STORE": None, "OMEGA_CELL": None})
    assert said.exit_code == 0, said.output
    rows: list[dict[str, Any]] = json.loads(said.stdout)["pools"]
    return [row for row in rows if row["name"] in (*NAMES, *SPARE)]


def without_share(cell: RedisCell) -> list[str]:
    """The pools that want something and have no share of anything."""
    return [
        row["name"] for row in pools_of(cell) if any(row["demand"].values()) and not any(row["fair_share"].values())
    ]


class Crowd:
    """Submits jobs to pools, stops some, and changes weights."""

    def __init__(self, cell: RedisCell, rng: Random) -> None:
        self.cell, self.rng, self.made, self.count = cell, rng, list[str](), 0

    def weigh(self) -> None:
        pools, before = (
            [Pool(name, weight=self.rng.choice((1.0, 2.0, 3.0))) for name in (*NAMES, *SPARE)],
            self.cell.pools.get(),
        )
        self.cell.pools.set(Pools(tuple(pools), before.trees), before.version, 0, "ada")

    def submit(self, pool: str = "") -> None:
        self.count += 1
        name, spec = f"j{self.count}", {"pool": pool or self.rng.choice(NAMES), "user": "ada"}
        self.cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1_000, 64), 4, 60_000),), spec=spec)], 0, "ada")
        self.made.append(name)

    def stop(self) -> None:
        if self.made:
            self.cell.jobs.stop(self.made.pop(self.rng.randrange(len(self.made))), 0, "ada")

    def surround(self) -> None:
        """Submit to one pool after another until an epoch is published: the last jobs come while it is made."""
        for name in self.made:
            self.cell.jobs.stop(name, 0, "ada")
        self.made.clear()
        self.submit("a")
        before = self.cell.pools.epoch_mark()
        until(
            lambda: (mark := self.cell.pools.epoch_mark()).now_ms - mark.at_ms > 930 or mark.number > before.number,
            "due",
        )
        for pool in SPARE:
            if self.cell.pools.epoch_mark().number > before.number:
                break
            self.submit(pool)

    def change(self) -> None:
        self.rng.choice((self.submit, self.submit, self.submit, self.stop, self.weigh))()


def longest_without(cell: RedisCell, seconds: float) -> float:
    """How long a pool was without a share at most since the cell last changed; looked at for so long."""
    version, quiet, longest, end = -1, 0.0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        read, idle, now = cell.counters()["version"], without_share(cell), time.monotonic()
        if read != version or cell.counters()["version"] != read:
            version, quiet = cell.counters()["version"], now
        elif idle:
            longest = max(longest, now - quiet)
            end = max(end, now + 0.5)
            if longest > 60.0:
                break
        time.sleep(0.05)
    return longest


@pytest.mark.parametrize(
    ("rounds", "bound"), [(1, 20.0), pytest.param(60, 2.0, marks=pytest.mark.chaos)], ids=["few", "many"]
)
def test_no_pool_with_work_stays_without_a_share(store_url: str, tmp_path: Path, rounds: int, bound: float) -> None:
    """The few have a bound for a loaded computer: a pool that is forgotten stays so for ever."""
    rng = Random(f"pools/{rounds}")
    with (
        made_cell(store_url, f"shares-{rounds}", 2) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "batch/1"),
    ):
        serve(cell)
        crowd, found = Crowd(cell, rng), list[float]()
        crowd.weigh()
        for _ in range(rounds):
            for _ in range(rng.randint(1, 6)):
                crowd.change()
                time.sleep(rng.choice(PAUSES))
            crowd.surround()
            found.append(longest_without(cell, 1.0 if rounds < 10 else 3.0))
        assert max(found) <= bound, f"seconds without a share after a change: {sorted(found)[-5:]}"
        assert any(row["fair_share"]["cpu"] for row in pools_of(cell))
        check(cell)
