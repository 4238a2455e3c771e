"""Characters that no name, user, attribute or value may have, and that no terminal is sent.

Control characters move the cursor and end lines, bidirectional ones reorder what is read ("Trojan Source",
CVE-2021-42574), invisible ones make two names look alike. Joiners (U+200C, U+200D) stay: scripts and emoji need them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cellstate.errors import BadInput

MOST_LETTERS = 131_071
"""Letters of one text: what Linux passes to a program as one argument (MAX_ARG_STRLEN less its end)."""
MOST_IN_ALL = 8 << 20
"""Letters of all texts of a job or a task group together."""
COMMANDS = frozenset({"command", "environment", "mapreduce"})
"""Fields whose texts programs read: they may have line ends and tabs."""

_CONTROL = "\x00-\x1f\x7f-\x9f\ud800-\udfff"
_BIDIRECTIONAL = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"
_INVISIBLE = (
    "\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_UNSAFE = re.compile(f"[{_CONTROL}{_BIDIRECTIONAL}{_INVISIBLE}]")
_LINES = frozenset("\n\t")

Path = tuple[str | int, ...]


def cleaned(text: str, keep: str = "") -> str:
    """Return the text without the characters that a terminal must not be sent, but those in `keep`."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else "", text)


def escaped(text: str) -> str:
    r"""Return JSON text whose unsafe characters are written ``\uXXXX``; line ends between values stay."""

    def escape(found: "re.Match[str]") -> str:
        letter = found[0]
        if letter == "\n":
            return letter
        units = letter.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

    return _UNSAFE.sub(escape, text)


def check_text(text: str, what: str, *, lines: bool = False) -> str:
    """Return the text; raises BadInput when it has an unsafe character, or too many letters. `lines` allows two."""
    problem = _problem(text, lines=lines)
    if problem:
        raise BadInput(f"{what}: {problem}")
    return text


def check_texts(value: Any, what: str) -> None:
    """Check every text within a plain value, names of fields included. Raises BadInput."""
    for path, problem in problems(value):
        at = ".".join(cleaned(str(step))[:40] for step in path)
        raise BadInput(f"{what}: {at}: {problem}")


def problems(value: Any, path: Path = (), *, lines: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with the texts within a plain value, and where."""
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
    if len(text) > MOST_LETTERS:
        return f"{len(text):,} letters; the most is {MOST_LETTERS:,}"
    for found in _UNSAFE.finditer(text):
        if not (lines and found[0] in _LINES):
            around = repr(text[max(0, found.start() - 20) : found.start() + 20])
            if "\ud800" <= found[0] <= "\udfff":  # how Python keeps bytes of the command line that it cannot decode
                return f"{around} is not valid UTF-8; write it in UTF-8"
            return f"{around} has the character U+{ord(found[0]):04X}, which cannot be shown; remove it"
    return ""
