"""Readers of a cell that went back: what they keep by versions is of other changes now; none of them stands still."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Position
from omega.queries.event_list import Filter, JobTail, Missing, Tail
from omega.queries.events import Event
from omega.queries.mirror import TopMirror
from omega.queries.pool_watch import PoolWatch
from omega.schedulers.process.epochs import EpochReader, Publisher
from tests.integration.stage import made_cell, serve, simple_job, submit
from tests.taken_back import copied

pytestmark = pytest.mark.server


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    with made_cell(store_url, f"back-{time.monotonic_ns()}", 2) as made:
        serve(made)
        submit(made, [simple_job("before")])
        yield made


@pytest.fixture
def reader(cell: RedisCell, store_url: str) -> Iterator[RedisCell]:
    with closing(RedisCell.connect(store_url, cell.name)) as own:
        own.look_back()
        yield own


def of(entries: list[Event | Missing]) -> list[str]:
    """The jobs of submissions, and the lost versions."""
    return [
        f"{each.why} {each.first}-{each.last}" if isinstance(each, Missing) else f"{each.kind} {each.job or ''}".strip()
        for each in entries
    ]


@pytest.mark.parametrize("more", [0, 1, 5], ids=["fewer", "as many", "more"])
def test_following_events_goes_on_below_and_beyond_the_lost_ones(cell: RedisCell, reader: RedisCell, more: int) -> None:
    """However many versions follow: the number that was read last does not decide."""
    tail = Tail(reader, None, Filter(frozenset({"submit"})), newest=True)
    assert tail.read(reader) == ([], True)
    at, back = tail.at, copied(cell)
    submit(cell, [simple_job("lost")])
    assert of(tail.read(reader)[0]) == ["submit lost"]
    back()
    submit(cell, [simple_job("first")])
    for number in range(more):
        submit(cell, [simple_job(f"more-{number}")])
    wanted = [f"lost {at + 1}-{at + 1}", "submit first", *(f"submit more-{number}" for number in range(more))]
    assert of(tail.read(reader)[0]) == wanted
    assert tail.read(reader) == ([], True)
    submit(cell, [simple_job("last")])
    assert of(tail.read(reader)[0]) == ["submit last"]


def test_following_a_job_goes_on(cell: RedisCell, reader: RedisCell) -> None:
    tail = JobTail(reader, "before", 0, 1_000)
    assert [event.kind for event in tail.read()] == ["submit"]
    back = copied(cell)
    cell.jobs.hold("before", 0, "ada")
    cell.jobs.release("before", 0, "ada")
    reader.look_back()
    assert [event.kind for event in tail.read()] == ["hold", "release"]
    back()
    cell.jobs.hold("before", 0, "bob")
    tail.read()  # the first command on a new connection is not compared yet
    cell.jobs.release("before", 0, "bob")
    reader.look_back()
    cell.jobs.hold("before", 0, "bob")
    assert [event.kind for event in tail.read()][-2:] == ["release", "hold"]


@pytest.mark.parametrize("more", [0, 3])
def test_top_shows_what_the_cell_has(cell: RedisCell, reader: RedisCell, more: int) -> None:
    mirror = TopMirror(reader, "store")
    mirror.look(1_000)
    back = copied(cell)
    submit(cell, [simple_job("lost")])
    assert "submitted lost" in " ".join(each.text for each in mirror.look(2_000).changes)
    back()
    submit(cell, [simple_job(name) for name in ("instead",)])
    for number in range(more):
        submit(cell, [simple_job(f"more-{number}")])
    mirror.look(3_000)
    said = " ".join(each.text for each in mirror.look(4_000).changes)
    assert "submitted lost" not in said
    assert "submitted instead" in said
    assert said.count("submitted before") == 1


def test_pools_and_epochs_of_the_same_number_are_read_again(cell: RedisCell, store_url: str) -> None:
    cell.pools.set(Pools((Pool("a"),)), 0, 0, "ada")
    back = copied(cell)
    source, snapshot = EpochReader(store_url, cell.name, "batch/0"), ArraySnapshot(2)
    source.read(snapshot)

    def published(name: str) -> Pools:
        stored = cell.pools.set(Pools((Pool("a"), Pool(name))), None, 0, "ada")
        Publisher(cell).publish("batch/0", 5_000)
        return stored

    lost = published("lost")
    source.read(snapshot)
    assert (snapshot.pools, snapshot.epoch and set(snapshot.epoch.pools) >= {"lost"}) == (lost, True)
    back()
    left = published("left")
    assert (left.version, set(left.by_name)) == (lost.version, {"a", "left"})
    source.read(snapshot)
    source.read(snapshot)
    assert snapshot.pools == left
    assert snapshot.epoch is not None
    assert "left" in snapshot.epoch.pools
    source.close()


def test_a_pool_watch_has_evictions_of_both_histories_once(cell: RedisCell, reader: RedisCell) -> None:
    watch = PoolWatch(reader, 0)
    back = copied(cell)
    for name in ("x", "y", "z"):
        submit(cell, [simple_job(name)])
    reader.look_back()
    watch = PoolWatch(reader, 0)
    back()
    reader.look_back()
    assert watch.history().evictions == []
    assert reader.sightings.agreed < watch._after


def test_a_snapshot_and_its_scheduler_find_the_cut(cell: RedisCell, reader: RedisCell) -> None:
    first = reader.schedulers.sync(Position())
    back = copied(cell)
    submit(cell, [simple_job("lost")])
    second = reader.schedulers.sync(first.position)
    assert not second.full
    back()
    submit(cell, [simple_job("instead")])
    third = reader.schedulers.sync(second.position)
    assert third.full
    assert third.position.version > second.position.version, "the report has a version, too"
    (cut,) = cell.cuts().kept
    assert (cut.agreed, cut.seen) == (first.position.version, second.position.version)
