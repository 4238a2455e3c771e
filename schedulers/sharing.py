"""Which of the schedulers of a kind decides which job.

In a cell without pools jobs are divided by a hash of their ids. In a cell with pools one scheduler has all jobs of a
leaf pool, so that their order, their equality and their evictions need no protocol between schedulers; a leaf pool
whose decisions take more than one scheduler has several owners, among which its jobs are divided by id.

The owner of a job is only a hint: correctness comes from the transaction, so two schedulers that share a job for a
moment lose and duplicate nothing (ARCHITECTURE.md, "Jobs are part of the cell state").
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import BUCKETS, bucket_of

LEASE_MS = 5_000
"""Lease of a scheduler: the time after which the others take over the jobs of one that was killed."""
NONE, ALL = "0" * BUCKETS, "1" * BUCKETS
Keeps = Callable[[str, str], bool]
"""Whether a scheduler owns a job, by its id and its leaf pool."""


def _weight(member: str, part: object) -> bytes:
    return blake2b(f"{part}@{member}".encode(), digest_size=8).digest()


@lru_cache(maxsize=64)
def rendezvous(members: tuple[str, ...], buckets: int) -> tuple[str, ...]:
    """Return the member with the highest weight for each bucket."""
    return tuple(max(members, key=lambda member: _weight(member, bucket)) for bucket in range(buckets))


@lru_cache(maxsize=4096)
def owner_of_leaf(members: tuple[str, ...], leaf: str) -> str:
    """Return the owner of a leaf pool that no table names: the member with the highest weight."""
    return max(members, key=lambda member: _weight(member, f"pool {leaf}"))


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
    return _buckets(member, of_kind(member, live))


def _buckets(member: str, members: tuple[str, ...]) -> str:
    return "".join("1" if owner == member else "0" for owner in _owners(members))


def of_kind(member: str, live: Iterable[str]) -> tuple[str, ...]:
    """Return the members of the kind of one, itself included, in order."""
    kind = member.partition("/")[0]
    return tuple(sorted({name for name in live if name.partition("/")[0] == kind} | {member}))


def alone(member: str) -> "Ownership":
    """Return the ownership of the only scheduler of a kind: all jobs are its own."""
    return Ownership(member, (member,))


MOST_LISTED = 1_000
"""Leaf pools up to which each has an entry in the table of owners; of more, a hash divides well enough."""


def divided(leaves: Collection[str], members: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return an owner for each of some leaf pools of which nothing is known: each member has equally many."""
    listed = sorted(leaves) if len(leaves) <= MOST_LISTED else ()
    return {leaf: (members[number % len(members)],) for number, leaf in enumerate(listed)}


def leaf_of_job(spec: Mapping[str, Any]) -> str:
    """Return the leaf pool of a job with these fields; values that are no text count as absent."""
    pool, user = (word if isinstance(word := spec.get(name), str) else "" for name in ("pool", "user"))
    return leaf_of(pool, user)


@dataclass(frozen=True)
class Ownership:
    """The jobs of one scheduler among the live `members` of its kind, in order, itself included.

    `owners` are those of leaf pools, in a cell that has pools; None: in a cell without pools. A leaf pool that it does
    not name has the owner `owner_of_leaf`.
    """

    member: str
    members: tuple[str, ...]
    owners: Mapping[str, tuple[str, ...]] | None = None
    _masks: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _places: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def number(self) -> int:
        """The number of the scheduler among the members."""
        return self.members.index(self.member)

    @property
    def by_id(self) -> str:
        """The buckets of the jobs for which this scheduler has duties whatever their pools."""
        return _buckets(self.member, self.members)

    def owners_of(self, leaf: str) -> tuple[str, ...]:
        """Return the owners of a leaf pool, in order; in a cell without pools all members."""
        if self.owners is None:
            return self.members
        named = self.owners.get(leaf, ())
        found = tuple(member for member in self.members if member in named)
        return found or (owner_of_leaf(self.members, leaf),)

    def buckets(self, leaf: str) -> str:
        """Return the buckets of a leaf pool's jobs that are this scheduler's, as `owned` does."""
        mask = self._masks.get(leaf)
        if mask is None:
            owners = self.owners_of(leaf)
            mask = self._masks[leaf] = _buckets(self.member, owners) if self.member in owners else NONE
        return mask

    def owns(self, job_id: str, leaf: str) -> bool:
        """Return whether a job of a leaf pool is this scheduler's."""
        return self.buckets(leaf)[bucket_of(job_id)] == "1"

    def place_in(self, leaf: str) -> tuple[int, int]:
        """Return the number of this scheduler among the owners of a leaf pool, and how many these are."""
        place = self._places.get(leaf)
        if place is None:
            owners = self.owners_of(leaf)
            number = owners.index(self.member) if self.member in owners else 0
            place = self._places[leaf] = number, len(owners)
        return place
