"""Constraints of Google's trace: from its optional tables, synthetic, or none."""

from pathlib import Path

import pytest

from omega.cellstate.constraints.grammar import parse
from omega.traces import Trace, TraceOptions, read_trace
from omega.traces.digest import trace_digest
from omega.traces.google_constraints import ASKS, SYNTHETIC, constraint_text, synthetic_condition
from omega.workload.workload import MachineEvent
from tests.unit.omega.traces.tiny_google import Row, at, counts, task, traced, write, write_trace

HASH = "9eCGRtl8XVg8vr6w4ZPXBqVSn6cW+QWjXpVGYAAOzwA="
SUBMIT = 0


def tables(directory: Path, constraints: list[Row], attributes: list[Row] | None) -> None:
    write_trace(directory, [], [task(at(1), job, index, SUBMIT) for job in (1, 2) for index in (0, 1, 2)])
    write(directory / "task_constraints" / "part-00000-of-00500.csv.gz", constraints)
    if attributes is not None:
        write(directory / "machine_attributes" / "part-00000-of-00001.csv.gz", attributes)


ATTRIBUTES: list[Row] = [
    (0, 5, HASH, "v1", 0),
    (0, 5, "cores", "4", 0),
    (0, 6, "cores", "8", 0),
    (0, 6, "unused", "8", 0),
    (at(0.5), 6, "cores", "", 1),
    (at(0.6), 5, HASH, "v2", 0),
    (at(900), 5, HASH, "v3", 0),  # after the window
]
CONSTRAINTS: list[Row] = [
    (at(1), 1, 0, 0, HASH, "v1"),
    (at(1), 1, 0, 3, "cores", "2"),
    (at(1), 1, 1, 0, HASH, "v1"),
    (at(1), 1, 1, 3, "cores", "2"),
    (at(2), 1, 1, 3, "cores", "6"),  # of its next try
    (at(1), 2, 2, 1, "cores", ""),
]


def asked(trace: Trace) -> list[tuple[int, object]]:
    groups = [group for arrival in trace.workload.arrivals for group in arrival.job.groups]
    return [(group.count, group.spec.get("constraints")) for group in groups]


def test_tables_give_constraints_and_attributes(tmp_path: Path) -> None:
    tables(tmp_path, CONSTRAINTS, ATTRIBUTES)
    trace = traced(tmp_path, cache=tmp_path / "cache")
    assert asked(trace) == [
        (1, None),
        (2, ["attribute_1 == 'v1'", "cores > 2"]),
        (2, None),
        (1, ["has cores"]),
    ]
    assert [dict(machine.attributes) for machine in trace.workload.machines] == [
        {"platform": "platform-a", "attribute_1": "v1", "cores": "4"},
        {"platform": "platform-a", "cores": "8"},
        {},
    ]
    events = [(e.at_seconds, dict(e.machine.attributes)) for e in trace.workload.events if isinstance(e, MachineEvent)]
    assert (0.5, {"platform": "platform-a"}) in events
    assert (0.6, {"platform": "platform-a", "attribute_1": "v2", "cores": "4"}) in events
    assert len(events) == 3, "and the machine of the file that comes at 0 s"
    assert trace.facts["attributes"] == {"attribute_1": HASH, "cores": "cores"}
    assert trace.facts["constrained_tasks"] == 3
    assert trace_digest(trace) == trace_digest(traced(tmp_path, cache=tmp_path / "cache"))


def test_constraints_without_attributes_are_ignored_and_counted(tmp_path: Path) -> None:
    tables(tmp_path, CONSTRAINTS, None)
    trace = traced(tmp_path)
    assert asked(trace) == [(3, None), (3, None)]
    assert counts(trace)["no-attributes"] == 3
    tables(tmp_path, CONSTRAINTS, ATTRIBUTES)
    assert asked(traced(tmp_path, constraints="none")) == [(3, None), (3, None)]


@pytest.mark.parametrize(
    ("operator", "value", "text"),
    [
        (0, "a b=", "x == 'a b='"),
        (0, "", "not has x"),
        (1, "7", "x != '7'"),
        (1, "", "has x"),
        (2, "5", "(x < 5 or not has x)"),  # a missing attribute is 0
        (2, "0", "x < 0"),
        (3, "5", "x > 5"),
        (3, "-1", "(x > -1 or not has x)"),
    ],
)
def test_operators_are_those_of_the_trace(operator: int, value: str, text: str) -> None:
    assert constraint_text(operator, "x", value) == text
    parse(text)


def test_synthetic_constraints_are_seeded_and_satisfiable(tmp_path: Path) -> None:
    write_trace(tmp_path, [], [task(at(1), job, 0, SUBMIT) for job in range(1, 200)])
    options = [TraceOptions(constraints="synthetic", seed=seed) for seed in (1, 1, 2)]
    first, same, other = (read_trace(tmp_path, each) for each in options)
    assert trace_digest(first) == trace_digest(same) != trace_digest(other)
    named = [text for _, texts in asked(first) if isinstance(texts, list) for text in texts]
    assert 50 < len(named) < 150
    for text in named:
        parse(text)
    assert all(set(SYNTHETIC) <= set(machine.attributes) for machine in first.workload.machines)
    assert any("synthetic" in text for text in first.guessed)
    few = read_trace(tmp_path, TraceOptions(constraints="synthetic", seed=1, tasks=5))
    assert [a.job for a in few.workload.arrivals] == [a.job for a in first.workload.arrivals[:5]]


def test_half_of_the_jobs_have_a_synthetic_constraint() -> None:
    found = [synthetic_condition(job, 7) for job in range(4_000)]
    assert sum(map(bool, found)) / 4_000 == pytest.approx(0.49, abs=0.03)
    for name, part in ASKS.items():
        named = sum(any(text.startswith(name) for text in condition) for condition in found)
        assert named / 4_000 == pytest.approx(part, abs=0.03)
    assert set(ASKS) == set(SYNTHETIC)
