"""A cell that went back to an earlier version: what was lost is found by tags, and reported once (semantics 16)."""

from collections.abc import Callable
from itertools import pairwise, permutations

import pytest

from omega.cellstate.cuts import CUTS_KEPT, Cut, Report, Sightings
from omega.cellstate.digest.hours import Position as Reached
from omega.cellstate.digest.step import _Step, digest
from omega.cellstate.errors import HistoryCut, ReadOnly
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.executors import SEEING_RECEIPTS
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Position
from omega.cellstate.verify import verify
from omega.queries.event_list import Filter, list_events
from tests.contract.conftest import AnyCell, Member, Stand, job
from tests.taken_back import copied


def report(known: int, agreed: int, first_lost: int, seen: int, by: str) -> Report:
    return Report(known=known, agreed=agreed, first_lost=first_lost, seen=seen, by=by)


def submit(cell: AnyCell, *names: str) -> None:
    """Submit jobs one by one, and see the version of each."""
    for name in names:
        cell.jobs.submit([job(name)], 0, "ada")
        cell.sightings.add(cell.standing([]).present)


def kept(cell: AnyCell) -> list[tuple[int, int, int]]:
    return [(cut.agreed, cut.first_lost, cut.seen) for cut in cell.cuts().kept]


def test_versions_that_are_lost_are_reported(stand: Stand) -> None:
    cell = stand.cell
    submit(cell, "a", "b")
    at = cell.counters()["version"]
    back = copied(cell)
    submit(cell, "c", "d", "e")
    assert cell.look_back() is None
    back()
    found = cell.look_back()
    assert found is not None
    assert (found.number, found.agreed, found.first_lost, found.seen) == (1, at, at + 1, at + 3)
    assert (found.at_least, found.at_most) == (3, 3)
    assert (found.version, cell.counters()["version"]) == (at + 1, at + 1)
    assert cell.cuts().kept == [found]
    assert (cell.cuts().number, cell.cuts().lost) == (1, 3)
    assert cell.look_back() is None, "it is reported once"
    assert cell.cuts().kept == [found]
    checked = verify(cell)
    assert checked.ok, checked.violations
    assert checked.cuts == (found,)
    (event,) = list_events(cell, 0, 10, Filter(frozenset({"cut"}))).events
    assert event.as_json() == {
        "version": at + 1, "at_ms": event.at_ms, "by": found.by[0], "kind": "cut", "number": 1, "agreed": at,
        "first_lost": at + 1, "seen": at + 3, "lost": {"at_least": 3, "at_most": 3}, "reporters": list(found.by),
    }  # fmt: skip


@pytest.mark.parametrize("anew", [0, 1, 2])
def test_a_step_of_the_digest_that_read_what_is_lost_is_not_written(stand: Stand, anew: int) -> None:
    """Of two versions that it read, so many are given out anew, with other facts, before it is written."""
    cell = stand.cell
    cell.jobs.submit([job("a")], 1_000, "ada")
    assert not digest(cell, 2_000)
    back, position = copied(cell), cell.digest.position()
    for name in ("b", "c"):
        cell.jobs.submit([job(name)], 3_000, "ada")
    read = cell.digest.undigested(100)
    late = _Step(cell, read, Reached.unpack(read.position), 4_000)
    late.take(read.facts)
    step = late.close()
    back()
    for number in range(anew):
        cell.jobs.submit([job(f"new-{number}")], 5_000, "bob")
    assert not cell.digest.write(step)
    assert cell.digest.position() == position
    digest(cell, 6_000)
    assert Reached.unpack(cell.digest.position()).version == cell.counters()["version"]


def test_the_same_versions_written_anew_are_told_apart(stand: Stand) -> None:
    """The store went back and on beyond what was seen: only the tags differ."""
    cell = stand.cell
    submit(cell, "a")
    at = cell.counters()["version"]
    back = copied(cell)
    submit(cell, "b")
    back()
    for name in ("x", "y", "z"):
        stand.other().jobs.submit([job(name)], 0, "bob")
    found = cell.look_back()
    assert found is not None
    assert (found.agreed, found.first_lost, found.seen) == (at, at + 1, at + 1)


def test_another_cell_of_the_same_name_is_no_cut(stand: Stand) -> None:
    cell = stand.cell
    back = copied(cell)
    submit(cell, "a", "b")
    back()
    assert cell.look_back() is None, "no version agrees"
    assert kept(cell) == []


def test_reports_of_a_cut_are_merged_in_any_order(stand: Stand) -> None:
    submit(stand.cell, "a")
    back = copied(stand.cell)
    reports = [
        report(0, 5, 9, 12, "x"),
        report(0, 3, 8, 9, "z"),
        report(0, 2, 30, 40, "y"),
    ]
    for order in permutations(reports):
        back()
        for each in order:
            stand.cell.report_cut(each)
        (cut,) = stand.cell.cuts().kept
        assert (cut.agreed, cut.first_lost, cut.seen, cut.by) == (5, 8, 40, ("x", "y", "z"))
        assert (stand.cell.cuts().number, stand.cell.cuts().lost) == (1, 33)
        again = stand.cell.report_cut(reports[0])
        assert again == cut, "a repeated report changes nothing"
        assert stand.cell.cuts().kept == [cut]
        assert len(list_events(stand.cell, 0, 99, Filter(frozenset({"cut"}))).events) == 1


def test_another_cut_has_a_report_of_its_own(stand: Stand) -> None:
    cell = stand.cell
    first = cell.report_cut(report(0, 5, 6, 12, "x"))
    apart = cell.report_cut(report(0, 7, 8, 9, "y"))
    later = cell.report_cut(report(2, 5, 6, 20, "x"))
    assert [cut and cut.number for cut in (first, apart, later)] == [1, 2, 3]
    assert kept(cell) == [(5, 6, 12), (7, 8, 9), (5, 6, 20)]
    ahead = cell.report_cut(report(7, 5, 6, 20, "x"))
    assert ahead is not None
    assert ahead.number == 8, "the reporter knew of reports that were lost themselves"


def test_few_reports_are_kept(stand: Stand) -> None:
    for number in range(CUTS_KEPT + 3):
        stand.cell.report_cut(report(number, 5, 6, 6, "x"))
    cuts = stand.cell.cuts()
    assert [cut.number for cut in cuts.kept] == list(range(4, CUTS_KEPT + 4))
    assert (cuts.number, cuts.lost) == (CUTS_KEPT + 3, CUTS_KEPT + 3)


def without_older_changes(cell: AnyCell, low: int) -> None:
    """Trim the change list to the versions above `low`."""
    assert isinstance(cell, RedisCell)
    cell.client.ltrim(f"{cell.prefix}changes", low - cell.counters()["version"], -1)
    cell.client.hset(f"{cell.prefix}meta", "floor", low)


def test_versions_before_the_change_list_are_neither_left_nor_lost(stand: Stand) -> None:
    cell = stand.cell
    submit(cell, *(f"j{number}" for number in range(9)))
    present = cell.standing([]).present
    low = present.version - 2
    without_older_changes(cell, low)
    other = "aaaaaaaaaa"
    assert cell.standing([Position(low, other), Position(1, other)])[2:] == (None, None)
    assert cell.standing([present, Position(low, other)])[2:] == (present.version, None)
    lost = Position(low + 1, other)
    assert cell.standing([lost, Position(low, other)])[2:] == (None, low + 1)


@pytest.mark.parametrize("number", [3, 300, 300_000])
def test_sightings_are_few_and_reach_far_back(number: int) -> None:
    seen = Sightings()
    for version in range(1, number + 1):
        seen.add(Position(version, f"{version:010}"))
    versions = [each.version for each in seen.all()]
    assert versions[0] == seen.last.version == number
    assert versions[-1] == 1
    assert versions == sorted(set(versions), reverse=True)
    assert len(versions) <= 4 * 256 + 1
    gaps = [(number - after, before - after) for before, after in pairwise(versions)]
    assert all(gap <= max(16, ago / 14) for ago, gap in gaps[:-1]), "they lie the closer the newer they are"
    seen.cut_after(number // 2)
    assert seen.last.version <= number // 2
    assert Cut(number=1, agreed=1, first_lost=3, seen=5, at_ms=0, version=1, by=()).text.endswith(
        "lost 3 to 4 versions after version 1, up to 5"
    )


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
def test_after_a_cut_tasks_start_once_the_agents_confirmed(cell: AnyCell, member: Member) -> None:
    agents = [cell.executors.register_agent(name, name, 60_000, 0) for name in ("h1", "h2")]
    machines = [cell.machines.join(agent.member, [MachineSpec(agent.member[6:], (100, 100))], 0)[0] for agent in agents]
    cell.jobs.submit([job("before"), job("after"), job("last")], 0, "ada")
    member.place("before", (machines[0], 1))  # by a scheduler that did not see the lost versions
    cell.report_cut(report(0, 1, 2, 3, "x"))
    member.place("after", (machines[0], 1))
    assert [line.partition(" ")[0] for line in cell.executors.receive(cell.executors.number("agent/h1"))][-2:] == [
        "!",
        "+",
    ]
    asked = [(run.machine, run.placement) for run in cell.machines.runs(machines)]
    assert cell.executors.may_start(asked) == ["wait", "wait"]
    for agent in agents:
        heartbeat = cell.executors.renew(agent, 60_000, None)
        assert heartbeat.unsettled
        cell.report_cut(report(0, 1, 2, 4, "y"))  # it adds to the report, and nobody is asked again
        assert cell.executors.may_start(asked) == ["wait", "wait"]
        cell.executors.confirm_runs(agent.member)
        cell.executors.confirm_runs(agent.member)
        heartbeat = cell.executors.renew(agent, 60_000, None)
        assert not heartbeat.unsettled
    assert cell.executors.may_start(asked) == ["go", "go"]
    assert verify(cell).ok


@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_an_executor_sees_versions_with_what_it_receives_and_ends(stand: Stand, store_url: str) -> None:
    """So it reports their loss also when nobody else is left that saw them."""
    cell, member = stand.cell, stand.member()
    agent = cell.executors.register_agent("h1", "nonce", 60_000, 0)
    machine = cell.machines.join(agent.member, [MachineSpec("h1", (100, 100))], 0)[0]
    cell.jobs.submit([job("a")], 0, "ada")
    own = RedisCell.connect(store_url, cell.name)
    number, back = own.executors.number(agent.member), copied(cell)
    at = cell.counters()["version"]
    own.executors.receive(number)
    assert own.sightings.last.version == at
    member.place("a", (machine, 1))
    own.executors.receive(number)
    assert own.sightings.last.version == at + 1, "the receipt came after one without messages"
    own.executors.end([TaskEnd(machine, cell.machines.runs([machine])[0].placement, EndKind.FINISHED)], 0, agent.member)
    assert own.sightings.last.version == at + 2
    back()
    own.client.connection_pool.disconnect()
    found = own.look_back()
    assert found is not None
    assert (found.agreed, found.first_lost, found.seen) == (at, at + 1, at + 2)
    own.close()


@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_a_loss_that_could_not_be_reported_is_reported_later(
    stand: Stand, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is about to become the primary takes no report, and its connections stay open afterwards."""
    own = RedisCell.connect(store_url, stand.cell.name)
    submit(own, "left")
    at, back = own.counters()["version"], copied(stand.cell)
    submit(own, "lost")
    back()

    def read_only(report: Report) -> None:
        raise ReadOnly("is a read-only replica")

    with monkeypatch.context() as patch:
        patch.setattr(own, "report_cut", read_only)
        own.client.connection_pool.disconnect()
        for _ in range(3):  # the first one opens connections as well, after which the next one compares anyway
            assert own.counters()["version"] == at
    assert stand.cell.cuts().number == 0
    assert own.counters()["version"] == at + 1, "the report, too, is a version"
    assert [(cut.agreed, cut.first_lost) for cut in stand.cell.cuts().kept] == [(at, at + 1)]
    own.close()


@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_of_receipts_without_a_pause_some_see_the_version(stand: Stand, store_url: str) -> None:
    cell, member = stand.cell, stand.member()
    agent = cell.executors.register_agent("h1", "nonce", 60_000, 0)
    machine = cell.machines.join(agent.member, [MachineSpec("h1", (100, 100))], 0)[0]
    cell.jobs.submit([job("a", count=99)], 0, "ada")
    own = RedisCell.connect(store_url, cell.name)
    number, behind = own.executors.number(agent.member), []
    for _ in range(3 * SEEING_RECEIPTS):
        member.place("a", (machine, 1))
        assert own.executors.receive(number)
        behind.append(cell.counters()["version"] - own.sightings.last.version)
    assert max(behind) == SEEING_RECEIPTS - 1
    own.close()


@pytest.mark.parametrize("make", ["resp3"], indirect=True)
def test_an_executor_is_refused_once_its_history_is_lost(stand: Stand, store_url: str) -> None:
    """Whatever it calls first: it must compare what it runs before it reports or starts anything."""
    cell, member = stand.cell, stand.member()
    agent = cell.executors.register_agent("h1", "nonce", 60_000, 0)
    machine = cell.machines.join(agent.member, [MachineSpec("h1", (100, 100))], 0)[0]
    cell.jobs.submit([job("a"), job("b")], 0, "ada")
    back = copied(cell)
    member.place("a", (machine, 1))
    placement = cell.machines.runs([machine])[0].placement
    own = RedisCell.connect(store_url, cell.name)
    number = own.executors.number(agent.member)

    def begin() -> None:
        assert own.executors.register_agent("h1", "nonce", 60_000, 0) == agent
        own.executors.renew(agent, 60_000, machine)

    def end() -> object:
        return own.executors.end([TaskEnd(machine, placement, EndKind.FINISHED)], 0, agent.member)

    calls: dict[str, Callable[[], object]] = {
        "renewal": lambda: own.executors.renew(agent, 60_000, machine),
        "end": end,
        "start": lambda: own.executors.may_start([(machine, placement)]),
        "messages": lambda: own.executors.receive(number),
    }
    begin()
    for call in calls.values():
        own.look_back()
        back()
        Member(cell, "batch/0").place("b", (machine, 1))  # which gets the placement id of the lost one
        assert cell.machines.runs([machine])[0].placement == placement
        own.client.connection_pool.disconnect()
        own.executors._ends.close()
        with pytest.raises(HistoryCut, match="the store lost versions of cell"):
            call()
        with pytest.raises(HistoryCut):
            end()
        assert cell.machines.runs([machine])[0].job == "b", "nothing ended"
        begin()
        Member(cell, "batch/0").place("a", (machine, 1))
        own.executors.renew(agent, 60_000, machine)
    own.close()


def test_placements_after_a_cut_have_ids_that_no_lost_one_had(stand: Stand) -> None:
    cell = stand.cell
    submit(cell, "a")
    back = copied(cell)
    submit(cell, "b")
    back()
    assert cell.look_back() is not None
    placements = cell.counters()["placements"]
    assert placements >= 1_000_000
    assert verify(cell).ok
