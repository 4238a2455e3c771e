"""How n schedulers of a kind share its jobs: rendezvous hashing of buckets over live members.

Which scheduler works on a job is only a hint: correctness comes from the transaction, so two that
briefly share one lose nothing and double nothing (ARCHITECTURE.md, "Jobs are part of the cell state").
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from cellstate.model import BUCKETS


def _weight(member: str, bucket: int) -> bytes:
    return blake2b(f"{bucket}@{member}".encode(), digest_size=8).digest()


@lru_cache(maxsize=64)
def _owners(members: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(max(members, key=lambda member: _weight(member, bucket)) for bucket in range(BUCKETS))


def owned(member: str, live: Iterable[str]) -> str:
    """The buckets of `member` as 256 characters, ``1`` where it has the highest weight.

    Only live members of its own kind count (``batch/0`` shares with ``batch/1``). A member that
    leaves moves only its own buckets.
    """
    kind = member.partition("/")[0]
    members = tuple(sorted({name for name in live if name.partition("/")[0] == kind} | {member}))
    return "".join("1" if owner == member else "0" for owner in _owners(members))
