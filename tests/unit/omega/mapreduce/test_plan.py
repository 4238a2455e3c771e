"""The shards of an input: together they are the whole input, each line once, whatever the size of a shard."""

import tempfile
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import example, given, strategies as st

from omega.mapreduce.plan import MapReducePlan, Piece
from omega.schedulers.constraints.locality import Place
from omega.schedulers.sizing import PLAN

lines = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"")), max_size=12)
texts = st.tuples(lines, st.booleans()).map(lambda both: b"\n".join(both[0]) + (b"\n" if both[1] and both[0] else b""))


def plan(shard: int, files: list[tuple[str, int]] | None = None, numbers: str = "-") -> MapReducePlan:
    return MapReducePlan(["map"], ["reduce"], 2, shard, "/out", "/out/.scratch", files or [], numbers)


def whole(made: MapReducePlan) -> list[bytes]:
    return [b"".join(made.input(shard)) for shard in range(made.maps)]


@given(files=st.lists(texts, max_size=4), shard=st.integers(1, 40), near=st.integers(0, 2))
@example(files=[b"one\ntwo"], shard=4, near=0)
@example(files=[b"", b"\n\n", b"a"], shard=1, near=2)
def test_every_line_is_in_exactly_one_shard(files: list[bytes], shard: int, near: int) -> None:
    """The first `near` files are places of their own."""
    with tempfile.TemporaryDirectory() as folder:
        named = []
        for i, text in enumerate(files):
            path = Path(folder) / str(i)
            path.write_bytes(text)
            named.append((str(path), len(text)))
        places = [Place(1, -(-size // shard), ["m0"], "") for _, size in named[:near]]
        made = replace(plan(shard, named), places=places)
        ended = b"".join(text + b"\n" if text and not text.endswith(b"\n") else text for text in files)
        assert b"".join(whole(made)) == ended
        others = -(-sum(map(len, files[near:])) // shard)
        assert made.maps == max(1, sum(place.maps for place in places) + others)


def test_a_line_belongs_to_the_shard_in_which_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"aaaa\nbb\ncccccccccc\nd\n")
    assert whole(plan(5, [(str(path), 21)])) == [b"aaaa\n", b"bb\ncccccccccc\n", b"", b"d\n", b""]


def test_small_files_share_a_shard() -> None:
    made = plan(10, [("/a", 4), ("/b", 3), ("/c", 7)])
    assert made.pieces(0) == [Piece("/a", 0, 4), Piece("/b", 0, 3), Piece("/c", 0, 3)]
    assert made.pieces(1) == [Piece("/c", 3, 7)]


def test_a_file_in_blocks(tmp_path: Path) -> None:
    text = b"".join(b"%07d\n" % number for number in range(300_000))
    path = tmp_path / "long"
    path.write_bytes(text)
    made = plan(1_700_001, [(str(path), len(text))])
    assert made.maps == 2
    assert b"".join(whole(made)) == text


def test_what_was_added_to_a_file_since_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\ntwo\nmore\n")
    assert whole(plan(100, [(str(path), 8)])) == [b"one\ntwo\n"]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        whole(plan(100, [(str(tmp_path / "gone"), 8)]))


def test_a_place_has_shards_of_its_own() -> None:
    """Files of one place share a shard, files of two places do not; files without a place come last."""
    files = [("/a", 4), ("/b", 3), ("/c", 12), ("/empty", 0), ("/d", 5), ("/e", 6)]
    places = (Place(2, 1, ["m0"], ""), Place(1, 2, ["m1"], ""), Place(1, 0, ["m2"], ""))
    made = replace(plan(10, files), places=places, near={"wait_ms": [1]})
    assert [made.pieces(shard) for shard in range(made.maps)] == [
        [Piece("/a", 0, 4), Piece("/b", 0, 3)],
        [Piece("/c", 0, 10)],
        [Piece("/c", 10, 12)],
        [Piece("/d", 0, 5), Piece("/e", 0, 5)],
        [Piece("/e", 5, 6)],
    ]
    assert MapReducePlan.read(msgpack.unpackb(msgpack.packb({PLAN: made.write()}))) == made


def test_numbers() -> None:
    made = plan(4, numbers="0-5,8-10")
    assert whole(made) == [b"0\n1\n2\n3\n", b"4\n5\n8\n9\n", b"10\n"]


def test_an_empty_input_has_one_empty_shard() -> None:
    assert whole(plan(10)) == [b""]


def test_it_travels_in_a_spec() -> None:
    made = plan(4, [("/a", 4)])
    spec = msgpack.unpackb(msgpack.packb({PLAN: made.write()}))
    assert MapReducePlan.read(spec) == made
    assert MapReducePlan.read({"user": "ada"}) is None
