"""Why a server refuses writes, from its INFO, which every role may read: a full disk, full memory, a short replica."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
MUCH_FOR_SCRIPTS = 64 * MIB
"""Memory of scripts from which on messages name it; Omega's own take about 2 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """Properties of a server that change: why it `refuses` writes, replicas that follow it, memory and its limit.

    `refuses` is empty when it takes writes, `memory_limit_bytes` 0 without a limit.
    """

    refuses: str = ""
    replicas: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0


def script_bytes(facts: Mapping[str, Any]) -> int:
    """Return the memory of scripts: of the interpreter, and of their texts."""
    return int(facts.get("used_memory_lua", 0)) + int(facts.get("used_memory_scripts", 0))


def scripts_fill(facts: Mapping[str, Any]) -> str:
    """Return how much memory scripts take and the remedy, where that is much; else an empty text."""
    size = script_bytes(facts)
    if size < MUCH_FOR_SCRIPTS:
        return ""
    number = facts.get("number_of_cached_scripts", "many")
    return (
        f"{number} scripts take {size // MIB:,} MiB; SCRIPT FLUSH on the server frees them, Omega loads its own again"
    )


MINIMUM = "min-replicas-to-write"
"""The setting below which a server refuses writes. INFO has the number of good replicas alone, where it is set."""


def needs_minimum(facts: Mapping[str, Any]) -> bool:
    """Return whether only the setting shows if a server refuses writes: some of its replicas keep up."""
    return int(facts.get("min_slaves_good_slaves", 0)) > 0


LATE_SECONDS = 3
"""Time without a report of a replica, which sends one each second, after which it does not count as following."""


def following(facts: Mapping[str, Any]) -> int:
    """Return the number of replicas that follow a server and report to it."""
    replicas = (facts.get(f"slave{number}", {}) for number in range(int(facts.get("connected_slaves", 0))))
    return sum(each.get("state") == "online" and int(each.get("lag", 0)) <= LATE_SECONDS for each in replicas)


def why_writes_are_refused(facts: Mapping[str, Any], replicas: int = 0) -> str:
    """Return why the server refuses writes, with the remedy; empty when it does not.

    `replicas`: the number that must have a change before it is acknowledged.
    """
    most, used = int(facts.get("maxmemory", 0)), int(facts.get("used_memory", 0))
    if facts.get("role", "master") != "master":
        return "it is a read-only replica; give the URL of its primary, or wait for the end of a failover"
    if facts.get("aof_last_write_status", "ok") != "ok":
        return "it cannot write its append-only file; make room on its disk and see its log"
    if facts.get("rdb_last_bgsave_status", "ok") != "ok":
        return "it cannot save its data; make room on its disk and see its log"
    if most and used >= most:
        remedy = scripts_fill(facts) or "raise its maxmemory or remove finished jobs"
        return f"its memory is full ({used // MIB:,} of {most // MIB:,} MiB); {remedy}"
    if int(facts.get("min_slaves_good_slaves", 1)) < int(facts.get(MINIMUM, 1)):
        return "too few replicas follow it; see its min-replicas-to-write"
    if (count := following(facts)) < replicas:
        required = "a replica" if replicas == 1 else f"{replicas} replicas"
        return f"it acknowledges no change of this cell, which requires {required}; {count} follow it"
    return ""


def store_state(facts: Mapping[str, Any], replicas: int = 0) -> StoreState:
    """Return the state of a server; `replicas` as for `why_writes_are_refused`."""
    return StoreState(
        refuses=why_writes_are_refused(facts, replicas),
        replicas=following(facts),
        memory_bytes=int(facts.get("used_memory", 0)),
        memory_limit_bytes=int(facts.get("maxmemory", 0)),
    )


def said(reason: str) -> str:
    """Return the sentence about refused writes that every command prints; empty without a reason."""
    return f"The store refuses writes: {reason}" if reason else ""
