"""Room that tasks left is told to the owner of their pool alone; it hands on what it does not use (decision 114)."""

from typing import Any

import fakeredis
import pytest

from omega.cellstate.model import JobSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.schedulers.live_driver import IDLE_SECONDS, LiveDriver
from omega.schedulers.sharing import Ownership
from tests.unit.schedulers.rig import Rig

MEMBERS = "batch/0", "batch/1"
OWNERS = {"a": MEMBERS[:1], "b": MEMBERS[1:]}


def job(name: str, pool: str, cpu: int, count: int = 1) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((cpu, 100), count),), spec={"pool": pool})


@pytest.fixture
def rigs() -> list[Rig]:
    """The owners of two pools of one cell; a job of pool a fills the only machine."""
    server = fakeredis.FakeServer()
    first = Rig((1_000, 1_000), server=server, member=MEMBERS[0])
    first.other.pools.set(Pools((Pool("a"), Pool("b"))), 0, 0, "ada")
    second = Rig(server=server, member=MEMBERS[1])
    for rig in (first, second):
        rig.live.ownership = rig.scheduler.ownership = Ownership(rig.live.member, MEMBERS, OWNERS)
        rig.cell.schedulers.may_wake(MEMBERS)
        rig.other.schedulers.may_wake(MEMBERS)
        rig.live.snapshot.pools = first.other.pools.get()
    first.submit(job("full", "a", 1_000))
    first.until_placed("full")
    return [first, second]


def block(rig: Rig, *jobs: JobSpec) -> None:
    """Submit jobs that fit nowhere, until the scheduler waits."""
    rig.submit(*jobs)
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == len(jobs))
    rig.until(lambda: rig.live._watch.asked is not None)
    rig.rest()


def tokens(rig: Rig) -> list[str]:
    """The unread token of each scheduler."""
    found: list[Any] = [rig.client.lrange(f"{rig.cell.prefix}wake:{member}", 0, 0) for member in MEMBERS]
    return [each[0].decode() if each else "" for each in found]


def read_all(first: Rig, second: Rig) -> None:
    """Both schedulers wait, and have read all tokens."""
    while any(tokens(first)):
        assert waits(first)
        assert waits(second)


def free(first: Rig, second: Rig) -> None:
    """The job of pool a ends, while both schedulers wait."""
    read_all(first, second)
    first.end("full")
    assert tokens(first) == ["alone", ""]


def waits(rig: Rig) -> bool:
    """Step until the scheduler waited without news; return whether it did."""
    pauses = len(rig.clock.pauses)
    rig.until(lambda: len(rig.clock.pauses) > pauses)
    return True


@pytest.mark.parametrize(
    ("own", "other", "told"),
    [(1_000, 1_000, ""), (2_000, 1_000, "1"), (600, 400, "1"), (600, 500, "")],
    ids=["it takes all", "it can use nothing", "the rest is enough for the other", "the rest is too small"],
)
def test_the_owner_hands_on_what_it_leaves(rigs: list[Rig], own: int, other: int, told: str) -> None:
    first, second = rigs
    block(first, job("own", "a", own))
    block(second, job("other", "b", other))
    free(first, second)
    assert waits(first)
    assert first.placed("own") == (own <= 1_000)
    assert tokens(first) == ["", told]
    if told:
        second.until_placed("other")


def test_a_job_that_needs_less_than_those_before_is_told_of_less_room(rigs: list[Rig]) -> None:
    first, second = rigs
    block(first, job("part", "a", 600))
    block(second, job("wide", "b", 500))
    second.submit(job("small", "b", 300))
    second.until(lambda: second.scheduler.queue.blocked_jobs == 2)
    free(first, second)
    first.until_placed("part")
    assert waits(first)
    assert tokens(first) == ["", "1"]


def test_room_that_a_halted_owner_was_told_of_reaches_others_that_look_by_themselves(rigs: list[Rig]) -> None:
    first, second = rigs
    block(first, job("next", "a", 1_000))
    block(second, job("other", "b", 1_000))
    free(first, second)
    began = second.clock.now()
    second.until_placed("other")
    assert second.clock.now() - began <= IDLE_SECONDS


def test_the_next_end_tells_all_when_the_owner_has_not_looked(rigs: list[Rig]) -> None:
    first, second = rigs
    first.join((300, 300))
    first.submit(job("more", "a", 300))
    first.until_placed("more")
    block(first, job("next", "a", 1_000))
    block(second, job("other", "b", 1_000))
    free(first, second)
    first.end("more")
    assert tokens(first) == ["alone", "1"]


def test_all_are_told_of_a_machine_that_comes_back(rigs: list[Rig]) -> None:
    first, second = rigs
    block(first, job("large", "a", 2_000))
    block(second, job("other", "b", 1_000))
    read_all(first, second)
    first.other.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    first.other.machines.set_state(0, MachineState.UP, 0, "ada")
    assert tokens(first) == ["1", "1"]


def test_lanes_are_named_to_the_store_once(rigs: list[Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = rigs
    block(first, job("large", "a", 2_000))
    assert len(first.client.hgetall(first.cell.prefix + "owners")) == 1
    asked = list[object]()
    monkeypatch.setattr(LiveDriver, "_reports_blocked", _counted(LiveDriver._reports_blocked, asked))
    for _ in range(5):
        assert waits(first)
    assert asked
    assert not any(asked)


def _counted(report: object, found: list[object]) -> object:
    def reports(driver: LiveDriver) -> bool:
        found.append(said := report(driver))  # type: ignore[operator]
        return bool(said)

    return reports
