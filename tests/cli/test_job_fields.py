"""Own fields of a kind: a stranger's package, a live scheduler without one, job files, commands, the client, trials."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

import omega as public
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.queries.job_fields import PUBLISHED
from omega.schedulers import registry
from tests.cli.conftest import Omega, eventually, join

EDF = Path(__file__).parents[2] / "docs" / "examples" / "edf.py"
POINTS = "[omega.schedulers]\nedf = edf:edf\n[omega.ordering]\nedf = edf:Edf\n[omega.placement]\nsided = sided:Sided\n"
SIDED = """
import omega

SIDE = omega.JobField("side", "choice", "end of the list of machines", choices=("first", "last"), default="first")


class Sided(omega.Placement):
    "Tasks go to the first or to the last machine."

    job_fields = (SIDE,)

    def place(self, work, snapshot, rng):
        machine = 0 if SIDE.of(work) == "first" else snapshot.size - 1
        snapshot.take(machine, work.need(0), work.left[0])
        return [omega.Claim(machine, 0, work.left[0], seen=int(snapshot.number[machine]))]
"""
JOB = "- name: {name}\n  kind: edf\n  policy: {policy}\n  tasks: [{{resources: {{cpu: 1, memory: 1Gi}}}}]\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What installing a package with the example's ordering, and a placement, leaves on the path."""
    info = tmp_path / "omega_edf-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: omega-edf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    copy(EDF, tmp_path)
    (tmp_path / "sided.py").write_text(SIDED)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("edf", "sided"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in ("edf", "sided"):
        sys.modules.pop(name, None)


def file(tmp_path: Path, *jobs: tuple[str, str]) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text("".join(JOB.format(name=name, policy=policy) for name, policy in jobs))
    return str(path)


def publish(cell: RedisCell, member: str, *fields: public.JobField) -> None:
    """Register a scheduler as its process does, with the fields that it declares."""
    membership = cell.schedulers.register(member, "n", 600_000, 1)
    cell.schedulers.renew(membership, 600_000, {PUBLISHED: [each.as_json() for each in fields], "at_ms": 1})


def test_policies_show_the_fields_that_they_declare(omega: Omega, package: Path) -> None:
    rows = {(each["axis"], each["name"]): each for each in omega.json("scheduler", "policies")["policies"]}
    deadline = {
        "name": "deadline", "type": "duration", "unit": "s", "default": 86_400.0, "required": False, "choices": [],
        "least": 1.0, "most": None, "help": "time from submission until the job should have ended",
    }  # fmt: skip
    assert rows["ordering", "edf"]["job_fields"] == rows["schedulers", "edf"]["job_fields"] == [deadline]
    assert rows["placement", "first-fit"]["job_fields"] == []
    text = omega.text("scheduler", "policies", "schedulers")
    assert "job field deadline (duration, at least 1s, default 1d): time from submission" in text


def test_a_job_file_with_fields_is_checked_and_the_job_has_them(omega: Omega, package: Path, tmp_path: Path) -> None:
    omega.run("job", "submit", file(tmp_path, ("soon", "{deadline: 30m}"), ("later", "{}")))
    assert omega.json("job", "status", "soon")["spec"]["policy"] == {"deadline": 1800.0}
    assert "policy" not in omega.json("job", "status", "later")["spec"]
    assert "deadline: 30m" in omega.text("job", "status", "soon")
    path = file(tmp_path, ("a", "{}"), ("b", "{dedline: 30m}"))
    assert omega.error("job", "submit", path) == (
        f"{path}:7: [1].policy.dedline: unknown field; did you mean deadline? fields of kind edf: deadline (duration)"
    )
    for command in ("submit", "plan"):
        path = file(tmp_path, ("c", "{deadline: soon}"))
        assert omega.error("job", command, path).startswith(f"{path}:3: [0].policy.deadline: 'soon' is not a duration")
    assert len(omega.json("job", "list")["jobs"]) == 2
    other = file(tmp_path, ("plain", "{deadline: 30m}"))
    Path(other).write_text(Path(other).read_text().replace("edf", "batch"))
    assert omega.error("job", "submit", other).endswith("unknown field; fields of kind batch: none")


def test_job_run_takes_fields_as_options(omega: Omega, package: Path) -> None:
    omega.run("job", "run", "--name", "a", "--kind", "edf", "--policy", "deadline=5m", "--cpu", "1")
    assert omega.json("job", "status", "a")["spec"]["policy"] == {"deadline": 300.0}
    said = omega.error("job", "run", "--detach", "--name", "b", "--kind", "edf", "--policy", "deadline=0s")
    assert said == "job b: policy.deadline: '0s' is not allowed; want at least 1s"


def test_the_client_checks_mappings_and_typed_jobs_alike(omega: Omega, package: Path) -> None:
    client = Client(omega.url, omega.cell)
    group = {"resources": {"cpu": 1, "memory": "1Gi"}}
    typed = JobSpec("t", "t", "edf", (TaskGroup((1_000, 1_024), 1),), spec={"policy": {"deadline": "30m"}})
    client.submit({"name": "m", "kind": "edf", "policy": {"deadline": "30m"}, "tasks": [group]}, typed)
    assert [client.status(name)["spec"]["policy"] for name in "mt"] == [{"deadline": 1800.0}] * 2
    bad = JobSpec("u", "u", "edf", (TaskGroup((1_000, 1_024), 1),), spec={"policy": {"deadline": "soon"}})
    for job in (bad, {"name": "u", "kind": "edf", "policy": {"deadline": "soon"}, "tasks": [group]}):
        with pytest.raises(BadInput, match=r"policy\.deadline: 'soon' is not a duration"):
            client.submit(job)
        with pytest.raises(BadInput, match=r"policy\.deadline: 'soon' is not a duration"):
            client.plan(job)


def test_a_live_scheduler_publishes_its_fields_to_clients_without_its_package(
    omega: Omega, cell: RedisCell, tmp_path: Path
) -> None:
    path = file(tmp_path, ("a", "{deadline: 30m}"))
    assert omega.error("job", "submit", path) == (
        f"{path}:3: [0].policy: the fields of kind edf are unknown: start a scheduler of it (omega scheduler run), or "
        "install its package here"
    )
    copy(EDF, tmp_path / "strange.py")
    words = [sys.executable, "-m", "omega.cli.main", "--store", str(omega.url), "--cell", cell.name]
    with subprocess.Popen([*words, "scheduler", "run", "strange:edf"], cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        try:
            eventually(lambda: bool(cell.schedulers.figures().get("edf/0")))
            assert "edf" not in registry.offers("schedulers")
            wrong = file(tmp_path, ("a", "{deadline: soon}"))
            assert omega.error("job", "submit", wrong).startswith(f"{wrong}:3: [0].policy.deadline: 'soon' is not")
            omega.run("job", "submit", file(tmp_path, ("a", "{deadline: 30m}")))
            (row,) = omega.json("scheduler", "list")["schedulers"]
            assert [each["name"] for each in row["job_fields"]] == ["deadline"]
            assert "deadline (duration, at least 1s, default 1d): time from" in omega.text("scheduler", "status")
        finally:
            run.terminate()
            run.wait(30)
    assert cell.schedulers.members() == {}
    wrong = file(tmp_path, ("b", "{deadline: soon}"))  # the cell keeps what the last scheduler of the kind declared
    assert omega.error("job", "submit", wrong).startswith(f"{wrong}:3: [0].policy.deadline: 'soon' is not")
    assert omega.json("job", "status", "a")["spec"]["policy"] == {"deadline": 1800.0}


def test_live_schedulers_decide_before_the_installed_package(
    omega: Omega, cell: RedisCell, package: Path, tmp_path: Path
) -> None:
    publish(cell, "edf/0", public.JobField("days", "number", "days left"))
    path = file(tmp_path, ("a", "{deadline: 30m}"))
    assert omega.error("job", "submit", path).endswith("unknown field; fields of kind edf: days (number)")
    omega.run("job", "submit", file(tmp_path, ("a", "{days: 2}")))
    publish(cell, "edf/1", public.JobField("deadline", "duration", "until it should have ended"))
    omega.run("job", "submit", file(tmp_path, ("b", "{deadline: 30m}")))  # of schedulers that differ, any knows it


def test_an_update_keeps_the_fields(omega: Omega, package: Path, tmp_path: Path) -> None:
    omega.run("job", "submit", file(tmp_path, ("a", "{deadline: 30m}")))
    said = omega.error("job", "update", file(tmp_path, ("a", "{deadline: 40m}")))
    assert said == "job a: an update keeps its policy (deadline 1800.0); to change it, submit a new job"
    longer = Path(file(tmp_path, ("a", "{}")))
    longer.write_text(longer.read_text().replace("cpu: 1", "cpu: 2"))
    omega.run("job", "update", str(longer))
    assert omega.json("job", "status", "a")["spec"]["policy"] == {"deadline": 1800.0}


def test_a_dry_run_gives_the_policy_the_same_values(
    omega: Omega, cell: RedisCell, package: Path, tmp_path: Path
) -> None:
    (package / "omega_edf-1.0.dist-info" / "entry_points.txt").write_text("[omega.schedulers]\nedf = sides:both\n")
    (tmp_path / "sides.py").write_text(
        "import omega\nfrom edf import Edf\nfrom sided import Sided\n"
        'both = omega.Scheduler("edf", ordering=Edf(), placement=Sided())\n'
    )
    join(cell, 3)
    path = file(tmp_path, ("a", "{side: last, deadline: 1m}"), ("b", "{deadline: 1m}"))
    plans = omega.json("job", "plan", path)["jobs"]
    assert [[each["machine"] for each in plan["placements"]] for plan in plans] == [["m2"], ["m0"]]


WORKLOAD = """
machines: [{cpu: 1, memory: 1Gi}]
jobs:
"""


def trial(tmp_path: Path, *policies: str) -> Any:
    path = tmp_path / f"workload{len(policies)}.yaml"  # a workload that was read is kept by its path
    fields = "kind: edf, tasks: [{resources: {cpu: 1, memory: 1Gi}, duration: 5s}]"
    path.write_text(
        WORKLOAD + "".join(f"  - {{name: j{i}, policy: {policy}, {fields}}}\n" for i, policy in enumerate(policies))
    )
    order: list[str] = []

    class Placed(public.Instrument):
        def placed(self, work: public.Work, now: float) -> None:
            order.append(work.id)

        def placed_all(self, works: Any, now: float) -> None:
            order.extend(work.id for work in works)

    own = replace(registry.scheduler("edf"), instruments=[Placed()])
    public.simulate(own, str(path), days=0.001)
    return order


def test_a_simulated_workload_has_fields_as_job_files_do(package: Path, tmp_path: Path) -> None:
    order = trial(tmp_path, "{deadline: 1h}", "{deadline: 3h}", "{}", "{deadline: 2h}", "{deadline: 30m}")
    assert order == ["j4", "j0", "j3", "j1", "j2"]
    with pytest.raises(BadInput, match=r"job j1: policy\.dedline: unknown field; did you mean deadline"):
        trial(tmp_path, "{}", "{dedline: 3h}")
