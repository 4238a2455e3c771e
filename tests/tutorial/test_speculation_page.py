"""docs/speculation.md is true: its job file can be submitted, it names every field."""

from omega.cellstate.resources import Dimensions
from omega.jobfile.reader import JobFile, load
from omega.jobfile.speculation import Copied
from omega.schedulers.speculation import Speculation
from tests.tutorial.page import DOCS, blocks

PAGE = (DOCS / "speculation.md").read_text(encoding="utf-8")


def test_the_job_file_requests_copies() -> None:
    text = next(text for language, text in blocks("speculation.md") if language == "yaml")
    (job,) = load([JobFile("speculation.md", text)], Dimensions(), lambda: "a1", str)
    assert [(group.count, group.copies) for group in job.groups] == [(100, False), (0, True)]
    assert Speculation.of(job.spec) == Speculation(after=1800.0, factor=2.0)


def test_every_field_is_named_with_its_default() -> None:
    assert [name for name in Copied.model_fields if f"| `{name}` |" not in PAGE] == []
    rules = Speculation()
    assert f"(default {rules.factor:g})" in PAGE
    assert f"(default {rules.quantile:g})" in PAGE
    assert f"(default {rules.finished:g})" in PAGE
