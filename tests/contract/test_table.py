"""The reader of truth tables."""

from pathlib import Path

import pytest

from tests.contract.table import read


def write(folder: Path, text: str) -> Path:
    path = folder / "t.txt"
    path.write_text(text)
    return path


def test_columns_begin_under_their_names(tmp_path: Path) -> None:
    (case,) = read(write(tmp_path, "# a remark\n\ncase   outcome  left\none a  1:placed -\n"))
    assert case == {"case": "one a", "outcome": "1:placed", "left": ""}
    assert case.place == "t.txt:4 one a"


def test_short_lines_end_in_empty_cells(tmp_path: Path) -> None:
    (case,) = read(write(tmp_path, "case   outcome  left\none\n"))
    assert case == {"case": "one", "outcome": "", "left": ""}


def test_a_word_across_two_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.txt:2: a word runs into the column 'outcome'"):
        read(write(tmp_path, "case   outcome\nonetwothree\n"))
