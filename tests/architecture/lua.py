"""Rules of the server-side scripts: a contract in the header, nothing but arguments decides."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.sources import Source

COMMANDS = {
    "TIME": "take the time as an argument",
    "RANDOMKEY": "take the choice as an argument",
    "SRANDMEMBER": "take the choice as an argument",
    "HRANDFIELD": "take the choice as an argument",
    "ZRANDMEMBER": "take the choice as an argument",
    "SPOP": "take the choice as an argument",
    "KEYS": "take every key in KEYS",
    "SCAN": "take every key in KEYS",
}
LIBRARIES = {
    "cmsgpack": "pass plain numbers; MessagePack values are opaque to scripts, and fakeredis has no cmsgpack",
    "struct": "use pack_numbers and unpack_numbers of parts/binary.lua; fakeredis has no struct",
    "bit": "use arithmetic; fakeredis has no bit",
}

_LONG_COMMENT = re.compile(r"--\[\[.*?\]\]", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")
_CALL = re.compile(r"[\w.]\s*\(\s*['\"](" + "|".join(COMMANDS) + r")['\"]", re.IGNORECASE)
_LIBRARY = re.compile(r"\b(" + "|".join(LIBRARIES) + r")\.")
_DICE = re.compile(r"\bmath\.random\w*|\bos\.(?:time|clock)\b")


def without_comments(text: str) -> str:
    """The script with comments blanked and line numbers kept."""
    text = _LONG_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _COMMENT.sub("", text)


def lua_headers(source: Source) -> Iterator[str]:
    """A script starts with what it is for, KEYS and ARGV; parts of scripts are described where they are used."""
    if source.text.startswith("#!"):
        yield f"{source.path}:1: a shebang; servers before 7.0 refuse it, start with a comment"
    if PurePosixPath(source.path).parent.name != "lua":
        return
    header: list[str] = []
    for line in source.lines:
        if not line.startswith("--"):
            break
        header.append(line)
    for word in ("KEYS", "ARGV"):
        if not any(re.match(rf"--+\s*{word}\b", line) for line in header):
            yield f"{source.path}:1: no line `-- {word}` in the header; say what each of {word} is, with its type"


def lua_calls(source: Source) -> Iterator[str]:
    """No clock, no dice, no key that was not passed in: the same input gives the same state everywhere."""
    for number, line in enumerate(without_comments(source.text).splitlines(), 1):
        for found in _CALL.finditer(line):
            yield f"{source.path}:{number}: calls {found[1].upper()}; {COMMANDS[found[1].upper()]}"
        for found in _DICE.finditer(line):
            yield f"{source.path}:{number}: {found[0]}; take it as an argument"
        for found in _LIBRARY.finditer(line):
            if found[1] == "struct" and PurePosixPath(source.path).name == "binary.lua":
                continue  # the one place that stands in for it
            yield f"{source.path}:{number}: {found[1]}; {LIBRARIES[found[1]]}"


_FUNCTION = re.compile(r"^(?:local )?function .*?^end$", re.DOTALL | re.MULTILINE)
_ONE_LINE = re.compile(r"^(?:local )?function .* end$", re.MULTILINE)
_CHECK = re.compile(r"\blacking\(\)|(?:\breturn |\banswering\()\{ '(?!ok'|new')[a-z]+'")
_RECORDS = "write_(?:machines|jobs|kinds|pending|mailboxes)"
_WRITERS = ("publish", "announce", "store", "in_chunks", "take_name", "wake", "forget", _RECORDS)
_WRITE = re.compile(
    r"redis\.call\(\s*'(?:[HLRSZX]?(?:SET|DEL|PUSH|POP|TRIM|ADD|REM|INCRBY)|P?EXPIRE|UNLINK)'"
    r"|(?<![\w.])(?:" + "|".join(_WRITERS) + r")\("
)


def lua_checks_first(source: Source) -> Iterator[str]:
    """A script validates everything before its first write: nothing is rolled back (semantics 12).

    Looks at the statements of the script itself, in the order of the text; functions run where they are called.
    """
    if PurePosixPath(source.path).parent.name != "lua":
        return
    text = without_comments(source.text)
    for functions in (_ONE_LINE, _FUNCTION):
        text = functions.sub(lambda found: "\n" * found[0].count("\n"), text)
    write = _WRITE.search(text)
    if write is None:
        return
    for check in _CHECK.finditer(text, write.end()):
        line, wrote = (text.count("\n", 0, at) + 1 for at in (check.start(), write.start()))
        yield f"{source.path}:{line}: refuses or asks for keys after a write in line {wrote}; validate first"
