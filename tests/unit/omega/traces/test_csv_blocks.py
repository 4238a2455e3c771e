"""Columns of large files: exact numbers, bad rows by number, one block in memory."""

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.traces import csv_blocks
from omega.traces.csv_blocks import RULES, blocks, settled
from omega.traces.trace import Defects


def columns(path: Path, width: int, *, skip: bool = False) -> tuple[Defects, Iterator[csv_blocks.Block]]:
    defects = Defects(RULES)
    return defects, blocks(path, width, defects, skip=skip)


@pytest.mark.parametrize("block", [7, 64, 1 << 22])
def test_numbers_are_read_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK", block)
    rng = Random(block)
    whole = [rng.randrange(10 ** rng.randint(1, 18)) for _ in range(3_000)] + [0, 2**63 - 1, 10**18, 10**15 - 1]
    parts = [f"{rng.random():.{rng.randint(1, 9)}g}" for _ in whole]
    parts[:6] = ["1", "0", "1.0", ".5", "3.815e-06", "0."]
    path = tmp_path / "x.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in zip(whole, parts, strict=True)))
    _, found = columns(path, 2)
    read = [(each.naturals(0, "n").tolist(), each.shares(1, "s").tolist(), each.rows.tolist()) for each in found]
    assert [value for values, _, _ in read for value in values] == whole
    assert [value for _, values, _ in read for value in values] == [float(text) for text in parts]
    assert [row for _, _, rows in read for row in rows] == list(range(1, len(whole) + 1))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "'' is not a number"),
        ("-1", "'-1' is not a number"),
        ("1 ", "'1 ' is not a number"),
        ('"1"', "is not a number"),
        ("1.5", "'1.5' is not a number"),
        (str(2**63), f"'{2**63}' is not a number"),
        ("9" * 25, "is not a number"),
        ("é", "is not a number"),
    ],
)
def test_what_is_no_number_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"1,1\n\n{text},1\n3,1\n")
    defects, found = columns(path, 2)
    (block,) = found
    block.naturals(0, "a number")
    with pytest.raises(BadInput, match=f"x.csv:3: .*{wrong}"):
        settled(block, defects, skip=False)
    good = settled(block, defects, skip=True)
    assert good is not None
    assert good.tolist() == [True, False, True]
    assert [(each.rule, each.count, each.places) for each in defects.found()] == [("bad-row", 1, (f"{path}:3",))]


@pytest.mark.parametrize("text", ["1.5", "-0.1", "nan", "inf", "x", "1e5", ".", "1..2", "0x1"])
def test_what_is_no_share_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"0.5\n{text}\n")
    defects, found = columns(path, 1)
    (block,) = found
    block.shares(0, "a share")
    with pytest.raises(BadInput, match=r"x.csv:2: .* is not a share"):
        settled(block, defects, skip=False)


def test_empty_fields_line_ends_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,,0.5\r\n\r\n,7,\r\n3,4,1")
    _, found = columns(path, 3)
    (block,) = found
    assert block.rows.tolist() == [1, 3, 4]
    assert block.naturals(0, "n", missing=-1).tolist() == [1, -1, 3]
    assert block.naturals(1, "n", missing=-1).tolist() == [-1, 7, 4]
    assert np.array_equal(block.shares(2, "s"), [0.5, np.nan, 1.0], equal_nan=True)
    assert block.bad == {}
    assert block.flags(0).tolist() == [True, False, False]


def test_rows_of_another_width_are_named_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3\n4,5\n6,7,8\n9,10\n")
    _, found = columns(path, 2)
    with pytest.raises(BadInput, match=r"x\.csv:2: 1 fields; want 2"):
        list(found)
    defects, found = columns(path, 2, skip=True)
    (block,) = found
    assert block.naturals(1, "n").tolist() == [2, 5, 10]
    assert block.rows.tolist() == [1, 3, 5]
    assert [(each.rule, each.count) for each in defects.found()] == [("bad-row", 2)]


def test_one_block_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 14 MiB is read with the memory of some blocks of 64 KiB."""
    monkeypatch.setattr(csv_blocks, "BLOCK", 1 << 16)
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"600000000,,6251974185,252,38676295\n" * 400_000, 1))
    _, found = columns(path, 5)
    tracemalloc.start()
    try:
        total = sum(int(block.naturals(3, "n").sum()) for block in found)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 252 * 400_000
    assert peak < 4 << 20


def test_folders_and_missing_files_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(BadInput, match="cannot be read"):
            list(columns(path, 2)[1])


def test_compressed_files_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(gzip.compress(b"1,2\n"))
    assert [block.rows.tolist() for block in columns(path, 2)[1]] == [[1]]


def test_a_row_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK", 1 << 10)
    monkeypatch.setattr(csv_blocks, "LONGEST_ROW", 1 << 12)
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,2\n" + b"1" * (1 << 20))
    with pytest.raises(BadInput, match=r"x\.csv:2: cannot be read \(a row is longer"):
        list(columns(path, 2)[1])
    defects, found = columns(path, 2, skip=True)
    assert sum(map(len, found)) == 1
    assert [each.rule for each in defects.found()] == ["cut-short"]
