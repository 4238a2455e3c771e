"""A damaged end of the embedded store's append-only file, cut off so that the server starts again.

A power cut, or a disk that was full in the middle of a write, can leave bytes at the end of the last file that are no
commands. The server then does not start. What is cut are the bytes after the last whole command outside a
transaction; a copy of the whole file is kept. Where whole commands follow the damage, nothing is cut.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = re.compile(rb"\*([1-9]\d*)\r\n")
_WORD = re.compile(rb"\$(\d+)\r\n")
_NOTE = re.compile(rb"#[^\r\n]*\r\n")
_LOG = re.compile(rb"omega:1:\{(.+)\}:log")
_VERSION = re.compile(rb"(\d+)-0")
_FILE = re.compile(r"^file (\S+) seq (\d+) type i", re.MULTILINE)
_MOST_WORDS = 4
"""The words of a command that are read."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What was cut: the number of bytes, the copy, and the version at which each cell continues."""

    file: Path
    copy: Path
    size: int
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The event in one line."""
        cells = ", ".join(f"{name} at version {version:,}" for name, version in sorted(self.versions.items()))
        continues = f"cells continue: {cells}; later changes are lost" if cells else "see omega cell list"
        cut = f"the last {self.size:,} bytes of {self.file.name} were damaged and are cut"
        return f"{cut} ({continues}; copy: {self.copy})"


def cut_damaged_end(directory: Path) -> Cut | None:
    """Cut the damaged end of the last append-only file below `directory`; None when there is no such damage.

    Raises OSError.
    """
    file = _last_file(directory)
    if file is None:
        return None
    data = file.read_bytes()
    good, versions = _whole(data)
    if good == len(data) or _commands_follow(data, good):
        return None
    copy = _unused(file.with_name(f"{file.name}.damaged"))
    shutil.copy2(file, copy)
    with file.open("r+b") as stream:
        stream.truncate(good)
    return Cut(file, copy, len(data) - good, versions)


def _last_file(directory: Path) -> Path | None:
    """Return the file that the server appended to last, as its manifest names it."""
    for manifest in sorted(directory.rglob("*.manifest")):
        files = _FILE.findall(manifest.read_text("utf-8", errors="replace"))
        if files:
            newest: str = max(files, key=lambda each: int(each[1]))[0]
            return manifest.parent / newest
    single = directory / "appendonly.aof"
    return single if single.is_file() else None


def _unused(path: Path) -> Path:
    return next(each for each in (path, *(Path(f"{path}.{number}") for number in range(1, 1000))) if not each.exists())


def _command(data: bytes, at: int) -> tuple[int, list[bytes]] | None:
    """Return where the command at `at` ends, and its first words; None when no whole command is there."""
    head = _HEAD.match(data, at)
    if head is None:
        return None
    at, words = head.end(), list[bytes]()
    for number in range(int(head[1])):
        word = _WORD.match(data, at)
        if word is None:
            return None
        end = word.end() + int(word[1])
        if data[end : end + 2] != b"\r\n":
            return None
        if number < _MOST_WORDS:
            words.append(data[word.end() : end])
        at = end + 2
    return at, words


def _commands(data: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the end and the first words of each whole command from the beginning on; no words for annotations."""
    at = 0
    while at < len(data):
        note = _NOTE.match(data, at)
        found = (note.end(), []) if note else _command(data, at)
        if found is None:
            return
        at = found[0]
        yield found


def _whole(data: bytes) -> tuple[int, dict[str, int]]:
    """Return where the last whole command outside a transaction ends, and the version of each cell there."""
    good, inside, versions, pending = 0, False, dict[str, int](), dict[str, int]()
    for end, words in _commands(data):
        name = words[0].upper() if words else b""
        inside = name == b"MULTI" or (inside and name != b"EXEC")
        log = _LOG.fullmatch(words[1]) if name == b"XADD" and len(words) > 2 else None
        version = next((match for word in words[2:] if (match := _VERSION.fullmatch(word))), None) if log else None
        if log and version:
            pending[log[1].decode(errors="replace")] = int(version[1])
        if not inside:
            good, versions, pending = end, versions | pending, {}
    return good, versions


def _commands_follow(data: bytes, bad: int) -> bool:
    """Return whether a whole command begins after the damage, which then is not the end of the file.

    A transaction that was not written to its end is whole commands too: they belong to the damage.
    """
    at = bad
    while (found := _command(data, at)) is not None:
        at = found[0]
    return any(_command(data, head.start()) for head in _HEAD.finditer(data, at + 1))
