"""What a cell leaves on a server: documented keys of documented types, all on one shard, none after its end."""

import re
from typing import Any

import pytest

from omega.cellstate import keys
from omega.cellstate.cuts import Report
from omega.cellstate.digest.step import digest
from omega.cellstate.model import After, JobSpec, TaskGroup
from omega.cellstate.pools import Pool, PoolTree
from omega.cellstate.redis import RedisCell, cells
from omega.cellstate.redis.calls import load_scripts
from omega.cellstate.redis.scripts import Script
from omega.cellstate.replies import CommitRequest, Waits
from omega.cellstate.tasks import HealthOf, HealthReport, HealthState, OutputPart, TaskProgress
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.contract.conftest import Make, Member, RedisStand, job
from tests.contract.test_epochs import next_epoch
from tests.contract.test_pools import put
from tests.contract.test_resend import history

pytestmark = pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
TYPES = {
    found[1]: found[2]
    for found in re.finditer(r"^    (\w+)(?::\w)? +(hash|list|zset|stream|string) ", keys.__doc__ or "", re.MULTILINE)
}


@pytest.fixture
def used(make: Make) -> RedisStand:
    """A cell that has seen a bit of everything."""
    stand = make()
    assert isinstance(stand, RedisStand)
    history(stand.cell, stand.expire_lease)
    Member(stand.cell, "mine/0")
    stand.cell.machines.set_deadline(0, 1_000)
    stand.cell.schedulers.set_blocked("mine/0", Waits(lanes=(1,)))
    stand.cell.schedulers.members()
    stand.cell.jobs.submit([job("healthy", (0, 0))], 0, "ada")
    Member(stand.cell, "batch/9").place("healthy", (0, 1))
    (found,) = [run for run in stand.cell.machines.runs([0]) if run.job == "healthy"]
    state = HealthOf(found.placement, 0, HealthState.READY)
    stand.cell.tasks.report_health(HealthReport(job="healthy", machine=0, tasks=[state]), 0)
    stand.cell.tasks.report_progress("healthy", 0, [TaskProgress(0, 0, 40)])
    stand.cell.jobs.submit(
        [JobSpec("slow", "slow", "batch", (TaskGroup((1, 1), 1), TaskGroup((1, 1), 0, copies=True)))], 0, "ada"
    )
    stand.cell.client.set(stand.key("confirmed"), "", px=60_000)
    stand.cell.jobs.submit([job("mine", kind="mine", spec={"user": "ada"})], 0, "ada")
    stand.cell.jobs.submit([job("waiter", after=(After("mine"),))], 0, "ada")
    stand.cell.jobs.submit([job("wide", (0, 0), 300)], 0, "ada")
    Member(stand.cell, "batch/8").place("wide", (0, 300))
    put(stand.cell, Pool("a"))
    digest(stand.cell, 5_000)
    stand.cell.pools.publish_epoch(next_epoch(stand.cell, 5_000), 1_000, 7)
    put(stand.cell, Pool("a"), trees=(PoolTree(), PoolTree("gpu", "has gpu")))
    stand.cell.executors.register_agent("h", "nonce-h", 60_000, 0)
    stand.cell.tasks.answer_output("ab" * 8, OutputPart(1, 0, b"a line"))
    stand.cell.report_cut(Report(known=0, agreed=1, first_lost=2, seen=3, by="ada"))
    return stand


def found(stand: RedisStand) -> dict[str, str]:
    client: Any = stand.cell.client
    names: list[bytes] = client.keys(stand.key("*"))
    return {name.decode(): client.type(name).decode() for name in names}


def test_every_key_is_documented_with_its_type(used: RedisStand) -> None:
    named = {key.removeprefix(used.key("")).partition(":")[0]: kind for key, kind in found(used).items()}
    assert named == TYPES


def test_all_keys_carry_the_name_of_the_cell_as_hash_tag(used: RedisStand) -> None:
    assert {re.findall(r"\{(.*?)\}", key)[0] for key in found(used)} == {used.cell.name}


def test_nothing_is_left_of_a_deleted_cell(used: RedisStand) -> None:
    before = set(used.cell.client.keys("*"))
    another = RedisCell.create(used.connect(), f"{used.cell.name}-x", used.cell.dimensions)
    used.others.append(another)
    history(another, lambda member: assert_deleted(another, member))
    another.delete()
    assert set(used.cell.client.keys("*")) == before
    assert another.name not in cells(used.cell.client)
    assert used.cell.name in cells(used.cell.client)


def assert_deleted(cell: RedisCell, member: str) -> None:
    assert cell.client.delete(f"{cell.prefix}lease:{member}") == 1


def test_scripts_that_the_server_forgot_are_sent_again(used: RedisStand) -> None:
    member = Member(used.cell, "batch/7")
    for _ in range(2):
        used.cell.client.script_flush()
        used.cell.jobs.submit([job("again")], 0, "ada")
        number = member.number = member.number + 1
        used.cell.client.script_flush()
        claims = [Transaction("again", (Claim(2, 0, 1),))]
        assert (
            len(used.cell.schedulers.commit(CommitRequest(member.membership, number, claims, Position(), 0)).outcomes)
            == 1
        )


def test_scripts_are_loaded_again_on_a_server_that_took_over_meanwhile(
    used: RedisStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    took_over = list[str]()

    def load(client: Any, *missing: Script) -> None:
        load_scripts(client, *missing)
        if len(took_over) < 2:
            client.script_flush()
            took_over.append("another server")

    monkeypatch.setattr("omega.cellstate.redis.calls.load_scripts", load)
    used.cell.client.script_flush()
    used.cell.jobs.submit([job("later")], 0, "ada")
    used.cell.client.script_flush()
    took_over.clear()
    assert used.cell.pools.demands(Position())[1]
    assert used.cell.jobs.get("later") is not None
