"""Logs: quiet by default, one line an event, for people or for programs; a diary of what happens to a scheduler."""

import json
import re
from collections.abc import Mapping

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import escaped
from omega.schedulers.process.log import configure, log
from omega.schedulers.process.scheduler import Diary
from omega.testing import work

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def told(capsys: pytest.CaptureFixture[str], environment: Mapping[str, str]) -> list[str]:
    """What is written of everything that can happen."""
    configure(environment)
    diary = Diary("batch/0")
    diary.registered(3, 0.0)
    diary.synced(0.25, 100, 0.0, full=True)
    diary.synced(0.25, 100, 0.0, full=False)
    diary.store_away("no answer; start it", 0.0)
    diary.store_back(1.5, 2.0)
    diary.fenced(0.0)
    diary.abandoned(work(((1,), 1), name="j1"), 0.0)
    diary.deregistered(0.0)
    log.error("cell c: is gone")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


WARNINGS = [
    'warning: store away member=batch/0 error="no answer; start it"',
    "warning: store back member=batch/0 seconds=1.5",
    'warning: fenced member=batch/0 why="its lease lapsed, or its name was taken"',
    "warning: job abandoned member=batch/0 job=j1 conflicts=0",
]
ERRORS = ["error: cell c: is gone"]
ALL = [
    "info: joined member=batch/0 incarnation=3", "info: resync member=batch/0 machines=100 seconds=0.25",
    *WARNINGS, "info: left member=batch/0", *ERRORS,
]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "lines"), [(None, WARNINGS + ERRORS), ("", WARNINGS + ERRORS), ("info", ALL), ("error", ERRORS)]
)
def test_as_much_as_was_asked_for(capsys: pytest.CaptureFixture[str], level: str | None, lines: list[str]) -> None:
    found = told(capsys, {} if level is None else {"OMEGA_LOG": level})
    assert [re.sub(f"^{TIME} ", "", line) for line in found] == lines
    assert all(re.match(TIME, line) for line in found)


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    found = [json.loads(line) for line in told(capsys, {"OMEGA_LOG_FORMAT": "json", "OMEGA_LOG": "debug"})]
    assert len(found) == len(ALL)
    assert re.fullmatch(TIME, found[0].pop("at"))
    assert found[0] == {"level": "info", "event": "joined", "member": "batch/0", "incarnation": 3}
    assert found[2]["error"] == "no answer; start it"


def test_a_line_stays_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure({})
    log.warning("odd", text='two\nlines "and" more', empty="")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('odd text="two\\nlines \\"and\\" more" empty=""')


def test_an_exception_is_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure({"OMEGA_LOG_FORMAT": "json"})
    try:
        raise ValueError("what")
    except ValueError:
        log.exception("broken")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: what" in json.loads(line)["traceback"]


@pytest.mark.parametrize(
    ("environment", "said"),
    [({"OMEGA_LOG": "loud"}, "OMEGA_LOG 'loud': want debug, info, warning, error"),
     ({"OMEGA_LOG_FORMAT": "xml"}, "OMEGA_LOG_FORMAT 'xml': want text, json")],
)  # fmt: skip
def test_words_that_are_none(environment: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        configure(environment)


HOSTILE = ["a\nerror: forged", "a\rb", "\x1b[2Jb", "a\x85b", "a\u2028b", "\u202eb", "a\x00b", "a\tb", "\x7f"]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_ends_its_line_or_reaches_the_terminal(
    capsys: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    configure({"OMEGA_LOG_FORMAT": form})
    log.warning("job abandoned", job=text, error=OSError(text), names=[text], why={"a": text})
    log.error(f"cell {text}: is gone")
    written = capsys.readouterr().err
    assert written.count("\n") == 2
    assert escaped(written) == written
    if form == "json":
        said = [json.loads(line) for line in written.splitlines()]
        assert (said[0]["job"], said[0]["why"], said[1]["event"]) == (text, {"a": text}, f"cell {text}: is gone")
