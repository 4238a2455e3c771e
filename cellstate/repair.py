"""Indexes of a cell are written anew from its primary records: ``omega cell verify --repair``.

All is written at once, and only if nobody changed the cell since it was read: its counters and indexes are watched.
The log then has the fact of a restore, of the cell at the version before, and the change list is empty: whoever follows
the cell reads it completely. Pending jobs that were in no queue come last in theirs.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from omega.cellstate import derive, keys
from omega.cellstate.derive import Difference
from omega.cellstate.errors import Refused, StoreError
from omega.cellstate.invariants import Violation
from omega.cellstate.primary import Primary
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.link import confirm
from omega.cellstate.server import translate
from omega.cellstate.verify import INDEXES, UNREADABLE, Log, Told, look

READABLE = frozenset({"changes", *derive.INDEXES}) - derive.MIXED
"""Keys of which nothing is lost when an entry cannot be read."""
EXPLAINED = frozenset({INDEXES, "changes_are_of_their_versions", "changes_follow_from_log"})
"""Rules about what is written anew, or emptied."""
_CHANGED = "changed while it was verified; nothing was written, try again when less goes on"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a repair would write, or why it cannot: violations that no index explains."""

    differences: tuple[Difference, ...] = ()
    unexplained: tuple[Violation, ...] = ()

    @property
    def changes(self) -> dict[str, dict[str, int]]:
        """Number of fields that are added, changed and removed, by key."""
        found: dict[str, Counter[str]] = {}
        for key, _, expected, stored in self.differences:
            how = "added" if stored is None else "removed" if expected is None else "changed"
            found.setdefault(key, Counter(added=0, changed=0, removed=0))[how] += 1
        return {key: dict(counts) for key, counts in found.items()}


def repair(cell: RedisCell, at_ms: int, by: str, agrees: Callable[[Plan], bool], told: Told = str) -> Plan:
    """Write the indexes of a cell anew where they differ from its primary records, if `agrees` says so of the plan.

    Nothing is written when other records contradict one another. Raises Refused when somebody changes the cell
    meanwhile, StoreError.
    """
    client: Any = cell.client
    prefix = keys.prefix(cell.name)
    try:
        with client.pipeline(transaction=True) as pipe:
            pipe.watch(prefix + "meta", prefix + "lanenames", *(prefix + name for name in derive.INDEXES))
            plan, primary = _plan(cell, told)
            pipe.watch(*(prefix + key for key in {key for key, *_ in plan.differences} | {"meta"}))
            if plan.unexplained or not plan.differences or not agrees(plan):
                return plan
            if int(client.hget(prefix + "meta", "version") or 0) != primary.version:
                raise Refused(f"cell {cell.name}: {_CHANGED}")
            pipe.multi()
            _write(pipe, prefix, plan, primary)
            begin(pipe, prefix, primary, at_ms, by)
            pipe.execute()
        confirm(client, cell.name, cell.durability)
    except redis.WatchError as error:
        raise Refused(f"cell {cell.name}: {_CHANGED}") from error
    except (redis.RedisError, OSError) as error:
        raise translate(error, cell.url) from error
    return plan


def _plan(cell: RedisCell, told: Told) -> tuple[Plan, Primary]:
    if unusable := cell.log.unusable():
        key, name, what = unusable[0]
        raise StoreError(f"cell {cell.name}: {f'{key} {name}'.rstrip()} {what}; restore a backup")
    log = Log(cell, told)
    looked = look(cell, log)
    if looked is None:
        raise Refused(f"cell {cell.name}: {_CHANGED}")
    reading, by_place = looked
    primary = reading.primary
    facts = log.books.jobs.items()
    primary.ended = {job: entry.ended for job, entry in facts if entry.ended is not None}
    entries = {f"{key} {name}".rstrip() for key, name, _ in primary.damaged if key.partition(":")[0] in READABLE}
    unexplained = [
        violation for (rule, where), violations in by_place.items()
        if rule not in EXPLAINED and not (rule == UNREADABLE and where in entries)
        for violation in violations
    ]  # fmt: skip
    unexplained += log.books.violations
    return Plan(tuple(derive.differences(reading)), tuple(unexplained)), primary


def _write(pipe: Any, prefix: str, plan: Plan, primary: Primary) -> None:
    for key in plan.changes:
        own = [each for each in plan.differences if each.key == key]
        derived = derive.INDEXES[key.partition(":")[0].replace("lanenames", "lanes")](primary).get(key, {})
        if not isinstance(derived, Mapping):
            pipe.delete(prefix + key)
            if derived:
                pipe.rpush(prefix + key, *derived)
            continue
        scored = key.partition(":")[0] in derive.SCORED
        gone = [field for _, field, expected, _ in own if expected is None]
        fields = {field: expected for _, field, expected, _ in own if expected is not None}
        if gone:
            (pipe.zrem if scored else pipe.hdel)(prefix + key, *gone)
        if fields:
            (pipe.zadd if scored else pipe.hset)(prefix + key, mapping=fields)


def begin(pipe: Any, prefix: str, primary: Primary, at_ms: int, by: str) -> None:
    """Begin a version of which nobody has seen anything, with the fact of a restore: of this cell at this version."""
    version = primary.version + 1
    fact = f"restore {primary.version} {primary.placements}"
    pipe.xadd(prefix + "log", {"at": at_ms, "by": by, "facts": fact}, id=f"{version}-0")
    pipe.delete(prefix + "changes")
    pipe.hset(prefix + "meta", mapping={"version": version, "floor": version})
