"""What users and pools hold and want: all sums follow every change, whichever sums were asked for first."""

from collections import Counter
from random import Random

import pytest

from omega.cellstate.usage import Usage, Whose

EVERYBODY = [(pool, user) for pool in ("", "p", "q") for user in ("ann", "bob")]


class Model:
    """Amounts by account, and claims as lists."""

    def __init__(self) -> None:
        self.stored = Counter[Whose]()
        self.wanted = Counter[Whose]()
        self.promised: dict[int, tuple[Whose, int]] = {}
        self.opened: list[tuple[Whose, int]] = []
        self.flights: list[list[tuple[Whose, int]]] = []

    def held(self) -> Counter[Whose]:
        held = Counter(self.stored)
        for whose, amount in (each for part in (self.promised.values(), self.opened, *self.flights) for each in part):
            held[whose] += amount
        return held


def step(rng: Random, usage: Usage, model: Model) -> None:
    """Change both in the same way."""
    whose, key, amount = rng.choice(EVERYBODY), rng.randrange(4), rng.randint(1, 5)
    match rng.randrange(7):
        case 0 if key not in model.promised:
            model.promised[key] = whose, amount
            usage.promise(whose, (amount, 0, 2 * amount), key)
        case 1 if key in model.promised:
            whose, amount = model.promised.pop(key)
            model.opened.append((whose, amount))
            usage.take(whose[1], whose[0], (amount, 0, 2 * amount), key)
        case 2:
            model.promised = {}
            usage.forget_promises()
        case 3:
            model.flights.append(model.opened)
            model.opened = []
            usage.launch()
        case 4 if model.flights:
            usage.land()  # the store counts some of the claims by now, perhaps among other changes
            for mine, accepted in model.flights.pop(0):
                if rng.random() < 0.7:
                    model.stored[mine] += accepted
                    state(usage, model, mine)
            usage.landed()
        case _:
            model.stored[whose], model.wanted[whose] = rng.randint(0, 9), rng.randint(0, 9)
            state(usage, model, whose)


def state(usage: Usage, model: Model, whose: Whose) -> None:
    held, wanted = model.stored[whose], model.wanted[whose]
    usage.state(whose, (held, 0, 2 * held), (wanted, 1, 0))


@pytest.mark.parametrize("seed", range(12))
def test_sums_follow_each_change(seed: int) -> None:
    rng, usage, model, live = Random(seed), Usage(3), Model(), dict[str, list[int]]()
    for number in range(120):
        step(rng, usage, model)
        held = model.held()
        if number < 10 * (seed % 4):
            continue  # sums are kept from the first query on
        assert list(usage.held()) == [held.total(), 0, 2 * held.total()]
        for leaf in ("ann", "bob", "p", "q"):
            here = sum(amount for (pool, user), amount in held.items() if (pool or user) == leaf)
            wants = sum(amount for (pool, user), amount in model.wanted.items() if (pool or user) == leaf)
            assert usage.of_leaf(leaf) == (here, 0, 2 * here)
            assert live.setdefault(leaf, usage.sum_of_leaf(leaf)) == [here, 0, 2 * here]
            assert usage.wanted_by_leaf(leaf)[0] == wants
        for user in ("ann", "bob"):
            assert usage.of_user(user)[0] == sum(amount for (_, name), amount in held.items() if name == user)
        for pool in ("", "p", "q"):
            assert usage.of_pool(pool)[0] == sum(amount for (name, _), amount in held.items() if name == pool)
        assert {whose: has[0] for whose, (has, _) in usage.by_account().items() if has[0]} == +held
