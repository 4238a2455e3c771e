"""The script that measures the shipped tables, on a hand-made trace."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables.make_google2011_tables import PROBABILITIES, kaplan_meier, main
from omega.workload.quantiles import Quantiles
from tests.unit.omega.traces.tiny_google import SECOND, START, Row, job, task, write_trace

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH = range(5)


def at(seconds: float) -> int:
    return START + round(seconds * SECOND)


def test_kaplan_meier_counts_the_censored_while_they_are_seen() -> None:
    # 5 at risk at 1 s, 4 at 2 s, 2 at 4 s (one was only seen until 3 s): 4/5, 3/4 of it, 1/2 of that.
    lengths, ended = [4.0, 1.0, 3.0, 2.0, 9.0], [True, True, False, True, False]
    times, shares = kaplan_meier(lengths, ended)
    assert times.tolist() == [1, 2, 4, 9]
    assert shares.tolist() == pytest.approx([0.2, 0.4, 0.7, 1.0])


def test_kaplan_meier_without_censoring_is_the_plain_distribution() -> None:
    times, shares = kaplan_meier([3.0, 1.0, 2.0, 2.0], [True] * 4)
    assert times.tolist() == [1, 2, 2, 3, 3]
    assert shares.tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def rows() -> list[Row]:
    found: list[Row] = [task(0, 50, 0, SUBMIT, priority=9, scheduling_class=3, cpu=0.5)]
    for number in range(1, 11):  # a job every 10 s, of 1 to 10 tasks of 5 s
        found += [task(at(10 * number), number, index, SUBMIT) for index in range(number)]
        found += [task(at(10 * number + 1), number, index, SCHEDULE) for index in range(number)]
        found += [task(at(10 * number + 6), number, index, FINISH) for index in range(number)]
    found += [task(at(110), 60, 0, SUBMIT, priority=11, scheduling_class=2), task(at(110), 60, 0, SCHEDULE)]
    return [*found, task(at(200), 60, 0, EVICT)]


def table(path: Path) -> Quantiles:
    probabilities, values = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    return Quantiles(probabilities, values)


def test_tables_of_a_tiny_trace(tmp_path: Path) -> None:
    jobs = [job(0, 50, scheduling_class=3), job(at(110), 60, scheduling_class=2)]
    write_trace(tmp_path / "trace", jobs, rows())
    output = tmp_path / "tables"
    main(tmp_path / "trace", output)
    sizes = table(output / "batch_tasks_per_job.csv")
    assert len(sizes.values) == len(PROBABILITIES)
    assert (sizes.quantile(0), sizes.quantile(0.5), sizes.quantile(1)) == (1, 5, 10)
    assert table(output / "batch_interarrival_seconds.csv").quantile(0.5) == 10
    assert table(output / "batch_task_seconds.csv").quantile(0.5) == 5
    assert table(output / "service_task_seconds.csv").quantile(0.5) == 90  # only seen for so long
    # The one resident waits, so that nothing runs at the beginning.
    assert (output / "resident_service_share.csv").read_text().splitlines() == ["resource,share", "cpu,0", "memory,0"]
    assert (output / "machines.csv").read_text().splitlines() == [
        "platform,cpu,memory,share",
        "A,0.5,0.25,0.666667",
        "B,1,1,0.333333",
    ]
    assert (output / "service_requests.csv").read_text().splitlines()[0] == "cpu,memory,weight"
    assert (output / "service_precedence.csv").read_text().splitlines() == ["precedence,share", "9,0.5", "11,0.5"]


def test_all_tables_are_written_the_same_again(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", [job(at(110), 60, scheduling_class=2)], rows())
    for name in ("one", "two"):
        main(tmp_path / "trace", tmp_path / name)
    texts = [{path.name: path.read_text() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 12
