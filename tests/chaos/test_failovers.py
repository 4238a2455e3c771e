"""Failovers under load: the primary is killed (kill -9) again and again, and what was acknowledged is counted.

``make chaos ARGS='tests/chaos/test_failovers.py -s'`` prints a table per setting; FAILOVERS is their number in each.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.chaos.book import Account
from tests.chaos.failovers import Load, loaded, table
from tests.server_groups import sentinels

pytestmark = [pytest.mark.server, pytest.mark.chaos]
RESUMED_SECONDS = 1.0
"""Median time from a promotion to the next acknowledged commit, at most."""


def failovers(default: int) -> int:
    """How many failovers: FAILOVERS in the environment."""
    return int(os.environ.get("FAILOVERS", str(default)))


def ended(load: Load, name: str, place: Path) -> Account:
    """End the load; print the table and write it into a file."""
    try:
        return load.end()
    finally:
        report(load, name, place)


def report(load: Load, name: str, place: Path) -> None:
    text = f"{name}: {len(load.rows)} failovers\n{table(load.rows)}"
    text += f"{len(load.client.jobs)} jobs, {len(load.commits.placed)} commits; {load.repeated()} tasks ended twice\n"
    text += f"{load.unplanned} failovers that the test did not make\n"
    text += f"errors of witnesses: {Counter(load.client.errors)} {Counter(load.commits.errors)}\n"
    (place / f"{name}.md").write_text(text)
    sys.stdout.write(f"\n{text}")


def test_default_durability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is counted, and every invariant holds."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    rng = Random("failovers")
    with sentinels(replicas=2) as group, loaded(group, tmp_path, "default") as load:
        for number in range(failovers(20)):
            load.fail_over(number % 3, rng)
        account = ended(load, "default", tmp_path)
        assert account.clean, account
        assert median(row.resumed - row.promoted for row in load.rows) <= RESUMED_SECONDS
