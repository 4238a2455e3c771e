"""`omega machine`: finding, seeing and changing machines."""

import time

import pytest

from omega.cellstate.model import Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.queries.mirror import CellMirror
from tests.cli.conftest import Omega, eventually, join, scheduler


def machine(name: str, index: int, **other: object) -> dict[str, object]:
    """What the list says of a machine of 4 cores and 4 GiB that joined first and alone."""
    return {
        "name": name,
        "index": index,
        "state": "up",
        "over": False,
        "unfit": None,
        "capacity": {"cpu": 4000, "memory": 4096},
        "allocated": {"cpu": 0, "memory": 0},
        "tasks": 0,
        "number": 1,
        "executor": 1,
        "attributes": {},
    } | other


def placed(cell: RedisCell, job_id: str) -> bool:
    job = cell.jobs.get(job_id)
    return isinstance(job, Job) and not job.unplaced


def test_list_and_add(omega: Omega) -> None:
    assert omega.json("machine", "list") == {"cell": omega.cell, "total": 0, "next": None, "machines": []}
    words = ("machine", "add", "a", "b", "--cpu", "4", "--memory", "4Gi", "--attribute", "rack=r1")
    assert omega.json(*words) == {"cell": omega.cell, "added": ["a", "b"], "unchanged": 0, "executor_lives": False}
    assert omega.json(*words) == {"cell": omega.cell, "added": [], "unchanged": 2, "executor_lives": False}
    assert omega.json("machine", "list") == {
        "cell": omega.cell,
        "total": 2,
        "next": None,
        "machines": [
            machine("a", 0, state="offline", attributes={"rack": "r1"}),
            machine("b", 1, state="offline", attributes={"rack": "r1"}),
        ],
    }
    assert omega.text("machine", "list").splitlines() == [
        "machine  index  state    cpu  memory  tasks  attributes",
        "a            0  offline  0/4   0/4Gi      0  rack=r1",
        "b            1  offline  0/4   0/4Gi      0  rack=r1",
    ]


def test_add_many_by_prefix(omega: Omega) -> None:
    added = omega.json("machine", "add", "rack1-", "--count", "3", "--cpu", "1")["added"]
    assert added == ["rack1-0", "rack1-1", "rack1-2"]
    assert omega.text("machine", "add", "x", "--count", "2", "--cpu", "1") == "2 machines added · cpu 1 each\n"


def test_add_another_under_a_taken_name(omega: Omega) -> None:
    omega.run("machine", "add", "a", "--cpu", "4")
    said = omega.error("machine", "add", "a", "--cpu", "5")
    assert said == (
        f"machine a: in cell {omega.cell} already, with cpu 4; "
        "change it with omega machine resize, remove it first, or choose another name"
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("a",), 2, ("omega machine add: give the resources of each machine, such as --cpu 16 --memory 64Gi; "
                    "see omega machine add --help")),
        (("a", "b", "--cpu", "1", "--count", "2"), 2,
         "omega machine add: with --count there is one NAME, the beginning of all names; see omega machine add --help"),
        (("a b", "--cpu", "1"), 1, "machine name 'a b': use 1 to 128 letters, digits, . _ / -"),
        (("a", "--cpu", "-1"), 1, "cpu: '-1' is negative; amounts start at 0"),
        (("a", "--resource", "gpu=1"), 1, "unknown resource 'gpu'; this cell has cpu, memory"),
        (("a", "--cpu", "1", "--attribute", "r=1", "--attribute", "r=2"), 2,
         ("omega machine add: Invalid value for '--attribute': r is given twice; write r=A,B for several values; "
          "see omega machine add --help")),
    ],
)  # a table # fmt: skip
def test_bad_machines_are_refused(omega: Omega, words: tuple[str, ...], code: int, message: str) -> None:
    assert omega.error("machine", "add", *words, code=code) == message
    assert omega.json("machine", "list")["total"] == 0


def test_a_machine_is_found_by_name_index_or_prefix(omega: Omega) -> None:
    omega.run("machine", "add", "alpha", "beta", "bravo", "--cpu", "1")
    for asked in ("beta", "1", "be"):
        assert omega.json("machine", "status", asked)["name"] == "beta"
    assert omega.error("machine", "status", "b") == (
        f"machine 'b': 2 machines of cell {omega.cell} begin so (beta, bravo); write more of the name"
    )
    assert omega.error("machine", "status", "7") == f"machine '7': not in cell {omega.cell}; see omega machine list"


def test_states_come_and_go(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    changed = {"name": "m0", "index": 0, "before": "up", "state": "drained", "put_back": 0, "tasks": 0}
    assert omega.json("machine", "drain", "m0") == {"cell": omega.cell, "machines": [changed]}
    assert omega.text("machine", "drain", "m0") == "machine m0 drained already\n"
    assert [each["name"] for each in omega.json("machine", "list", "--state", "drained")["machines"]] == ["m0"]
    assert omega.text("machine", "down", "m0", "m1") == "machine m0 down\nmachine m1 down\n"
    assert omega.json("machine", "up", "m0")["machines"][0]["before"] == "down"
    assert omega.text("machine", "remove", "m0") == "machine m0 removed\n"
    assert omega.json("machine", "list")["total"] == 1
    assert omega.error("machine", "up", "m0") == f"machine 'm0': not in cell {omega.cell}; see omega machine list"


def test_tasks_of_a_machine_that_fails_are_placed_again(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    cell.jobs.submit([JobSpec("a", "crawl", "batch", (TaskGroup((500, 100), 3, 60_000),))], 1, "ada")
    with scheduler(cell):
        eventually(lambda: placed(cell, "a"))
        found = omega.json("machine", "status", "m0")
        assert found["tasks"] == 3
        assert found["allocated"] == {"cpu": 1500, "memory": 300}
        assert found["runs"] == [
            {"placement": 1, "job": "a", "name": "crawl", "user": "", "group": 0, "tasks": "0-2", "leaving": False}
        ]
        text = omega.text("machine", "status", "m0")
        assert "1.5/4 · 38 % in use" in text
        assert "crawl" in text
        assert omega.text("machine", "drain", "m0") == "machine m0 drained · 3 tasks still running\n"
        assert omega.text("machine", "down", "m0") == "machine m0 down · 3 tasks requeued\n"
    job = cell.jobs.get("a")
    assert job is not None
    assert job.unplaced == 3


def test_resize(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    resized = {"cell": omega.cell, "name": "m0", "index": 0, "capacity": {"cpu": 2500, "memory": 4096}, "evicted": 0}
    assert omega.json("machine", "resize", "m0", "--cpu", "2500m") == resized
    jobs = [JobSpec(word, word, "batch", (TaskGroup((500, 0), 2, 60_000),), p) for word, p in (("low", 1), ("high", 9))]
    cell.jobs.submit(jobs, 1, "ada")
    with scheduler(cell):
        eventually(lambda: placed(cell, "low") and placed(cell, "high"))
        said = omega.error("machine", "resize", "m0", "--cpu", "1")
        assert said == "machine m0: has more allocated than cpu 1, memory 4Gi; add --evict, or drain it first"
        said = omega.text("machine", "resize", "m0", "--cpu", "1", "--evict")
        assert said == "machine m0 has cpu 1, memory 4Gi · 2 tasks evicted and requeued\n"
    assert [run.job for run in cell.machines.runs([0]) if not run.leaving] == ["high"]
    assert omega.error("machine", "resize", "m0", code=2).startswith("omega machine resize: missing amounts; give")


def test_what_went_wrong_lately(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    now = now_ms()
    cell.jobs.submit([JobSpec("a", "crawl", "batch", (TaskGroup((500, 100), 5, 60_000),), 7)], now, "ada")
    me = cell.schedulers.register("batch/0", "nonce", 60_000, now)
    cell.schedulers.commit(CommitRequest(me, 1, [Transaction("a", (Claim(0, 0, 4),))], Position(), now))
    cell.executors.end([TaskEnd(0, cell.machines.runs([0])[0].placement, EndKind.FAILED, "0", "exit 3")], now, "here")
    cell.schedulers.renew(me, 60_000, {"rejecting_machines": [[0, 12, 3], [1, 1, 1]]})
    none = {"failed": 0, "lost": 0, "evicted": 0, "conflicts": 0}
    found = omega.json("machine", "list", "--verbose")["machines"]
    assert [each["recent"] for each in found] == [none | {"failed": 1}, none]
    result = omega.run("machine", "list", "--verbose")
    assert result.stdout.splitlines()[0].split() == ["machine", "index", "state", "cpu", "memory", "tasks", "failed"]
    assert result.stderr == "1 failed in the last 15m00s\n"
    assert omega.json("cell", "status")["recent"] == {"seconds": 900} | none | {"failed": 1}

    told = omega.json("machine", "status", "m0", "--verbose")
    assert told["rejections"] == {"batch/0": 12}
    assert [event["kind"] for event in told["events"]] == ["join", "place", "failed"]
    assert told["runs"][0]["need"] == {"cpu": 500, "memory": 100}
    text = omega.text("machine", "status", "m0", "--verbose")
    for part in ("12 claims of batch/0", "1 task of crawl (a) failed on m0: exit 3", "cpu 500m, memory 100Mi"):
        assert part in text, text
    assert "events" not in omega.json("machine", "status", "m0")


def test_a_machine_that_rejects_over_and_over_is_marked(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    me = cell.schedulers.register("batch/0", "nonce", 60_000, now_ms())
    cell.schedulers.renew(me, 60_000, {"rejecting_machines": [[0, 12, 10], [1, 40, 9]]})
    assert omega.json("machine", "status", "m0")["rejected_in_a_row"] == {"batch/0": 10}
    assert omega.json("machine", "status", "m1")["rejected_in_a_row"] == {}
    said = omega.run("machine", "status", "m0").stderr
    assert said == "warning: machine m0 rejected 10 claims of batch/0 in a row; drain it if it is faulty\n"
    assert omega.run("machine", "status", "m1").stderr == ""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_limit_of_the_list(omega: Omega, cell: RedisCell) -> None:
    join(cell, 5)
    found = omega.json("machine", "list", "--limit", "2")
    assert (found["total"], len(found["machines"])) == (5, 2)
    assert omega.run("machine", "list", "--limit", "2").stderr == "… 3 more machines (--after 1, --limit)\n"


def test_attributes_are_set_and_taken_away(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    said = omega.json("machine", "set", "m1", "rack=r7", "gpu=yes")
    has = {"gpu": "yes", "rack": "r7"}
    assert said == {"cell": cell.name, "name": "m1", "index": 1, "attributes": has, "evicted": 0}
    assert omega.text("machine", "set", "m1", "gpu=") == "machine m1 has rack=r7\n"
    assert cell.machines.all()[1].attributes == {"rack": "r7"}
    assert "m1 has new attributes" in omega.text("events", "--kind", "machine")
    assert "'rack' is not KEY=VALUE" in omega.error("machine", "set", "m1", "rack", code=2)
    assert "not in cell" in omega.error("machine", "set", "m9", "rack=r1")


def test_attributes_are_given_in_turn_as_by_up(omega: Omega, cell: RedisCell) -> None:
    words = ("machine", "add", "m", "--count", "3", "--cpu", "1", "--attribute", "rack=r1,r2", "--attribute", "zone=a")
    assert omega.json(*words)["added"] == ["m0", "m1", "m2"]
    racks = [{"rack": "r1", "zone": "a"}, {"rack": "r2", "zone": "a"}, {"rack": "r1", "zone": "a"}]
    assert [machine.attributes for machine in cell.machines.all()] == racks
    assert omega.json(*words)["unchanged"] == 3, "the same command again changes nothing"
    said = omega.error("agent", "--attribute", "rack=r1,r2", code=2)
    assert "rack has 2 values for one machine; give one value" in said


def test_list_in_pages(omega: Omega, cell: RedisCell) -> None:
    join(cell, 5)
    omega.run("machine", "remove", "m1")
    names, after = list[str](), list[str]()
    while True:
        page = omega.json("machine", "list", "--limit", "2", *after)
        assert page["total"] == 4
        names += [each["name"] for each in page["machines"]]
        if page["next"] is None:
            break
        after = ["--after", str(page["next"])]
    assert names == ["m0", "m2", "m3", "m4"]


def test_the_removal_of_a_machine_says_that_its_agent_ends(omega: Omega, cell: RedisCell) -> None:
    me = cell.executors.register_agent("h1", "n", 60_000, 0)
    cell.machines.join(me.member, [MachineSpec("h1", (4000, 4096))], 0)
    assert omega.text("machine", "drain", "h1") == "machine h1 drained\n"
    assert omega.text("machine", "remove", "h1") == "machine h1 removed · its agent ends\n"


def test_why_a_machine_cannot_start_tasks_stands_wherever_it_is_looked_for(omega: Omega, cell: RedisCell) -> None:
    lease = cell.executors.register_agent("h", "n", 600_000, 0)
    cell.machines.join("agent/h", [MachineSpec("h", (4_000, 4_096))], 0)
    cell.executors.report_fitness(lease, [0], "No space left on device", 0)
    cell.jobs.submit([JobSpec("j", "j", "batch", (TaskGroup((100, 64), 1),))], 0, "ada")
    why = "No space left on device"
    assert why in omega.text("machine", "list")
    (listed,) = omega.json("machine", "list")["machines"]
    assert (listed["state"], listed["unfit"]) == ("unfit", why)
    assert omega.json("machine", "status", "h")["unfit"] == why
    assert f"agent/h cannot start tasks: {why}" in omega.text("events", "--kind", "unfit")
    assert why in omega.text("job", "why", "j")
    seen = omega.text("top", "--once")
    assert f"unfit: {why}" in seen
    assert f"agent/h cannot start tasks: {why}" in seen
    assert omega.json("top", "--once")["troubled"][0]["unfit"] == why
    mirror = CellMirror(cell, "store")
    mirror.read(10_000)
    assert [row["unfit"] for row in mirror.machines()["machines"]] == [why]
    cell.executors.report_fitness(lease, [0], "", 0)
    mirror.read(11_000)
    assert [row["unfit"] for row in mirror.machines()["machines"]] == [None]
    assert "agent/h can start tasks again" in omega.text("events", "--kind", "fit")
