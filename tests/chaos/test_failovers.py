"""Failovers under load: the primary is killed (kill -9) again and again, and what was acknowledged is counted.

``make chaos ARGS='tests/chaos/test_failovers.py -s'`` prints a table per setting; FAILOVERS is their number in each.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

import pytest

from omega.cellstate.durability import Durability
from tests.chaos.failovers import Failovers, table
from tests.chaos.load import loaded
from tests.server_groups import sentinels, until

pytestmark = [pytest.mark.server, pytest.mark.chaos]
RESUMED_SECONDS = 1.0
"""Median time from a promotion to the next acknowledged commit, at most."""

SHORT_SECONDS = 3.0
"""How long calls are watched that no replica confirms."""


def failovers(default: int) -> int:
    """How many failovers: FAILOVERS in the environment."""
    return int(os.environ.get("FAILOVERS", str(default)))


def report(made: Failovers, name: str, place: Path) -> None:
    """Print the table and write it into a file."""
    load = made.load
    text = f"{name}: {len(made.rows)} failovers\n{table(made.rows)}"
    text += f"{len(load.client.jobs)} jobs, {len(load.commits.placed)} commits; {load.repeated()} tasks ended twice\n"
    text += f"{made.unplanned} failovers that the test did not make\n"
    text += f"errors of witnesses: {Counter(load.client.errors)} {Counter(load.commits.errors)}\n"
    (place / f"{name}.md").write_text(text)
    sys.stdout.write(f"\n{text}")


@contextmanager
def at_work(replicas: int, place: Path, name: str, durability: Durability | None) -> Iterator[Failovers]:
    """A load on a store with so many replicas; in the end its book is compared, and its table written."""
    with sentinels(replicas=replicas) as group, loaded(group.url, place, name, durability=durability) as load:
        made = Failovers(group, load)
        try:
            yield made
            account = load.end()
        finally:
            report(made, name, place)
        assert account.clean, account


def test_without_confirmation_the_loss_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third time both replicas were cut off before: nobody has the last second.

    Every fifth time the killed server returns as an empty primary, before the Sentinels make it a replica. Every fourth
    time it is halted first: its connections stay open, as those of a machine that lost its power.
    """
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    rng = Random("failovers")
    with at_work(2, tmp_path, "default", None) as made:
        for number in range(failovers(20)):
            made.fail_over(number % 3, rng, as_configured=number % 5 == 4, silent=number % 4 == 1)
        assert all(row.lost and row.versions for row in made.rows if row.lagging == 2)
        assert median(row.resumed - row.promoted for row in made.rows) <= RESUMED_SECONDS


def test_one_confirming_replica_loses_nothing_when_it_is_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two replicas was cut off before; every fourth time the Sentinels are to prefer it, and then they lose."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    rng = Random("replicas=1")
    with at_work(2, tmp_path, "replicas=1", Durability(1, 1_000)) as made:
        for number in range(failovers(12)):
            made.fail_over(1, rng, preferred=number % 4 == 3)
        larger = [row for row in made.rows if row.larger]
        assert larger
        assert all(row.lost == 0 and row.versions == 0 for row in larger)
        assert median(row.resumed - row.promoted for row in larger) <= RESUMED_SECONDS


def test_two_confirming_replicas_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is promoted, also one that was cut off before: then nothing was acknowledged meanwhile."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    rng = Random("replicas=2")
    with at_work(2, tmp_path, "replicas=2", Durability(2, 1_000)) as made:
        for number in range(failovers(8)):
            made.fail_over(number % 2, rng, preferred=True)
        assert all(row.lost == 0 and row.versions == 0 for row in made.rows)
        assert not all(row.larger for row in made.rows), "a replica that was cut off was to be promoted"


def test_with_one_replica_calls_stay_short_until_the_killed_primary_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with at_work(1, tmp_path, "one replica", Durability(1, 500)) as made:
        load = made.load
        placed, sent, errors = load.commits.placed, load.client.acknowledged, load.client.errors

        def short() -> None:
            until(lambda: any("0 of 1 replicas" in each for each in errors), 30.0)
            before = len(placed), len(sent)  # not earlier: a call that was in flight may be acknowledged after the kill
            time.sleep(SHORT_SECONDS)
            assert (len(placed), len(sent)) == before

        for _ in range(2):
            errors.clear()
            row = made.fail_over(0, Random(0), meanwhile=short)
            assert row.lost == row.versions == 0
            assert row.resumed - row.promoted > SHORT_SECONDS
