"""A mirror of a cell that goes back, is replaced, has a gap in its log or damaged records, or a store that is away."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import anyio
import anyio.to_thread
import pytest

from omega.cellstate.errors import OmegaError, Refused, Unreachable
from omega.cellstate.model import JobSpec, JobState, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.client.client import Client
from omega.queries import jobs, machines
from omega.queries.mirror import CellMirror, Index, loading
from omega.queries.mirror.event_ring import EventRing
from omega.queries.mirror.mirrors import Mirrors
from tests.conftest import socket_directory
from tests.integration.stage import Server, join, made_cell, serve, simple_job, submit
from tests.taken_back import copied

pytestmark = pytest.mark.server


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    with made_cell(store_url, f"mirrored-{time.monotonic_ns()}", 2) as made:
        serve(made)
        submit(made, [simple_job("before")])
        yield made


@pytest.fixture
def mirror(cell: RedisCell, store_url: str) -> Iterator[CellMirror]:
    with closing(RedisCell.connect(store_url, cell.name)) as own:
        made = CellMirror(own, "store")
        made.read(1_000)
        yield made


def ids(mirror: CellMirror) -> list[str]:
    return [row["id"] for row in mirror.jobs()["jobs"]]


def same(cell: RedisCell, mirror: CellMirror, at_ms: int) -> None:
    """The mirror has the jobs and machines of the cell, after one reading."""
    mirror.read(at_ms)
    for taken, made in (
        (mirror.jobs(), jobs.list_jobs(cell, cell.jobs.page(), at_ms)),
        (mirror.machines(), machines.list_machines(cell, machines.page(cell))),
    ):
        assert json.loads(json.dumps(taken)) == json.loads(json.dumps(made))


@pytest.mark.parametrize("more", [0, 1, 3], ids=["fewer", "as many", "more"])
def test_versions_that_a_failover_took_back_are_gone(cell: RedisCell, mirror: CellMirror, more: int) -> None:
    agreed, back = mirror.index, copied(cell)
    cell.jobs.hold("before", 0, "ada")
    cell.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    submit(cell, [simple_job("lost")])
    mirror.read(2_000)
    lost = mirror.index
    assert (ids(mirror), mirror.job_row("before")["state"]) == (["before", "lost"], "held")  # type: ignore[index]
    back()
    submit(cell, [simple_job(f"new-{number}") for number in range(more)]) if more else None
    mirror.read(3_000)
    same(cell, mirror, 4_000)
    assert ids(mirror) == ["before", *(f"new-{number}" for number in range(more))]
    assert mirror.has(agreed)
    assert mirror.has(mirror.index)
    assert not mirror.has(lost), "of a history that the cell has no more"
    document = mirror.events(lost)
    assert document["reset"] == str(lost)
    assert "lost" not in {event.get("job") for event in document["events"]}
    assert {"lost": {"from": agreed.version + 1, "to": lost.version}} in mirror.conflicts()["gaps"]
    assert "reset" not in mirror.events(agreed)


def test_everything_is_read_again_when_the_lost_versions_are_not_known(cell: RedisCell, mirror: CellMirror) -> None:
    back = copied(cell)
    submit(cell, [simple_job("lost")])
    mirror.read(2_000)
    mirror.held.ring = EventRing()  # as if it had begun later
    back()
    mirror.read(3_000)
    same(cell, mirror, 4_000)
    assert ids(mirror) == ["before"]


def test_a_gap_in_the_log_is_noted_and_jobs_are_read_again(cell: RedisCell, mirror: CellMirror) -> None:
    before = mirror.index
    submit(cell, [simple_job("in the gap".replace(" ", "-"))])
    cell.jobs.stop("before", 0, "ada", JobState.STOPPED)
    client: Any = cell.client
    client.xtrim(cell.prefix + "log", maxlen=0)
    submit(cell, [simple_job("after")])
    same(cell, mirror, 2_000)
    same(cell, mirror, 3_000)
    assert ids(mirror) == ["before", "in-the-gap", "after"]
    document = mirror.events(before)
    assert document["gap"] == {"from": before.version + 1, "to": mirror.index.version - 1}
    assert [event["job"] for event in document["events"]] == ["after"]


def test_an_entry_that_cannot_be_read_lets_all_be_read_again(cell: RedisCell, mirror: CellMirror) -> None:
    submit(cell, [simple_job("named-by-it")])
    client: Any = cell.client
    last = client.xrevrange(cell.prefix + "log", count=1)[0][0]
    client.xdel(cell.prefix + "log", last)
    submit(cell, [simple_job("next")])
    same(cell, mirror, 2_000)
    assert ids(mirror) == ["before", "named-by-it", "next"]


def test_another_cell_of_the_name_has_nothing_of_the_one_before(
    cell: RedisCell, mirror: CellMirror, store_url: str
) -> None:
    before = mirror.index
    cell.delete()
    with pytest.raises(Refused, match="unknown cell"):
        mirror.read(2_000)
    assert "unknown cell" in mirror.unavailable
    assert ids(mirror) == ["before"], "as it was read last"
    other = RedisCell.create(connect(store_url), cell.name, url=store_url)
    serve(other)
    submit(other, [simple_job("other")])
    mirror.read(3_000)
    same(other, mirror, 4_000)
    assert (ids(mirror), mirror.unavailable, mirror.has(before)) == (["other"], "", False)
    other.close()


def test_records_that_cannot_be_read_are_left_out_as_in_lists(cell: RedisCell, store_url: str) -> None:
    submit(cell, [simple_job("damaged"), simple_job("whole")])
    client: Any = cell.client
    client.hset(cell.prefix + "jobs", "damaged", b"\x00nothing")
    client.hset(cell.prefix + "stats", "batch/9", b"\xc1")
    with closing(RedisCell.connect(store_url, cell.name)) as own:
        mirror = CellMirror(own, "store")
        same(cell, mirror, 2_000)
        assert ids(mirror) == ["before", "whole"]
        cell.jobs.hold("before", 0, "ada")
        same(cell, mirror, 3_000)


def test_a_round_that_failed_is_continued(cell: RedisCell, mirror: CellMirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the store goes away, nothing that the log named is forgotten."""
    own: Any = mirror.cell
    reads = [
        (own.schedulers, "sync"), (own.log, "entries"), (own.schedulers, "members"), (own.jobs, "by_id"),
        (own.jobs, "specs"), (own.machines, "runs"), (own, "sums"),
    ]  # fmt: skip
    for number, (part, name) in enumerate(reads):
        submit(cell, [simple_job(f"j{number}")])
        cell.machines.set_state(0, (MachineState.DRAINED, MachineState.UP)[number % 2], 0, "ada")

        def away(*_: object, **__: object) -> None:
            raise Unreachable("no answer")

        with monkeypatch.context() as broken:
            broken.setattr(part, name, away)
            before = mirror.at_ms
            with pytest.raises(Unreachable):
                mirror.read(2_000 + number)
            assert (mirror.unavailable, mirror.at_ms) == ("no answer", before), name
        same(cell, mirror, 3_000 + number)
        assert not mirror.unavailable
        if name in ("by_id", "specs"):
            assert mirror.job_row(f"j{number}") is not None


def test_conflicts_name_the_last_change_of_the_machine(cell: RedisCell, mirror: CellMirror) -> None:
    from omega.cellstate.replies import CommitRequest
    from omega.cellstate.transaction import Claim, Detection, Position, Transaction

    one, two = (cell.schedulers.register(f"batch/{number}", "n", 60_000, 0) for number in range(2))
    submit(cell, [simple_job("a"), simple_job("b")])
    room = cell.machines.at([0])[0].capacity[0] // cell.jobs.get("a").groups[0].need[0]  # type: ignore[union-attr]
    fill = [simple_job(f"full-{number}") for number in range(room)]
    submit(cell, fill)
    placed = [Transaction(each.id, (Claim(0, 0, 1),)) for each in fill]
    cell.schedulers.commit(CommitRequest(one, 1, placed, Position(), 500))
    cell.schedulers.commit(CommitRequest(two, 1, [Transaction("a", (Claim(0, 0, 1),))], Position(), 600))
    moved = Transaction("b", (Claim(0, 0, 1, seen=0),), detection=Detection.COARSE)
    cell.schedulers.commit(CommitRequest(two, 2, [moved], Position(), 700))
    mirror.read(1_000)
    (row,) = mirror.conflicts()["rows"]
    assert (row["loser"], row["winner"], row["count"], row["fine"], row["coarse"]) == ("batch/1", "batch/0", 2, 1, 1)
    assert row["machines"] == [{"machine": cell.machines.at([0])[0].name, "index": 0, "count": 2}]
    assert [each["verdict"] for each in row["transactions"]] == ["moved", "full"]
    assert {each["winner"]["kind"] for each in row["transactions"]} == {"place"}


async def wait_until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not true():  # noqa: ASYNC110 - nothing is told of it
            await anyio.sleep(0.05)


@pytest.mark.anyio
@pytest.mark.chaos
async def test_readers_wait_for_a_store_that_is_away(store_url: str) -> None:
    server = Server(socket_directory())
    server.start()
    url = server.url
    made = RedisCell.create(connect(url), "c", url=url)
    serve(made)
    mirrors = Mirrors(url)
    with pytest.raises(Refused, match="unknown cell 'none'"):
        await mirrors.cell("none")
    mirror = await mirrors.cell("c")
    assert not await mirrors.changed("c", mirror.index, 0.1)
    before = mirror.index
    await anyio.to_thread.run_sync(submit, made, [simple_job("a")])
    assert await mirrors.changed("c", before, 30, ["jobs"])
    assert mirror.job_row("a") is not None
    assert await mirrors.changed("c", Index(1, "of-no-reading"), 30)
    made.close()
    server.kill()
    await wait_until(lambda: bool(mirror.unavailable))
    assert mirror.job_row("a") is not None
    assert await mirrors.cell("c") is mirror
    server.start()
    RedisCell.create(connect(url), "c", url=url).close()
    await wait_until(lambda: not mirror.unavailable)
    assert mirror.job_row("a") is None
    await mirrors.close()
    server.kill()
    with pytest.raises(OmegaError):
        await Mirrors(url).cell("c")


def test_reasons_do_not_hide_the_attributes_of_machines_that_are_read_later(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MACHINES_AT_ONCE", 2)
    with made_cell(store_url, f"mirrored-{time.monotonic_ns()}", 0) as made:
        serve(made)
        specs = [MachineSpec(f"m{i}", (1_000,) * len(made.dimensions), {"rack": f"r{i}"}) for i in range(9)]
        join(made, specs)
        job = {"name": "picky", "simulate": True, "tasks": [{"constraints": ["rack == 'none'"], "duration": "1h"}]}
        Client(store_url, made.name).submit(job)
        with closing(RedisCell.connect(store_url, made.name)) as own:
            mirror = CellMirror(own, "store")
            for at_ms in range(1_000, 1_010):
                mirror.read(at_ms)
            same(made, mirror, 1_010)
            assert mirror.reasons()["CONSTRAINT"]["jobs"] == 1


def test_machines_that_were_not_read_yet_keep_their_attributes_for_a_job_that_demands_some(
    cell: RedisCell, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round reads some machines, and explains a pending job by the attributes of all."""
    monkeypatch.setattr("omega.queries.mirror.loading.MACHINES_AT_ONCE", 2)
    cell.machines.join("simulated", [MachineSpec(f"r{i}", (4, 4), {"rack": f"r{i}"}) for i in range(5)], 0)
    group = TaskGroup((1, 1), 1, spec={"constraints": ["rack == 'none'"]})
    submit(cell, [JobSpec("asks", "asks", "batch", (group,))])
    with closing(RedisCell.connect(store_url, cell.name)) as own:
        made = CellMirror(own, "store")
        for at_ms in range(1, 6):
            made.read(at_ms)
            made.reasons()
        names = made.machine_columns(["rack"]).values["rack"]
        assert set(names) >= {f"r{i}" for i in range(5)}
        same(cell, made, 10)
