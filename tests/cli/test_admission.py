"""Admission on the submitter's side: what a registered callable does to jobs of commands and of the client alike."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import omega as public
from omega import admission
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from tests.cli.conftest import Omega

HOOKS = """
from dataclasses import replace

import omega

def cost(job):
    "Every job names its ticket; a small one gets one."
    if "ticket" in job.spec.get("annotations", {}):
        return None
    if job.total > 10:
        raise omega.Refused("annotations: name the ticket of a job of more than 10 tasks")
    return replace(job, precedence=job.precedence or 7, spec={**job.spec, "annotations": {"ticket": "none"}})

def whose(job):
    said = {**job.spec["annotations"], "seen": job.spec.get("user", "-")}
    return replace(job, spec={**job.spec, "annotations": said})

def broken(job):
    return job.spec["colour"]

def wrong(job):
    return "fine"
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package that registers these functions of HOOKS, in the order of their names."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "site_hooks.py").write_text(HOOKS)

    def package(*functions: str) -> None:
        info = tmp_path / "site_hooks-3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-hooks\nVersion: 3\n")
        points = "".join(f"{i}-{name} = site_hooks:{name}\n" for i, name in enumerate(functions))
        (info / "entry_points.txt").write_text(f"[omega.admission]\n{points}")
        admission._installed.cache_clear()

    yield package
    sys.modules.pop("site_hooks", None)
    admission._installed.cache_clear()


def file(tmp_path: Path, count: int = 1, **more: Any) -> str:
    lines = [f"{name}: {value}\n" for name, value in {"name": "a", **more}.items()]
    path = tmp_path / "job.yaml"
    path.write_text("".join(lines) + f"tasks: [{{count: {count}, resources: {{cpu: 1, memory: 1Gi}}}}]\n")
    return str(path)


def found(omega: Omega, name: str) -> tuple[int, dict[str, str]]:
    job = omega.json("job", "status", name)
    return job["precedence"], job["spec"]["annotations"]


def test_commands_and_client_submit_what_the_admissions_return(
    omega: Omega, cell: RedisCell, install: Install, tmp_path: Path
) -> None:
    install("cost", "whose")
    omega.run("job", "submit", file(tmp_path))
    omega.run("job", "run", "--name", "b", "--cpu", "1")
    client = Client(omega.url, omega.cell, user="eve")
    group = {"resources": {"cpu": 1, "memory": "1Gi"}}
    client.submit({"name": "c", "tasks": [group]}, JobSpec("d", "d", "batch", (TaskGroup((1_000, 1_024), 1),), 3))

    async def submit() -> None:
        async with public.AsyncClient(omega.url, omega.cell, user="bob") as own:
            await own.submit({"name": "e", "tasks": [group]})

    anyio.run(submit)
    assert [found(omega, name) for name in "abcde"] == [
        (7, {"ticket": "none", "seen": "ada"}),
        (7, {"ticket": "none", "seen": "ada"}),
        (7, {"ticket": "none", "seen": "eve"}),
        (3, {"ticket": "none", "seen": "eve"}),
        (7, {"ticket": "none", "seen": "bob"}),
    ]
    assert "ticket: none, seen: ada" in omega.text("job", "status", "a")


def test_a_refused_job_is_not_submitted_planned_or_used_for_an_update(
    omega: Omega, install: Install, tmp_path: Path
) -> None:
    omega.run("job", "submit", file(tmp_path, 2))
    install("cost", "whose")
    said = "job a: admission 0-cost: annotations: name the ticket of a job of more than 10 tasks"
    large = file(tmp_path, 11)
    for command in ("submit", "plan", "update"):
        assert omega.error("job", command, large) == said
    assert omega.error("job", "run", "--detach", "--name", "a", "--count", "11", "--cpu", "1") == said
    client = Client(omega.url, omega.cell)
    for call in (client.submit, client.plan, client.update):
        with pytest.raises(Refused, match="admission 0-cost"):
            call(large)
    assert omega.json("job", "status", "a")["counts"]["total"] == 2
    omega.run("job", "update", file(tmp_path, 11, annotations="{ticket: OPS-7}"))
    assert found(omega, "a") == (0, {"ticket": "OPS-7", "seen": "-"})  # an update keeps the job's user


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", r"job a: admission 0-broken: .*site_hooks.py:19: KeyError: 'colour'; fix or remove it"),
        ("wrong", r"job a: admission 0-wrong: returned a str; return an omega.JobSpec, or None for no change"),
        ("missing", r"admission '0-missing' of package site-hooks: site_hooks:missing cannot be used: Attr.*"),
    ],
)
def test_an_admission_that_fails_refuses_the_job_in_one_line(
    omega: Omega, install: Install, tmp_path: Path, name: str, said: str
) -> None:
    install(name)
    path = file(tmp_path)
    message = omega.error("job", "submit", path)
    client = Client(omega.url, omega.cell)
    with pytest.raises((Refused, BadInput)) as error:
        client.submit(path)
    assert str(error.value) == message
    assert re.fullmatch(said, message)
    assert omega.json("job", "list")["jobs"] == []


def test_admissions_are_listed_and_can_be_restricted(
    omega: Omega, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("cost")
    (row,) = omega.json("scheduler", "policies", "admission")["policies"]
    assert (row["name"], row["package"], row["about"]) == (
        "0-cost", "site-hooks", "Every job names its ticket; a small one gets one."
    )  # fmt: skip
    monkeypatch.setenv("OMEGA_PLUGINS", "")
    omega.run("job", "submit", file(tmp_path, 11))
