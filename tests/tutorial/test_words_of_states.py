"""States, reasons and kinds of events: pages and help texts have the words of the tables in the code."""

import re
from pathlib import Path

import pytest

from omega.queries.events import KINDS
from omega.queries.job_state import STATES
from omega.schedulers.constraints.reasons import MEANING, Reason
from tests.cli.conftest import Omega

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)


def test_the_page_of_jobs_has_every_state_and_every_reason() -> None:
    text = (ROOT / "docs/jobs.md").read_text(encoding="utf-8")
    section = text.partition("\n## States and reasons\n")[2].partition("\n## ")[0]
    rows = dict(ROW.findall(section))
    assert len(rows) == len(ROW.findall(section))
    assert list(rows) == [*STATES, *Reason]
    for word, meaning in (*STATES.items(), *MEANING.items()):
        assert rows[word].startswith(meaning[0].upper() + meaning[1:]), word


@pytest.mark.parametrize(("command", "words"), [(("job", "list"), (*STATES, *Reason)), (("events",), KINDS)])
def test_help_has_every_word(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert set(words) <= set(re.findall(r"\w+", Omega(None).text(*command, "--help")))


def test_pages_show_no_other_reason() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    shown = {word for page in pages for word in re.findall(r"reason: ([A-Z_]{3,})\b", page.read_text(encoding="utf-8"))}
    assert shown, "the tour prints some"
    assert shown <= set(Reason)
