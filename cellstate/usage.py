"""Use and demand of users and pools in a snapshot: the store's state, with this scheduler's own claims."""

from collections.abc import Iterable, Mapping

from cellstate.fairness import leaf_of
from cellstate.resources import Resources

Whose = tuple[str, str]
"""(pool, user); ``""`` where a job names none."""
Booking = tuple[Whose, Resources]
"""Amounts of this scheduler's own claims, all their tasks together."""


class Usage:
    """Amounts held and wanted, by user and by pool, in the order and units of the cell's resources.

    `capacity` is that of the machines that are up. `take` counts claims until `land` or `forget` (they are in the
    store's amounts from then on); `promise` counts chosen tasks until `forget_promises`.
    """

    def __init__(self, dimensions: int) -> None:
        """Create with zero amounts."""
        self.capacity: Resources = (0,) * dimensions
        self._nothing: Resources = (0,) * dimensions
        self._stored: dict[Whose, Resources] = {}
        self._wanted: dict[Whose, Resources] = {}
        self._users: dict[str, list[int]] = {}
        self._pools: dict[str, list[int]] = {}
        self._leaves: dict[str, list[int]] = {}
        self._leaf_wants: dict[str, list[int]] = {}
        self._touched: set[Whose] = set()
        self._open: list[Booking] = []
        self._flights: list[list[Booking]] = []
        self._promised: list[Booking] = []

    # Queries of policies

    def of_user(self, user: str) -> Resources:
        """Return the amounts held by a user's jobs."""
        return tuple(self._users.get(user, self._nothing))

    def of_pool(self, pool: str) -> Resources:
        """Return the amounts held by a pool's jobs."""
        return tuple(self._pools.get(pool, self._nothing))

    def of_leaf(self, leaf: str) -> Resources:
        """What the jobs of a leaf pool hold; a leaf is a pool, or the user of jobs without one (`fairness.leaf_of`)."""
        return tuple(self._leaves.get(leaf, self._nothing))

    def leaves(self) -> list[str]:
        """The leaf pools that hold or want something."""
        return sorted(self._leaf_wants.keys() | self._leaves.keys())

    def wanted_by_leaves(self) -> dict[str, Resources]:
        """What the tasks of every leaf pool that are not placed need together, as the store last said."""
        return {leaf: tuple(amounts) for leaf, amounts in self._leaf_wants.items()}

    def wanted_by_leaf(self, leaf: str) -> Resources:
        """What the tasks of a leaf pool that are not placed need together, as the store last said."""
        return tuple(self._leaf_wants.get(leaf, self._nothing))

    def users(self) -> list[str]:
        """Return the users with use or demand."""
        return sorted({user for _, user in (*self._stored, *self._wanted)} | set(self._users))

    def pools(self) -> list[str]:
        """Return the pools with use or demand."""
        return sorted({pool for pool, _ in (*self._stored, *self._wanted)} | set(self._pools))

    def wanted_by_user(self, user: str) -> Resources:
        """Return the sum of a user's unplaced tasks, as of the last sync."""
        return self._sum(amounts for (_, whose), amounts in self._wanted.items() if whose == user)

    def wanted_by_pool(self, pool: str) -> Resources:
        """Return the sum of a pool's unplaced tasks, as of the last sync."""
        return self._sum(amounts for (whose, _), amounts in self._wanted.items() if whose == pool)

    def dominant_share(self, *, user: str | None = None, pool: str | None = None) -> float:
        """Return the largest share of the capacity, over the resources, that a user or a pool holds (0 to 1)."""
        held = self._users.get(user, ()) if user is not None else self._pools.get(pool or "", ())
        return max((has / most for has, most in zip(held, self.capacity, strict=False) if most), default=0.0)

    def _sum(self, each: Iterable[Resources]) -> Resources:
        sums = list(self._nothing)
        for amounts in each:
            for d, amount in enumerate(amounts):
                sums[d] += amount
        return tuple(sums)

    # Updates by the snapshot and the scheduler

    def change(self, whose: Whose, held: Resources, wanted: Resources, sign: int = 1) -> None:
        """Add to the use and demand of a user in a pool (`sign` -1: subtract)."""
        self._add(whose, held, sign)
        leaf = leaf_of(*whose)
        wants = self._leaf_wants.setdefault(leaf, [0] * len(wanted))
        for d, amount in enumerate(wanted):
            wants[d] += sign * amount
        if not any(wants):
            del self._leaf_wants[leaf]
        for known, amounts in ((self._stored, held), (self._wanted, wanted)):
            before = known.get(whose, self._nothing)
            now = tuple(was + sign * amount for was, amount in zip(before, amounts, strict=True))
            if any(now):
                known[whose] = now
            else:
                known.pop(whose, None)

    def state(self, whose: Whose, held: Resources, wanted: Resources) -> None:
        """Set the use and demand of a user in a pool."""
        before, wished = self._stored.get(whose, self._nothing), self._wanted.get(whose, self._nothing)
        more = tuple(now - was for now, was in zip(held, before, strict=True))
        self.change(whose, more, tuple(now - was for now, was in zip(wanted, wished, strict=True)))

    def state_all(self, use: Mapping[Whose, tuple[Resources, Resources]]) -> None:
        """Set all use and demand."""
        nothing = self._nothing
        for whose in {*self._stored, *self._wanted, *use}:
            now = use.get(whose, (nothing, nothing))
            if now != (self._stored.get(whose, nothing), self._wanted.get(whose, nothing)):
                self.state(whose, *now)

    def touched(self) -> set[Whose]:
        """Return, once, whose use changed since the last call."""
        found, self._touched = self._touched, set()
        return found

    def _add(self, whose: Whose, amounts: Resources, sign: int) -> None:
        pool, user = whose
        self._touched.add(whose)
        for sums, name in ((self._pools, pool), (self._users, user), (self._leaves, pool or user)):
            held = sums.get(name)
            if held is None:
                held = sums[name] = [0] * len(amounts)
            for d, amount in enumerate(amounts):
                held[d] += sign * amount
            if not any(held):
                del sums[name]

    def take(self, user: str, pool: str, amounts: Resources) -> None:
        """Count the amounts of a transaction's claims."""
        self._open.append(((pool, user), amounts))
        self._add((pool, user), amounts, 1)

    def launch(self) -> None:
        """Move the open claims to the claims in flight."""
        self._flights.append(self._open)
        self._open = []

    def land(self) -> None:
        """Drop the oldest claims in flight: they were validated, and accepted ones are in the store's amounts."""
        self._drop(self._flights.pop(0))

    def settle(self) -> None:
        """Drop the open claims: they were validated."""
        if self._open:
            opened, self._open = self._open, []
            self._drop(opened)

    def forget(self) -> None:
        """Drop every claim with an outcome that stays unknown."""
        for bookings in (*self._flights, self._open):
            self._drop(bookings)
        self._flights, self._open = [], []

    def promise(self, user: str, pool: str, need: Resources, tasks: int) -> None:
        """Count chosen tasks as placed."""
        amounts = tuple(amount * tasks for amount in need)
        self._promised.append(((pool, user), amounts))
        self._add((pool, user), amounts, 1)

    def forget_promises(self) -> None:
        """Drop chosen tasks: they are decided."""
        promised, self._promised = self._promised, []
        self._drop(promised)

    def _drop(self, bookings: Iterable[Booking]) -> None:
        for whose, amounts in bookings:
            self._add(whose, amounts, -1)
