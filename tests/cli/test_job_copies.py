"""`omega job run --speculation`: the same jobs as from job files, refused for the same reasons; and `job rerun`."""

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega

RULES = {
    "true": {},
    "after=30m,factor=3": {"after": 1800.0, "factor": 3},
    "quantile=0.5, finished=0.25,copies=4": {"quantile": 0.5, "finished": 0.25, "copies": 4},
}
REPEATABLE = ("job", "run", "--repeatable", "--speculation")
REFUSED = {
    # options beside --speculation, its rules → what the command prints
    "not repeatable": ((), "true", "--speculation runs CMD twice, perhaps at once; add --repeatable if it may"),
    "a gang": (("--repeatable", "--gang"), "true", "copies are placed one by one, and a gang as a whole"),
    "a service": (("--repeatable", "--kind", "service"), "true", "tasks of services and workers"),
    "an unknown field": (("--repeatable",), "afte=3s", "speculation.afte: unknown field; did you mean after?"),
    "no number": (("--repeatable",), "factor=x", "speculation.factor: 'x' is not a number"),
    "no duration": (("--repeatable",), "after=x", "speculation.after: 'x' is not a duration"),
    "a small factor": (("--repeatable",), "factor=0.5", "speculation.factor: 0.5 is not allowed; want at least 1.0"),
}  # a table # fmt: skip


@pytest.mark.parametrize("text", RULES)
def test_options_make_the_job_of_a_job_file(omega: Omega, cell: RedisCell, text: str) -> None:
    job_id = omega.json(*REPEATABLE, text, "--count", "3", "--", "true")["jobs"][0]["id"]
    job = cell.jobs.get(job_id)
    assert job is not None
    assert job.spec["speculation"] == RULES[text]
    assert [(group.total, group.copies) for group in job.groups] == [(3, False), (0, True)]
    assert [group["repeatable"] for group in job.spec["groups"]] == [True, True]
    again = cell.jobs.get(omega.json("job", "rerun", job_id, "--tasks", "1")["jobs"][0]["id"])
    assert again is not None
    assert [(group.total, group.copies) for group in again.groups] == [(1, False), (0, True)]


@pytest.mark.parametrize("case", REFUSED)
def test_what_gets_no_copies_is_refused_with_the_reason(omega: Omega, case: str) -> None:
    options, rules, said = REFUSED[case]
    code = 2 if case == "not repeatable" else 1
    assert said in omega.run("job", "run", *options, "--speculation", rules, "--", "true", code=code).stderr


def test_the_group_for_copies_is_none_that_commands_name(omega: Omega, cell: RedisCell) -> None:
    job_id = omega.json(*REPEATABLE, "true", "--name", "a", "--count", "3", "--", "true")["jobs"][0]["id"]
    assert "\nspeculation   true\n" in omega.text("job", "status", "a")
    omega.run("job", "resize", "a", "2")
    job = cell.jobs.get(job_id)
    assert job is not None
    assert [group.total for group in job.groups] == [2, 0]
    assert omega.json("job", "logs", "a")["group"] == 0
