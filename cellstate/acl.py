"""Users of a store, one for each role, with the scripts and commands that the role may run, as lines of an ``aclfile``.

A server checks every command of a script against the calling user, who can then also send it alone (semantics 22). So
roles separate scripts, cells, and readers from writers; they do not separate raw writes within a cell.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files

from omega.cellstate import keys
from omega.cellstate.redis.scripts import READING, script

_FOLDER = files("omega.cellstate") / "lua"
SCRIPTS = tuple(sorted(path.name.removesuffix(".lua") for path in _FOLDER.iterdir() if path.name.endswith(".lua")))
"""Names of all scripts."""
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "reader": READING,
    "submitter": (
        *READING, "claim_directory", "report_cut", "submit", "hold", "request_output", "resize", "update", "stop",
    ),
    "scheduler": (
        *READING, "report_cut", "register_scheduler", "renew_scheduler", "deregister_scheduler", "deregister_executor",
        "assign_trees", "attempt", "commit", "digest", "end", "epoch", "hold", "housekeep", "machine", "resize",
        "retire", "settle", "speculate", "stop",
    ),
    "executor": (
        *READING, "answer_output", "report_cut", "register_agent", "register_executor", "renew_executor",
        "deregister_executor", "register_scheduler", "renew_scheduler", "deregister_scheduler", "assign_trees",
        "claim_directory", "claim_shard", "confirm_runs", "digest", "end", "end_shard", "health", "housekeep", "join",
        "machine", "online", "progress", "retire", "start", "tail", "unfit",
    ),
    "person": SCRIPTS,
}  # fmt: skip
"""The scripts that a role may run."""

_CONNECTION = ("ping", "hello", "info", "time", "client|setname", "select", "acl|whoami", "asking", "cluster|slots")
_LOADING = "script|load"
"""A reader may not load scripts, with which it could fill the server's memory (docs/operations.md)."""
_SETINFO = "client|setinfo"
_KNOWS_SETINFO = (7, 2)
"""A server before 7.2 fails to start with a rule for ``client|setinfo``."""
_CONFIRMING = ("pexpire", "set", "wait")
"""Commands by which replicas confirm a change (cellstate/redis/link.py)."""
_READS = (
    "multi", "exec", "scan", "type", "exists", "pttl", "get", "hget", "hgetall", "hkeys", "hlen", "hmget", "hscan",
    "lindex", "llen", "lrange", "smembers", "xlen", "xrange", "xrevrange", "zcard", "zcount", "zrange", "zrangebyscore",
    "zrevrange", "zrevrangebyscore", "zscan", "zscore",
)  # fmt: skip
_DIRECT: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("blmove", "del", "hdel", "hset", "rpush"),
    "executor": ("blmove", "del", "hdel", "hset", "lrem", "rpush"),
    "person": (
        "del",
        "hdel",
        "hset",
        "pexpire",
        "rename",
        "rpush",
        "sadd",
        "set",
        "srem",
        "unlink",
        "unwatch",
        "watch",
        "xadd",
        "zadd",
    ),
}
"""Write commands that a role sends outside scripts."""
_LISTS_CELLS = ("reader", "person")
"""Roles that may access the list of cells; a reader has no command that writes. The others name their cell."""
_CALLS = re.compile(r"(?:redis\.call|in_chunks)\('([A-Z]+)'")


def commands_of(name: str) -> set[str]:
    """Return the commands in the text of a script, in lower case; only those that read for a reading script."""
    called = {command.lower() for command in _CALLS.findall(script(name).text)}
    return called & set(_READS) if name in READING else called


def commands(role: str) -> list[str]:
    """Return all data commands of a role, sorted: those of its scripts and those outside scripts."""
    called = {command for name in ALLOWED[role] for command in commands_of(name)}
    if role == "reader":
        return sorted({*called, *_READS})
    return sorted({*called, *_READS, *_CONFIRMING, *_DIRECT.get(role, ())})


def line(role: str, cell: str, version: tuple[int, ...], password: str = "", *, name: str = "") -> str:
    """Return the line of an ``aclfile`` for a role on a cell, for a server compatible with Redis `version`.

    The user's name is `name`, default ``omega-ROLE``. The line has the hash of the password; without one the user is
    off.
    """
    login = f"on #{sha256(password.encode()).hexdigest()}" if password else "off"
    patterns = [f"~{_literal(keys.prefix(cell))}*", *([f"~{keys.CELLS}"] if role in _LISTS_CELLS else [])]
    allowed = [*_CONNECTION, *([_SETINFO] if version >= _KNOWS_SETINFO else []), *commands(role)]
    allowed += [] if role == "reader" else [_LOADING]
    allowed += [f"evalsha|{script(name).sha}" for name in ALLOWED[role]]
    words = ["user", name or f"omega-{role}", "reset", login, *patterns, "resetchannels", "-@all"]
    return " ".join([*words, *(f"+{command}" for command in allowed)])


def _literal(text: str) -> str:
    """Return a pattern of keys that matches only the text."""
    return re.sub(r"([\[\]*?\\^])", r"\\\1", text)
