"""What pages are made of: timelines, the matrix of conflicts, faults of job files, changes of pools."""

from typing import Any

import anyio
import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.jobfile.reader import JobFile
from omega.web.console import job, job_view, plan, pool_changes, schedulers
from omega.web.console.timelines import Mark, PoolAmounts, Scale, Span, flow, pool_bars, pool_scale, timeline

EVIL = '</title><script>x</script>"'


def conflict(loser: str, winner: str, fine: int, coarse: int, *machines: str) -> dict[str, Any]:
    return {
        "loser": loser, "winner": winner, "fine": fine, "coarse": coarse, "count": fine + coarse,
        "machines": [{"machine": name, "index": 1, "count": 2} for name in machines],
        "transactions": [{"version": version, "job": "j"} for version in (fine, coarse)],
    }  # fmt: skip


def test_bars_of_a_timeline_are_within_it_and_their_texts_are_escaped() -> None:
    drawn = timeline(
        [Span("running", 50, None, EVIL), Span("lost", -10, 0, "x")], [Mark("a", 500, "m")], Scale(0, 100), EVIL
    )
    assert '<rect class="is running" x="500" y="2" width="500"' in drawn
    assert '<rect class="is lost" x="0" y="2" width="3"' in drawn
    assert 'd="M1000 0v12"' in drawn
    assert "<script" not in drawn
    assert Scale(5, 5).x(5) == 0


def test_pools_are_drawn_on_one_scale() -> None:
    rows = [
        PoolAmounts(usage=0.1, demand=3.0, fair_share=0.4, guarantee=0.2, limit=0.5),
        PoolAmounts(usage=0.2, demand=0.2, fair_share=0.2),
    ]
    assert pool_scale(rows) == 1
    assert pool_scale([rows[1]]) == pytest.approx(0.21)
    assert pool_scale([]) == pool_scale([PoolAmounts(usage=0, demand=0, fair_share=0)]) == 1
    drawn = pool_bars(rows[0], 1.0, EVIL, starving=True)
    for part in ('demand" y="3" width="100.0"', 'usage" y="6" width="10.0"', 'lack" x="10.0"', 'fair" d="M40.0'):
        assert part in drawn
    assert 'guarantee" d="M20.0' in drawn
    assert 'limit" d="M50.0' in drawn
    assert "beyond" in drawn
    assert "<script" not in drawn
    assert "beyond" not in pool_bars(rows[1], 1.0, "")


def test_the_width_of_a_ribbon_follows_its_tasks() -> None:
    drawn = flow([{"from": "a", "to": "b", "tasks": 1}, {"from": "c", "to": "b", "tasks": 12}])
    assert (drawn.sources, drawn.targets) == (["c", "a"], ["b"])
    assert 'stroke-width="14" d="M0 10C50 10 50 20 100 20"' in drawn.drawing
    assert 'stroke-width="3" d="M0 30C50 30 50 20 100 20"' in drawn.drawing


def test_who_lost_to_whom_most_conflicts_first_unknown_winners_last() -> None:
    rows = [conflict("b/1", "unknown", 9, 0), conflict("b/0", "b/1", 3, 4, "m1"), conflict("b/1", "b/0", 1, 0, "m2")]
    matrix = schedulers.conflict_matrix(rows)
    assert (matrix.losers, matrix.winners) == (["b/1", "b/0"], ["b/1", "b/0", "unknown"])
    assert matrix.at("b/0", "b/1") == schedulers.Cell(3, 4, 4)
    assert (matrix.lost, matrix.won) == ({"b/1": 10, "b/0": 7}, {"unknown": 9, "b/1": 7, "b/0": 1})
    assert matrix.at("b/0", "b/0").total == 0
    found = schedulers.details(rows, "b/1", "")
    assert (found["fine"], found["coarse"], found["machines"]) == (10, 0, [("m2", 2)])
    assert [each["version"] for each in found["transactions"]] == [9, 1, 0, 0]
    assert schedulers.details(rows, "x", "y")["machines"] == []
    crossed = schedulers.conflict_matrix([conflict("b/0", "b/1", 9, 0), conflict("b/1", "b/0", 1, 0)])
    assert crossed.losers == crossed.winners == ["b/0", "b/1"]
    many = [conflict(f"b/{n}", "w", 1, 0) for n in range(40)]
    assert schedulers.conflict_matrix(many).others == 16


def test_the_time_of_a_scheduler_is_that_of_its_last_sample() -> None:
    series = {"thinking": [0.1, 0.2], "committing": [0.1, 0.3], "waiting": [0.8, 0.5]}
    split = schedulers.time_split(series)
    assert split is not None
    assert split.parts == [("c0", 0.2), ("c1", 0.3)]
    assert split.text == "thinking 20%, committing 30%, waiting 50%"
    undivided = schedulers.time_split({"thinking": [None], "committing": [None], "waiting": [0.25]})
    assert undivided is not None
    assert undivided.parts == [("c5", 0.75)]
    assert schedulers.time_split(None) is schedulers.time_split({"waiting": []}) is None


@pytest.mark.parametrize(
    ("message", "faults"),
    [
        ("job.yaml:3: a: x; also job.yaml:9: b: y", [(3, "a: x"), (9, "b: y")]),
        ("job.yaml: empty; write a job", [(None, "empty; write a job")]),
        ("job a: exists; see job.yaml:3: x", [(None, "job a: exists; see job.yaml:3: x")]),
    ],
)
def test_faults_of_a_file_by_line(message: str, faults: list[tuple[int | None, str]]) -> None:
    assert [tuple(fault) for fault in plan.faults_of(message)] == faults


def test_lines_with_faults_are_shown_with_those_around_them() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 30))
    faults = [
        plan.Fault(2, "x"),
        plan.Fault(2, "y"),
        plan.Fault(20, "z"),
        plan.Fault(99, "beyond"),
        plan.Fault(None, "a"),
    ]
    shown = plan.marked_lines(text, faults)
    assert [line.number for line in shown] == [1, 2, 3, 4, 0, 18, 19, 20, 21, 22, 0, 27, 28, 29]
    assert [fault.text for fault in shown[-1].faults] == ["beyond"]
    assert [line.text for line in plan.marked_lines("a: [\r\n", [plan.Fault(2, "x")])] == ["a: ["]
    assert [fault.text for fault in shown[1].faults] == ["x", "y"]
    assert plan.marked_lines(text, []) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"name": "x"}', "job.json"), ('[\n{"name": "x"}]', "job.json"), ("{name: x}", "job.yaml"), ("a: 1", "job.yaml")],
)
def test_text_is_read_as_json_where_it_is(text: str, name: str) -> None:
    async def read(text: str) -> JobFile:
        async with plan.job_file(text) as file:
            return file

    assert anyio.run(read, text).name == name
    assert anyio.run(read, "a: 1\r\nb: 2").text == "a: 1\nb: 2"


def event(kind: str, version: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "version": version, "at_ms": version * 10, "by": "b/0", **more}


EVENTS = [
    event("submit", 1, count=4),
    event("place", 2, placement=7, machine=0, group=0, tasks="0-1", count=2),
    event(
        "conflict",
        3,
        machine=1,
        count=2,
        verdict="full",
        winner={"by": "b/1", "version": 2, "job": "o", "kind": "place"},
    ),
    event("evicted", 4, placement=7, machine=0, group=0, tasks="0-1", count=2, reason="precedence:x"),
    event("finished", 5, placement=9, machine=0, group=0, tasks="3", count=1),
]


def test_earlier_attempts_are_those_that_did_not_finish() -> None:
    (attempt,) = job_view.attempts(EVENTS, {0: "m0"})
    assert attempt == job_view.Attempt(0, "0-1", Span("evicted", 20, 40, "evicted on m0: precedence:x"))
    known: dict[str, Any] = {"group": "g", "machine": None, "started_ms": None, "ended_ms": None, "reason": None}
    tasks = [
        known | {"tasks": "0", "state": "running", "machine": "m1", "started_ms": 60},
        known | {"tasks": "2-3", "state": "pending"},
    ]
    rows = job_view.task_rows(tasks, ["g"], [attempt], Scale(0, 100), 0)
    assert 'class="is evicted" x="200" y="2" width="200"' in rows[0]["drawing"]
    assert 'class="is running" x="600" y="2" width="400"' in rows[0]["drawing"]
    assert 'class="is waiting" x="0" y="2" width="200"' in rows[0]["drawing"]
    assert 'class="is waiting" x="0" y="2" width="1000"' in rows[1]["drawing"]
    again = known | {"tasks": "0", "state": "pending", "reason": "lost", "started_ms": 20, "ended_ms": 50}
    (row,) = job_view.task_rows([again], ["g"], [], Scale(0, 100), 0)
    assert 'class="is lost" x="200" y="2" width="300"' in row["drawing"]
    assert 'class="is waiting" x="500" y="2" width="500"' in row["drawing"]
    assert (rows[0]["took"], rows[1]["took"], rows[1]["first"]) == (0.04, None, 2)


def test_the_history_has_the_winner_of_a_conflict_and_no_finished_tasks() -> None:
    lines = job_view.history_lines(EVENTS, {0: "m0", 1: "m1"}, 10)
    assert [line.kind for line in lines] == ["evicted", "conflict", "place", "submit"]
    assert (lines[0].detail, lines[0].rival) == ("precedence", "x")
    assert (lines[1].winners[0]["by"], lines[1].machines, lines[1].detail) == ("b/1", ["m1"], "full")
    assert [line.kind for line in job_view.history_lines(EVENTS, {}, 2)] == ["evicted", "conflict"]
    drawn = job_view.lane(EVENTS, Scale(10, 50))
    assert 'class="mark conflict" d="M500 0v12"' in drawn
    assert 'aria-label="1 submit event, 1 place event, 1 conflict event, 1 evicted event"' in drawn


POOLS = {
    "version": 4, "trees": [{"name": "default"}],
    "pools": [{"name": "a", "guarantee": {"cpu": "4"}}, {"name": "b", "parent": "a", "weight": 2.0}, {"name": "c"}],
}  # fmt: skip


def test_a_form_of_pools_changes_what_was_entered_only() -> None:
    form = {"weight:a": "3", "guarantee:cpu:a": "", "limit:tasks:c": "7", "guarantee:memory:c": " 4Gi "}
    changed = pool_changes.changed(POOLS, form | {"new": "d", "weight:": "0.5"})
    assert changed["pools"] == [
        {"name": "a", "weight": 3.0},
        {"name": "b", "parent": "a", "weight": 2.0},
        {"name": "c", "guarantee": {"memory": "4Gi"}, "limits": {"tasks": "7"}},
        {"name": "d", "weight": 0.5},
    ]
    assert pool_changes.changed(POOLS, {})["pools"] == POOLS["pools"]
    below = pool_changes.changed(POOLS, {"pool": "b", "new": "e"})
    assert below["pools"][-1] == {"name": "e", "parent": "a"}
    with pytest.raises(BadInput, match="'x' is not a number"):
        pool_changes.changed(POOLS, {"weight:a": "x"})


def test_the_form_has_a_pool_and_its_siblings() -> None:
    rows = pool_changes.rows(POOLS, "", ["cpu"], {"weight:a": "9"})
    assert [row["name"] for row in rows] == ["a", "c"]
    assert rows[0]["fields"][:2] == [
        {"name": "weight:a", "label": "Weight", "value": "9", "was": ""},
        {"name": "guarantee:cpu:a", "label": "Guarantee, cpu", "value": "4", "was": "4"},
    ]
    assert pool_changes.entered(rows, {"new": "d"}) == {"weight:a": "9", "new": "d", "weight:": ""}
    assert [row["name"] for row in pool_changes.rows(POOLS, "b", ["cpu"], {})] == ["b"]
    with pytest.raises(Refused, match="'z': is not configured"):
        pool_changes.siblings(POOLS, "z")


def test_an_explanation_has_the_error_of_a_scheduler_as_a_sentence() -> None:
    failure = {"by": "batch/0", "error": "ValueError: x", "here": True}
    shown = job._why({"reason": "FAILING", "failure": failure, "fits_after": []})
    assert shown["failure_text"] == "scheduler batch/0 fails: ValueError: x"
    assert shown["meaning"] == "its scheduler fails: a policy raises an error"
    assert (shown["pool_lines"], shown["share_lines"]) == ([], [])
