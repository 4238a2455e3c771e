"""`omega top` follows a cell by what changed; `--once` prints a frame, `--json` a document."""

import sys
from collections.abc import Sequence

import pytest

from omega.cellstate.errors import Refused
from omega.cellstate.events import Fact, LogEntry
from omega.cellstate.model import JobSpec, Machine, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.top import command
from omega.cli.top.head import head
from omega.cli.top.once import document
from omega.queries.mirror import TopMirror, event_ring, overviews
from omega.queries.mirror.overviews import MOST_WAITING
from omega.queries.pool_shares import pools_json
from omega.schedulers.process.epochs import Publisher
from tests.cli.conftest import Omega, join

pytestmark = pytest.mark.server


def job(name: str, count: int = 1, kind: str = "batch", cpu: int = 1000) -> JobSpec:
    return JobSpec(name, name, kind, (TaskGroup((cpu, 256), count),))


def place(cell: RedisCell, me: Membership, number: int, name: str, machine: int, count: int) -> None:
    cell.schedulers.commit(
        CommitRequest(me, number, [Transaction(name, (Claim(machine, 0, count),))], Position(), 11_000)
    )


def test_machines_are_followed_from_read_to_read(cell: RedisCell) -> None:
    join(cell, 3)
    mirror = TopMirror(cell, "store")
    assert [each.name for each in mirror.look(10_000).machines] == ["m0", "m1", "m2"]
    cell.machines.set_state(1, MachineState.GONE, 10_000, "ada")
    cell.machines.set_state(2, MachineState.DOWN, 10_000, "ada")
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec("m3", (1000, 1024), {"rack": "r1"})], 10_000)
    seen = mirror.look(11_000)
    assert [(each.name, each.state, each.attributes) for each in seen.machines] == [
        ("m2", MachineState.DOWN, {}),
        ("m0", MachineState.UP, {}),
        ("m3", MachineState.UP, {"rack": "r1"}),
    ]
    cell.machines.join("here", [MachineSpec("m1", (2000, 1024), {"rack": "r2"})], 10_000)
    assert sorted(mirror.look(12_000).machines, key=lambda each: each.index) == cell.machines.all()


def test_what_waits_and_why(cell: RedisCell) -> None:
    join(cell, 1)
    cell.jobs.submit([job("small"), job("large", cpu=99_000), job("web", kind="service")], 5_000, "ada")
    cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    seen = TopMirror(cell, "store").look(10_000)
    assert [(each.job.name, each.reason) for each in seen.queue] == [
        ("small", "WAITING"),
        ("large", "TOO_LARGE"),
        ("web", "NO_SCHEDULER"),
    ]
    assert seen.depths == {"batch": 2, "service": 1}


def test_of_many_waiting_jobs_the_first_are_read(cell: RedisCell) -> None:
    cell.jobs.submit([job(f"j{number}") for number in range(MOST_WAITING + 50)], 5_000, "ada")
    seen = TopMirror(cell, "store").look(10_000)
    assert (len(seen.queue), seen.jobs["pending"]) == (MOST_WAITING, MOST_WAITING + 50)
    assert seen.queue[0].job.name == "j0"


def test_running_jobs_are_listed_newest_first(cell: RedisCell) -> None:
    join(cell, 2)
    cell.jobs.submit([job("a", 2), job("b", 3), job("c", 1)], 5_000, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    place(cell, me, 1, "a", 0, 2)
    place(cell, me, 2, "b", 1, 2)  # one of three is pending
    mirror = TopMirror(cell, "store")
    seen = mirror.look(10_000)
    assert ([each.job.name for each in seen.running], seen.jobs["running"]) == (["b", "a"], 2)
    assert seen.jobs == cell.sums().jobs
    assert [each.job.name for each in seen.queue] == ["b", "c"]
    place(cell, me, 3, "c", 1, 1)
    assert [each.job.name for each in mirror.look(11_000).running] == ["c", "b", "a"]
    cell.jobs.stop("a", 11_500, "ada")
    assert [each.job.name for each in mirror.look(12_000).running] == ["c", "b"]


def test_all_events_are_listed_and_trouble_stays(cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "MOST_CHANGES", 3)
    join(cell, 1)
    cell.machines.set_state(0, MachineState.DRAINED, 9_000, "ada")
    mirror = TopMirror(cell, "store")
    for number in range(4):
        cell.jobs.submit([job(f"j{number}")], 9_500 + number, "ada")
        mirror.look(10_000 + number)
    texts = [each.text for each in mirror.look(11_000).changes]
    assert texts[:3] == [f"submitted j{n} (j{n}), 1 task of kind batch" for n in (3, 2, 1)]
    assert texts[3:] == ["m0 is drained", "here joined (incarnation 1)"]


def test_rates_are_of_the_time_between_two_reads(cell: RedisCell) -> None:
    join(cell, 2)
    cell.jobs.submit([job("a", 8)], 5_000, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    mirror = TopMirror(cell, "store")
    mirror.look(10_000)
    place(cell, me, 1, "a", 0, 3)
    place(cell, me, 2, "a", 0, 3)  # one fits, two are a conflict
    seen = mirror.look(12_000)
    assert (seen.rates.placed, seen.rates.conflict_fraction) == (2.0, 1.0)
    assert seen.past["placed"] == (0.0, 2.0)
    assert seen.past["cpu"] == (0.0, 0.5)
    assert seen.changes[0].text == "conflict of a (a) on m0: full · placed 1 task of a (a) on m0"
    cell.machines.set_state(0, MachineState.DOWN, 12_500, "ada")
    seen = mirror.look(13_000)
    assert seen.rates.evicted == 4.0
    assert seen.changes[0].text == "m0 is down · 4 tasks of a (a) evicted on m0: down"
    assert mirror.look(14_000).rates.evicted == 0.0


def test_a_scheduler_is_measured_between_its_last_two_heartbeats(cell: RedisCell) -> None:
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    mirror = TopMirror(cell, "store")
    assert mirror.look(10_000).members[0].busyness is None

    def beat(seconds: float, busy: float, conflicts: int, accepted: int) -> None:
        figures = {"seconds": seconds, "busy_seconds": busy, "conflicts": conflicts, "accepted": accepted}
        cell.schedulers.renew(me, 60_000, figures)

    beat(10.0, 1.0, 0, 10)
    assert mirror.look(11_000).members[0].busyness == pytest.approx(0.1)
    beat(12.0, 2.0, 5, 20)
    member = mirror.look(12_000).members[0]
    assert (member.busyness, member.conflict_fraction) == (0.5, 0.5)
    assert mirror.look(13_000).members[0].past == (0.1, 0.5)
    beat(1.0, 1.0, 0, 0)  # started again
    assert mirror.look(14_000).members[0].busyness == 1.0


def test_pools_that_starve_have_the_state_of_the_list(cell: RedisCell) -> None:
    """Schedulers report who starves; `omega pool list` and `omega top` print one word for one state."""
    join(cell, 1)
    cell.pools.set(Pools((Pool("web"),)), 0, 0, "ada")
    cell.jobs.submit([JobSpec("x", "x", "batch", (TaskGroup((1000, 256), 2),), spec={"pool": "web"})], 5_000, "ada")
    Publisher(cell).publish("batch/0", 1_000)
    mirror = TopMirror(cell, "store")
    assert [each.status for each in mirror.look(10_000).pools] == ["below fair share"]
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 3_000)
    cell.schedulers.renew(me, 60_000, {"starving": {"web": "starving"}})
    assert [each.status for each in mirror.look(10_000).pools] == ["starving"]
    assert [row["status"] for row in pools_json(cell)["pools"]] == ["starving"]


def test_a_frame_as_text_and_as_a_document(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    cell.jobs.submit([job("a", 3), job("b", 99)], 5_000, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    place(cell, me, 1, "a", 0, 3)
    cell.executors.end(
        [TaskEnd(run.machine, run.placement, EndKind.FAILED, "0") for run in cell.machines.runs([0])], 11_000, "here"
    )
    cell.machines.set_state(1, MachineState.DRAINED, 12_000, "ada")
    text = omega.text("top", "--once")
    for part in (
        "2 machines: 1 up, 1 drained",
        "queued jobs: 1 batch",
        "jobs 1 pending, 1 running",
        "RESOURCES",
        "batch/0    live",
        "m1       drained",
        "1 task of a (a) failed on m0",
    ):
        assert part in text, text
    found = omega.json("top")
    assert found["machines"] == {
        "total": 2,
        "up": 1,
        "drained": 1,
        "down": 0,
        "offline": 0,
        "unfit": 0,
        "over": 0,
        "full": 0,
    }
    assert found["utilisation"]["cpu"] == {"allocated": 2000, "capacity": 8000, "fraction": 0.25}
    assert found["queue"][0]["counts"]["pending"] == 99
    assert [each["name"] for each in found["troubled"]] == ["m1"]
    assert {each["kind"] for each in found["events"]} == {"join", "submit", "register", "place", "failed", "machine"}
    assert found["schedulers"][0]["lately"] == {"busyness": None, "conflict_fraction": None}


def test_figures_of_a_cell_that_changes_meanwhile_are_approximate(
    cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(cell, 2)
    mirror, kinds = TopMirror(cell, "store"), cell.pools.kinds
    exact = mirror.look(10_000)
    assert document(exact)["exact"]
    assert "approximate" not in head(exact, 200)[0].plain
    monkeypatch.setattr(cell.pools, "kinds", lambda: (cell.jobs.submit([job("a")], 5_000, "ada"), kinds())[1])
    cell.jobs.submit([job("before")], 5_000, "ada")
    found = mirror.look(11_000)
    assert not document(found)["exact"]
    assert "approximate: the cell changed while it was read" in head(found, 200)[0].plain


def test_it_wants_a_terminal(omega: Omega, cell: RedisCell) -> None:
    assert omega.error("top") == "omega top: needs a terminal; use omega top --once for one frame"


def test_textual_may_be_missing(omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("omega.cli.top.screen", "omega.cli.top.table", "omega.cli.top.pages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setattr(command, "at_a_terminal", lambda: True)
    assert omega.error("top") == (
        "omega top: textual is not installed; pip install 'omega-scheduler[top]', or use omega top --once"
    )


def test_a_cell_that_is_deleted_ends_it(store_url: str, cell: RedisCell) -> None:
    mirror = TopMirror(cell, "store")
    mirror.look(10_000)
    cell.delete()
    with pytest.raises(Refused, match="unknown cell"):
        mirror.look(11_000)


def test_header_rows_and_cell_status_count_running_jobs_alike(omega: Omega, cell: RedisCell) -> None:
    """A job of which some tasks are placed and some pending is running, as in `omega job list`."""
    join(cell, 2)
    cell.jobs.submit([job("a", 2), job("b", 3), job("c", 1), job("d", 1)], 5_000, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, 5_000)
    place(cell, me, 1, "a", 0, 2)
    place(cell, me, 2, "b", 1, 2)
    frame, document, counted = omega.text("top", "--once"), omega.json("top", "--once"), omega.json("cell", "status")
    listed = {state: len(omega.json("job", "list", "--state", state)["jobs"]) for state in ("pending", "running")}
    assert listed == {"pending": 2, "running": 2} == {word: counted["jobs"][word] for word in listed}
    assert "jobs 2 pending, 2 running\n" in frame
    assert "queued jobs: 3 batch" in frame, "those that schedulers have to do with"
    rows = frame.partition("jobs 2 pending")[2].partition("\nschedulers")[0]
    assert (rows.count(" running "), rows.count(" pending ")) == (2, 2)
    running = document["running"]
    assert (running["total"], [each["name"] for each in running["jobs"]]) == (2, ["b", "a"])


def test_a_version_of_many_facts_is_not_read_task_by_task(cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    join(cell, 40)
    me = cell.schedulers.register("batch/0", "n", 60_000, 10_000)
    cell.jobs.submit([job(f"j{i}") for i in range(40)], 10_000, "ada")
    placings = [Transaction(f"j{i}", (Claim(i, 0, 1),)) for i in range(40)]
    cell.schedulers.commit(CommitRequest(me, 1, placings, Position(), 11_000))
    monkeypatch.setattr(overviews, "MOST_FACTS", 30)
    names, versions = list[int](), list[int]()
    machines_at, facts_of = cell.machines.at, event_ring.facts_of

    def read_machines(indices: Sequence[int]) -> list[Machine]:
        names.extend([len(indices)] if indices else [])
        return machines_at(indices)

    def read_facts(entry: LogEntry) -> list[Fact]:
        versions.append(entry.version)
        return facts_of(entry)

    monkeypatch.setattr(cell.machines, "at", read_machines)
    monkeypatch.setattr(overviews, "facts_of", read_facts)
    assert sum(len(each.events) for each in TopMirror(cell, "store").look(11_000).changes) >= 40
    assert versions == [cell.counters()["version"]], "the facts of the last version are enough"
    assert len(names) <= 3, names
