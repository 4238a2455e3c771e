"""Use and demand of users and pools in a snapshot: the store's state, with this scheduler's own claims."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import add, neg, sub

from omega.cellstate.fairness import leaf_of
from omega.cellstate.resources import Resources

Whose = tuple[str, str]
"""(pool, user); ``""`` where a job names none."""
_AXES: dict[str, Callable[[Whose], str]] = {
    "user": lambda whose: whose[1],
    "pool": lambda whose: whose[0],
    "leaf": lambda whose: leaf_of(*whose),
}
"""What amounts are summed by, and the name under which an account counts."""
_TWO = 2
_UNUSED = 1_000
"""Number of accounts without amounts above which they are removed."""


class Account:
    """What one user's jobs in one pool hold and want; `held` includes this scheduler's own claims."""

    __slots__ = ("claims", "held", "landing", "lanes", "stated", "sums", "wanted", "wants", "whose")

    def __init__(self, whose: Whose, dimensions: int) -> None:
        """Create with zero amounts."""
        self.whose = whose
        self.held, self.wanted = [0] * dimensions, [0] * dimensions
        self.stated: tuple[Resources, Resources] = (0,) * dimensions, (0,) * dimensions
        """What `Usage.state` set."""
        self.sums = [self.held]
        """Its own list, and the sums in which what is held counts."""
        self.wants = [self.wanted]
        """The same for what is wanted."""
        self.claims: list[int] | None = None
        """The sum in which this scheduler's own claims count, once it is kept."""
        self.landing: Resources | None = None
        """Claims that were validated; they count until what the store counts is known."""
        self.lanes = 0
        """Number of lanes of a snapshot whose amounts count here."""

    def idle(self) -> bool:
        """Return whether it holds and wants nothing."""
        return not (self.lanes or any(self.held) or any(self.wanted))


Booking = tuple[Account, Resources]
"""Amounts of this scheduler's own claims, all their tasks together."""


class Usage:
    """Amounts held and wanted, by user and by pool, in the order and units of the cell's resources.

    `capacity` is that of the machines that are up. `take` counts claims until `land` or `forget` (they are in the
    store's amounts from then on); `promise` counts chosen tasks until `forget_promises`. Sums by user, pool and leaf
    are kept from the first query of each on: a policy asks for one of them.
    """

    def __init__(self, dimensions: int) -> None:
        """Create with zero amounts."""
        self.capacity: Resources = (0,) * dimensions
        self._nothing: Resources = (0,) * dimensions
        self._accounts: dict[Whose, Account] = {}
        self._held: dict[str, dict[str, list[int]]] = {}
        self._total: list[int] = [0] * dimensions
        """What all jobs hold, without the last changes."""
        self._changes: list[Sequence[int]] = []
        self._wants: dict[str, list[int]] | None = None
        """What leaf pools want, from the first query on."""
        self._unused = 0
        self.generation = 0
        """How often sums were rebuilt: a sum that `sum_of_leaf` returned before is no longer updated."""
        self._wanting: list[int] = [0] * dimensions
        """What all jobs want."""
        self._touched = set[Account]()
        self._moved = set[Account]()
        self._landing: list[Account] = []
        self._open: list[Booking] = []
        self._flights: list[list[Booking]] = []
        self._promised: dict[Hashable, Booking] = {}
        self._claims: dict[str, list[int]] | None = None
        """This scheduler's own claims by leaf pool, from the first query on."""

    # Queries of policies

    def of_pool(self, pool: str) -> Resources:
        """Return the amounts held by a pool's jobs."""
        return tuple(self._sums("pool").get(pool, self._nothing))

    def of_leaf(self, leaf: str) -> Resources:
        """What the jobs of a leaf pool hold; a leaf is a pool, or the user of jobs without one (`fairness.leaf_of`)."""
        return tuple(self._sums("leaf").get(leaf, self._nothing))

    def held(self) -> Sequence[int]:
        """Return the amounts that all jobs hold."""
        if self._changes:
            self._fold()
        return self._total

    def _fold(self) -> None:
        """Count the last changes in the amounts that all jobs hold."""
        _increase(self._total, tuple(map(sum, zip(*self._changes, strict=True))))
        self._changes.clear()

    def of_user(self, user: str) -> Resources:
        """Return the amounts held by a user's jobs."""
        return tuple(self._sums("user").get(user, self._nothing))

    def sum_of_leaf(self, leaf: str) -> list[int]:
        """Return the list that always holds what `of_leaf` returns, while `generation` stays the same."""
        return self._sums("leaf").setdefault(leaf, [0] * len(self._nothing))

    def leaves(self) -> list[str]:
        """The leaf pools that hold or want something."""
        holding = {leaf for leaf, held in self._sums("leaf").items() if any(held)}
        return sorted(holding.union(leaf for leaf, wants in self._leaf_wants().items() if any(wants)))

    def wanted_by_leaves(self) -> dict[str, Resources]:
        """Return the sum of the unplaced tasks of each leaf pool, as of the last sync."""
        return {leaf: tuple(amounts) for leaf, amounts in self._leaf_wants().items() if any(amounts)}

    def wanted_by_leaf(self, leaf: str) -> Resources:
        """Return the sum of the unplaced tasks of a leaf pool, as of the last sync."""
        return tuple(self._leaf_wants().get(leaf, self._nothing))

    def wanted(self) -> Resources:
        """Return the sum of all unplaced tasks, as of the last sync."""
        return tuple(self._wanting)

    def claimed_by_leaf(self, leaf: str) -> Resources:
        """Return the sum of this scheduler's own claims for a leaf pool: `wanted_by_leaf` counts them still."""
        claims = self._claims
        if claims is None:
            claims = self._claims = {}
            for each in self._accounts.values():
                each.claims = claims.setdefault(leaf_of(*each.whose), [0] * len(self._nothing))
            for bookings in (*self._flights, self._open, self._promised.values()):
                for account, amounts in bookings:
                    _claim(account, amounts)
        return tuple(claims.get(leaf, self._nothing))

    def by_account(self) -> dict[Whose, tuple[Resources, Resources]]:
        """Return the amounts held and wanted by each user in each pool, where there are any."""
        return {
            whose: (tuple(each.held), tuple(each.wanted))
            for whose, each in self._accounts.items()
            if any(each.held) or any(each.wanted)
        }

    def users(self) -> list[str]:
        """Return the users with use or demand."""
        return sorted({user for _, user in self.by_account()})

    def pools(self) -> list[str]:
        """Return the pools with use or demand."""
        return sorted({pool for pool, _ in self.by_account()})

    def wanted_by_pool(self, pool: str) -> Resources:
        """Return the sum of a pool's unplaced tasks, as of the last sync."""
        wanted = (each.wanted for each in self._accounts.values() if each.whose[0] == pool)
        return tuple(map(sum, zip(self._nothing, *wanted, strict=True)))

    def dominant_share(self, *, user: str | None = None, pool: str | None = None) -> float:
        """Return the largest share of the capacity, over the resources, that a user or a pool holds (0 to 1)."""
        held = self._sums("user").get(user, ()) if user is not None else self._sums("pool").get(pool or "", ())
        return max((has / most for has, most in zip(held, self.capacity, strict=False) if most), default=0.0)

    # Accounts

    def account(self, whose: Whose) -> Account:
        """Return the account of a user in a pool."""
        account = self._accounts.get(whose)
        if account is None:
            account = self._accounts[whose] = Account(whose, len(self._nothing))
            account.wants.append(self._wanting)
            for axis in self._held:
                self._add_to(axis, account)
            if self._wants is not None:
                self._add_wants(account, self._wants)
            if self._claims is not None:
                account.claims = self._claims.setdefault(leaf_of(*whose), [0] * len(self._nothing))
        return account

    def _add_to(self, axis: str, account: Account) -> None:
        """Count an account in the sums of an axis."""
        account.sums.append(_count(self._held[axis], _AXES[axis](account.whose), account.held))

    def _add_wants(self, account: Account, wants: dict[str, list[int]]) -> None:
        """Count an account in what leaf pools want."""
        account.wants.append(_count(wants, leaf_of(*account.whose), account.wanted))

    def _sums(self, axis: str) -> dict[str, list[int]]:
        """Return the amounts held by each user or pool, kept up to date from now on."""
        sums = self._held.get(axis)
        if sums is None:
            sums = self._held[axis] = {}
            for each in self._accounts.values():
                self._add_to(axis, each)
        return sums

    def _leaf_wants(self) -> dict[str, list[int]]:
        if self._wants is None:
            self._wants = {}
            for each in self._accounts.values():
                self._add_wants(each, self._wants)
        return self._wants

    def _remove_unused(self) -> None:
        """Remove accounts without amounts; sums are rebuilt on their next use."""
        booked = {
            id(each) for bookings in (*self._flights, self._open, self._promised.values()) for each, _ in bookings
        }
        self._accounts = {
            whose: each for whose, each in self._accounts.items() if id(each) in booked or not each.idle()
        }
        self._unused, self._held, self._wants, self._claims = 0, {}, None, None
        self.generation += 1
        for each in self._accounts.values():
            each.sums, each.wants, each.claims = [each.held], [each.wanted, self._wanting], None

    # Updates by the snapshot and the scheduler

    def change(self, whose: Whose, held: Resources, wanted: Resources, sign: int = 1) -> None:
        """Add to the use and demand of a user in a pool (`sign` -1: subtract)."""
        if sign < 0:
            held, wanted = tuple(map(neg, held)), tuple(map(neg, wanted))
        account = self.account(whose)
        self.move(account, had=self._nothing, held=held, wanted_before=self._nothing, wanted=wanted)
        if account.idle():
            self._unused += 1
            if self._unused > max(_UNUSED, len(self._accounts) // 2):
                self._remove_unused()

    def move(
        self, account: Account, *, had: Resources, held: Resources, wanted_before: Resources, wanted: Resources
    ) -> None:
        """Change the use and demand that the store counts: what an account `had` and `wanted_before`, and has now."""
        if account.landing is not None:
            had, account.landing = tuple(map(add, had, account.landing)), None
        if held != had:
            self._add(account, tuple(map(sub, held, had)))
        if wanted != wanted_before:
            more = tuple(map(sub, wanted, wanted_before))
            self._moved.add(account)
            for sums in account.wants:
                _increase(sums, more)

    def state(self, whose: Whose, held: Resources, wanted: Resources) -> None:
        """Set the use and demand of a user in a pool."""
        account = self.account(whose)
        (had, wished), account.stated = account.stated, (held, wanted)
        self.move(account, had=had, held=held, wanted_before=wished, wanted=wanted)

    def state_all(self, use: Mapping[Whose, tuple[Resources, Resources]]) -> None:
        """Set all use and demand."""
        for whose in use.keys() - self._accounts.keys():
            self.account(whose)
        if len(self._accounts) > 2 * len(use) + _UNUSED:
            self._remove_unused()
        nothing = self._nothing, self._nothing
        for whose, account in self._accounts.items():
            now = use.get(whose, nothing)
            if now != account.stated:
                (had, wished), account.stated = account.stated, now
                self.move(account, had=had, held=now[0], wanted_before=wished, wanted=now[1])

    def touched(self) -> set[Whose]:
        """Return, once, whose use changed since the last call."""
        accounts, self._touched = self._touched, set()
        return {account.whose for account in accounts}

    def moved_leaves(self) -> set[str]:
        """Return, once, the leaf pools whose use or demand changed since the last call."""
        accounts, self._moved = self._moved, set()
        return {leaf_of(*account.whose) for account in accounts}

    def _add(self, account: Account, amounts: Resources, sign: int = 1) -> None:
        self._touched.add(account)
        self._moved.add(account)
        if sign < 0:
            amounts = tuple(map(neg, amounts))
        self._changes.append(amounts)
        if len(self._changes) > _UNUSED:
            self._fold()
        if len(amounts) == _TWO:  # as most cells have, and several times for each job
            first, second = amounts
            for sums in account.sums:
                sums[0] += first
                sums[1] += second
            return
        for sums in account.sums:
            _increase(sums, amounts)

    def take(self, user: str, pool: str, amounts: Resources, key: Hashable = None) -> None:
        """Count the amounts of a transaction's claims, in place of what was promised under this key."""
        promised = self._promised.pop(key, None) if key is not None else None
        if promised is not None:
            if promised[1] == amounts:
                self._open.append(promised)
                return
            self._drop((promised,))
        account = self.account((pool, user))
        self._open.append((account, amounts))
        self._add(account, amounts)
        _claim(account, amounts)

    def launch(self) -> None:
        """Move the open claims to the claims in flight."""
        self._flights.append(self._open)
        self._open = []

    def land(self) -> None:
        """Drop the oldest claims in flight: they were validated. They count until `landed`, or until `move`."""
        for account, amounts in self._flights.pop(0):
            _claim(account, amounts, sub)
            if account.landing is None:
                account.landing = amounts
                self._landing.append(account)
            else:
                account.landing = tuple(map(add, account.landing, amounts))

    def landed(self) -> None:
        """Count the claims no longer that `land` dropped: accepted ones are in the store's amounts by now."""
        accounts, self._landing = self._landing, []
        for account in accounts:
            if account.landing is not None:
                amounts, account.landing = account.landing, None
                self._add(account, amounts, -1)

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

    def promise(self, whose: Whose, amounts: Resources, key: Hashable = None) -> None:
        """Count the amounts of chosen tasks as held; `key` names them for `take`."""
        account = self._accounts.get(whose) or self.account(whose)
        self._promised[object() if key is None else key] = account, amounts
        self._add(account, amounts)
        _claim(account, amounts)

    def forget_promises(self) -> None:
        """Drop chosen tasks: they are decided."""
        if self._promised:
            promised, self._promised = self._promised, {}
            self._drop(promised.values())

    def _drop(self, bookings: Iterable[Booking]) -> None:
        for account, amounts in bookings:
            self._add(account, amounts, -1)
            _claim(account, amounts, sub)


@lru_cache(maxsize=4096)
def times(need: Resources, tasks: int) -> Resources:
    """Return the amounts of so many tasks."""
    return tuple(amount * tasks for amount in need)


def _claim(account: Account, amounts: Sequence[int], change: Callable[[int, int], int] = add) -> None:
    """Count a claim of this scheduler, or (`sub`) count it no longer."""
    if account.claims is not None:
        account.claims[:] = map(change, account.claims, amounts)


def _increase(sums: list[int], more: Sequence[int]) -> None:
    """Add amounts to a list."""
    sums[:] = map(add, sums, more)


def _count(sums: dict[str, list[int]], name: str, amounts: Sequence[int]) -> list[int]:
    """Add amounts to a sum, and return its list."""
    total = sums.setdefault(name, [0] * len(amounts))
    _increase(total, amounts)
    return total
