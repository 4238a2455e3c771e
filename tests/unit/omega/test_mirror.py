"""Lists, filters, reasons, pools and series of a mirror, on a cell in memory."""

from collections.abc import Callable
from typing import Any

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.events import LogEntry
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.queries import jobs, pool_shares
from omega.queries.mirror import CellMirror, Index, JobFilter, event_ring, loading
from omega.queries.mirror.counted import Counted
from omega.queries.mirror.event_ring import EventRing
from omega.queries.mirror.job_pages import SORTS
from omega.queries.mirror.machine_columns import STATES
from omega.queries.room import Room
from omega.schedulers.process.epochs import Publisher


def job(name: str, count: int = 1, kind: str = "batch", *, cpu: int = 1000, **spec: Any) -> JobSpec:
    return JobSpec(f"id-{name}", name, kind, (TaskGroup((cpu, 256), count),), spec=spec)


@pytest.fixture
def cell() -> MemoryCell:
    made = MemoryCell()
    made.executors.register("here", "n", 600_000, 0)
    made.machines.join("here", [MachineSpec(f"m{i}", (4000, 4096), {"rack": f"r{i % 2}"}) for i in range(4)], 0)
    return made


@pytest.fixture
def scheduler(cell: MemoryCell) -> Membership:
    return cell.schedulers.register("batch/0", "n", 600_000, 0)


def mirrored(cell: MemoryCell, at_ms: int = 10_000) -> CellMirror:
    mirror = CellMirror(cell, "store")
    mirror.read(at_ms)
    return mirror


def place(cell: MemoryCell, me: Membership, number: int, claims: dict[str, int]) -> None:
    transactions = [Transaction(name, (Claim(machine, 0, 1),)) for name, machine in claims.items()]
    cell.schedulers.commit(CommitRequest(me, number, transactions, Position(), 1_000 * number))


def names(document: dict[str, Any]) -> list[str]:
    return [row["name"] for row in document["jobs"]]


VALUES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "submitted": lambda _: 0,
    "changed": lambda row: row["modify_index"],
    "modified": lambda row: row["modify_index"],
    "precedence": lambda row: row["precedence"],
    "tasks": lambda row: row["counts"]["total"],
    "placed": lambda row: row["counts"]["placed"],
    "waiting": lambda row: row["counts"]["pending"],
    "user": lambda row: row["user"] or "",
    "pool": lambda _: 0,
    **{name: lambda row, name=name: row[name] for name in ("name", "state", "kind")},  # type: ignore[misc]
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_of_every_order_have_each_job_once(cell: MemoryCell, sort: str, descending: bool) -> None:
    for i in (3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 7, 93):
        user: dict[str, Any] = {"user": f"u{i % 2}"} if i % 3 else {}
        cell.jobs.submit([job(f"j{i % 5}-{i}", 1 + i % 4, ("batch", "service")[i % 2], cpu=1000, **user)], i, "ada")
    mirror, found, cursor = mirrored(cell), list[dict[str, Any]](), None
    order = ("-" if descending else "") + sort
    for _ in range(6):
        document = mirror.jobs(sort=order, limit=5, cursor=cursor)
        found += document["jobs"]
        cursor = document["next"]
        if cursor is None:
            break
    assert (document["total"], len(found)) == (12, 12)
    submitted = {row["id"]: number for number, row in enumerate(mirror.jobs()["jobs"])}
    keys = [(VALUES[sort](row), submitted[row["id"]]) for row in found]
    assert keys == sorted(keys, reverse=descending)


def test_orders_and_cursors_that_are_none_are_refused(cell: MemoryCell) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    mirror = mirrored(cell)
    for sort, cursor in (("size", None), ("name", "x y"), ("tasks", "1 x"), ("", "-"), ("", "1" * 30), ("tasks", "²")):
        with pytest.raises(BadInput):
            mirror.jobs(sort=sort, cursor=cursor)


def test_the_order_of_names_is_kept_while_jobs_come_and_go(cell: MemoryCell) -> None:
    cell.jobs.submit([job(name) for name in "dbfa"], 0, "ada")
    mirror = mirrored(cell)
    assert names(mirror.jobs(sort="name")) == ["a", "b", "d", "f"]
    cell.jobs.submit([job(name) for name in "ec"], 0, "ada")
    table = mirror.held.table
    mirror.read(11_000)
    table.drop("id-b")
    assert names(mirror.jobs(sort="name")) == ["a", "c", "d", "e", "f"]
    assert names(mirror.jobs(sort="-name", limit=2)) == ["f", "e"]


def test_filters(cell: MemoryCell, scheduler: Membership) -> None:
    cell.pools.set(Pools((Pool("org"), Pool("web", "org"), Pool("lab", "org"), Pool("ops"))), None, 0, "ada")
    cell.jobs.submit(
        [job("a", user="ada", pool="web"), job("b", user="bob", pool="lab"), job("c", pool="ops")], 0, "ada"
    )
    cell.jobs.submit([job("ab", kind="service", pool="web"), job("big", cpu=99_000, pool="ops")], 0, "ada")
    place(cell, scheduler, 1, {"id-a": 0})
    mirror = mirrored(cell)

    def listed(**options: str) -> list[str]:
        found = mirror.jobs(JobFilter(**options), sort="submitted")
        assert found["total"] == len(found["jobs"])
        return names(found)

    assert listed(state="running") == ["a"]
    assert listed(state="pending") == ["b", "c", "ab", "big"]
    assert (listed(kind="service"), listed(kind="none"), listed(user="bob"), listed(user="eve")) == (
        ["ab"],
        [],
        ["b"],
        [],
    )
    assert (listed(pool="web"), listed(pool="org"), listed(pool="ops")) == (["a", "ab"], ["a", "b", "ab"], ["c", "big"])
    assert (listed(name="b"), listed(name="id-b")) == (["b", "ab", "big"], ["b", "big"])
    assert listed(reason="TOO_LARGE", pool="ops") == ["big"]
    assert listed(reason="NO_SCHEDULER") == ["ab"]
    assert listed(name="a", state="pending", kind="service") == ["ab"]


def test_a_job_is_found_as_commands_find_it(cell: MemoryCell) -> None:
    cell.jobs.submit([job("a"), job("b")], 0, "ada")
    mirror = mirrored(cell)
    for asked in ("id-a", "a", "id-b"):
        assert mirror.find_job(asked).id == jobs.find_job(cell, asked).id
    for asked in ("id-", "none", ""):
        with pytest.raises(Refused) as own:
            mirror.find_job(asked)
        with pytest.raises(Refused) as theirs:
            jobs.find_job(cell, asked)
        assert str(own.value) == str(theirs.value)
    assert mirror.job_row("id-a") == mirror.jobs()["jobs"][0]
    assert mirror.job_row("none") is None
    assert mirror.job_index("id-a") == mirror.index.version == mirror.topic_index("job:id-a").version
    cell.jobs.hold("id-b", 0, "ada")
    mirror.read(11_000)
    assert mirror.job_index("id-a") < mirror.job_index("id-b") == mirror.index.version
    assert mirror.job_index("none") == 0


def test_jobs_that_schedulers_delay_or_fail_at_have_reasons_of_their_own(
    cell: MemoryCell, scheduler: Membership
) -> None:
    cell.jobs.submit([job(name) for name in "abc"], 0, "ada")
    figures = {"failing": {"ValueError": ["id-a"]}, "delayed": {"id-b": [20_000, "rack"]}}
    cell.schedulers.renew(scheduler, 600_000, figures)
    mirror = mirrored(cell)
    room = Room(cell)
    wanted = {each.name: str(room.reason(each)) for each in cell.jobs.all()}
    assert wanted == {"a": "FAILING", "b": "LOCALITY", "c": "WAITING"}
    assert {row["name"]: row["reason"] for row in mirror.jobs()["jobs"]} == wanted
    assert mirror.reasons() == {reason: {"jobs": 1, "tasks": 1} for reason in sorted(wanted.values())}
    assert [names(mirror.jobs(JobFilter(reason=wanted[name]))) for name in "abc"] == [["a"], ["b"], ["c"]]
    assert mirror.jobs()["jobs"][1]["delay"]["level"] == "rack"


def test_a_job_that_spreads_waits_for_the_machines_of_its_own_tasks(cell: MemoryCell, scheduler: Membership) -> None:
    """What is on machines is read for such jobs alone."""
    group = TaskGroup((1000, 256), 5, spec={"different_machines": True})
    near = TaskGroup((1000, 256), 1, spec={"near": [{"job": "wide", "required": True}]})
    cell.jobs.submit([JobSpec("wide", "wide", "batch", (group,)), JobSpec("near", "near", "batch", (near,))], 0, "ada")
    cell.schedulers.commit(
        CommitRequest(scheduler, 1, [Transaction("wide", tuple(Claim(m, 0, 1) for m in range(4)))], Position(), 1)
    )
    mirror = mirrored(cell)
    room = Room(cell)
    assert {row["name"]: row["reason"] for row in mirror.jobs()["jobs"]} == {
        each.name: str(room.reason(each)) for each in cell.jobs.all()
    }
    assert mirror.job_row("wide")["reason"] not in ("WAITING", "RESOURCES")  # type: ignore[index]


def test_equal_jobs_of_a_queue_are_apart_in_shares(cell: MemoryCell, scheduler: Membership) -> None:
    cell.pools.set(Pools((Pool("q", mode="fifo"), Pool("f"))), None, 0, "ada")
    for number in range(4):
        cell.jobs.submit([job(f"q{number}", 3, pool="q"), job(f"f{number}", 3, pool="f")], number, "ada")
    place(cell, scheduler, 1, {"id-q0": 0, "id-f0": 1})
    mirror = mirrored(cell)
    assert len(mirror._reader.demands) == 4
    assert mirror.pools() == pool_shares.pools_json(cell)
    Publisher(cell).publish("batch/0", 1_000)
    mirror.read(11_000)
    assert mirror.pools() == pool_shares.pools_json(cell)
    assert mirror.pools()["epoch"]["number"] == 1


def test_columns_and_room_of_machines(cell: MemoryCell, scheduler: Membership) -> None:
    cell.jobs.submit([job("a", cpu=2000), job("b", cpu=3000)], 0, "ada")
    place(cell, scheduler, 1, {"id-a": 0, "id-b": 1})
    cell.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    cell.machines.set_state(3, MachineState.GONE, 0, "ada")
    mirror = mirrored(cell)
    columns = mirror.machine_columns(["rack", "zone"])
    assert columns.index.tolist() == [0, 1, 2]
    assert [STATES[state] for state in columns.state] == ["up", "up", "drained"]
    assert (columns.fraction["cpu"].tolist(), columns.tasks.tolist()) == ([0.5, 0.75, 0.0], [1, 1, 0])
    assert [columns.values["rack"][code] for code in columns.attributes["rack"]] == ["r0", "r1", "r0"]
    assert columns.attributes["zone"].tolist() == [0, 0, 0]
    assert mirror.room() == {
        "free": {"cpu": 3000, "memory": 7680}, "most": {"cpu": 2000, "memory": 3840},
        "largest_task": {"cpu": 2000, "memory": 3840}, "machine": "m0",
    }  # fmt: skip
    assert [row["name"] for row in mirror.machines(attributes={"rack": "r0"})["machines"]] == ["m0", "m2"]
    assert mirror.machines(attributes={"rack": "none"})["total"] == 0
    assert mirror.attribute_names() == ["machine", "rack"]


def test_the_last_hour_has_rates_between_heartbeats(cell: MemoryCell, scheduler: Membership) -> None:
    mirror = mirrored(cell)

    def beat(at_ms: int, seconds: float, busy: float, think: float) -> None:
        figures = {"seconds": seconds, "busy_seconds": busy, "conflicts": 1, "accepted": 10, "think_seconds": think}
        cell.schedulers.renew(scheduler, 600_000, figures | {"wait_mean": 0.5})
        mirror.read(at_ms)

    beat(20_000, 10.0, 1.0, 0.5)
    beat(30_000, 20.0, 5.0, 1.5)
    series = mirror.history()["schedulers"]["batch/0"]
    assert (series["at_ms"], series["conflict_fraction"]) == ([30_000], [0.0])
    assert [series[name][0] for name in ("thinking", "committing", "waiting")] == pytest.approx([0.1, 0.3, 0.6])
    assert mirror.history()["since_ms"] == 10_000
    cell.jobs.submit([job("a")], 0, "ada")
    place(cell, scheduler, 1, {"id-a": 0})
    mirror.read(40_000)
    assert mirror.history()["cell"]["placed_per_second"][-1] == 0.1
    mirror.read(90_000)
    assert mirror.history()["since_ms"] == 90_000, "nobody read for a while"


def test_indexes_are_read_as_they_are_written() -> None:
    for index in (Index(), Index(12, "ab.c".replace(".", ""), 0), Index(12, "abc", 7)):
        assert Index.read(str(index)) == Index.read(f'"{index}"') == index
    for text in ("", "x-abc", "1-abc.x", "1" * 200):
        with pytest.raises(BadInput):
            Index.read(text)
    assert Index(2, "b", 1).passes(Index(2, "a", 0))
    assert not Index(2, "b", 1).passes(Index(3, "a", 0))


def test_changes_of_figures_raise_the_beat(cell: MemoryCell, scheduler: Membership) -> None:
    mirror = mirrored(cell)
    before = mirror.index
    mirror.read(11_000)
    assert mirror.index == before
    cell.schedulers.renew(scheduler, 600_000, {"seconds": 1.0})
    mirror.read(12_000)
    assert mirror.index == before._replace(beat=before.beat + 1)
    assert mirror.topic_index("schedulers").passes(before)
    assert not mirror.topic_index("jobs").passes(before)
    assert mirror.has(before)


def test_a_part_of_the_jobs_is_another_state_than_all_of_them(
    cell: MemoryCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a browser would keep a page of which the reader had read only a part."""
    monkeypatch.setattr(loading, "JOBS_AT_ONCE", 2)
    monkeypatch.setattr(loading, "PARTS_AT_ONCE", 1)
    cell.jobs.submit([job(f"j{number}") for number in range(5)], 0, "ada")
    mirror = mirrored(cell)
    seen = list[tuple[Index, int, int]]()
    for number in range(5):
        done, total = mirror.loading
        seen.append((mirror.index, done, mirror.jobs()["total"]))
        assert (done == total) == (mirror.jobs()["total"] == 5)
        mirror.read(11_000 + number)
    assert [total for *_, total in seen] == [2, 4, 5, 5, 5]
    assert seen[0][0] < seen[1][0] < seen[2][0] == seen[3][0]
    assert names(mirror.jobs()) == [f"j{number}" for number in range(5)]


def test_what_was_read_once_is_shown_while_it_is_read_again(
    cell: MemoryCell, scheduler: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of changed machines the former attributes, of jobs the former state; a machine that joined has its name."""
    cell.jobs.submit([job("a", 2)], 0, "ada")
    mirror = mirrored(cell)
    monkeypatch.setattr(loading.Loading, "step", lambda _: None)
    cell.machines.set_attributes(1, {"rack": "r9"}, 0, "ada")
    cell.machines.join("here", [MachineSpec("m8", (4000, 4096), {"rack": "r8"})], 0)
    mirror.read(11_000)
    assert (mirror.loading[0], mirror.again) == (mirror.loading[1], None)
    rows = {row["name"]: row["attributes"]["rack"] for row in mirror.machines()["machines"]}
    assert rows == {"m0": "r0", "m1": "r1", "m2": "r0", "m3": "r1", "m8": "r8"}
    mirror._reader.loading.begin_again()  # the store lost versions, or entries of the log were missed
    mirror.read(12_000)
    assert mirror.loading[0] == mirror.loading[1]
    assert mirror.again == (0, 6)
    assert names(mirror.jobs()) == ["a"]
    assert mirror.pools_read() is not None
    monkeypatch.undo()
    before = mirror.index
    mirror.read(13_000)
    assert (mirror.loading, bool(mirror.again)) == ((6, 6), False)
    assert all(mirror.topic_index(topic).passes(before) for topic in ("cell", "jobs", "machines"))
    assert mirror.machines()["machines"][1]["attributes"]["rack"] == "r9"


def test_events_are_those_after_an_index_or_before_a_version(cell: MemoryCell) -> None:
    mirror = mirrored(cell)
    before = mirror.index
    for number in range(5):
        cell.jobs.submit([job(f"j{number}")], number, "ada")
    mirror.read(11_000)

    def of(**options: Any) -> list[str | None]:
        return [event.get("job") for event in mirror.events(**options)["events"]]

    assert of(after=before) == [f"id-j{number}" for number in range(5)]
    assert of(after=before, limit=2) == ["id-j0", "id-j1"]
    assert of(limit=2) == ["id-j3", "id-j4"]
    assert of(limit=2, before=mirror.index.version) == ["id-j2", "id-j3"]
    assert of(job="id-j3") == ["id-j3"]
    assert of(kinds=["join"]) == [None] * 4
    document = mirror.events(after=Index(1, "unknown"), limit=1)
    assert (document["reset"], [event["job"] for event in document["events"]]) == ("1-unknown", ["id-j4"])


def test_the_ring_keeps_the_newest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "MOST_ENTRIES", 40)
    monkeypatch.setattr(event_ring, "MOST_LETTERS", 400)
    ring = EventRing()
    entries = [LogEntry(version=n, at_ms=n, by="ada", facts=f"attempt j{n:04}") for n in range(1, 200)]
    for entry in entries:
        ring.add([entry])
    kept = [entry.version for entry in ring.newest_first()]
    assert kept == list(range(199, 199 - len(kept), -1))
    assert 400 - 30 < sum(len(entry.facts) for entry in ring.after(0)) <= 400
    assert (ring.first, ring.last) == (kept[-1], 199)
    assert [entry.version for entry in ring.after(196)] == [197, 198, 199]
    ring.cut_after(190)
    assert (ring.last, ring.missing[-1].as_json()) == (190, {"lost": {"from": 191, "to": 199}})


def test_numbers_of_values_are_used_again() -> None:
    counted = Counted[str]()
    one, two = counted.enter("one", lambda: "1"), counted.enter("two", lambda: "2")
    assert (counted.enter("one", lambda: "other"), counted.jobs(one), counted.value(one)) == (one, 2, "1")
    counted.leave(two)
    assert counted.enter("three", lambda: "3") == two
    assert dict(counted.items()) == {one: "1", two: "3"}
    counted.leave(two)
    with pytest.raises(KeyError):
        counted.value(two)
    assert len(counted) == 1
