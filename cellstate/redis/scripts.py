"""The Lua scripts: loaded from the package, their KEYS and ARGV named by their own headers.

A header line ``-- KEYS   meta machines | box:*`` fixes the order of the keys and allows more behind the
bar; ``-- ARGV   dims at | texts`` does the same for arguments. The loader writes the matching local
variables in front of the script, so positions cannot drift between Lua and Python. Rare keys (`RARE`) get no variable.

``--@include records fast_path/end`` stands for ``lua/parts/records.lua`` and ``lua/fast_path/end.lua``; ``--@schema``
for the codec of jobs' records, ``--@fields`` for its constants and what reads the texts of a record alone,
``--@layout`` and ``--@simple`` for what reads a job on the fast path (cellstate/schema.py).
``--@const UP 0, DOWN 2`` names numbers: they are written into the text in place of the names, because Lua has room for
200 local variables in a script and looks each one up for every function that uses it, at every call.

``--@lazy pools`` in a part: what follows it is carried out when a call first reads what the table ``pools`` does not
have. So a call pays for one function of a subject that it does not meet, such as losses or copies of tasks.
``--@inner``: what follows stands in a function of its own. The server looks up each variable that a function uses from
outside of the function that makes it; those of the function around that one cost a tenth.

A script makes its functions anew at every call (0.1 to 0.5 µs each), so the loader leaves out those of included parts
that it does not use (docs/decisions/0106-scripts-stay.md).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from operator import itemgetter
from textwrap import indent

from omega.cellstate import keys as cell_keys, schema
from omega.cellstate.descriptors import with_spare

READING = ("agreed", "changed_records", "sync")
"""The scripts that readers run."""
READS = (
    "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "LINDEX", "LLEN", "LRANGE",
    "TYPE", "XLEN", "XRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZSCORE",
)  # fmt: skip
"""The commands of the scripts that write nothing: a dry run carries out these alone."""
RARE = frozenset({"copied", "history", "recent", "results", "waiters"})
"""Keys that few calls use. Their place is written into the text in place of a local variable, which costs nothing."""
_LAZY = """setmetatable({table}, {{ __index = function(_section, _name)
  setmetatable(_section, nil)
{functions}  return _section[_name]
end }})
"""
_INNER = re.compile(r"^--@inner\n(.*)", re.MULTILINE | re.DOTALL)
_FOLDER = files("omega.cellstate") / "lua"
_CONSTANT = re.compile(r"([A-Z_]+) (\d+)")


def _header(source: str, word: str) -> list[str]:
    for line in source.splitlines():
        if line.startswith(f"-- {word} "):
            return line.removeprefix(f"-- {word}").split("|")[0].split()
    raise ValueError(f"script without a {word} line")


def _text(name: str) -> str:
    file = _FOLDER / f"{name}.lua"
    return with_spare(lambda: file.read_text("utf-8"))


def _part(name: str) -> str:
    text = _text(name if "/" in name else f"parts/{name}")
    first, mark, rest = text.partition("--@lazy ")
    table, _, functions = rest.partition("\n")
    return first + _LAZY.format(table=table, functions=indent(functions, "  ")) if mark else text


def _include(source: str) -> str:
    lines = []
    for line in source.splitlines():
        if line.lstrip().startswith("--@include"):
            before = line[: line.index("-")]
            lines += [indent(_include(_part(name)), before) for name in line.split()[1:]]
        else:
            lines.append(line)
    text = _INNER.sub(lambda found: f"return (function()\n{found[1]}\nend)()", "\n".join(lines))
    layout, simple = schema.simple_job()
    made = {"schema": schema.lua(), "fields": schema.fields(), "layout": layout, "simple": simple}
    for word, lines_of_schema in made.items():
        text = text.replace(f"--@{word}\n", f"{lines_of_schema.rstrip()}\n")
    return text


FUNCTION = re.compile(
    r"^ {0,2}(?:local )?function (?:\w+\.)*(\w+)\(.* end(?: +--.*)?$"
    r"|^( {0,2})(?:local )?function (?:\w+\.)*(\w+)\(.*\n(?:.*\n)*?\2end$",
    re.MULTILINE,
)
"""A function on one line, or up to the `end` below its beginning; those inside another one belong to it."""
_UNCOUNTED = re.compile(r"^ *(?:--.*|local [\w, ]+)$", re.MULTILINE)
_WORD = re.compile(r"\w+")


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(_UNCOUNTED.sub("", text)))


def _without_unused(text: str) -> str:
    """Leave out functions whose names stand nowhere else in the text, and then those that only they used.

    Seen are those that stand at the left, or in a ``do``.
    """
    functions = {found.span(): (found[1] or found[3], _words(found[0])) for found in FUNCTION.finditer(text)}
    used, left_out = _words(text), list[tuple[int, int]]()
    while unused := [place for place, (name, own) in functions.items() if used[name] == own[name]]:
        for place in unused:
            used -= functions.pop(place)[1]
        left_out += unused
    kept, at = [], 0
    for first, last in sorted(left_out):
        kept.append(text[at:first])
        at = last + 1
    return "".join((*kept, text[at:]))


def _with_constants(source: str) -> str:
    lines = [line for line in source.splitlines() if line.lstrip().startswith("--@const ")]
    constants: dict[str, str] = dict(_CONSTANT.findall(" ".join(lines)))
    if not constants:
        return source
    quoted_or_named = re.compile(r"'[^'\n]*'|\b(" + "|".join(constants) + r")\b")
    return quoted_or_named.sub(lambda match: constants[match[1]] if match[1] else match[0], source)


@dataclass(frozen=True, slots=True)
class Script:
    """A script ready to be sent: its text, its SHA-1, and the names of its fixed keys and arguments."""

    name: str
    text: str
    sha: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]

    def pack_arguments(self, values: Mapping[str, object], rest: Iterable[object] = ()) -> list[object]:
        """Return the values in the script's order, then `rest`. Raises KeyError for one left out."""
        return [*_chosen(self.arguments)(values), *rest]


@cache
def _chosen(names: tuple[str, ...]) -> Callable[[Mapping[str, object]], Iterable[object]]:
    """Return a function that takes the values of these names out of a mapping; `itemgetter` returns no tuple of one."""
    return itemgetter(*names) if len(names) > 1 else lambda values: [values[name] for name in names]


def _with_rare_keys(text: str, common: list[str], rare: list[str]) -> str:
    """Name the rare keys by their place, and those that the header lacks by what a call adds (parts/named.lua)."""
    places = {name: f"KEYS[{place}]" for place, name in enumerate(rare, len(common) + 1)}
    variable = re.compile(r"\b(" + "|".join(sorted(RARE)) + r")_key\b")
    return variable.sub(lambda match: places.get(match[1], f"named.{match[1]}"), text)


def _locals(names: list[str], suffix: str, table: str) -> str:
    if not names:
        return ""
    left = ", ".join(name + suffix for name in names)
    return f"local {left} = unpack({table}, 1, {len(names)})\n"


_CHECK = """do
  local stands = redis.call('HMGET', meta_key, 'rules', 'floor')
  if stands[1] ~= "RULES" then return redis.error_reply(stands[2] and 'RULES ' .. (stands[1] or 0) or 'NOCELL none') end
end
"""
_CHECK_OF_READERS = """do
  local stands = redis.call('HMGET', meta_key, 'rules', 'floor')
  if stands[2] and stands[1] ~= "RULES" then return redis.error_reply('RULES ' .. (stands[1] or 0)) end
end
"""
"""To a reader, a cell that is not there is an empty one."""
_CHECKING = re.compile(r"--@include .*\b(?:counters|fence|fast_path/end)\b")
"""What includes one of these parts reads the number with other counters; creating a cell compares it otherwise."""

AT_ONCE = 5_000
"""Words of a list that may be longer than a call takes, in each call."""
MIB = 1 << 20
WORDS, BYTES = 20_000, 4 * MIB
"""The most further arguments of a call of a script, and the bytes of all of them together."""
BOUNDS: Mapping[str, tuple[int, int]] = {
    "commit": (0, BYTES), "digest": (200_000, 16 * MIB), "end": (0, BYTES), "epoch": (0, 16 * MIB),
    "join": (20_000, 64 * MIB), "pools": (200_000, 64 * MIB), "resize": (5_000, 16 * MIB),
    "submit": (40_000, 64 * MIB), "update": (5_000, 16 * MIB),
}  # fmt: skip
"""The same of scripts that take others: more, which they store and do not read, or one text alone."""
MOST_KEYS = 200_000
LISTS = ("change", "current", "limits", "near", "task", "reason", "request")
"""Arguments that are lists, or are searched: at most `LIST_BYTES` each."""
LIST_BYTES = 64 << 10
NUMBERS = {
    "most": 20_000, "stops": 20_000, "kept": 1_000, "reporters": 1_000, "count": 20_000, "now": 10**15, "known": 10**14,
    "first_lost": 10**14, "seen": 10**14, "agreed": 10**14, "ahead": 10**14,
}  # fmt: skip
"""Arguments that are whole numbers from 0 to these: how much a call does depends on them."""


def _bounds(name: str, arguments: list[str]) -> str:
    """Return the check of the size of a call, in front of everything else that the script does.

    Whoever may run a script may run it with any arguments. Scripts of readers bound theirs by themselves: they answer
    less instead.
    """
    if name in READING or name == "create":
        return ""
    words, size = BOUNDS.get(name, (WORDS, BYTES))
    wrong = [f"#KEYS > {MOST_KEYS}", f"#ARGV > {len(arguments) + words}", f"#ARGV < {len(arguments)}"]
    wrong += [f"#{each} > {LIST_BYTES}" for each in LISTS if each in arguments]
    wrong += ["#dims > 2"] if "dims" in arguments else []
    for each, most in NUMBERS.items():
        if each in arguments and (each, name) != ("most", "speculate"):  # as many copies as the operator allows
            wrong.append(f"not string.find({each}, '^%d+$') or #{each} > 15 or tonumber({each}) > {most}")
    wrong.append(f"#table.concat(ARGV) > {size}")
    return f"if {' or '.join(wrong)} then return redis.error_reply('LARGE arguments') end\n"


_DRY = f"""local redis = setmetatable({{ call = (function()
  local call, reads = redis.call, {{ {", ".join(f"{each} = true" for each in READS)} }}
  return function(command, ...)
    if reads[command] then return call(command, ...) end
    return 0
  end
end)() }}, {{ __index = redis }})
"""
"""In front of a script: its commands that write do nothing, and answer 0."""


@cache
def dry_script(name: str) -> Script:
    """Load a script that validates and answers as ever, and writes nothing.

    Scripts read everything first, change what they read in their own memory, answer from that, and write it in the end.
    What a script reads again after a write decides only what it writes next.
    """
    real = script(name)
    text = _DRY + real.text
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, real.keys, real.arguments)


@cache
def script(name: str) -> Script:
    """Load ``lua/<name>.lua`` with its included parts; it fails on a cell with other rules, or that is not there.

    A process may outlive its cell, which was deleted, is being restored, or was written by another version of Omega.
    """
    source = _text(name)
    source = f"--@const RULES {cell_keys.RULES}\n{source}"
    if name != "create" and not _CHECKING.search(source):
        source = (_CHECK_OF_READERS if name in READING else _CHECK) + source
    keys, arguments = _header(source, "KEYS"), _header(source, "ARGV")
    common, rare = [key for key in keys if key not in RARE], [key for key in keys if key in RARE]
    keys = common + rare
    text = (
        _locals(common, "_key", "KEYS")
        + _locals(arguments, "", "ARGV")
        + _bounds(name, arguments)
        + f"local fixed_keys, fixed_args = {len(keys)}, {len(arguments)}\n"
        + _without_unused(_with_constants(_with_rare_keys(_include(source), common, rare)))
    )
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest(), tuple(keys), tuple(arguments))
