"""A backup of a cell: its primary records at one version, independent of any server.

The cell continues meanwhile (cellstate/redis/image.py). A restore writes what follows from these records
(cellstate/derive.py). Left out are also data that only the server or a running process has: leases, wake tokens, the
change list (followers of the cell read it completely), messages to executors (which receive the mark to read
everything), last output of tasks, but for what agents measured of ended ones.
"""

from typing import Any

import redis

from omega.cellstate import derive, keys
from omega.cellstate.errors import StoreError, Unsuitable
from omega.cellstate.lanes import BUCKET_SPAN
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis.image import BULK, CHUNK, Image, Told, read_image
from omega.cellstate.server import translate
from omega.cellstate.tasks import STREAM

__all__ = ["Image", "Told", "check_schema", "read_backup"]

ARRIVALS, OUTPUT, OUTPUTS = "arrivals", "output", "outputs"
"""The first is a key of backups alone: job id → the order of becoming pending, in place of the queues."""
OF_PROCESSES = ("lease", "wake", "asleep", "changes", "box", OUTPUT, OUTPUTS, "answer", "progress", "settling",
                "unsettled", "confirmed")  # a table # fmt: skip
_SOME = ("pending", "done", "kinds", *derive.ALONE)
"""Indexes that say something which no record gives: of these a backup has that alone."""
LEFT = frozenset((*OF_PROCESSES, "lanenames", *(name for name in derive.INDEXES if name not in _SOME)))
ATTEMPTS = 5


def check_schema(backup: Image) -> None:
    """Raise Unsuitable unless the records of a backup have the schema of this version, and not newer rules."""
    if backup.schema != keys.SCHEMA:
        raise Unsuitable(f"cell {backup.cell}: {keys.other_schema(backup.schema)}")
    rules = backup.hashes["meta"].get(b"rules", b"")
    if rules.isdigit() and int(rules) > keys.RULES:
        raise Unsuitable(f"cell {backup.cell} {keys.other_rules(int(rules))}")


def read_backup(cell: StoredCell, at_ms: int, told: Told = lambda _: None) -> Image:
    """Read a cell, which schedulers may be changing. Raises StoreError, also when it changes too fast."""
    try:
        for _ in range(ATTEMPTS):
            backup = read_image(cell, at_ms, LEFT, told)
            if backup is not None:
                for key, kind in backup.others.items():
                    raise StoreError(
                        f"the key {keys.prefix(cell.name)}{key} is a {kind}, which is no part of a cell; another"
                        " program created it, delete it"
                    )
                _keep_primary(backup)
                _read_measured(cell, backup)
                _read_log(cell, backup, told)
                return backup
    except (redis.RedisError, OSError) as error:
        raise translate(error, cell.url) from error
    raise StoreError(f"cell {cell.name}: changes faster than it can be read; try again when less goes on")


def _keep_primary(backup: Image) -> None:
    """Drop what follows from other records."""
    hashes, size = backup.hashes, len(backup.resources)
    for name in LEFT.intersection(BULK):  # changes of these are read with their machines and jobs
        hashes[name] = {}
    for name in [name for name in backup.zsets if name.startswith("pending:")]:
        queue = backup.zsets.pop(name)
        hashes.setdefault(ARRIVALS, {}).update({job[2:]: b"%d" % (at % BUCKET_SPAN) for job, at in queue.items()})
    for kind, record in hashes.get("kinds", {}).items():
        hashes["kinds"][kind] = b" ".join([*record.split(b" ")[: 3 + size], *[b"0"] * (1 + size)])
    for name in ("pools", "results"):
        hashes[name] = {each: record for each, record in hashes.get(name, {}).items() if not derive.follows(name, each)}
        if not hashes[name]:
            del hashes[name]


def _read_measured(cell: StoredCell, backup: Image) -> None:
    """Read what agents measured: no version of the cell has it, and it expires together."""
    client: Any = cell.client
    key = keys.prefix(cell.name) + OUTPUT
    found, left = dict(client.hscan_iter(key, match=f"* {STREAM}", count=CHUNK)), client.pttl(key)
    if found and left > 0:
        backup.hashes[OUTPUT], backup.lists[OUTPUTS] = found, list(found)
        backup.expiries |= {OUTPUT: left, OUTPUTS: left}


def _read_log(cell: StoredCell, backup: Image, told: Told) -> None:
    client: Any = cell.client
    start = "-"
    while entries := client.xrange(keys.prefix(cell.name) + "log", start, f"{backup.version}-0", count=CHUNK):
        backup.log += [(key, [word for pair in fields.items() for word in pair]) for key, fields in entries]
        told(len(entries))
        start = f"{int(entries[-1][0].partition(b'-')[0]) + 1}-0"
