"""Between the phases: which reduce a line goes to, in which order, and files that are whole or not there."""

from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from omega.mapreduce import shuffle
from omega.mapreduce.shuffle import Damaged, gather, partition, read, write, written

keys = st.sampled_from([b"a", b"b", b"a b", b"a\x01", b"", b"\xff", b"long key"])
pairs = st.lists(st.tuples(keys, st.binary(max_size=4).map(lambda v: v.replace(b"\n", b"."))), max_size=40)


def key(line: bytes) -> bytes:
    return line.partition(b"\t")[0]


@given(pairs=pairs, reduces=st.integers(1, 5))
def test_lines_of_a_key_are_together_in_one_part(pairs: list[tuple[bytes, bytes]], reduces: int) -> None:
    parts = partition([b"%b\t%b\n" % pair for pair in pairs], reduces)
    assert sorted(line for part in parts for line in part) == sorted(b"%b\t%b\n" % pair for pair in pairs)
    for part in parts:
        runs = [key(line) for i, line in enumerate(part) if not i or key(line) != key(part[i - 1])]
        assert len(runs) == len(set(runs)), "a key in two places"
    of_key = [{i for i, part in enumerate(parts) for line in part if key(line) == each} for each, _ in pairs]
    assert all(len(where) == 1 for where in of_key), "a key in two parts"


def test_the_part_of_a_key_is_the_same_everywhere_and_for_ever() -> None:
    parts = partition([b"%d\t1\n" % number for number in range(10)], 3)
    assert [b"".join(key(line) for line in part) for part in parts] == [b"79", b"23456", b"018"]


def test_a_line_without_a_value_and_one_without_an_end() -> None:
    assert partition([b"a\n", b"a\t1\n", b"a", b"b", b"a\t\n"], 1) == [[b"a\t\n", b"a\t1\n", b"a\n", b"a\n", b"b\n"]]


@given(lines=st.lists(st.binary(max_size=3).map(lambda line: line.replace(b"\n", b"")), max_size=8))
def test_lines_keep_their_form_and_keys_stay_together(lines: list[bytes]) -> None:
    (part,) = partition([line + b"\n" for line in lines], 1)
    assert sorted(part) == sorted(line + b"\n" for line in lines)
    keys = [line.rstrip(b"\n").partition(b"\t")[0] for line in part]
    assert len([key for i, key in enumerate(keys) if not i or key != keys[i - 1]]) == len(set(keys))


@given(files=st.lists(pairs, max_size=4), reduces=st.integers(1, 3))
def test_what_is_gathered_is_what_was_written(
    files: list[list[tuple[bytes, bytes]]], reduces: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shuffle")
    paths = []
    for i, lines in enumerate(files):
        paths.append(folder / str(i))
        write(paths[-1], partition([b"%b\t%b\n" % pair for pair in lines], reduces))
    every = [b"%b\t%b\n" % pair for lines in files for pair in lines]
    assert [list(gather(paths, number)) for number in range(reduces)] == partition(every, reduces)


def test_a_part_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "BLOCK", 7)
    parts = [[b"a\t%03d\n" % number for number in range(50)], [b"b\t\n", b"c\r\t1\n", b"d" * 30 + b"\t\n"], []]
    write(tmp_path / "map", parts)
    assert [list(read(tmp_path / "map", number)) for number in range(3)] == parts


def test_nothing_has_its_name_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "part"
    with written(path) as file:
        file.write(b"text")
        assert not path.exists()
    assert path.read_bytes() == b"text"
    assert [each.name for each in tmp_path.iterdir()] == ["part"]


def test_of_a_file_that_cannot_be_written_nothing_stays(tmp_path: Path) -> None:
    def full() -> Iterator[bytes]:
        yield b"a\t1\n"
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"), written(tmp_path / "map") as file:
        file.writelines(full())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_a_file_that_was_cut_short(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "map"
    write(path, [[b"a\t1\n"], [b"b\t1\n"]])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(Damaged, match="was changed after it was written"):
        list(read(path, 0))


def test_a_link_under_the_name_of_a_draft_receives_nothing(tmp_path: Path) -> None:
    theirs, path = tmp_path / "theirs", tmp_path / "map-00000.1"
    theirs.write_bytes(b"untouched")
    path.with_name("map-00000.1.draft").symlink_to(theirs)
    write(path, [[b"a\t1\n"]])
    assert theirs.read_bytes() == b"untouched"
    assert not path.is_symlink()
    assert list(read(path, 0)) == [b"a\t1\n"]
