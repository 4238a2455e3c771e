"""Parameters varied, finished simulations kept: lists, ranges, resuming, files that are none."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.experiments import results, sources
from omega.experiments.configuration import Configuration
from omega.experiments.metrics import chosen, of, saturated, spread, unscheduled
from omega.experiments.results import Results
from omega.experiments.sweep import Sweep, axis, grid

TINY = Configuration(workload="C", machines=60, days=0.002)


def clock() -> float:
    return 0.0


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("batch=1,2,4", "batch", [1, 2, 4]),
        ("rate=1..4", "rate", [1.0, 2.0, 3.0, 4.0]),
        ("rate=0.5..2", "rate", [0.5, 1.5]),
        ("t-job-service=0.01..100:5", "t_job_service", [0.01, 0.1, 1.0, 10.0, 100.0]),
        ("seed=1..3,7", "seed", [1, 2, 3, 7]),
        ("workload=A,../day.csv", "workload", ["A", "../day.csv"]),
        ("reference_rules=true,false", "reference_rules", [True, False]),
    ],
)
def test_an_axis(text: str, name: str, values: list[object]) -> None:
    assert axis(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batch", "want PARAMETER=VALUES"),
        ("batch=", "want PARAMETER=VALUES"),
        ("bacth=1", "unknown parameter 'bacth'; known: architecture"),
        ("batch=1.5", "want a whole number"),
        ("batch=two", "want a whole number"),
        ("rate=4..1", "'4..1' is no range"),
        ("rate=0..1:5", "is no range"),
        ("rate=1..x", "is no range"),
        ("rate=1..2:1", "is no range"),
        ("reference_rules=perhaps", "want true or false"),
    ],
)
def test_what_is_no_axis(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says.replace(".", r"\.")):
        axis(text)


def test_a_grid_has_every_combination() -> None:
    points = grid(TINY, {"batch": [1, 2], "rate": [1.0, 2.0, 3.0]})
    assert [(point.batch, point.rate) for point in points] == [(b, r) for b in (1, 2) for r in (1.0, 2.0, 3.0)]
    with pytest.raises(BadInput, match="unknown architecture"):
        grid(TINY, {"architecture": ["none"]})


def test_finished_points_are_kept_and_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    points = grid(TINY, {"seed": [0, 1, 2]})
    done: list[int] = []
    sweep = Sweep(points[:2], Results(path))
    sweep.run(None, clock, lambda record: done.append(record["seed"]))
    again = Sweep([*points, points[0]], Results(path))
    assert again.left == [points[2]]
    records = again.run(None, clock, lambda record: done.append(record["seed"]))
    assert done == [0, 1, 2]
    assert [record["seed"] for record in records] == [0, 1, 2, 0]
    for line in path.read_text().splitlines():
        record = json.loads(line)
        assert {"seed", "configuration", "version", "sources", "digest"} <= set(record)
        assert record["result"]["digest"] == record["digest"]


def test_an_interruption_costs_only_what_was_not_finished(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    points = grid(TINY, {"seed": [0, 1, 2]})

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sweep(points, Results(path)).run(None, clock, interrupt)
    with path.open("a") as file:
        file.write('{"key": "cut sho')
    sweep = Sweep(points, Results(path))
    assert len(sweep.left) == 2
    sweep.run(None, clock)
    assert len(Results(path)) == 3


def test_an_executor_gives_the_same_as_none() -> None:
    points = grid(TINY, {"seed": [0, 1]})
    here = Sweep(points, Results()).run(None, clock)
    with ThreadPoolExecutor(1) as executor:
        there = Sweep(points, Results()).run(executor, clock)
    assert [record["digest"] for record in here] == [record["digest"] for record in there]


def test_a_failing_point_leaves_the_finished_ones(tmp_path: Path) -> None:
    path, missing = tmp_path / "results.jsonl", tmp_path / "gone.csv"
    missing.write_text("x")
    bad = Configuration(workload=str(missing))
    with ThreadPoolExecutor(1) as executor, pytest.raises(BadInput, match=r"gone\.csv:1"):
        Sweep([TINY, bad], Results(path)).run(executor, clock)
    assert len(Results(path)) == 1


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"key": 1}\n')
    with pytest.raises(BadInput, match=r"notes\.jsonl:1: no result"):
        Results(path)
    with pytest.raises(BadInput, match="cannot be read"):
        Results(tmp_path)


def test_a_changed_workload_file_is_simulated_again(tmp_path: Path) -> None:
    header = "job_id,workload,submit_s,num_tasks,task_duration_s,cpus_per_task,mem_gb_per_task\n"
    path = tmp_path / "work.csv"
    point = Configuration(workload=str(path), machines=2, days=0.001)
    kept = Results()
    for row in ("1,Batch,0,1,5,1,1\n", "1,Batch,0,2,5,1,1\n"):
        path.write_text(header + row)
        assert Sweep([point], kept).left == [point]
        kept.add(Sweep([point], Results()).run(None, clock)[0])


def test_figures_by_name() -> None:
    (record,) = Sweep([TINY], Results()).run(None, clock)
    assert [column for column, *_ in chosen(record, "busyness")] == ["batch.busyness_median", "service.busyness_median"]
    assert [column for column, *_ in chosen(record, "batch.wait")] == ["batch.wait_mean"]
    assert [column for column, *_ in chosen(record, "utilisation")] == ["utilisation.cpu", "utilisation.memory"]
    assert of(record, "batch", "abandoned") == 0
    assert spread(record, "batch", "wait") == 0
    assert unscheduled(record) < 0.2
    assert not saturated(record, "service")
    with pytest.raises(BadInput, match="unknown metric 'speed'"):
        list(chosen(record, "speed"))


def test_other_code_simulates_anew_and_keeps_the_old_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(results, "sources_digest", lambda: "0ld")
    Sweep([TINY], Results(path)).run(None, clock)
    before = path.read_text()
    monkeypatch.undo()
    sweep = Sweep([TINY, TINY.but({"seed": 1})], Results(path))
    assert len(sweep.left) == 2
    assert [record["sources"] for record in sweep.outdated] == ["0ld"]
    sweep.run(None, clock)
    assert path.read_text().startswith(before)
    again = Sweep([TINY], Results(path))
    assert not again.left
    assert not again.outdated
    assert again.records()[0]["sources"] == sources.sources_digest()


def test_a_line_that_notes_no_sources_is_of_other_code(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    (record,) = Sweep([TINY], Results()).run(None, clock)
    path.write_text(json.dumps({name: record[name] for name in results.FIELDS} | {"key": "of a version"}) + "\n")
    sweep = Sweep([TINY], Results(path))
    assert sweep.left == [TINY]
    assert len(sweep.outdated) == 1


def test_processes_with_other_code_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(parameters: dict[str, object], _: object) -> dict[str, object]:
        return {"key": "another", "version": "0.0.9", "sources": "0ld", "configuration": parameters}

    monkeypatch.setattr("omega.experiments.sweep.simulated", elsewhere)
    kept = Results()
    with ThreadPoolExecutor(1) as executor, pytest.raises(Refused, match=r"other code \(Omega 0\.0\.9, sources 0ld\)"):
        Sweep([TINY], kept).run(executor, clock)
    assert len(kept) == 0


def test_the_digest_follows_what_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables").mkdir()
    monkeypatch.setattr(sources, "files", lambda _: tmp_path)

    def digest() -> str:
        sources.sources_digest.cache_clear()
        return sources.sources_digest()

    seen = [digest()]
    for name, text in (("a.py", "x = 1"), ("a.py", "x = 2"), ("tables/t.csv", "1"), ("b.py", "")):
        (tmp_path / name).write_text(text)
        seen.append(digest())
    assert len(set(seen)) == len(seen)
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "a.pyc").write_text("bytes")
    assert digest() == seen[-1]
    monkeypatch.undo()
    assert digest() == digest()
    assert {"omega.cellstate", "omega.schedulers", "omega.simulation", "omega.traces", "omega.workload"} == set(
        sources.DECIDING
    )
