"""Hierarchical dominant resource fairness in fluid form against many small steps, each chosen by the definition."""

from random import Random
from typing import Any

import numpy as np
import pytest

from omega import pools
from tests.property.exact_elements import ROOT

STEPS = 1_500
RESOURCES = ("cpu", "memory", "gpu")


def document(rng: Random, *, used: bool) -> dict[str, Any]:
    inner, tree = [ROOT], list[dict[str, Any]]()
    for number in range(rng.randint(0, 3)):
        tree.append({"id": f"p{number}", "kind": "pool", "parent": rng.choice(inner), "weight": rng.choice((1, 1, 2))})
        inner.append(f"p{number}")
    for number in range(rng.randint(1, 6)):
        shape = {name: rng.choice((0, 1, 2, 4)) for name in RESOURCES}
        times = rng.randint(2, 40)
        held = rng.choice((0, 0, times // 2)) if used else 0
        tree.append({
            "id": f"j{number}", "kind": "job", "parent": rng.choice(inner), "weight": rng.choice((1, 1, 3)),
            "demand": {name: amount * times for name, amount in shape.items()},
            "usage": {name: amount * held for name, amount in shape.items()},
        })  # fmt: skip
    total = 60 if not used else 400
    return {"total_resources": dict.fromkeys(RESOURCES, total), "tree": tree}


class Stepped:
    """Gives one job at a time one small part of its demand."""

    def __init__(self, made: dict[str, Any], *, least_satisfied: bool) -> None:
        self.least_satisfied = least_satisfied
        self.total = made["total_resources"]["cpu"]
        self.fields = {one["id"]: one for one in made["tree"]}
        self.below: dict[str, list[str]] = {ROOT: []}
        for name in self.fields:
            self.below.setdefault(name, [])
        for name, one in self.fields.items():
            self.below[one["parent"]].append(name)
        self.jobs = [name for name, one in self.fields.items() if one["kind"] == "job"]
        self.held = {name: self.vector(self.fields[name]["usage"]) for name in self.jobs}
        self.wanted = {name: self.vector(self.fields[name]["demand"]) for name in self.jobs}
        for name, wanted in self.wanted.items():
            self.wanted[name] = wanted / max(1.0, wanted.max())
        self.open = {name for name in self.jobs if self.wanted[name].max() > 0}

    def vector(self, amounts: dict[str, int]) -> Any:
        return np.array([amounts[name] / self.total for name in RESOURCES])

    def usage(self, name: str) -> Any:
        found = np.zeros(len(RESOURCES)) + self.held.get(name, 0.0)
        for child in self.below[name]:
            found = found + self.usage(child)
        return found

    def part(self, name: str) -> float:
        siblings = self.below[self.fields[name]["parent"]]
        own: float = self.fields[name]["weight"] / sum(self.fields[one]["weight"] for one in siblings)
        return own

    def choose(self, name: str, weight: float) -> tuple[float, str] | None:
        """The level of an element and the job that is next in it."""
        own = self.usage(name).max() / weight
        if not self.below[name]:
            return (own, name) if name in self.open else None
        kept = weight if self.least_satisfied else 1.0
        found = [one for one in (self.choose(child, kept * self.part(child)) for child in self.below[name]) if one]
        if not found:
            return None
        level, job = min(found)
        return (min(own, level) if self.least_satisfied else own), job

    def run(self) -> dict[str, Any]:
        while chosen := self.choose(ROOT, 1.0):
            job = chosen[1]
            step = self.wanted[job] / self.wanted[job].max() / STEPS
            if (self.held[job] + step > self.wanted[job] + 1e-9).any() or (self.usage(ROOT) + step > 1 + 1e-9).any():
                self.open.discard(job)
            else:
                self.held[job] = self.held[job] + step
        return self.held


@pytest.mark.parametrize("method", ["naive-hdrf", "min-satisfaction-hdrf"])
@pytest.mark.parametrize("used", [False, True])
def test_fluid_filling_is_the_limit_of_small_steps(method: str, *, used: bool) -> None:
    rng = Random(f"{method}/{used}")
    for _ in range(4):
        made = document(rng, used=used)
        stepped = Stepped(made, least_satisfied=method != "naive-hdrf").run()
        found = pools.computed(*pools.from_document(made), method=method)["elements"]
        for name, held in stepped.items():
            fluid = [found[name]["fair_share"][resource] for resource in RESOURCES]
            np.testing.assert_allclose(fluid, held, atol=12 / STEPS, err_msg=f"{name} {made}")
