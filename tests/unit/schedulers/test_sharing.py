"""How schedulers of a kind share its jobs."""

import math
from collections import Counter

import pytest

from omega.cellstate.model import BUCKETS
from omega.schedulers.sharing import owned


def names(count: int, kind: str = "batch") -> list[str]:
    return [f"{kind}/{i}" for i in range(count)]


def owners(members: list[str]) -> list[str]:
    """Who owns each bucket; fails unless exactly one does."""
    shares = {member: owned(member, members) for member in members}
    found = []
    for bucket in range(BUCKETS):
        (owner,) = [member for member, buckets in shares.items() if buckets[bucket] == "1"]
        found.append(owner)
    return found


def test_one_alone_owns_everything_even_unlisted() -> None:
    assert owned("batch/0", ["batch/0"]) == owned("batch/0", []) == "1" * BUCKETS


@pytest.mark.parametrize("count", [2, 3, 8, 16])
def test_every_bucket_has_one_owner_and_shares_are_about_equal(count: int) -> None:
    shares = Counter(owners(names(count)))
    fair = BUCKETS / count
    assert len(shares) == count
    assert all(share <= math.ceil(fair) for share in shares.values())


@pytest.mark.parametrize("leaver", range(4))
def test_hardly_any_buckets_move_but_those_of_the_one_that_leaves(leaver: int) -> None:
    members = names(4)
    before = owners(members)
    after = owners([member for member in members if member != members[leaver]])
    moved = [bucket for bucket in range(BUCKETS) if before[bucket] != after[bucket]]
    own = [bucket for bucket in range(BUCKETS) if before[bucket] == members[leaver]]
    assert set(own) <= set(moved)
    assert len(moved) - len(own) <= BUCKETS // 8, "bounded loads move some others, no more"
    assert len({after[bucket] for bucket in own}) > 1, "several that stay take them"


def test_kinds_do_not_share() -> None:
    members = names(2) + names(5, "service")
    assert owned("batch/0", members) == owned("batch/0", names(2))
    assert owned("service/0", ["batch/0", "batch/1"]) == "1" * BUCKETS


def test_order_and_repetition_of_the_members_do_not_matter() -> None:
    assert owned("batch/1", ["batch/2", "batch/1", "batch/0", "batch/2"]) == owned("batch/1", names(3))
