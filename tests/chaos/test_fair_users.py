"""The weighted DRF of docs/examples among real processes: weights 2:1 give 2:1 in a full cell."""

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from omega.cellstate import ranges
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import DEFAULT_EXECUTOR, check, made_cell, submit, until

pytestmark = [pytest.mark.server, pytest.mark.chaos]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MACHINES, SLOTS = 20, 3
WARM_SECONDS, SECONDS = 10.0, 40.0


def by_user(cell: RedisCell, machines: range) -> Counter[str]:
    """Running tasks of each user."""
    found = Counter[str]()
    for run in cell.machines.runs(machines):
        found[run.job.partition("-")[0]] += 0 if run.leaving else ranges.count(run.tasks)
    return found


@pytest.mark.parametrize(("schedulers", "within"), [(1, 0.05), (4, 0.10)])
def test_two_to_one(
    schedulers: int, within: float, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    rng, machines = Random(1), range(MACHINES)
    with made_cell(store_url, f"fair-{schedulers}") as cell:
        cell.executors.register(DEFAULT_EXECUTOR, "n", 60_000, 0)
        cell.machines.join(
            DEFAULT_EXECUTOR, [MachineSpec(f"m{i}", (1_000 * SLOTS, 1_024 * SLOTS)) for i in machines], 0
        )
        jobs = [
            JobSpec(f"{user}-{i}", f"{user}-{i}", "drf", (TaskGroup((1_000, 1_024), 2, rng.randint(1_000, 3_000)),),
                    spec={"user": user})
            for i in range(2_500) for user in ("ada", "bob")
        ]  # fmt: skip
        submit(cell, jobs)
        cell.executors.deregister(
            cell.executors.register(DEFAULT_EXECUTOR, "n", 60_000, 0), 0, DEFAULT_EXECUTOR, reaped=False
        )
        running, looks = Counter[str](), 0
        choices = {"drf": {"OMEGA_SCHEDULER": "drf:drf"}}
        with ProcessSupervisor(store_url, cell.name, tmp_path, choices=choices) as group:
            for member in (f"simulated/{DEFAULT_EXECUTOR}", *(f"drf/{i}" for i in range(schedulers))):
                group.start(member)
            group.wait_ready(cell)
            until(lambda: by_user(cell, machines).total() >= 0.9 * MACHINES * SLOTS, "the cell is full")
            time.sleep(WARM_SECONDS)
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                now = by_user(cell, machines)
                running += now
                looks += 1
                time.sleep(0.1)
            members = {name: figures["tasks"] for name, figures in cell.schedulers.figures().items()}
        assert running["ada"] / running["bob"] == pytest.approx(2.0, rel=within), (members, running)
        assert running.total() > 0.9 * MACHINES * SLOTS * looks, "the cell stays full"
        assert all(members.values()), "all of them place"
        check(cell)
