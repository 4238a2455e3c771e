"""Why a pool gets its share: one sentence for each bound, from shares that the calculator computed."""

from typing import Any

import pytest

from omega.queries.pool_reasons import pool_reason, standing_text

CPU = 100_000
GOT = "Gets cpu 60 of the cpu 90 that its jobs demand"


def row(name: str, demand: float, fair: float, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": name, "parent": "<Root>", "tree": "default", "mode": "fair_share", "weight": 1.0, "limits": {},
        "strong": {"cpu": 0.0}, "demand": {"cpu": demand}, "fair_share": {"cpu": fair}, "status": "normal",
        "dominant_resource": "cpu" if fair else None, "usage_amounts": {"cpu": 5_000},
        "demand_amounts": {"cpu": round(demand * CPU)}, "fair_share_amounts": {"cpu": fair * CPU},
    }  # fmt: skip
    return values | more


def reason(one: dict[str, Any], *others: dict[str, Any]) -> tuple[str, str]:
    found = pool_reason(one, {each["name"]: each for each in (one, *others)})
    return found.bound, found.text


@pytest.mark.parametrize(
    ("rows", "bound", "text"),
    [
        ([row("a", 0, 0)], "demand", "Its jobs demand nothing, so its fair share is 0."),
        ([row("a", 0.2, 0.2)], "demand", "Gets all that its jobs demand, cpu 20: the demand decides."),
        (
            [row("a", 0.5, 0.3, limits={"cpu": 30_000})], "limit",
            "Gets cpu 30 of the cpu 50 that its jobs demand: its limit of cpu 30 decides.",
        ),
        (
            [row("a", 0.5, 0.1, parent="p"), row("p", 0.9, 0.4, limits={"cpu": 40_000})], "limit",
            "Gets cpu 10 of the cpu 50 that its jobs demand: the limit of pool p of cpu 40 decides.",
        ),
        (
            [row("a", 0.9, 0.6, strong={"cpu": 0.6})], "guarantee",
            f"{GOT}: its guarantee decides; nothing is left beyond the guarantees.",
        ),
        (
            [row("a", 0.9, 0.6, parent="q"), row("q", 0.9, 0.7, mode="fifo")], "order",
            f"{GOT}: its place in the order of the FIFO pool q decides.",
        ),
        (
            [row("a", 0.9, 0.6, weight=3.0), row("b", 0.9, 0.2), row("c", 0.2, 0.2)], "weight",
            f"{GOT}: its weight decides, 3 of 4 (75 %) among 2 pools that want more cpu.",
        ),
        (
            [row("a", 0.9, 0.6), row("c", 0.2, 0.2)], "weight",
            f"{GOT}: the other pools get all that they demand, and what is left is its.",
        ),
    ],
)  # fmt: skip
def test_the_bound_that_decides(rows: list[dict[str, Any]], bound: str, text: str) -> None:
    assert reason(*rows) == (bound, text)


def test_how_it_stands() -> None:
    assert standing_text(row("a", 0.5, 0.5)) == "It holds cpu 5."
    assert standing_text(row("a", 0.5, 0.5, status="starving")) == (
        "It holds cpu 5 and is starving: it may evict tasks of others."
    )
