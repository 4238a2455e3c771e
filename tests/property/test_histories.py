"""Random histories that are crowded with events leave the same on the twin and on a server (invariant 6)."""

import os
from collections.abc import Callable
from random import Random
from uuid import uuid4

import pytest

from omega.cellstate.server import connect
from tests.property.history import CopiedHistory, History
from tests.property.worlds import Worlds
from tests.tiers import first


def live_through(store_url: str, seed: int, calls: int, lives: type[History] = History) -> History:
    """The number of resources, 1 to 4, follows from the seed."""
    client = connect(store_url, timeout=None)  # however slow the server is
    worlds = Worlds(client, f"history-{uuid4().hex[:8]}", 1 + (seed + 2) % 4)
    try:
        history = lives(worlds, Random(f"{seed}/history"))
        history.run(calls)
    finally:
        worlds.store.delete()
        client.close()
    return history


@pytest.mark.parametrize(("seed", "calls"), first(2, [(2, 300), (0, 200), (1, 200), (3, 200), (4, 200), (5, 200)]))
def test_twin_and_server_agree(store_url: str, seed: int, calls: int) -> None:
    """The third one is long enough for the change list to be trimmed."""
    live_through(store_url, seed, calls)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(int(os.environ.get("EXAMPLES", "2500")) // 5))
def test_twin_and_server_agree_in_long_histories(
    store_url: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    before, first = Worlds.operations, int(os.environ.get("SEED", "0"))
    live_through(store_url, 100 + 1_000 * first + seed, 400)
    done = Worlds.operations - before
    record_property("operations", done)
    assert done >= 400


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_twin_and_server_agree_on_copies(store_url: str, seed: int) -> None:
    """Pools change while copies run in them: what the pools hold is then summed anew, copies included."""
    history = live_through(store_url, seed, 200, CopiedHistory)
    assert isinstance(history, CopiedHistory)
    assert history.copied
    assert history.changed or seed > 1, "few of the longer list change pools just then"


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(int(os.environ.get("EXAMPLES", "2500")) // 25))
def test_twin_and_server_agree_on_copies_in_long_histories(store_url: str, seed: int) -> None:
    live_through(store_url, 100 + 1_000 * int(os.environ.get("SEED", "0")) + seed, 400, CopiedHistory)
