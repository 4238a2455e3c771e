"""`omega cell`: the shapes of its JSON, field by field, and what people read."""

import struct
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate.cuts import Report
from omega.cellstate.keys import SCHEMA
from omega.cellstate.model import JobSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.cli.conftest import Omega, join, scheduler

NO_DURABILITY = {"mode": "none", "replicas": 0, "timeout_ms": 0, "checked": True}


def test_create_with_machines(store_url: str) -> None:
    omega, name = Omega(store_url), f"cli-{uuid4().hex[:8]}"
    words = ("cell", "create", name, "--machines", "1200", "--cpu", "16", "--memory", "64Gi")
    made = {"cell": name, "created": True, "resources": ["cpu", "memory"], "machines": 1200}
    made |= {"durability": NO_DURABILITY}
    assert omega.json(*words) == made
    assert omega.json(*words) == made | {"created": False}
    assert omega.text(*words) == (
        f"cell {name} already exists · cpu, memory · 1,200 machines · 19,200 cpu · 75 TiB memory\n"
    )
    machines = Omega(store_url, name).json("machine", "list")
    assert machines["total"] == 1200
    assert machines["machines"][1199]["name"] == "m1199"
    assert machines["machines"][0]["capacity"] == {"cpu": 16000, "memory": 65536}
    assert omega.json("cell", "delete", name, "--yes") == {"cell": name, "deleted": True, "machines": 1200, "jobs": 0}


def test_create_with_other_resources(store_url: str) -> None:
    omega, name = Omega(store_url), f"cli-{uuid4().hex[:8]}"
    words = ("--resources", "cpu, gpu", "--machines", "2", "--cpu", "500m", "--resource", "gpu=4")
    said = omega.text("cell", "create", name, *words)
    assert said == f"cell {name} created · cpu, gpu · 2 machines · 1 cpu · 8 gpu\n"
    assert Omega(store_url, name).json("cell", "status")["machines"]["offline"] == 2, "no executor runs"
    with connect(store_url) as client:
        RedisCell.open(client, name).executors.register("here", "n", 60_000, 0)
    assert Omega(store_url, name).json("cell", "status")["utilisation"] == {
        "cpu": {"allocated": 0, "capacity": 1000, "fraction": 0.0},
        "gpu": {"allocated": 0, "capacity": 8, "fraction": 0.0},
    }
    said = omega.error("cell", "create", name)
    assert said == f"cell {name}: has resources cpu,gpu, not cpu,memory; open it without --resources"
    omega.run("cell", "delete", name, "--yes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--machines", "3"), "--machines needs the amounts of each machine, such as --cpu 16 --memory 64Gi"),
        (("--cpu", "3"), "amounts need a number of machines; add --machines N"),
        (("--resource", "gpu"), "Invalid value for '--resource': 'gpu' is not NAME=VALUE"),
    ],
)
def test_create_in_a_wrong_way(store_url: str, words: tuple[str, ...], message: str) -> None:
    said = Omega(store_url).error("cell", "create", "new", *words, code=2)
    assert said == f"omega cell create: {message}; see omega cell create --help"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a b",), "cell name 'a b': use letters, digits, . _ -"),
        (("new", "--durability", "replicas=0"), "durability 'replicas=0': replicas is a number from 1 to 99"),
        (
            ("new", "--durability", "replicas=1,timeout=5s"),
            "durability 'replicas=1,timeout=5s': timeout is from 1ms to 2s",
        ),
        (
            ("new", "--durability", "timeout=1s"),
            "durability 'timeout=1s': write none, fsync or replicas=N,timeout=T, such as replicas=1,timeout=1s",
        ),
        (
            ("new", "--durability", "replicas=1,timeout=soon"),
            "'soon' is not a duration; write for example 30s, 5m, 1h30m or 250ms",
        ),
        (
            ("new", "--durability", "replicas=1"),
            "cell new: durability replicas=1,timeout=1s needs 1 connected replicas, and the store has 0; connect more",
        ),
        (("new", "--resources", ""), "resources: '' is not a name; use letters, digits, - and _"),
        (("new", "--machines", "1", "--resource", "gpu=1"), "unknown resource 'gpu'; this cell has cpu, memory"),
        (("new", "--machines", "1", "--cpu", "-1"), "cpu: '-1' is negative; amounts start at 0"),
        (
            ("new", "--machines", "1", "--cpu", "many"),
            "cpu: 'many' is not an amount; write for example 500m, 2, 256Mi or 1Gi",
        ),
        (
            ("new", "--machines", "1", "--memory", "1e20Gi"),
            "memory: '1e20Gi' is too large; the most is 99999999999999 of the smallest unit",
        ),
    ],
)
def test_bad_amounts_make_no_cell(store_url: str, words: tuple[str, ...], message: str) -> None:
    assert Omega(store_url).error("cell", "create", *words) == message
    assert "new" not in {each["name"] for each in Omega(store_url).json("cell", "list")["cells"]}


def test_list(store_url: str, omega: Omega, cell: RedisCell) -> None:
    join(cell, 3)
    omega.run("job", "run", "--name", "one")
    with scheduler(cell, "service/0"):
        found = Omega(store_url).json("cell", "list")
    assert found["store"] == store_url
    assert next(each for each in found["cells"] if each["name"] == cell.name) == {
        "name": cell.name,
        "resources": ["cpu", "memory"],
        "machines": 3,
        "jobs": 1,
        "schedulers": 1,
        "note": None,
    }
    assert cell.name in Omega(store_url).text("cell", "list")


def test_list_shows_a_cell_of_a_newer_omega_and_the_rest(store_url: str, cell: RedisCell) -> None:
    cell.client.hset(f"omega:1:{{{cell.name}}}:meta", "schema", 99)
    found = {each["name"]: each["note"] for each in Omega(store_url).json("cell", "list", code=3)["cells"]}
    assert "written with schema 99" in found[cell.name]


def test_status_of_an_empty_cell(store_url: str, omega: Omega) -> None:
    assert omega.json("cell", "status") == {
        "cell": omega.cell,
        "store": store_url,
        "version": 0,
        "exact": True,
        "refuses_writes": None,
        "resources": ["cpu", "memory"],
        "machines": {"total": 0, "up": 0, "drained": 0, "down": 0, "offline": 0, "unfit": 0, "over": 0},
        "utilisation": {name: {"allocated": 0, "capacity": 0, "fraction": 0.0} for name in ("cpu", "memory")},
        "jobs": {
            "total": 0,
            "stored": 0,
            "pending": 0,
            "running": 0,
            "held": 0,
            "finished": 0,
            "failed": 0,
            "stopped": 0,
            "abandoned": 0,
        },
        "tasks": {"total": 0, "pending": 0, "placed": 0, "finished": 0, "failed": 0, "stopped": 0},
        "demand": {"tasks": 0, "delayed": 0, "cpu": 0, "memory": 0},
        "recent": {"seconds": 900, "failed": 0, "lost": 0, "evicted": 0, "conflicts": 0},
        "cuts": {"number": 0, "lost": 0, "last": None},
        "pending": {},
        "schedulers": {"live": [], "lapsed": []},
        "transactions": {"of_schedulers": 0, "total": 0, "accepted": 0, "conflicts": 0, "conflict_fraction": 0.0},
        "limits": {},
        "durability": NO_DURABILITY,
    }


def test_a_cell_of_another_schema_can_only_be_deleted(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    cell.client.hset(f"omega:1:{{{cell.name}}}:meta", "schema", 2)
    cell.client.hset(f"omega:1:{{{cell.name}}}:machines", "0", "0 1 text of another schema")
    assert omega.error("machine", "list") == (
        f"cell {cell.name}: written with schema 2, this Omega has schema {SCHEMA}; use the newer Omega,"
        " or name another cell with --cell"
    )
    assert omega.json("cell", "delete", "--yes") == {"cell": cell.name, "deleted": True, "machines": 2, "jobs": 0}


def test_status_counts_what_there_is(omega: Omega, cell: RedisCell) -> None:
    join(cell, 4, (2000, 1024))
    cell.machines.set_state(3, MachineState.DOWN, 1, "ada")
    cell.machines.set_state(2, MachineState.DRAINED, 1, "ada")
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((500, 0), 2, 60_000),))], 1, "ada")
    cell.jobs.submit([JobSpec("b", "b", "service", (TaskGroup((1, 1), 7),))], 1, "ada")
    with scheduler(cell):
        omega.run("job", "wait", "a", "--timeout", "0.3", code=124)
        found = omega.json("cell", "status")
        text = omega.text("cell", "status")
    assert found["machines"] == {"total": 4, "up": 2, "drained": 1, "down": 1, "offline": 0, "unfit": 0, "over": 0}
    assert found["utilisation"]["cpu"] == {"allocated": 1000, "capacity": 6000, "fraction": 1000 / 6000}
    assert (found["jobs"]["total"], found["jobs"]["pending"], found["jobs"]["running"]) == (2, 1, 1)
    assert (found["tasks"]["total"], found["tasks"]["pending"], found["tasks"]["placed"]) == (9, 7, 2)
    assert found["pending"] == {"service": 1}
    assert found["demand"] == {"tasks": 7, "delayed": 0, "cpu": 7, "memory": 7}
    assert "7 tasks: cpu 0.007 (0 % of all), memory 7 MiB (0 % of all)" in text
    assert found["schedulers"] == {"live": ["batch/0"], "lapsed": []}
    assert found["limits"]["batch"]["resources"]["cpu"] == {"used": 1000, "limit": None, "over": 0}
    assert "4 · 2 up, 1 drained, 1 down" in text
    assert "cpu 17 % (1 of 6)" in text
    assert "2 · 1 pending, 1 running" in text
    assert "1 live: batch/0" in text


def test_limits_are_set_one_by_one_and_lifted(omega: Omega) -> None:
    assert omega.json("cell", "limits") == {"cell": omega.cell, "limits": {}}
    expected = {
        "jobs": {"used": 0, "limit": 5, "over": 0},
        "resources": {"cpu": {"used": 0, "limit": 2500, "over": 0}, "memory": {"used": 0, "limit": None, "over": 0}},
        "precedence": [0, 1_000_000],
    }
    words = ("cell", "limits", "batch")
    assert omega.json(*words, "--cpu", "2500m", "--jobs", "5")["limits"] == {"batch": expected}
    expected["precedence"] = [10, 99]
    assert omega.json(*words, "--precedence", "10..99")["limits"] == {"batch": expected}
    assert "0 / 2500m" in omega.text("cell", "limits")
    assert "0 / 2500m" in omega.text("cell", "status")
    lifted = omega.json(*words, "--cpu", "none", "--precedence", "none")["limits"]["batch"]
    assert lifted["resources"]["cpu"]["limit"] is None
    assert (lifted["jobs"]["limit"], lifted["precedence"]) == (5, [0, 1_000_000])
    assert omega.json(*words, "--clear")["limits"]["batch"]["jobs"]["limit"] is None
    assert omega.json(*words, "--precedence", "7..")["limits"]["batch"]["precedence"] == [7, 1_000_000]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("batch", "--cpu", "-1"), "cpu: '-1' is negative; amounts start at 0"),
        (("batch", "--resource", "gpu=none"), "unknown resource 'gpu'; this cell has cpu, memory"),
        (("batch", "--jobs", "few"), "--jobs: 'few' is not a number; write for example 100, or none"),
        (("batch", "--precedence", "7"), "--precedence: '7' is not a range; write for example 0..99 or 100.."),
        (("batch", "--precedence", "9..7"), "--precedence: '9..7' is not a range within 0..1000000"),
        (("Batch", "--jobs", "1"), "job kind 'Batch': use a lower-case letter, then up to 31 letters, digits, _ -"),
    ],
)
def test_bad_limits_change_nothing(omega: Omega, words: tuple[str, ...], message: str) -> None:
    assert omega.error("cell", "limits", *words) == message
    assert omega.json("cell", "limits")["limits"] == {}


def test_verify(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    found = omega.json("cell", "verify")
    assert found == {
        "ok": True,
        "checked": {"machines": 2, "tasks": 0, "jobs": 0},
        "violations": [],
        "settled": True,
        "version": 2,
        "log": {"from_version": 1, "facts": 3},
        "evictions": {"sets": 0, "checked": 0},
        "constraints": {"claims": 0, "checked": 0},
        "cuts": [],
        "warnings": [],
    }
    assert omega.text("cell", "verify") == "ok · 2 machines · 0 tasks · 0 jobs · 3 facts · version 2\n"
    assert omega.json("cell", "verify", "--since", "1")["log"] == {"from_version": 2, "facts": 2}


def test_versions_that_the_store_lost_are_shown(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    cell.report_cut(Report(agreed=1, first_lost=2, seen=5, by="batch/0"))
    cell.report_cut(Report(agreed=0, first_lost=3, seen=6, by="batch/1"))
    found = omega.json("cell", "verify")
    assert found["ok"]
    report = found["cuts"][0]
    lost = {"number": 1, "agreed": 1, "first_lost": 2, "seen": 6, "lost": {"at_least": 5, "at_most": 5}}
    assert report == lost | {"at_ms": report["at_ms"], "version": 3, "by": ["batch/0", "batch/1"]}
    said = "the store lost 5 versions after version 1, up to 6"
    assert f"{said}; reported at version 3\n" in omega.text("cell", "verify")
    assert omega.json("cell", "status")["cuts"] == {"number": 1, "lost": 5, "last": report}
    assert f": {said}\n" in omega.text("cell", "status")
    (event,) = omega.json("events", "--kind", "cut")["events"]
    assert event == lost | {
        "version": 3, "kind": "cut", "by": "batch/0", "at_ms": event["at_ms"], "reporters": ["batch/0", "batch/1"],
    }  # fmt: skip
    assert f"{said}; reported by batch/0, batch/1\n" in omega.text("events", "--kind", "cut")


def test_verify_reports_a_violation_and_exits_1(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    key = f"omega:1:{{{cell.name}}}:machines"
    record: Any = cell.client.hget(key, "0")
    cell.client.hset(key, "0", record[:-16] + struct.pack("<2q", 9999, 0))
    found = omega.json("cell", "verify", code=1)
    assert found["ok"] is False
    assert set(found["violations"][0]) == {"invariant", "what", "where"}
    text = omega.text("cell", "verify", code=1)
    assert "violation" in text
    assert found["violations"][0]["where"] in text


def test_delete_asks_and_refuses_while_schedulers_work(store_url: str) -> None:
    omega, name = Omega(store_url), f"cli-{uuid4().hex[:8]}"
    omega.run("cell", "create", name)
    said = omega.error("cell", "delete", name, code=2)
    assert said == (
        f"omega cell delete: cell {name} with 0 machines and 0 live jobs: confirmation needed; add --yes; "
        "see omega cell delete --help"
    )
    cell = RedisCell.connect(store_url, name)
    with scheduler(cell):
        said = omega.error("cell", "delete", name, "--yes")
    assert said.startswith(f"cell {name}: 1 scheduler running (batch/0); stop them first")
    cell.close()
    assert omega.text("cell", "delete", name, "--yes") == f"cell {name} with 0 machines and 0 live jobs deleted\n"
    assert omega.error("cell", "status", name).startswith(f"unknown cell '{name}'")


def test_a_summary_of_a_cell_that_changes_is_marked_approximate(
    omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert omega.json("cell", "status")["exact"] is True
    sums, late = RedisCell.sums, list[str]()

    def changing(own: RedisCell) -> object:
        answer = sums(own)
        name = f"late{len(late)}"
        late.append(name)
        own.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 1), 1, 5),))], 0, "ada")
        return answer

    monkeypatch.setattr(RedisCell, "sums", changing)
    assert omega.json("cell", "status")["exact"] is False
    assert "approximate: the cell changed while it was read" in omega.text("cell", "status")
    monkeypatch.setattr(RedisCell, "sums", sums)
    assert "approximate" not in omega.text("cell", "status")
