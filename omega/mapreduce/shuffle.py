"""Between the phases: lines ``key<TAB>value`` of mappers, sorted by which reduce they go to, kept in files.

The file of a map shard holds one sorted part per reduce; its first line gives the length of each part.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import merge
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from omega.cellstate.errors import OmegaError

BLOCK = 1 << 16
Partition = list[bytes]


class Damaged(OmegaError):
    """An intermediate file differs from the written one."""


def partition(lines: Iterable[bytes], reduces: int) -> list[Partition]:
    """Sort lines into the parts of the reduces, by a hash of the key that is the same on every computer.

    A line without a tab is a key, and stays as it is. Lines of one key follow one another in a part: those with a tab
    first, because a tab comes before a line end.
    """
    parts: list[Partition] = [[] for _ in range(reduces)]
    for line in lines:
        key = line.rstrip(b"\n").partition(b"\t")[0]
        whole = line if line[-1:] == b"\n" else line + b"\n"
        parts[crc32(key) % reduces].append(whole)
    for part in parts:
        part.sort()
    return parts


def write(path: Path, parts: Iterable[Partition]) -> None:
    """Write a map shard's file atomically and flush it to disk."""
    texts = [b"".join(part) for part in parts]
    blocks = [b" ".join(b"%d" % len(text) for text in texts) + b"\n", *texts]
    with written(path) as file:
        file.writelines(blocks)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which is flushed to disk and then gets its name; of one that fails nothing stays.

    An existing file or link of the temporary name is removed first and receives nothing.
    """
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read(path: Path, number: int) -> Iterator[bytes]:
    """Yield the lines of one part of a map shard's file. Raises Damaged, OSError.

    The file is open only while a block is read: a reduce reads one of every map shard at the same time.
    """
    with path.open("rb") as file:
        sizes = [int(word) for word in file.readline().split()]
        at = file.tell() + sum(sizes[:number])
        whole = path.stat().st_size == file.tell() + sum(sizes)
    if not whole or number >= len(sizes):
        raise Damaged(f"{path}: was changed after it was written; run the job again")
    end = at + sizes[number]
    while at < end:
        with path.open("rb") as file:
            file.seek(at)
            block = file.read(min(BLOCK, end - at))
            block += b"" if block.endswith(b"\n") else file.readline()
        at += len(block)
        yield from BytesIO(block)


def gather(paths: Iterable[Path], number: int) -> Iterator[bytes]:
    """Yield the lines of a reduce from all map shards, in order; those of one key follow one another."""
    return merge(*(read(path, number) for path in paths))
