"""Output that is read from the end, and in pieces."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from omega.live.agent import open_output
from omega.live.agent.open_output import OpenOutput
from omega.live.agent.output import StreamReader, last_lines

TEXT = st.text(alphabet="ab\n\r", max_size=40).map(str.encode)


@given(TEXT, TEXT, st.integers(0, 12), st.integers(1, 5), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_last_lines_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes, number: int, piece: int, dropped: bool
) -> None:
    place = tmp_path_factory.mktemp("task")
    (place / "stdout.0").write_bytes(first)
    with (place / f"stdout.{len(first) + 7 * dropped}").open("ab") as file:
        file.write(second)
    whole = b"".join(StreamReader(place, "stdout").more())
    with pytest.MonkeyPatch.context() as patch, closing(OpenOutput.of(place, "stdout")) as opened:
        patch.setattr(open_output, "PIECE", piece)
        assert opened.size == len(whole)
        assert opened.cut == (7 if dropped else 0)
        at = opened.last_lines(number)
        assert b"".join(opened.pieces(at)) == last_lines(whole, number)
        assert opened.last_lines(number, 3) == max(at, opened.size - 3)


def test_files_that_are_removed_meanwhile_are_still_read(tmp_path: Path) -> None:
    (tmp_path / "stdout.0").write_bytes(b"one\ntwo\n")
    with closing(OpenOutput.of(tmp_path, "stdout")) as opened:
        (tmp_path / "stdout.0").unlink()
        assert b"".join(opened.pieces(opened.last_lines(1))) == b"two\n"
