"""Dry runs of a cell on a server: each call answers and refuses as it would, and writes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from omega.cellstate.errors import OmegaError
from omega.cellstate.model import Gang, Job, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.scripts import READS
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Mode
from tests.contract.conftest import Make, Member, RedisStand, job
from tests.stored_keys import stored

pytestmark = pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)


@pytest.fixture
def stand(make: Make) -> RedisStand:
    """A cell on a server: two machines, running and waiting jobs, a gang, pools and a limit."""
    made = make()
    assert isinstance(made, RedisStand)
    cell = made.cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (9, 9), {"rack": "r1"}) for i in range(2)], 0)
    cell.pools.set(Pools((Pool("p", limits={"cpu": 8}), Pool("idle"))), 0, 0, "ada")
    gang = JobSpec("gang", "gang", "service", (TaskGroup((1, 1), 2),), 20, Gang.STRICT, {"pool": "p"})
    cell.jobs.submit([job("run", count=4), job("wait", count=2), gang, job("next")], 0, "ada")
    member = Member(cell)
    assert member.place("run", (0, 2), (1, 1)).accepted
    assert Member(cell, "service/0").place("gang", (0, 1), (1, 1), mode=Mode.GANG).accepted
    cell.jobs.hold("next", 0, "ada")
    return made


CALLS: tuple[tuple[str, Callable[[RedisCell], Any]], ...] = (
    ("submit", lambda cell: cell.jobs.submit([job("new"), job("wait", count=2), job("wait"), job("a")], 1, "ada")),
    ("stop", lambda cell: cell.jobs.stop("run", 1, "ada")),
    ("stop that waits", lambda cell: cell.jobs.stop("wait", 1, "ada")),
    ("stop of none", lambda cell: cell.jobs.stop("nothing", 1, "ada")),
    ("hold", lambda cell: cell.jobs.hold("run", 1, "ada")),
    ("overtaken", lambda cell: cell.jobs.hold("run", 1, "ada", 1)),
    ("release", lambda cell: cell.jobs.release("next", 1, "ada")),
    ("grow", lambda cell: cell.jobs.resize("run", {0: 7}, 1, "ada")),
    ("shrink", lambda cell: cell.jobs.resize("run", {0: 1}, 1, "ada")),
    ("too few", lambda cell: cell.jobs.resize("run", {5: 1}, 1, "ada")),
    ("update", lambda cell: cell.jobs.update("run", (TaskGroup((2, 1), 1),), {"weight": 2}, 1, "ada")),
    ("lane", lambda cell: cell.jobs.update("gang", (), {"user": "eve"}, 1, "ada")),
    (
        "end",
        lambda cell: cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED), TaskEnd(1, 2, EndKind.FINISHED)], 1, "ada"),
    ),
    (
        "join",
        lambda cell: cell.machines.join(
            "e0", [MachineSpec("m2", (1, 1)), MachineSpec("m0", (9, 9), {"rack": "r1"})], 1
        ),
    ),
    ("join with more", lambda cell: cell.machines.join("e1", [MachineSpec("m3", (3, 1), {"gpu": "no"})], 1)),
    ("busy", lambda cell: cell.machines.join("e1", [MachineSpec("m0", (9, 9))], 1)),
    ("drain", lambda cell: cell.machines.set_state(0, MachineState.DRAINED, 1, "ada")),
    ("down", lambda cell: cell.machines.set_state(0, MachineState.DOWN, 1, "ada")),
    ("remove", lambda cell: cell.machines.set_state(1, MachineState.GONE, 1, "ada")),
    ("no machine", lambda cell: cell.machines.set_state(7, MachineState.GONE, 1, "ada")),
    ("capacity", lambda cell: cell.machines.set_capacity(0, (12, None), 1, "ada")),
    ("too small", lambda cell: cell.machines.set_capacity(0, (1, 1), 1, "ada")),
    ("evicting", lambda cell: cell.machines.set_capacity(0, (1, 1), 1, "ada", [(1, 2), (3, 1)])),
    ("attributes", lambda cell: cell.machines.set_attributes(0, {"rack": None, "zone": "z"}, 1, "ada")),
    ("deadline", lambda cell: cell.machines.set_deadline(0, 5_000)),
    ("limits", lambda cell: cell.pools.set_limits("batch", Limits((1, None), 2), 1, "ada")),
    ("pools", lambda cell: cell.pools.set(Pools((Pool("p"), Pool("q", limits={"tasks": 1}))), None, 1, "ada")),
    ("pool in use", lambda cell: cell.pools.set(Pools((Pool("idle"),)), None, 1, "ada")),
)  # fmt: skip

REFUSED = ("stop of none", "overtaken", "too few", "lane", "busy", "no machine", "too small", "pool in use")


def answer(cell: RedisCell, call: Callable[[RedisCell], Any]) -> Any:
    """Return what a call returns, or its error as text; records without the members that a reading finds later."""
    try:
        found = call(cell)
    except OmegaError as error:
        return type(error), str(error)
    return found.groups if isinstance(found, Job) else found


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_dry_run_answers_as_the_call_and_writes_nothing(
    stand: RedisStand, name: str, call: Callable[[RedisCell], Any]
) -> None:
    cell, before = stand.cell, stored(stand.cell)
    with cell.dry_run():
        tried = answer(cell, call)
    assert stored(cell) == before
    assert answer(cell, call) == tried
    assert (stored(cell) != before) == (name not in REFUSED)


def test_what_a_dry_run_carries_out_writes_nothing(stand: RedisStand) -> None:
    client: Any = stand.cell.client
    known = client.command()
    for name in READS:
        assert not {"write", b"write"} & set(known[name.lower()]["flags"]), name
