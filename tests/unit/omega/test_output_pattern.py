"""Patterns of output files: which are taken, and what they become."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import Dimensions
from omega.jobfile.reader import JobFile, load
from omega.output_pattern import WORDS, path_of, read_pattern


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/tmp/a", "is not a file below the job's directory"),
        ("out/", "is not a file below"), ("", "is not a file below"), ("../a", "is not a plain path"),
        ("a/../../b", "is not a plain path"), ("a//b", "is not a plain path"), ("./a", "is not a plain path"),
        ("a{user}", "{user} is not known; a pattern may have {index}, {attempt}, {job}, {id}, {group}"),
        ("{index", "has a brace alone"), ("{{index}}", "has a brace alone"), ("{}", "{} is not known"),
        ("{index!r}", "{index!r} is not known"), ("ü" * 128, "has a name of more than 255 bytes"),
    ],
)  # fmt: skip
def test_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_pattern(text)
    assert said in str(caught.value)


VALUES = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=9)


@given(st.dictionaries(st.sampled_from(WORDS), VALUES), st.lists(st.sampled_from(WORDS), max_size=4))
def test_no_value_leads_out_of_the_directory(values: dict[str, str], words: list[str]) -> None:
    """A job may be called ``a/../../b``."""
    pattern = read_pattern("out/" + "".join(f"{{{word}}}" for word in words) + ".txt")
    path = Path(path_of(pattern, values))
    assert len(path.parts) == 2
    assert path.parts[0] == "out"


def refused(groups: str) -> str:
    with pytest.raises(BadInput) as caught:
        load([JobFile("jobs.yaml", f"{{name: a, tasks: [{groups}]}}")], Dimensions(), lambda: "id")
    return str(caught.value)


def test_tasks_have_different_files() -> None:
    assert "output: 'a' is one file of 3 tasks; write {index} into it" in refused("{count: 3, output: a}")
    assert "error: 'a{group}' is one file of 2" in refused("{array: 3-4, error: 'a{group}', output: 'b{index}'}")
    assert "output: 'a' is also that of group 0; write {group} into it" in refused("{output: a}, {output: a}")
    assert "tasks[0].output: {user} is not known" in refused("{output: 'a.{user}'}")
    taken = "{count: 3, output: 'a.{index}.{group}', error: 'a.{index}.{group}'}, {count: 2, output: '{attempt}'}"
    (job,) = load([JobFile("f", f"{{name: a, tasks: [{taken}]}}")], Dimensions(), lambda: "id")
    assert job.groups[0].spec == {"output": "a.{index}.{group}", "error": "a.{index}.{group}"}
