"""docs/jobs.md is true: it names every field and every reason there is, and its job file can be submitted."""

import re

import pytest

from omega.cellstate.model import After
from omega.cellstate.resources import Dimensions
from omega.jobfile.form import Health, JobForm, Restart, Strict, Tasks, Update
from omega.jobfile.reader import JobFile, load
from omega.schedulers.constraints.reasons import Reason
from tests.tutorial.page import DOCS, blocks

PAGE = (DOCS / "jobs.md").read_text(encoding="utf-8")
TOLD_BY_WHY = {Reason.CONFLICTS, Reason.STOPPING, Reason.PLACED, Reason.DONE}
"""Reasons of jobs that do not wait."""


@pytest.mark.parametrize("model", [JobForm, Tasks, Update, Health, Restart])
def test_every_field_is_named(model: type[Strict]) -> None:
    missing = [name for name in model.model_fields if not re.search(rf"[`{{ ]{name}[`:]", PAGE)]
    assert not missing


def test_every_reason_to_wait_is_named() -> None:
    assert [reason for reason in Reason if reason not in TOLD_BY_WHY and f"`{reason}`" not in PAGE] == []


def test_the_job_file_is_one() -> None:
    text = next(text for language, text in blocks("jobs.md") if language == "yaml")
    (job,) = load([JobFile("jobs.md", text)], Dimensions(), lambda: "a1", lambda name: f"id-of-{name}")
    assert (job.name, job.total, job.after) == ("crawl", 40, (After("id-of-extract", any_end=True),))
