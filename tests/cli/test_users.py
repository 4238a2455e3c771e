"""Whose a job is: said by who submits it, or known from the connection; changes of another's job need --force."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.acl import line
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.client.client import Client
from omega.users import VouchedUser
from tests.cli.conftest import Omega
from tests.conftest import ROOT

GROUPS = (TaskGroup((1, 1), 1),)


@pytest.fixture
def ada(omega: Omega) -> Omega:
    """Submits a job as ada, by name alone."""
    omega.run("job", "run", "--name", "one", "--count", "2", "--detach")
    return omega


@pytest.mark.parametrize("words", [("stop", "one"), ("hold", "one"), ("release", "one"), ("resize", "one", "3")])
def test_a_job_of_another_user_is_changed_with_force_alone(ada: Omega, cell: RedisCell, words: tuple[str, ...]) -> None:
    before = cell.jobs.all()
    ada.user = "bob"
    expected = "job one: belongs to ada, and you are bob; --force changes it"
    assert ada.error("job", *words) == expected
    assert cell.jobs.all() == before
    ada.run("job", *words, "--force")
    ada.user = "ada"
    ada.run("job", *words)


def test_an_update_of_another_users_job_needs_force(ada: Omega, tmp_path: Path) -> None:
    ada.user = "bob"
    file = tmp_path / "job.yaml"
    file.write_text("name: one\ntasks: [{count: 3}]\n")
    assert "belongs to ada, and you are bob" in ada.error("job", "update", str(file), "--detach")


def test_a_user_that_nobody_verified_is_marked(ada: Omega) -> None:
    assert "ada?" in ada.text("job", "list")
    job = ada.json("job", "list")["jobs"][0]
    assert (job["user"], job["user_source"]) == ("ada", "stated")


FORGED = {"user": "bob", "verified": True}


def test_omegas_client_says_of_no_stated_user_that_it_is_that_of_a_login(omega: Omega, cell: RedisCell) -> None:
    with Client(omega.url, omega.cell, user="mallory") as client:
        with pytest.raises(BadInput, match="verified: unknown field"):
            client.submit({"name": "a", "tasks": [{}]} | FORGED)
        client.submit(JobSpec("a", "a", "service", GROUPS, spec=FORGED))
        client.update(JobSpec("a", "a", "service", (TaskGroup((2, 2), 1),), spec=FORGED), force=True)
    (job,) = omega.json("job", "list")["jobs"]
    assert (job["user"], job["user_source"]) == ("bob", "stated")
    assert "bob?" in omega.text("job", "list")


def test_the_store_takes_what_a_client_that_bypasses_omega_says(omega: Omega, cell: RedisCell) -> None:
    """Nothing shows a forged login as what it is; the page says so, and the owner's check knows no more."""
    cell.jobs.submit([JobSpec("a", "a", "batch", GROUPS, spec=FORGED)], 0, "bob@forged")
    (job,) = omega.json("job", "list")["jobs"]
    assert (job["user"], job["user_source"]) == ("bob", "login")
    assert "belongs to bob, and you are ada" in omega.error("job", "stop", "a")
    assert "bob@forged" in omega.text("events"), "nor is the author of an event"
    page = (ROOT / "docs" / "stores.md").read_text().replace("\n", " ")
    assert "A client that bypasses Omega can submit as any user" in page


@pytest.fixture
def account(store_url: str, cell: RedisCell) -> Iterator[str]:
    """The store as a person with a user of their own names it."""
    client: Any = connect(store_url)
    client.execute_command("ACL", "SETUSER", *line("person", cell.name, (7, 2), "secret", name="grace").split()[1:])
    yield store_url.replace("unix://", "unix://grace:secret@")
    client.execute_command("ACL", "DELUSER", "grace")
    client.close()


def test_the_user_of_a_connection_is_the_user_of_its_jobs(account: str, cell: RedisCell, omega: Omega) -> None:
    grace = Omega(account, cell.name)
    grace.user = "mallory"
    grace.run("job", "run", "--name", "mine", "--detach")
    job = omega.json("job", "list")["jobs"][0]
    assert (job["user"], job["user_source"]) == ("grace", "login")
    assert "grace?" not in omega.text("job", "list")
    grace.run("job", "hold", "mine")
    assert "belongs to grace, and you are ada" in omega.error("job", "stop", "mine")


def test_a_user_that_a_service_vouches_for_stands_above_the_services_own(
    account: str, cell: RedisCell, omega: Omega
) -> None:
    with Client(account, cell.name, user="service") as service:
        hedy, mallory = service.as_user(VouchedUser("hedy")), service.as_user(VouchedUser("mallory"))
        hedy.submit({"name": "hers", "user": "bob", "tasks": [{}]})
        (job,) = omega.json("job", "list")["jobs"]
        assert (job["user"], job["user_source"], job["submitted_by"]) == ("hedy", "vouched", "hedy")
        assert "hedy?" not in omega.text("job", "list")
        with pytest.raises(Refused, match="belongs to hedy, and you are mallory"):
            mallory.hold("hers")
        for name in ("grace", "service"):
            with pytest.raises(Refused, match=f"belongs to hedy, and you are {name}"):
                service.as_user(VouchedUser(name)).update({"name": "hers", "kind": "batch", "tasks": [{"count": 2}]})
        hedy.update({"name": "hers", "tasks": [{"count": 2}]})
        mallory.stop("hers", force=True)
        mallory.rerun("hers", force=True)
    users = {(job["user"], job["user_source"]) for job in omega.json("job", "list")["jobs"]}
    assert users == {("hedy", "vouched"), ("mallory", "vouched")}


def test_a_job_file_cannot_claim_that_somebody_vouches(omega: Omega) -> None:
    with Client(omega.url, omega.cell, user="mallory") as client:
        with pytest.raises(BadInput, match="vouched: unknown field"):
            client.submit({"name": "a", "tasks": [{}], "user": "bob", "vouched": True})
        client.submit(JobSpec("a", "a", "service", GROUPS, spec={"user": "bob", "vouched": True}))
    (job,) = omega.json("job", "list")["jobs"]
    assert (job["user"], job["user_source"]) == ("bob", "stated")
