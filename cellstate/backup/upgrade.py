"""Records of an older schema converted to the present one: what `omega store restore` and `migrate` share."""

import re
from collections.abc import Callable

from omega.cellstate import keys
from omega.cellstate.backup import Backup
from omega.cellstate.errors import Unsuitable
from omega.cellstate.pools import Pools, PoolTree
from omega.cellstate.pools.records import leaf_rows, state_of, unpack_pool, unpack_trees
from omega.cellstate.redis.job_records import LINKS_AT, decode, read_head
from omega.cellstate.schema import FIXED, bare
from omega.cellstate.sums import totals_of


def pools_name_trees(backup: Backup) -> None:
    """Schema 7: where trees divide the machines, the chain of a leaf names its tree, and scripts read the chains.

    Machines are assigned to their trees by the first scheduler or agent; until then they take no tasks.
    """
    fields = {name.decode(): value for name, value in backup.fields("pools").items()}
    pools = Pools(
        tuple(unpack_pool(data) for name, data in fields.items() if name[0] == "p"),
        unpack_trees(fields["trees"]) if "trees" in fields else (PoolTree(),),
    )
    if pools.divided:
        fields |= {name: chain.encode() for name, chain in leaf_rows(pools).items()}
        pairs = [(name.encode(), value) for name, value in fields.items()]
        backup.small["pools"] = backup.small["pools"]._replace(items=[word for pair in pairs for word in pair])
        meta = backup.small["meta"].items
        meta[2 * meta[::2].index(b"pools") + 1] = b"%d" % state_of(pools)


def names_lead_to_ended_jobs(backup: Backup) -> None:
    """Schema 7: a name leads to the newest job of that name, live or ended; before, names led to live jobs only."""
    size, names = len(backup.resources), backup.bulk["jobnames"]
    jobs = {job: decode(with_minimum(record), size) for job, record in backup.bulk["jobs"].items()}
    for job in sorted(jobs, key=lambda each: int(jobs[each]["order"])):
        called = str(jobs[job]["name"]).encode() or job
        names[called] = b"" if called == job else job


def to_7(backup: Backup) -> None:
    """Convert to schema 7."""
    pools_name_trees(backup)
    names_lead_to_ended_jobs(backup)


def sums_are_kept(backup: Backup) -> None:
    """Schema 8: the counters have sums over tasks and jobs. They begin with the jobs that are kept."""
    size, meta = len(backup.resources), backup.small["meta"]
    heads = (read_head(job.decode(), record, size) for job, record in backup.bulk["jobs"].items())
    for name, total in totals_of(heads).items():
        meta.items.extend((name.encode(), b"%d" % total))


def with_minimum(record: bytes) -> bytes:
    """Return a job's record of schema 7 as schema 8 has it: no gang has a minimum, its number follows `submitted`."""
    before = FIXED[: [field.name for field in FIXED].index("gang_min")]
    at = LINKS_AT + 4 + int.from_bytes(record[LINKS_AT : LINKS_AT + 4], "little") + bare(before)
    return record[:at] + bytes(2) + record[at:]


def waiters_apart(record: bytes) -> bytes:
    """Return a job's record with whether jobs wait for it, in place of these jobs, whose records say so too."""
    start = LINKS_AT + 4
    end = start + int.from_bytes(record[LINKS_AT:start], "little")
    links = re.sub(rb">\w[^<>]*", b"", record[start:end])
    if len(links) < end - start:
        links += b">*"
    return record[:LINKS_AT] + len(links).to_bytes(4, "little") + links + record[end:]


def to_8(backup: Backup) -> None:
    """Convert to schema 8: records of jobs have the minimum of a gang, not the jobs that wait, counters sums over them.

    What operators set of machines is on record from now on (``operator``); the digest of the log begins with a gap.
    """
    jobs = backup.bulk["jobs"]
    jobs.update({job: waiters_apart(with_minimum(record)) for job, record in jobs.items()})
    sums_are_kept(backup)


STEPS: dict[int, Callable[[Backup], None]] = {6: to_7, 7: to_8}
"""Converter of each schema from `keys.OLDEST` to the one before the present: it changes the records of a backup to the
form of the next schema."""


def check_schema(backup: Backup) -> None:
    """Raise Unsuitable unless the records of a backup have the present schema, or one that `upgraded` converts."""
    if backup.schema != keys.SCHEMA and backup.schema not in STEPS:
        raise Unsuitable(f"cell {backup.cell}: {keys.other_schema(backup.schema, 'omega store restore')}")


def upgraded(backup: Backup) -> Backup:
    """Convert the records of a backup, in place, to the present schema. Raises Unsuitable."""
    check_schema(backup)
    while backup.schema != keys.SCHEMA:
        STEPS[backup.schema](backup)
        backup.schema += 1
    meta = backup.small["meta"].items
    meta[2 * meta[::2].index(b"schema") + 1] = b"%d" % keys.SCHEMA
    return backup
