"""Random faults under load. A failure names its seed; set OMEGA_CHAOS_SEED to it to repeat the same acts."""

import os
import sys
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from tests.chaos.disorder import MACHINES, MEMBERS, Disorder
from tests.integration.stage import embedded_store, made_cell, started_processes

pytestmark = pytest.mark.server
SHORT_SECONDS, LONG_SECONDS = 4.0, 60.0
SHORT_SEED = "2013"


def run(seed: str, seconds: float, logs: Path) -> None:
    """Disorder for so long; what was done is shown when something is wrong afterwards."""
    sys.stdout.write(f"OMEGA_CHAOS_SEED={seed}\n")
    with (
        embedded_store() as store,
        made_cell(store.url, "chaos", MACHINES, keep_jobs=200_000) as cell,
        started_processes(cell, store.url, logs, *MEMBERS) as group,
    ):
        disorder = Disorder(store, cell, group, Random(f"{seed}/chaos"))
        try:
            disorder.run(seconds)
        finally:
            sys.stdout.write("\n".join([*disorder.done, f"{len(disorder.jobs)} jobs", ""]))
            for log in sorted(logs.glob("*.log")):
                sys.stdout.write(f"{log.name}: {log.read_text()[-2000:]}\n")
        assert any(act.startswith("kill -9") for act in disorder.done)


def test_nothing_is_lost_in_a_short_disorder(tmp_path: Path) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", SHORT_SEED), SHORT_SECONDS, tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize("turn", range(3))
def test_nothing_is_lost_in_a_long_disorder(turn: int, tmp_path: Path) -> None:
    run(os.environ.get("OMEGA_CHAOS_SEED", f"{uuid4().hex[:8]}-{turn}"), LONG_SECONDS, tmp_path)
