"""Events as rows of a table."""

from types import SimpleNamespace
from typing import Any

from omega.web.console.event_rows import event_rows

MIRROR: Any = SimpleNamespace(
    job_row=lambda job: {"name": "crawl"} if job == "j1" else None,
    held=SimpleNamespace(
        machines=SimpleNamespace(
            described=lambda indices: [(f"m{index}" if index < 9 else "", {}) for index in indices]
        )
    ),
)


def _event(version: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"version": version, "at_ms": 5, "by": "batch/0", "kind": kind, **more}


def test_events_of_one_version_kind_and_job_are_one_row() -> None:
    placed = [
        _event(7, "place", job="j1", machine=index, count=2, group=0, placement=index) for index in (1, 2, 3, 4, 9)
    ]
    rows = event_rows(MIRROR, [*placed, _event(7, "place", job="j2", machine=9, count=1), _event(8, "place", job="j2")])
    assert [(row.version, row.job_name, row.tasks) for row in rows] == [(7, "crawl", 10), (7, "j2", 1), (8, "j2", 0)]
    assert (rows[0].machines, rows[0].others) == ({1: "m1", 2: "m2", 3: "m3"}, 2)
    assert rows[1].machines == {9: "machine 9"}
    assert len({row.key for row in rows}) == 3


def test_events_without_job_and_machine_have_a_row_and_a_key_each() -> None:
    rows = event_rows(MIRROR, [_event(7, "pool", pool="a"), _event(7, "pool", pool="b"), _event(8, "pool", pool="c")])
    assert [(row.key, row.detail) for row in rows] == [
        ("7-pool-", "pool a"),
        ("7-pool--1", "pool b"),
        ("8-pool-", "pool c"),
    ]


def test_a_row_has_the_facts_that_have_no_column() -> None:
    rows = event_rows(
        MIRROR,
        [
            _event(1, "conflict", job="j1", machine=1, count=1, verdict="moved", seen=3),
            _event(2, "submit", job="new", name="fresh", job_kind="batch", precedence=5, count=1),
            _event(3, "limit", job_kind="service", resources={"cpu": 5, "memory": None}, precedence=[0, 9]),
            _event(4, "failed", job="j1", machine=1, count=1, reason="exit status 3", removed=False),
        ],
    )
    assert [row.detail for row in rows] == [
        "moved", "job kind batch, precedence 5", "job kind service, cpu 5m, precedence 0 9", "exit status 3",
    ]  # fmt: skip
    assert rows[1].job_name == "fresh"


def test_missing_versions_have_a_row_of_their_own() -> None:
    rows = event_rows(
        MIRROR, [{"gap": {"from": 3, "to": 9}}, _event(10, "stop", job="j1"), {"lost": {"from": 11, "to": 12}}]
    )
    assert [(row.missing, row.version, row.last) for row in rows] == [("gap", 3, 9), ("", 10, 0), ("lost", 11, 12)]
