"""The server under measurement: started and removed, and cells put back as they were."""

import pytest

from benchmarks.residents import Filler, fill, join, queue_jobs
from benchmarks.store import Saved, Store, measured_store
from omega.cellstate.errors import Unreachable
from omega.cellstate.model import TaskGroup
from omega.cellstate.transaction import Position

pytestmark = pytest.mark.server


def dump(store: Store) -> dict[bytes, bytes | None]:
    keys = sorted(store.client.scan_iter(match=store.prefix + "*"))
    return {key: store.client.dump(key) for key in keys}


def test_a_server_of_its_own_is_started_and_leaves_nothing() -> None:
    with measured_store(None) as store:
        store.make_cell()
        directory = store.directory
        assert directory.stat().st_mode & 0o077 == 0
        assert store.describe()["append_only"] is False
    assert not directory.exists()


def test_a_named_store_keeps_everything_else(store_url: str) -> None:
    with measured_store(store_url) as store:
        store.client.set("other", "kept")
        store.make_cell()
        saved = Saved.save(store, "begin")
        assert saved.names
    assert store.client.get("other") == b"kept"
    assert not [key for key in store.client.scan_iter(match="*") if store.cell.encode() in key]
    store.client.delete("other")


def test_a_store_that_is_not_there_is_named() -> None:
    with pytest.raises(Unreachable, match="no answer"), measured_store("redis://localhost:1"):
        pass


def test_a_cell_is_put_back_byte_for_byte(store: Store) -> None:
    cell = store.make_cell()
    join(cell, 20, lease_ms=60_000)
    saved = Saved.save(store, "begin")
    before = dump(store)
    assert fill(cell, 20, 0.6, "seed") > 20
    queue_jobs(cell, "batch", 5, (TaskGroup((1000, 1024), 3, 10),))
    assert dump(store) != before
    saved.restore()
    assert dump(store) == before


def test_residents_fill_the_cell_as_far_as_asked(store: Store) -> None:
    cell = store.make_cell()
    join(cell, 200)
    fill(cell, 200, 0.9, "seed")
    rows = cell.schedulers.sync(Position()).rows
    used, room = rows[:, 6] / rows[:, 4], rows[:, 4:6] - rows[:, 6:8]
    assert 0.85 < used.mean() < 0.95
    assert used.max() - used.min() > 0.1
    assert (room >= 0).all()


def test_a_filler_places_where_it_is_told(store: Store) -> None:
    cell = store.make_cell()
    join(cell, 4)
    filler = Filler(cell, "test")
    filler.place((1000, 1024), [[(0, 2), (3, 1)], [(1, 4)]])
    filler.leave()
    assert filler.tasks == 7
    assert cell.schedulers.sync(Position()).rows[:, 6].tolist() == [2000, 4000, 0, 1000]
