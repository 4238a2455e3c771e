"""Grids, waiting tasks and figures of a replay, against the same recomputed microsecond by microsecond."""

from pathlib import Path

import numpy as np
import pytest

from omega.cellstate.model import TaskGroup
from omega.cellstate.tasks import EndKind
from omega.replay.columns import State
from omega.replay.grid import grid_of
from omega.replay.utilisation import utilisation_of
from omega.replay.waiting import AGAIN, waiting
from omega.simulation.records import RUNNING
from omega.workload.workload import JobEvent
from tests.simulation.replay_cases import HORIZON, MICRO, Case, Row, arrival, drawn, made

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rows", "spans"), [(4, 60), (2, 7), (1, 1)])
def test_a_grid_has_the_means_of_its_machines_and_spans(seed: int, rows: int, spans: int) -> None:
    case = drawn(seed)
    grid = grid_of(case.columns, 0, rows=rows, spans=spans)
    fine = 7  # microseconds are cut into parts, so that every edge of a span is an edge of a part
    held, has = np.zeros((4, HORIZON)), np.zeros((4, HORIZON))
    for instant in range(HORIZON):
        for name, capacity in case.capacity(instant).items():
            has[int(name[1:]), instant] = capacity[0]
            held[int(name[1:]), instant] = case.held(instant, int(name[1:]))[0]
    held, has = (np.repeat(each, fine, axis=1) for each in (held, has))
    assert grid.share.shape == (rows, spans)
    edges = (grid.times * fine).round().astype(int)
    for i in range(rows):
        machines = slice(int(grid.machines[i]), int(grid.machines[i + 1]))
        for j in range(spans):
            part = slice(edges[j], edges[j + 1])
            whole = has[machines, part].sum()
            expected = held[machines, part].sum() / whole if whole else np.nan
            assert grid.share[i, j] == pytest.approx(expected, nan_ok=True, abs=1e-9)


def _waits(case: Case, instant: int) -> int:
    """Tasks that wait during a microsecond, looked for one by one."""
    number = 0
    states = case.columns.jobs.state
    for j, job in enumerate(case.jobs):
        given_up = case.abandoned[j] if case.abandoned and states[j] == State.ABANDONED else -1
        if round(job.at_seconds / MICRO) > instant or 0 <= given_up <= instant:
            continue
        for g, group in enumerate(job.job.groups):
            for task in range(group.count):
                own = [row for row in case.rows if (row.job, row.group, row.task) == (j, g, task)]
                before = [row for row in own if row.started <= instant]
                over = [row for row in before if 0 <= row.ended <= instant and row.how in AGAIN]
                number += len(before) == len(over)
    return number


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_tasks(seed: int) -> None:
    case = drawn(seed)
    rows = [row for row in case.rows if not (0 <= case.abandoned[row.job] <= row.started)]
    case = Case(
        case.workload, case.jobs, [_cut(row, case.abandoned[row.job]) for row in rows], abandoned=case.abandoned
    )
    found = waiting(case.columns).at_instants(np.arange(HORIZON))[:, 0]
    assert found.tolist() == [_waits(case, instant) for instant in range(HORIZON)]


def _cut(row: Row, abandoned: int) -> Row:
    """What runs when its job is abandoned ends then."""
    if abandoned >= 0 and (row.ended < 0 or row.ended > abandoned):
        return row._replace(ended=abandoned, how=EndKind.STOPPED)
    return row


def test_tasks_of_stopped_jobs_wait_until_then() -> None:
    two = TaskGroup((1000, 100), 2)
    case = made(
        [(1000, 1000)],
        [],
        [arrival(0, 10, two)],
        [Row(0, 0, 0, 0, 20, 40, EndKind.STOPPED)],
        [JobEvent(40 * MICRO, "j0", "stop")],
    )
    found = waiting(case.columns).at_instants(np.array([0, 10, 20, 39, 40, 59]))[:, 0]
    assert found.tolist() == [0, 2, 1, 1, 0, 0]


def test_figures_of_small_and_over_committed_cells(tmp_path: Path) -> None:
    draw = pytest.importorskip("omega.experiments.plots.replay", reason="matplotlib is not installed")
    one = TaskGroup((1000, 100), 1)
    over = made(
        [(1500, 1000)],
        [],
        [arrival(i, 0, one) for i in range(2)],
        [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 9, -1, RUNNING)],
    )
    for name, case, text in (("small", drawn(4), "a bar for each task"), ("over", over, "a row for each machine")):
        columns = case.columns
        gantt, use = tmp_path / f"{name}.svg", tmp_path / f"{name}-use.svg"
        draw.draw_gantt(columns, "details", gantt)
        draw.draw_utilisation(columns, utilisation_of(columns), "details", use)
        assert text in gantt.read_text(encoding="utf-8")
        assert "waiting for a placement" in use.read_text(encoding="utf-8")
