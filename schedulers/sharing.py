"""Distribution of jobs among n schedulers of a type: rendezvous hashing of buckets with bounded loads.

The owner of a job is only a hint: correctness comes from the transaction, so two schedulers that share a job for a
moment lose and duplicate nothing (ARCHITECTURE.md, "Jobs are part of the cell state").
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from omega.cellstate.model import BUCKETS

LEASE_MS = 5_000
"""Lease of a scheduler: the time after which the others take over the jobs of one that was killed."""


def _weight(member: str, bucket: int) -> bytes:
    return blake2b(f"{bucket}@{member}".encode(), digest_size=8).digest()


@lru_cache(maxsize=64)
def rendezvous(members: tuple[str, ...], buckets: int) -> tuple[str, ...]:
    """Return the member with the highest weight for each bucket."""
    return tuple(max(members, key=lambda member: _weight(member, bucket)) for bucket in range(buckets))


@lru_cache(maxsize=64)
def _owners(members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the owner of each bucket; a member owns at most its share, rounded up.

    Buckets choose in order, and take their next choice when the first has its share. With few buckets, plain
    rendezvous hashing gives one of eight members twice as many as another.
    """
    most = -(-BUCKETS // len(members))
    has = Counter[str]()
    owners = []
    for bucket in range(BUCKETS):
        free = [member for member in members if has[member] < most]
        owner = max(free, key=lambda member: _weight(member, bucket))
        has[owner] += 1
        owners.append(owner)
    return tuple(owners)


def owned(member: str, live: Iterable[str]) -> str:
    """Return the buckets of `member` as 32 characters; ``1`` marks its own.

    Only live members of its own kind count (``batch/0`` shares with ``batch/1``). If a member leaves, its buckets move
    and few others.
    """
    kind = member.partition("/")[0]
    members = tuple(sorted({name for name in live if name.partition("/")[0] == kind} | {member}))
    return "".join("1" if owner == member else "0" for owner in _owners(members))
