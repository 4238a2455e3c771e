"""Jobs for the best of several cells, lists over all cells: real servers, a real Cluster."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import omega as product
from omega.cellstate import keys
from omega.cellstate.errors import BadInput, Duplicate, Refused
from omega.cellstate.model import After, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell
from omega.cellstate.verify import verify
from omega.many_cells.opened import opened
from omega.many_cells.policy import CellOffer, FitsFirst
from omega.many_cells.submission import AnyCell
from tests.cli.conftest import Omega
from tests.server_groups import Cluster, cluster, single

pytestmark = pytest.mark.server
NAMES = ("east", "north", "south", "west")
SUBMITTERS = 4


class Towards:
    """A policy that always wants one cell."""

    def __init__(self, cell: str) -> None:
        self.cell = cell

    def choose(self, job: JobSpec, offers: Sequence[CellOffer]) -> CellOffer:
        return next(each for each in offers if each.cell == self.cell)


class Late(Towards):
    """The same, which waits until all submitters have got so far."""

    def __init__(self, cell: str, together: Barrier | None) -> None:
        super().__init__(cell)
        self.together = together

    def choose(self, job: JobSpec, offers: Sequence[CellOffer]) -> CellOffer:
        if self.together is not None and job.id.endswith("-0"):
            self.together.wait(20)
        return super().choose(job, offers)


def job(name: str, tasks: int = 1, cpu: int = 1_000) -> JobSpec:
    return JobSpec(name, f"name-{name}", "batch", (TaskGroup((cpu, 10), tasks, 30_000),))


def submitted(url: str, jobs: Sequence[JobSpec], policy: Any = None, *, stop_before_sending: bool = False) -> list[str]:
    """Submit jobs; return the cell of each."""
    with opened(url, NAMES) as found:
        sender = AnyCell(found, policy or FitsFirst(), lambda: 1_000, "me")
        sending = sender.prepare(lambda _, __: list(jobs))
        if not stop_before_sending:
            with ExitStack() as stack:
                for _ in sender.send(sending, lambda name: stack.enter_context(closing(connect_cell(url, name)))):
                    pass
        return [each.cell for each in sending]


def holders(url: str, job_id: str) -> list[str]:
    """Return the cells that have a job."""
    found = []
    for name in NAMES:
        with closing(connect_cell(url, name)) as cell:
            found += [name] if cell.jobs.get(job_id) is not None else []
    return found


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@contextmanager
def cells(url: str) -> Iterator[str]:
    """Four cells of 1, 2, 3 and 4 machines of four cores on a store that has no others."""
    for number, name in enumerate(NAMES, 1):
        with closing(create_cell(connect(url), name, url=url)) as cell:
            cell.executors.register("here", "n", 600_000, 0)
            cell.machines.join("here", [MachineSpec(f"m{i}", (4_000, 4_096), {"zone": name}) for i in range(number)], 0)
            cell.schedulers.register("batch/0", "n", 600_000, 0)
    yield url
    for name in NAMES:
        with closing(connect_cell(url, name, any_schema=True)) as cell:
            cell.delete()


@pytest.fixture
def url(store_url: str) -> Iterator[str]:
    with cells(f"{store_url}?db=9") as found:
        yield found


@pytest.fixture
def shards(nodes: Cluster) -> Iterator[str]:
    with cells(nodes.url) as found:
        yield found


@pytest.mark.chaos
def test_the_best_cell_takes_a_job(shards: str) -> None:
    assert submitted(shards, [job("wide", 16)]) == ["west"], "only four machines hold it"
    assert submitted(shards, [job("small")]) == ["south"], "the others hold it as well, and this has the most room"
    with closing(connect_cell(shards, "west")) as cell:
        assert verify(cell).ok


def test_a_job_goes_to_its_data(url: str) -> None:
    local = {"groups": [{"locality": {"where": "zone == 'north'", "domains": [], "wait_ms": [60_000]}}]}
    spec = JobSpec("near", "near", "batch", (TaskGroup((1_000, 10), 2),), spec=local)
    assert submitted(url, [spec]) == ["north"], "west has more room"
    assert submitted(url, [job("anywhere", 2)]) == ["west"]


def test_a_cell_without_the_pool_or_the_resources_of_a_job_is_left_out(url: str) -> None:
    for name, pool in (("west", "others"), ("south", "mine")):
        with closing(connect_cell(url, name)) as cell:
            cell.pools.set(Pools((Pool(pool),)), None, 0, "me")
    spec = JobSpec("p", "p", "batch", (TaskGroup((1_000, 10), 1),), spec={"pool": "mine"})
    assert submitted(url, [spec]) == ["south"]
    with closing(connect_cell(url, "west")) as cell:
        assert cell.jobs.get("p") is None
    three = JobSpec("three", "three", "batch", (TaskGroup((1, 1, 1), 1),))
    with pytest.raises(BadInput, match="job three: 3 amounts; cell east has cpu, memory"):
        submitted(url, [three])


def test_each_job_of_a_submission_counts_for_the_next(url: str) -> None:
    counts = Counter(submitted(url, [job(f"j{n}", 4) for n in range(10)]))
    assert counts == {"east": 1, "north": 2, "south": 3, "west": 4}, "ten machines are full"


def test_jobs_that_wait_for_one_another_stay_together(url: str) -> None:
    first, second = (
        job("first", 12),
        JobSpec("second", "second", "batch", (TaskGroup((1_000, 10), 1),), after=(After("first"),)),
    )
    cells = submitted(url, [first, second])
    assert cells[0] == cells[1]
    with closing(connect_cell(url, cells[0])) as cell:
        found = cell.jobs.get("second")
        assert found is not None
        assert found.after


def test_a_repeated_submission_finds_the_job(url: str) -> None:
    (cell,) = submitted(url, [job("once")])
    for other in NAMES:
        assert submitted(url, [job("once")], Towards(other)) == [cell]
    assert holders(url, "once") == [cell]
    with pytest.raises(Duplicate, match="the id once is that of another job, or of this one with other contents"):
        submitted(url, [job("once", 2)])


def test_a_file_is_not_taken_twice_under_its_names(url: str) -> None:
    submitted(url, [job("a")], Towards("east"))
    again = JobSpec("other", "name-a", "batch", (TaskGroup((1, 1), 1),))
    with pytest.raises(Duplicate, match="job name-a: cell east has a live job of the name, a; wait for it"):
        submitted(url, [again], Towards("west"))
    assert holders(url, "other") == []


@pytest.mark.parametrize("where", ["url", "shards"])
@pytest.mark.chaos
def test_simultaneous_submitters_of_an_id_agree(where: str, request: pytest.FixtureRequest) -> None:
    """Each wants another cell; half of the rounds are in step, so that nobody sees the job of another one."""
    url = request.getfixturevalue(where)
    for number in range(4):
        ids = [f"race{number}-{each}" for each in range(3)]
        together = Barrier(SUBMITTERS)

        jobs, barrier = [job(each) for each in ids], together if number % 2 else None
        with ThreadPoolExecutor(SUBMITTERS) as threads:
            answers = list(threads.map(lambda each: submitted(*each), [(url, jobs, Late(c, barrier)) for c in NAMES]))
        assert all(answer == answers[0] for answer in answers)
        assert [holders(url, each) for each in ids] == [[cell] for cell in answers[0]]


def test_an_interrupted_submission_is_continued_in_its_cell(url: str) -> None:
    assert submitted(url, [job("cut")], Towards("north"), stop_before_sending=True) == ["north"]
    assert holders(url, "cut") == []
    assert submitted(url, [job("cut")], Towards("west")) == ["north"]
    assert holders(url, "cut") == ["north"]


def test_a_cell_that_was_decided_on_and_is_away_is_not_replaced(url: str) -> None:
    submitted(url, [job("cut")], Towards("north"), stop_before_sending=True)
    client = connect(url)
    with closing(connect_cell(url, "north")) as cell:
        cell.client.hset(keys.prefix("north") + "meta", "schema", 6)
        with pytest.raises(
            Refused, match=r"job name-cut: was sent to cell north, which cannot take it .*schema 6.*repeat"
        ):
            submitted(url, [job("cut")], Towards("west"))
        assert submitted(url, [job("free")], Towards("west")) == ["west"], "others are not concerned"
        cell.client.hset(keys.prefix("north") + "meta", "schema", keys.SCHEMA)
    client.close()


def test_a_job_in_two_cells_is_reported(url: str) -> None:
    with opened(url, NAMES) as found:
        sender = AnyCell(found, Towards("east"), lambda: 1_000, "me")
        sending = sender.prepare(lambda _, __: [job("twice")])
        with closing(connect_cell(url, "west")) as other:
            other.jobs.submit([job("twice")], 0, "me")  # with --cell west
        assert len(list(sender.send(sending, lambda name: connect_cell(url, name)))) == 1
    assert sender.warnings == ["job name-twice (twice): is in cell east and in west; stop it in one of them"]


def test_the_command_says_why(url: str, tmp_path: Path) -> None:
    omega, file = Omega(url), tmp_path / "jobs.yaml"
    file.write_text("name: wide\nid: wide\ntasks: [{count: 13, resources: {cpu: 1, memory: 1Mi}, duration: 1m}]\n")
    said = omega.text("job", "submit", "--cell", "any", str(file))
    assert said.splitlines() == [
        "job  wide  wide  submitted · cell west",
        "  east: not chosen: 4 of 13 tasks now (RESOURCES), 0 % free",
        "  north: not chosen: 8 of 13 tasks now (RESOURCES), 0 % free",
        "  south: not chosen: 12 of 13 tasks now (RESOURCES), 0 % free",
        "  west: chosen: 13 of 13 tasks now, 19 % free",
        "1 job: 1 in west · see omega job status JOB --all-cells",
    ]
    assert "was there before · cell west" in omega.text("job", "submit", "--cell", "any", str(file))
    (found,) = omega.json("job", "submit", "--cell", "east,west", str(file))["jobs"]
    assert (found["cell"], found["status"], found["found"]) == ("west", "unchanged", True)
    (ran,) = omega.json("job", "run", "--cell", "any", "--cpu", "4", "--duration", "1s", "--name", "ran")["jobs"]
    assert {each["cell"] for each in ran["offers"]} == set(NAMES)
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\n#OMEGA --cpu 2\nsleep 1\n")
    assert omega.json("job", "submit", "--cell", "any", "--detach", str(script))["jobs"][0]["tasks"] == 1


def test_a_plan_over_cells_writes_nothing(url: str, tmp_path: Path) -> None:
    omega, file = Omega(url), tmp_path / "jobs.yaml"
    file.write_text("name: wide\nid: wide\ntasks: [{count: 13, resources: {cpu: 1, memory: 1Mi}, duration: 1m}]\n")
    before = sorted(connect(url).keys("*"))
    said = omega.text("job", "plan", "--cell", "any", str(file)).splitlines()
    assert said[0] == "job  wide  wide  would be submitted · cell west"
    assert said[-1] == "1 job: 1 in west · nothing was submitted"
    (job,) = omega.json("job", "plan", "--cell", "east,south", str(file), code=3)["jobs"]
    assert (job["cell"], "status" in job) == ("south", False)
    assert sorted(connect(url).keys("*")) == before
    assert submitted(url, [JobSpec("wide", "w", "batch", (TaskGroup((1, 1), 1),))], Towards("east")) == ["east"]


def test_cells_that_cannot_be_asked_are_named(url: str, tmp_path: Path) -> None:
    omega, file = Omega(url), tmp_path / "jobs.yaml"
    file.write_text("name: j\ntasks: [{resources: {cpu: 1}}]\n")
    with closing(create_cell(connect(url), "odd", url=url)) as odd:
        odd.client.hset(keys.prefix("odd") + "meta", "schema", 99)
        answer = omega.json("job", "submit", "--cell", "any", str(file))
        assert answer["jobs"][0]["cell"] == "west"
        assert "schema 99" in answer["skipped"]["odd"]
        said = omega.run("job", "submit", "--cell", "odd,nope", str(file), code=1).stderr
        assert "no cell can be used (odd: cell odd: written with schema 99" in said
        listed = omega.run("job", "list", "--all-cells", code=3)
        assert "odd is left out: cell odd: written with schema 99" in listed.stderr
        assert "west" in listed.stdout
        odd.delete()
    file.write_text("name: j\ntasks: [{resources: {gpu: 1}}]\n")
    assert "unknown resource 'gpu'" in omega.error("job", "submit", "--cell", "any", str(file))
    assert "this command takes one cell" in omega.error("job", "stop", "--cell", "any", "j")
    assert "--cells-policy goes with --cell any" in Omega(url, "east").error(
        "job", "submit", "--cells-policy", "x", str(file), code=2
    )


def test_a_cell_where_the_user_may_only_read_is_not_chosen(tmp_path: Path) -> None:
    with single() as server, cells(server.url_of()) as url:
        admin = server.servers[0].client
        admin.execute_command("ACL", "SETUSER", "bob", "on", ">x", "~omega:1:{east}:*", "%R~omega:1:{west}:*", "+@all")
        omega, file = Omega(url.replace("redis://", "redis://bob:x@")), tmp_path / "jobs.yaml"
        file.write_text("name: k\nid: k\ntasks: [{resources: {cpu: 1}}]\n")
        (found,) = omega.json("job", "submit", "--cell", "east,west,north", str(file))["jobs"]
        assert found["cell"] == "east"
        assert "does not permit this" in found["unfit"]["west"]
        listed = omega.run("job", "list", "--cell", "east,west,north", code=3)
        assert "north is left out" in listed.stderr
        assert (
            "lists its cells for readers and persons only"
            in omega.run("job", "submit", "--cell", "any", str(file), code=1).stderr
        )


def test_lists_over_all_cells_have_pages(shards: str) -> None:
    for number in range(9):
        with closing(connect_cell(shards, NAMES[number % 4])) as cell:
            cell.jobs.submit([job(f"p{number}")], 1_000 + number, "me")
    omega, seen, before = Omega(shards), list[str](), list[str]()
    while True:
        page = omega.json("job", "list", "--all-cells", "--limit", "4", *before)
        seen = [each["id"] for each in page["jobs"]] + seen
        assert [each["cell"] for each in page["jobs"]] == [NAMES[int(each["id"][1:]) % 4] for each in page["jobs"]]
        assert page["total"] == 9
        if page["next"] is None:
            break
        before = ["--before", page["next"]]
    assert seen == [f"p{number}" for number in range(9)], "each once, oldest first"
    text = omega.text("job", "list", "--all-cells", "--limit", "2")
    assert text.splitlines()[0].split()[:2] == ["cell", "id"]
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [["west", "p7"], ["east", "p8"]]
    assert "want CELL:N" in omega.error("job", "list", "--all-cells", "--before", "east:x")
    assert "goes with --all-cells" in Omega(shards, "east").error("job", "list", "--before", "east:3", code=2)


def test_a_job_is_found_in_any_cell(url: str) -> None:
    submitted(url, [job("abc1")], Towards("south"))
    submitted(url, [job("abd2")], Towards("north"))
    omega = Omega(url)
    for asked in ("abc1", "name-abc1", "abc"):
        assert omega.json("job", "status", asked, "--all-cells")["cell"] == "south"
    assert omega.text("job", "status", "abc1", "--all-cells").startswith("cell south\n")
    assert "2 jobs begin so (abc1 of south, abd2 of north)" in omega.error("job", "status", "ab", "--all-cells")
    assert "not in east, north, south, west" in omega.error("job", "status", "zz", "--all-cells")


@pytest.mark.chaos
def test_a_shard_that_is_away_does_not_hide_the_others(tmp_path: Path) -> None:
    with cluster() as nodes:
        for each in nodes.servers:
            each.client.config_set("cluster-require-full-coverage", "no")
        omega, names = Omega(nodes.url), [f"c{n}" for n in range(6)]
        for name in names:
            create_cell(connect(nodes.url), name, url=nodes.url).close()
        nodes.servers[0].kill()
        listed = omega.run("job", "list", "--all-cells", code=3)
        assert f"127.0.0.1:{nodes.servers[0].port} is left out: no answer" in listed.stderr
        file = tmp_path / "jobs.yaml"
        file.write_text("name: j\ntasks: [{resources: {cpu: 1}}]\n")
        answer = omega.json("job", "submit", "--cell", "any", str(file))
        assert answer["jobs"][0]["status"] == "submitted"
        assert list(answer["skipped"]) == [f"127.0.0.1:{nodes.servers[0].port}"]


def test_the_client_submits_to_the_best_cell(url: str) -> None:
    with product.Client(url, "any") as client:
        answer = client.submit({"name": "n", "id": "n", "tasks": [{"count": 16, "resources": {"cpu": 1}}]})
        assert [each["cell"] for each in answer["jobs"]] == ["west"]
        assert client.submit({"name": "n", "id": "n", "tasks": [{"count": 16, "resources": {"cpu": 1}}]})["jobs"][0][
            "found"
        ]
        assert client.status("n")["cell"] == "west"
        client.submit(job("own"), cells_policy=Towards("east"))
        assert client.status("own")["cell"] == "east"
        page = client.jobs(limit=1)
        assert [(each["cell"], each["id"]) for each in page["jobs"]] == [("east", "own")]
        assert [each["id"] for each in client.jobs(limit=1, before=page["next"])["jobs"]] == ["n"]
        with pytest.raises(Refused, match="this call takes one cell"):
            client.stop("n")
    with product.Client(url, "east,north") as client:
        assert set(client.submit(job("two"))["cells"]) == {"east", "north"}


def test_a_policy_of_another_package_is_used(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong_cells.py").write_text(
        "class None_:\n    def choose(self, job, offers): return None\n"
        "class Fails:\n    def choose(self, job, offers): raise KeyError('zone')\n"
        "class Needs:\n    def __init__(self, x): pass\n"
        "NOTHING = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    omega, file = Omega(url), tmp_path / "jobs.yaml"
    file.write_text(json.dumps({"name": "j", "tasks": [{"resources": {"cpu": 1}}]}))
    for target, said in (
        ("None_", "cells policy None_: returned NoneType, which is none of the offers; return one of them"),
        ("Fails", "wrong_cells.py:4: KeyError: 'zone'; fix it, or leave out --cells-policy"),
        ("Needs", "it must take no parameters"),
        ("NOTHING", "has no method choose(job, offers)"),
        ("Absent", "cannot be used"),
    ):
        words = ("job", "submit", "--cell", "any", str(file), "--cells-policy", f"wrong_cells:{target}")
        assert said in omega.error(*words)
    with pytest.raises(BadInput, match="unknown cell_choice 'nope'; known: "):
        product.Client(url, "any").submit(job("x"), cells_policy="nope")
    assert omega.json("job", "list", "--all-cells")["jobs"] == [], "nothing was submitted"
