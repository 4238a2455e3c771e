"""docs/policies.md is true: its files keep to the contracts, and its tables have every method and attribute."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from inspect import isfunction
from pathlib import Path

import pytest

from omega.cellstate.schema import CHANGING, FIXED, GROUP, GROUP_SPEC, POLICY, SPEC, Seen
from omega.schedulers.constraints.demands import FIELDS
from omega.schedulers.policies import (
    Asserting,
    Joining,
    Ordering,
    Peers,
    Placement,
    PlacesAll,
    Preemption,
    Scoring,
    Sizing,
)
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sizing import Profile, Totals
from tests.tutorial.page import DOCS, SECONDS, blocks

PAGE = "policies.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")


@pytest.mark.chaos
def test_the_files_of_the_page_pass_their_tests(tmp_path: Path) -> None:
    for language, text in blocks(PAGE):
        name = re.match(r"# (\S+\.py)\n", text)
        if language == "python":
            assert name is not None, "a file begins with its name"
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        else:
            environment = os.environ | {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTEST_ADDOPTS": "-p no:valkey -p no:cacheprovider",
            }
            words = shlex.split(text)
            assert {each.name for each in tmp_path.glob("*.py")} <= {*words}
            done = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr


def named(section: str) -> str:
    """The code of a section's tables and text."""
    return " ".join(re.findall(r"`([^`]+)`", re.split(r"^## ", TEXT, flags=re.MULTILINE)[section_number(section)]))


def section_number(section: str) -> int:
    titles = [part.partition("\n")[0] for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)]
    return titles.index(section)


@pytest.mark.parametrize(
    ("section", "protocols"),
    [
        ("What every policy may have", (Joining,)),
        ("Ordering", (Ordering,)),
        ("Placement", (Placement, PlacesAll, Scoring)),
        ("Preemption", (Preemption, Asserting)),
        ("Sizing", (Sizing,)),
    ],
)
def test_the_page_names_every_method_and_attribute(section: str, protocols: tuple[type, ...]) -> None:
    text = named(section)
    for protocol in protocols:
        own = {name for name, each in vars(protocol).items() if isfunction(each) and not name.startswith("_")}
        own |= {name for name in protocol.__annotations__ if name != "job_fields"}  # of every policy
        assert {name for name in own if not re.search(rf"\b{name}\b", text)} == set()


def test_the_page_names_the_parameters_of_a_scheduler_and_what_policies_get() -> None:
    text = named("Scheduler")
    parameters = {each.name for each in fields(Scheduler) if each.init and each.name not in ("ownership", "rng")}
    assert {name for name in parameters if not re.search(rf"\b{name}\b", text)} == set()
    assert {
        name for name in Peers._fields if not re.search(rf"\b{name}\b", named("What every policy may have"))
    } == set()
    wanted = {each.name for of in (Profile, Totals) for each in fields(of)} | {"seconds", "useful", "room"}
    assert {name for name in wanted if not re.search(rf"\b{name}\b", named("Sizing"))} == set()


def test_the_page_says_which_policies_see_a_field_as_the_tables_do() -> None:
    rows = re.findall(r"^\| (every policy|a policy that names it in .*?) \| (.*) \|$", TEXT, re.MULTILINE)
    seen = {each.name: each.seen for each in (*CHANGING, *FIXED, *GROUP)}
    seen |= {each.name: each.seen for each in (*SPEC, *GROUP_SPEC)}
    del seen["name"]  # of a job, and of a group
    for (_, text), expected in zip(rows, (Seen.ALL, Seen.DECLARED, Seen.OWN), strict=True):
        names = re.findall(r"`(\w+)`", text)
        assert [name for name in names if seen.get(name, expected) is not expected] == []
    everywhere = {name for name, how in seen.items() if how is Seen.ALL} - {*FIELDS, "commands", "groups", POLICY}
    assert {name for name in everywhere if f"`{name}`" not in rows[0][1]} == set()
