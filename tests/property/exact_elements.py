"""What the oracle of fair shares reads of a pool tree: shares, guarantees, weights and volumes, in exact arithmetic."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.property.exact_functions import NOTHING, ONE, Function, Vector, above, added, least, scaled, within

ROOT = "<Root>"


class Element:
    """A pool or a job as the document has it, with all that is computed for it."""

    def __init__(self, fields: Mapping[str, Any], width: int) -> None:
        self.fields = fields
        self.id: str = fields["id"]
        self.is_job = fields["kind"] != "pool"
        self.fifo = fields.get("mode") == "fifo"
        self.above: Element | None = None
        self.children: list[Element] = []
        none = (NOTHING,) * width
        self.demand = self.usage = self.limits = self.strong = self.integral = none
        self.share = self.promised = self.estimated = self.expected = self.volume = none
        self.over = self.room = none
        self.flow = self.burst = NOTHING
        self.weight = ONE
        self.factor_function: Function | None = None
        self.own: tuple[Function, Function] | None = None
        self.child_functions: list[Function] = []

    @property
    def pools(self) -> "list[Element]":
        return [child for child in self.children if not child.is_job]

    def setting(self, name: str, default: Any = None) -> Any:
        return (self.fields.get("integral") or {}).get(name, default)

    @property
    def kind(self) -> str:
        return str(self.setting("type", "none")) if not self.is_job else "none"

    def path(self) -> "list[Element]":
        """Itself and what is above, without the root."""
        found: list[Element] = []
        at: Element | None = self
        while at is not None and at.above is not None:
            found.append(at)
            at = at.above
        return found


class Given:
    """A document with the attributes of its elements: shares, guarantees (1, 2), weights, volumes (3)."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.names = list(document["total_resources"])
        self.width = len(self.names)
        self.totals = self.vector(document["total_resources"])
        self.options: dict[str, Any] = dict(document.get("options") or {})
        self.seconds = document.get("seconds_since_previous_update")
        self.errors = 0
        self.elements = {ROOT: Element({"id": ROOT, "kind": "pool"}, self.width)}
        for fields in document["tree"]:
            self.elements[fields["id"]] = Element(fields, self.width)
        for fields in sorted(document["tree"], key=lambda one: one["kind"] != "pool"):
            element, above = self.elements[fields["id"]], self.elements[fields.get("parent", ROOT)]
            element.above = above
            above.children.append(element)
        self.root = self.elements[ROOT]
        self.downward: list[Element] = []
        waiting = [self.root]
        while waiting:
            self.downward.append(waiting.pop())
            waiting += reversed(self.downward[-1].children)
        self.pools = [one for one in self.downward if not one.is_job]
        self.attributes()
        self.volumes()
        self.overcommit()
        self.adjust()
        self.estimate()

    def vector(self, amounts: Mapping[str, Any], missing: Fraction = NOTHING) -> Vector:
        return tuple(Fraction(amounts[name]) if name in amounts else missing for name in self.names)

    def portion(self, amounts: Vector) -> Vector:
        return tuple(a / t if t else NOTHING for a, t in zip(amounts, self.totals, strict=True))

    def option(self, name: str, default: Any = False) -> Any:
        found = self.options.get(name)
        return default if found is None else found

    def sum_of(self, elements: Sequence[Element], name: str) -> Vector:
        found = (NOTHING,) * self.width
        for one in elements:
            found = added(found, getattr(one, name))
        return found

    # Inputs and guarantees (1, 2).

    def attributes(self) -> None:
        for one in self.downward:
            limits = self.vector(one.fields.get("limits") or {}, Fraction(10**30))
            one.limits = self.portion(least(limits, self.totals))
            if one.is_job:
                best = one.fields.get("best_allocation_share") or {}
                one.limits = least(one.limits, self.vector(best, Fraction(10**30)))
                one.demand = self.portion(self.vector(one.fields.get("demand") or {}))
                one.usage = self.portion(self.vector(one.fields.get("usage") or {}))
            elif one.kind != "none":
                one.flow = max(self.portion(self.vector(one.setting("flow", {}))))
                one.burst = max(self.portion(self.vector(one.setting("burst", {}))))
            one.volume = self.vector(one.setting("volume") or {})
        for pool in reversed(self.pools):
            pool.demand, pool.usage = self.sum_of(pool.children, "demand"), self.sum_of(pool.children, "usage")
        amounts = {ROOT: self.totals}
        main = self.names.index(self.option("main_resource", "cpu"))
        for pool in self.pools:
            below = pool.pools
            own = amounts[pool.id]
            given = {child.id: self.vector(child.fields.get("strong_guarantee") or {}) for child in below}
            found = {name: list(vector) for name, vector in given.items()}
            for r, name in enumerate(self.names):
                open_ = [child for child in below if name not in (child.fields.get("strong_guarantee") or {})]
                if r == main or not open_:
                    continue
                implied = {
                    child.id: own[r] * given[child.id][main] / own[main] if own[main] else NOTHING for child in open_
                }
                rest = max(own[r] - sum(vector[r] for vector in given.values()), NOTHING)
                wanted = sum(implied.values())
                squeeze = rest / wanted if pool.above is not None and wanted > rest else ONE
                quantum = Fraction(1, 100) if name == "cpu" else ONE
                for child in open_:
                    found[child.id][r] = implied[child.id] * squeeze // quantum * quantum
            amounts |= {name: tuple(vector) for name, vector in found.items()}
        for pool in self.pools[1:]:
            pool.strong = self.portion(amounts[pool.id])
        self.amounts = self.sum_of_amounts(amounts)
        self.root.strong = self.sum_of(self.root.children, "strong")

    def sum_of_amounts(self, amounts: Mapping[str, Vector]) -> Vector:
        found = (NOTHING,) * self.width
        for child in self.root.children:
            if not child.is_job:
                found = added(found, amounts[child.id])
        return found

    def overcommit(self) -> None:
        flow, burst = (sum(getattr(one, name) for one in self.pools) for name in ("flow", "burst"))
        if not within(added(self.amounts, scaled(self.totals, Fraction(flow))), self.totals):
            self.errors += 1
        if not within(added(self.amounts, scaled(self.totals, Fraction(burst))), self.totals):
            self.errors += 1
            bursting = [one for one in self.pools if one.kind == "burst"]
            needed = max(g + sum(one.burst for one in bursting) for g in self.root.strong)
            factor = min(ONE, 1 / needed) if needed else ONE
            self.root.strong = scaled(self.root.strong, factor)
            for one in bursting:
                one.burst *= factor

    def adjust(self) -> None:
        first = self.first_tier()
        for pool in self.pools:
            pool.strong = least(pool.strong, pool.limits)
            left, fits = pool.strong, True
            tiers = [{one.id: first[one.id] for one in pool.pools}]
            tiers.append({one.id: above(one.strong, first[one.id]) for one in pool.pools})
            for tier in tiers:
                wanted = (NOTHING,) * self.width
                for part in tier.values():
                    wanted = added(wanted, part)
                factor = ONE if fits else NOTHING
                if fits and not within(wanted, left):
                    factor, fits = min(a / b for a, b in zip(left, wanted, strict=True) if b > a), False
                for name, part in tier.items():
                    tier[name] = scaled(part, factor)
                left = above(left, wanted)
            for child in pool.pools:
                child.strong = added(tiers[0][child.id], tiers[1][child.id])

    def first_tier(self) -> dict[str, Vector]:
        """The part of each guarantee that is fitted first: all of a priority pool's, up to the next donor."""
        priority, donor = ("enable_priority_strong_guarantee_adjustment" + end for end in ("", "_donorship"))
        found: dict[str, Vector] = {}

        def tier(pool: Element, *, donated: bool) -> Vector:
            own, gives = bool(pool.fields.get(priority)), bool(pool.fields.get(donor))
            below = [tier(child, donated=gives or (donated and not own)) for child in pool.pools]
            found[pool.id] = (NOTHING,) * self.width
            if own and donated:
                found[pool.id] = pool.strong
            elif not gives:
                for part in below:
                    found[pool.id] = added(found[pool.id], part)
            return found[pool.id]

        tier(self.root, donated=False)
        return found

    def total_flow(self, pool: Element) -> Fraction:
        return pool.flow + sum((self.total_flow(child) for child in pool.children), NOTHING)

    def estimate(self) -> None:
        self.weigh()
        self.root.estimated = self.root.strong
        self.root.expected = tuple(ONE if total else NOTHING for total in self.totals)
        for name in ("estimated", "expected"):
            self.count_on(name)

    def count_on(self, name: str) -> None:
        for pool in self.pools:
            left = getattr(pool, name)
            whole = sum(child.weight for child in pool.children)
            for child in pool.children:
                flow = self.total_flow(child)
                setattr(child, name, least(tuple(g + flow for g in child.strong), left))
                left = above(left, getattr(child, name))
            for child in pool.children:
                setattr(child, name, added(getattr(child, name), scaled(left, child.weight / whole)))

    def weigh(self) -> None:
        multiplier = self.option("infer_weight_from_guarantees_share_multiplier", None)
        held = {one.id: max(one.strong) + self.total_flow(one) for one in self.pools}
        for one in self.downward:
            stated = one.fields.get("weight")
            if stated is not None:
                one.weight = Fraction(stated)
            elif multiplier is not None and one.above is not None and not one.is_job:
                mine, whole = held[one.id], held[one.above.id]
                one.weight = Fraction(multiplier) * mine / whole if mine and whole else ONE

    # Volumes (3).

    def volumes(self) -> None:
        if self.seconds is not None and any(self.totals):
            self.refill(self.root, Fraction(self.seconds))
            self.spread(self.root, (NOTHING,) * self.width)

    def refill(self, pool: Element, seconds: Fraction) -> None:
        accepts, none = pool.setting("can_accept_free_volume", True), (NOTHING,) * self.width
        if pool.kind != "none":
            period = Fraction(self.option("integral_pool_capacity_saturation_period", 86_400))
            capacity = scaled(self.totals, pool.flow * period)
            more = seconds * (pool.flow - Fraction(pool.setting("last_share", 0)))
            grown = above(added(pool.volume, scaled(self.totals, more)), none)
            top = tuple(map(max, pool.volume, capacity))
            pool.over, pool.room = above(grown, top), above(capacity, grown) if accepts else none
            pool.volume = least(grown, top)
            for child in pool.pools:  # what overflows or is wanted below an integral pool stays there
                self.refill(child, seconds)
            return
        for child in pool.pools:
            self.refill(child, seconds)
        spilled, taken = self.sum_of(pool.pools, "over"), self.sum_of(pool.pools, "room")
        pool.over, pool.room = above(spilled, taken), above(taken, spilled) if accepts else none

    def spread(self, pool: Element, free: Vector) -> None:
        if pool.kind != "none":
            pool.volume = added(pool.volume, free)
            return
        parts = {child.id: [NOTHING] * self.width for child in pool.pools}
        own = pool.setting("should_distribute_free_volume_among_children")
        allowed = own if own is not None else self.option("should_distribute_free_volume_among_children")
        if allowed and pool is not self.root:
            free = added(free, self.sum_of(pool.pools, "over"))
            for r, left in enumerate(free):
                hungry = [child for child in pool.pools if child.room[r] > 0 and self.total_flow(child) > 0]
                by_need = sorted((child.room[r] / self.total_flow(child), place) for place, child in enumerate(hungry))
                whole = sum((self.total_flow(child) for child in hungry), NOTHING)
                rest = left
                for _, place in by_need:
                    child = hungry[place]
                    parts[child.id][r] = min(child.room[r], rest * self.total_flow(child) / whole)
                    rest, whole = rest - parts[child.id][r], whole - self.total_flow(child)
        for child in pool.pools:
            self.spread(child, tuple(parts[child.id]))
