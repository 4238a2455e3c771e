"""The pools and trees of a cell together: parents, leaves, the settings that a pool inherits, who may submit."""

from dataclasses import dataclass, replace
from functools import cached_property

from omega.cellstate.pools.settings import (
    DEFAULT_PREEMPTION,
    MOST_DEPTH,
    NOBODY,
    Pool,
    PoolTree,
    PreemptionSettings,
    stated,
)


@dataclass(frozen=True)
class Pools:
    """The pools of a cell: what operators configured, at `version`, the cell's version of the last change.

    Without pools nothing is configured, and jobs may name any pool. Raises nothing; `check` validates.
    """

    pools: tuple[Pool, ...] = ()
    trees: tuple[PoolTree, ...] = (PoolTree(),)
    version: int = 0

    @property
    def configured(self) -> bool:
        """Whether there is any pool."""
        return bool(self.pools)

    @cached_property
    def divided(self) -> bool:
        """Whether trees divide the machines: attributes of a machine decide which tree it belongs to."""
        return self.configured and any(tree.machines for tree in self.trees)

    @cached_property
    def limited(self) -> bool:
        """Whether some pool carries limits; those of lending are apart (`Pool.kept`)."""
        return any(pool.upper for pool in self.pools)

    @cached_property
    def by_name(self) -> dict[str, Pool]:
        """The pools by their names."""
        return {pool.name: pool for pool in self.pools}

    @cached_property
    def children(self) -> dict[str, list[Pool]]:
        """The pools directly below each pool (or ``ROOT``) that has any."""
        below: dict[str, list[Pool]] = {}
        for pool in self.pools:
            below.setdefault(pool.parent, []).append(pool)
        return below

    @cached_property
    def leaves(self) -> set[str]:
        """Names of the pools that may hold jobs: those without pools below them."""
        inner = {pool.parent for pool in self.pools}
        return {pool.name for pool in self.pools if pool.name not in inner}

    @cached_property
    def operators_from(self) -> int | None:
        """The precedence from which jobs evict across pools by precedence alone; None unless every tree has one."""
        stated = [tree.operators_from for tree in self.trees]
        return None if not stated or None in stated else max(each for each in stated if each is not None)

    def path(self, name: str) -> list[Pool]:
        """Return the pool of that name and its ancestors, without the root; empty for an unknown name."""
        named, found = self.by_name, list[Pool]()
        while (pool := named.get(name)) is not None and len(found) < MOST_DEPTH:
            found.append(pool)
            name = pool.parent
        return found

    def tree_of(self, name: str) -> PoolTree:
        """Return the tree of a pool; the first tree for an unknown (ephemeral) one."""
        path = self.path(name)
        wanted = path[-1].tree if path else ""
        return next((tree for tree in self.trees if tree.name == wanted), self.trees[0])

    def tree_number(self, name: str) -> int:
        """Return the place in the list of trees of the tree of a pool; the first for an unknown (ephemeral) one."""
        return self.trees.index(self.tree_of(name))

    def preemption(self, name: str) -> PreemptionSettings:
        """The settings that hold for a pool, with defaults.

        None: no budget (`evictions_per_minute`), the grace of each job (`allocation_timeout`).
        """
        tree, found = self.tree_of(name), DEFAULT_PREEMPTION
        parent = self.path(name) or self.path(tree.default_parent)
        for settings in (tree.preemption, *(pool.preemption for pool in reversed(parent))):
            found = replace(found, **{each.name: value for each, value in stated(settings)})
        return found

    def pool_of(self, pool: str, user: str) -> str:
        """Return the name of the pool of a job that names `pool` ("" for none) and was submitted by `user`."""
        return pool or user or NOBODY

    def parent_of(self, name: str) -> str:
        """Return the name of a pool's parent, of an ephemeral pool the default parent of the first tree."""
        pool = self.by_name.get(name)
        return pool.parent if pool is not None else self.trees[0].default_parent

    def chain(self, name: str) -> list[Pool]:
        """The pool and its ancestors that carry limits, from the pool upward; of an ephemeral pool its ancestors."""
        path = self.path(name) or self.path(self.trees[0].default_parent)
        return [pool for pool in path if pool.upper]

    def closed_to(self, name: str, user: str) -> Pool | None:
        """Return the pool whose list of users keeps a user from submitting to a pool; None: the user may submit.

        The lists of a pool and of all its ancestors hold, for an ephemeral pool those of its ancestors.
        """
        path = self.path(name) or self.path(self.trees[0].default_parent)
        return next((pool for pool in path if pool.users and user not in pool.users), None)

    def admitted(self, name: str) -> tuple[str, ...] | None:
        """Return the users that may submit to a pool ("" for any ephemeral one), in order; None: all users."""
        path = self.path(name) or self.path(self.trees[0].default_parent)
        lists = [set(pool.users) for pool in path if pool.users]
        return tuple(sorted(set.intersection(*lists))) if lists else None
