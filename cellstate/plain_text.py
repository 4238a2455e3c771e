"""Characters that names, users, attributes and values may not have, and that are not printed on terminals.

Control characters move the cursor and end lines, bidirectional ones reorder displayed text ("Trojan Source",
CVE-2021-42574), invisible ones make two names look alike. Joiners (U+200C, U+200D) are allowed: scripts and emoji need
them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from omega.cellstate.errors import BadInput

MOST_BYTES = 131_071
"""Maximum size of one text in UTF-8: Linux limits one argument of a program (MAX_ARG_STRLEN without its end)."""
MOST_STARTED = 1 << 20
"""Maximum size of a command with its environment: Linux limits both to a quarter of the stack (2 MiB as a rule, and 8
bytes a word); the rest is for the environment of the agent."""
MOST_IN_ALL = 8 << 20
"""Maximum length of all texts of a job or a task group together."""
MOST_REASON = 200
"""Maximum length of the reason for which a gate holds a job."""
COMMANDS = frozenset({"command", "environment", "mapreduce"})
"""Fields with texts for programs: line ends and tabs are allowed."""

_CONTROL = "\x00-\x1f\x7f-\x9f\ud800-\udfff"
_BIDIRECTIONAL = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"
_INVISIBLE = (
    "\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_UNSAFE = re.compile(f"[{_CONTROL}{_BIDIRECTIONAL}{_INVISIBLE}]")
_LINES = frozenset("\n\t")
_NO_LINKS = str.maketrans("<>", "()")

Path = tuple[str | int, ...]


def cleaned(text: str, keep: str = "") -> str:
    """Return the text without characters that must not be printed, except those in `keep`."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else "", text)


def escaped(text: str) -> str:
    r"""Return JSON text with unsafe characters as ``\uXXXX``; line ends between values stay."""

    def escape(match: "re.Match[str]") -> str:
        letter = match[0]
        if letter == "\n":
            return letter
        units = letter.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

    return _UNSAFE.sub(escape, text)


def plain_reason(text: str) -> str:
    """Return the reason of a gate as stored: one line of at most 200 letters, without the marks between links."""
    line = cleaned(" ".join(text.split())).translate(_NO_LINKS)
    return " ".join(line.split())[:MOST_REASON].strip()


def check_text(text: str, what: str, *, lines: bool = False) -> str:
    """Return the text. Raises BadInput for unsafe characters or excessive length; `lines` allows line ends and tabs."""
    problem = _problem(text, lines=lines)
    if problem:
        raise BadInput(f"{what}: {problem}")
    return text


def size_of(text: str) -> int:
    """Return the bytes of a text as programs get it."""
    return len(text.encode(errors="surrogatepass"))


def check_texts(value: Any, what: str) -> None:
    """Check every text within a plain value, names of fields included. Raises BadInput."""
    if all_printable(value):
        return
    for path, problem in problems(value):
        at = ".".join(cleaned(str(step))[:40] for step in path)
        raise BadInput(f"{what}: {at}: {problem}")


def all_printable(value: Any) -> bool:
    """Return whether every text within a plain value is short and printable ASCII: then it has no problem."""
    letters, ahead = 0, [value]
    for each in ahead:  # which grows meanwhile
        if isinstance(each, str):
            if not (each.isascii() and each.isprintable() and len(each) <= MOST_BYTES):
                return False
            letters += len(each)
        elif isinstance(each, Mapping):
            ahead += each
            ahead += each.values()
        elif isinstance(each, list | tuple):
            ahead += each
    return letters <= MOST_IN_ALL


def problems(value: Any, path: Path = (), *, lines: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield the problems of texts within a plain value, with their paths."""
    letters = 0
    for at, text, several in _texts(value, path, lines=lines):
        letters += len(text)
        if problem := _problem(text, lines=several):
            yield at, problem
        if letters > MOST_IN_ALL:
            yield at, f"more than {MOST_IN_ALL:,} letters in all; put them into a file that the command reads"
            return


def _texts(value: Any, path: Path, *, lines: bool) -> Iterator[tuple[Path, str, bool]]:
    if isinstance(value, str):
        yield path, value, lines
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(name, str):
                yield (*path, name), name, False
            yield from _texts(each, (*path, name), lines=lines or name in COMMANDS)
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _texts(each, (*path, i), lines=lines)


def _problem(text: str, *, lines: bool) -> str:
    if len(text) > MOST_BYTES // 4 and (size := size_of(text)) > MOST_BYTES:
        return f"{size:,} bytes; the most is {MOST_BYTES:,}: put it into a file that the command reads"
    for match in _UNSAFE.finditer(text):
        if not (lines and match[0] in _LINES):
            around = repr(text[max(0, match.start() - 20) : match.start() + 20])
            if "\ud800" <= match[0] <= "\udfff":  # Python's form of undecodable bytes of the command line
                return f"{around} is not valid UTF-8; write it in UTF-8"
            return f"{around} has the character U+{ord(match[0]):04X}, which cannot be shown; remove it"
    return ""
