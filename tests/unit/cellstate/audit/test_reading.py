"""A cell that changes while it is read is checked as it was at one version, and never wronged."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import fakeredis
import pytest

from omega.cellstate.events import Fact
from omega.cellstate.invariants import Violation
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.primary import Content
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.image import Image
from omega.cellstate.redis.log import RedisLog
from omega.cellstate.redis.records import RawChangedRecords
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Claim
from omega.cellstate.verify import Log, Report, verify
from tests.unit.cellstate.audit.town import SMALL, Town, job

Act = Callable[[], object]


class Hooked:
    """A client: something happens just before and just after a key is read, `before` and `after` by its name.

    "look": the last read, of what changed meanwhile and of small keys.
    """

    def __init__(self, client: Any, prefix: str) -> None:
        self.client, self.prefix, self.looks = client, prefix, 0
        self.before: dict[str, list[Act]] = {}
        self.after: dict[str, list[Act]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def happen(self, acts: Mapping[str, list[Act]], name: str) -> None:
        for act in acts.get(name, [])[:1]:
            acts[name].pop(0)
            act()

    def hscan_iter(self, key: str, **words: Any) -> Iterator[Any]:
        name = key.removeprefix(self.prefix)
        self.happen(self.before, name)
        yield from self.client.hscan_iter(key, **words)
        self.happen(self.after, name)

    def pipeline(self, transaction: bool = True) -> Any:
        if transaction:
            self.looks += 1
            self.happen(self.before, "look")
        return self.client.pipeline(transaction=transaction)


class RestlessLog(RedisLog):
    """A log of which something happens while it is read."""

    def __init__(self, cell: "Restless") -> None:
        super().__init__(cell, cell.jobs, cell.machines, cell.pools)
        self.cell = cell

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        self.cell.hooked.happen(self.cell.hooked.before, "facts")
        return super().facts(since, most, kinds)


class Restless(RedisCell):
    """A cell in which something happens while it is read."""

    hooked: Hooked

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log = RestlessLog(self)

    @classmethod
    def of(cls, town: Town) -> "Restless":
        cell = cls.open(town.client, town.cell.name)
        assert isinstance(cell, cls)
        cell.client = cell.hooked = Hooked(cell.client, town.prefix)  # type: ignore[assignment]
        return cell


@pytest.fixture
def restless(town: Town) -> Restless:
    return Restless.of(town)


CHANGES: dict[str, Callable[[Town], object]] = {
    "place": lambda t: t.commit("part", Claim(3, 0, 2)),
    "evict": lambda t: t.commit("high", Claim(2, 0, 1, evict=((t.run_of("low", 2), 1),)), kind="service"),
    "finish": lambda t: t.end("last", 3, EndKind.FINISHED),
    "acknowledge": lambda t: t.end("low", 2, EndKind.LEFT),
    "lose": lambda t: t.cell.machines.set_state(1, MachineState.DOWN, 9, "ada"),
    "join": lambda t: t.cell.machines.join("simulated", [MachineSpec("m8", (9, 9)), MachineSpec("m0", (9, 9))], 9),
    "submit": lambda t: t.cell.jobs.submit([job("new", SMALL, kind="other")], 9, "ada"),
    "stop": lambda t: t.cell.jobs.stop("held", 9, "ada"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["machines", "runs", "jobs", "static", "look"])
def test_a_change_between_two_readings_is_no_violation(
    town: Town, restless: Restless, change: str, moment: str
) -> None:
    restless.hooked.before[moment] = [lambda: CHANGES[change](town)]
    report = verify(restless)
    assert report.ok, report.violations
    assert report.version == 41
    assert restless.hooked.looks <= 2, "the reading is exact; a new kind of job needs another look at its queue"


def test_without_the_second_look_the_same_change_would_seem_a_violation(
    town: Town, restless: Restless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omega.cellstate.redis.image.Image.take", _only_counters)
    restless.hooked.after["machines"] = [lambda: CHANGES["place"](town), lambda: CHANGES["finish"](town)]
    where = {violation.where for violation in verify(restless).violations}
    assert "machine 3" in where


def _only_counters(image: Image, shot: RawChangedRecords) -> None:
    for name in ("version", "placements", "first", "length"):
        setattr(image, name, getattr(shot, name))


def test_a_job_that_ends_and_is_dropped_meanwhile_is_no_violation(town: Town, restless: Restless) -> None:
    town.put("meta", "keep_jobs", 0)
    restless.hooked.after["jobs"] = [lambda: [town.cell.jobs.stop(name, 9, "ada") for name in ("held", "last")]]
    report = verify(restless)
    assert report.ok, report.violations
    assert "held" not in {each.id for each in town.cell.jobs.all()}


def test_a_violation_that_a_second_reading_does_not_show_is_not_reported(town: Town, restless: Restless) -> None:
    town.words("machines", 0, 1, 99)
    restless.hooked.before["machines"] = [lambda: None, lambda: town.words("machines", 0, 1, 6)]
    report = verify(restless)
    assert report.ok, report.violations
    assert restless.hooked.looks == 2


def test_a_reading_takes_as_many_looks_as_the_changes_need(
    town: Town, restless: Restless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omega.cellstate.redis.image.MOST_AT_ONCE", 10)
    many = [job(f"more-{i}", SMALL) for i in range(40)]
    restless.hooked.after["jobs"] = [lambda: [town.cell.jobs.submit([each], 9, "ada") for each in many]]
    report = verify(restless)
    assert report.ok, report.violations
    assert restless.hooked.looks == 4


def test_a_cell_that_changes_faster_than_it_is_read_is_not_called_ok(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = RawChangedRecords.of

    def behind(reply: Sequence[Any]) -> RawChangedRecords:
        shot = read(reply)
        return replace(shot, version=shot.version + 1)

    monkeypatch.setattr("omega.cellstate.redis.image.RawChangedRecords.of", behind)
    town.words("machines", 0, 1, 99)
    report = verify(town.cell)
    assert not report.settled
    assert not report.ok
    assert report.violations == (), "what cannot be checked is no violation"


def test_a_verification_tells_what_it_reads_and_begins_after_a_version(town: Town) -> None:
    last, told = town.cell.counters()["version"], list[str]()
    whole, late = verify(town.cell, told.append), verify(town.cell, since=last - 3)
    assert (told[-2].split(" ")[1], told[-1]) == ("records", "rules")
    assert f"version {last} of {last} of the log" in told
    assert (whole.log_from_version, late.log_from_version) == (1, last - 2)
    assert late.ok
    assert 0 < late.checked["facts"] < whole.checked["facts"]
    assert late.checked["jobs"] == whole.checked["jobs"]


def test_a_log_trimmed_under_the_reader_is_begun_anew(town: Town, restless: Restless) -> None:
    for i in range(300):
        town.cell.jobs.submit([job(f"filler-{i}", SMALL)], 9, "ada")
    last = town.cell.counters()["version"]
    restless.hooked.before["facts"] = [lambda: town.client.xtrim(town.prefix + "log", minid="31-0", approximate=False)]
    report = verify(restless)
    assert report.ok, report.violations
    assert 31 < report.log_from_version < last
    assert report.log_from_version == 31 + 256, "with a margin, so that trimming does not overtake it again"


def test_a_log_that_is_whole_is_read_whole_after_the_store_went_back(town: Town) -> None:
    log = Log(town.cell)
    assert log.follow()
    log.at += 1  # as if it had seen a later version
    assert not log.follow()
    assert (log.margin, log.at, log.books.complete) == (256, 0, True)


def test_facts_trimmed_before_they_said_what_changed_make_the_reading_start_over(
    town: Town, restless: Restless
) -> None:
    def happen() -> None:
        CHANGES["place"](town)
        town.client.xtrim(town.prefix + "log", maxlen=0, approximate=False)

    restless.hooked.after["jobs"] = [happen]
    report = verify(restless)
    assert report.ok, report.violations
    assert report.log_from_version == report.version + 1
    assert report.checked["facts"] == 0


def test_a_store_that_went_back_in_time_is_read_anew(town: Town, restless: Restless) -> None:
    saved = {key: (max(town.client.pttl(key), 0), town.client.dump(key)) for key in town.client.keys(town.prefix + "*")}

    def fail_over() -> None:
        for key in town.client.keys(town.prefix + "*"):
            town.client.delete(key)
        for key, (ttl, value) in saved.items():
            town.client.restore(key, ttl, value)

    CHANGES["place"](town)
    restless.hooked.before["machines"] = [fail_over]
    report = verify(restless)
    assert report.ok, report.violations
    assert report.version == 40


def test_what_is_read_is_what_one_version_holds(town: Town) -> None:
    reading = town.cell.log.read_records()
    assert reading is not None
    primary, indexes, kept = reading
    assert (primary.version, kept) == (town.cell.counters()["version"], None)
    named = {name: job_id or name for name, job_id in _text(indexes["jobnames"]).items()}
    assert named == town.cell.jobs.names()
    assert primary.arrivals.keys() == {name for ids in town.cell.schedulers.pending().values() for name in ids}
    assert sorted(primary.rows) == list(range(8))
    assert {*primary.runs} == {*town.cell.machines.runs(range(8))}


def _text(content: Content) -> dict[str, str]:
    assert isinstance(content, dict)
    return {name.decode(): value.decode() for name, value in content.items()}


def test_the_report_as_json(town: Town) -> None:
    assert verify(town.cell).as_json() == {
        "ok": True,
        "checked": {"machines": 8, "tasks": 80, "jobs": 12},
        "violations": [],
        "settled": True,
        "version": 40,
        "log": {"from_version": 1, "facts": 63},
        "evictions": {"sets": 0, "checked": 0},
        "constraints": {"claims": 0, "checked": 0},
        "cuts": [],
    }


def test_a_violation_as_json() -> None:
    report = Report({"machines": 1, "tasks": 2, "jobs": 3, "facts": 4}, (Violation(1, "what", "where"),), True, 9, 1)
    assert report.as_json()["violations"] == [{"invariant": 1, "what": "what", "where": "where"}]
    assert report.as_json()["ok"] is False


def test_a_new_cell_is_ok(fake_redis: fakeredis.FakeRedis) -> None:
    report = verify(RedisCell.create(fake_redis, "empty"))
    assert report.ok, report.violations
    assert report.checked == {"machines": 0, "tasks": 0, "jobs": 0, "facts": 0}


def test_a_machine_that_left_is_not_counted(town: Town) -> None:
    town.cell.machines.set_state(5, MachineState.GONE, 9, "ada")
    report = verify(town.cell)
    assert report.ok, report.violations
    assert report.checked["machines"] == 7
