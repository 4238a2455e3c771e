"""A cell with real scheduler processes: some die, some come, nothing is lost and nothing doubled."""

import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup, bucket_of
from omega.cellstate.replies import figure_totals
from omega.cellstate.resources import LARGEST
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.process.signals import leave_signals
from omega.schedulers.sharing import owned
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    await_sharing,
    check,
    check_all_ended,
    ended,
    halt,
    join,
    made_cell,
    mixed_jobs,
    resume,
    seen,
    serve,
    simple_job,
    started_processes,
    submit,
    unfinished,
    until,
    words_of,
)

pytestmark = pytest.mark.server
WAVE = 60
"""Jobs submitted in one call."""
LONG_MS = 30_000
"""A lease that lasts however slow this machine is."""


def test_6_000_tasks_are_placed_once_though_a_scheduler_dies_and_another_comes(store_url: str, tmp_path: Path) -> None:
    jobs = mixed_jobs(Random("1/processes"), 6_000, "mixed", longest_ms=300)
    with (
        made_cell(store_url, "done-when", 300) as cell,
        started_processes(
            cell, store_url, tmp_path, "batch/0", "batch/1", "batch/2", "service/0", f"simulated/{DEFAULT_EXECUTOR}"
        ) as group,
    ):
        probes = await_sharing(cell, "batch/0", "batch/1", "batch/2")
        waves = [jobs[start : start + WAVE] for start in range(0, len(jobs), WAVE)]
        for number, wave in enumerate(waves):
            submit(cell, wave)
            if number == len(waves) // 2:
                assert cell.schedulers.queue_depths()
                group.kill("batch/1")
                group.start("batch/3")
            until(lambda: sum(cell.schedulers.queue_depths().values()) < WAVE // 2, "most of the wave is placed")
        until(lambda: seen(cell, "lapse", "batch/1"), "the others find out that one is gone")
        until(lambda: not unfinished(cell), "every task runs to its end")
        ledger = check_all_ended(cell, [*jobs, *probes])
        assert set(ledger.by) >= {"batch/0", "batch/1", "batch/2", "service/0"}
        assert [words_of(group, member) for member in group.members] == [[]] * 5


@pytest.mark.chaos
def test_the_jobs_of_a_killed_scheduler_move_to_the_others(store_url: str, tmp_path: Path) -> None:
    jobs = [simple_job(f"moves-{number}") for number in range(40)]
    dead = owned("batch/1", ["batch/0", "batch/1"])
    assert any(dead[bucket_of(job.id)] == "1" for job in jobs)
    with (
        made_cell(store_url, "moves", 2) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "batch/1") as group,
    ):
        serve(cell)
        # Both know of one another: the dead one's jobs are its own until its lease ends.
        await_sharing(cell, "batch/0", "batch/1")
        group.kill("batch/1")
        submit(cell, jobs)
        until(lambda: not cell.schedulers.queue_depths(), "the survivor places all")
        until(lambda: seen(cell, "lapse", "batch/1"), "its record is removed")
        placed = {fact.event[3]: fact.by for fact in seen(cell, "place") if fact.event[3].startswith("moves")}
        assert placed == dict.fromkeys((job.id for job in jobs), "batch/0")
        assert list(cell.schedulers.members()) == ["batch/0"]
        check(cell)


@pytest.mark.chaos
def test_a_name_that_is_taken_is_refused_in_one_line(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "twice", 1) as cell,
        started_processes(cell, store_url, tmp_path / "first", "batch/0", lease_ms=3_000),
        started_processes(cell, store_url, tmp_path / "second", lease_ms=30_000) as second,
    ):
        serve(cell)
        second.start("batch/0")
        assert ended(second, "batch/0") == 1
        refusal = "error: scheduler batch/0: another one runs under this name; choose another or stop it"
        assert words_of(second, "batch/0") == [refusal]
        submit(cell, [simple_job("after")])
        until(lambda: seen(cell, "place"), "the first one works on")
        assert len(seen(cell, "enlist", "batch/0")) == 1
        check(cell)


@pytest.mark.chaos
def test_one_that_is_started_again_after_a_crash_waits_for_its_name(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "restarted", 1) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", lease_ms=2_000) as group,
    ):
        serve(cell)
        submit(cell, [simple_job("before")])
        until(
            lambda: figure_totals(cell.schedulers.figures().get("batch/0", {}))["accepted"] == 1,
            "a heartbeat has its transaction",
        )
        group.kill("batch/0")
        group.start("batch/0")
        submit(cell, [simple_job("after")])
        until(lambda: len(seen(cell, "place")) == 2, "its successor works")
        until(
            lambda: figure_totals(cell.schedulers.figures().get("batch/0", {}))["accepted"] == 2,
            "it carries on its predecessor's counts",
        )
        assert group.dead() == {}
        assert words_of(group, "batch/0") == []
        assert [fact.event[1] for fact in seen(cell, "enlist")] == ["batch/0", DEFAULT_EXECUTOR, "batch/0"]


@pytest.mark.chaos
def test_a_scheduler_told_to_stop_finishes_and_leaves(store_url: str, tmp_path: Path) -> None:
    members = ("batch/0", "batch/1", "service/0")
    jobs = mixed_jobs(Random("2/processes"), 1_500, "leaving", longest_ms=50)
    with (
        made_cell(store_url, "leaves", 60) as cell,
        started_processes(
            cell, store_url, tmp_path, *members, f"simulated/{DEFAULT_EXECUTOR}", lease_ms=3_000
        ) as group,
    ):
        submit(cell, jobs)
        until(lambda: cell.counters()["placements"] > 50, "the work is under way")
        group.members["batch/0"].send_signal(signal.SIGTERM)
        assert ended(group, "batch/0") == 0
        assert words_of(group, "batch/0") == []
        assert [fact.event[1] for fact in seen(cell, "leave")] == ["batch/0"]
        assert set(cell.schedulers.members()) == {"batch/1", "service/0"}
        until(lambda: not unfinished(cell), "the rest ends without it")
        check_all_ended(cell, jobs)
        assert not seen(cell, "lapse")


@pytest.mark.chaos
def test_a_scheduler_told_to_stop_as_soon_as_it_has_its_name_leaves_too(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "early", 1) as cell,
        started_processes(cell, store_url, tmp_path, lease_ms=LONG_MS) as group,
    ):
        for number in range(3):
            group.start(f"batch/{number}")
            until(lambda: len(cell.schedulers.members()) == 1, "it has its name")
            group.members[f"batch/{number}"].send_signal(signal.SIGTERM)
            assert ended(group, f"batch/{number}") == 0
        assert [fact.event[1] for fact in seen(cell, "leave")] == list(group.members)
        assert cell.schedulers.members() == {}


@pytest.mark.parametrize(
    "others",
    [pytest.param(("batch/1",), id="beside another"), pytest.param((), id="alone", marks=pytest.mark.chaos)],
)
def test_a_scheduler_that_slept_past_its_lease_starts_anew(
    store_url: str, tmp_path: Path, others: tuple[str, ...]
) -> None:
    jobs = mixed_jobs(Random("3/processes"), 1_500, "paused", longest_ms=50)
    batch = [job for job in jobs if job.kind == "batch"]
    name = f"paused-{len(others)}"
    with (
        made_cell(store_url, name, 80) as cell,
        started_processes(
            cell, store_url, tmp_path, "batch/0", *others, f"simulated/{DEFAULT_EXECUTOR}", lease_ms=600
        ) as group,
    ):
        await_sharing(cell, "batch/0", *others)
        submit(cell, batch[: len(batch) // 2])
        halt(group, "batch/0")
        until(lambda: not cell.schedulers.members().get("batch/0", (0, False, {}))[1], "its lease ends")
        lapsed_at = cell.counters()["version"]
        submit(cell, batch[len(batch) // 2 :])
        if others:
            until(lambda: not unfinished(cell), "the other one does it all")
        resume(group, "batch/0")
        until(lambda: len(seen(cell, "enlist", "batch/0")) >= 2, "it takes its name anew")
        await_sharing(cell, "batch/0", *others)
        until(lambda: not unfinished(cell), "all is done")
        anew = seen(cell, "enlist", "batch/0")[1]
        assert int(anew.event[2]) > int(seen(cell, "enlist", "batch/0")[0].event[2])
        late = [fact.version for fact in seen(cell, "place") if fact.by == "batch/0" and fact.version > lapsed_at]
        assert late
        assert min(late) > anew.version
        assert group.dead() == {}
        check(cell)


@pytest.mark.chaos
def test_all_schedulers_die_and_come_back(store_url: str, tmp_path: Path) -> None:
    members = ("batch/0", "batch/1", "service/0")
    jobs = mixed_jobs(Random("4/processes"), 5_000, "again", longest_ms=50)
    with (
        made_cell(store_url, "all-die", 80) as cell,
        started_processes(cell, store_url, tmp_path, *members, f"simulated/{DEFAULT_EXECUTOR}", lease_ms=600) as group,
    ):
        submit(cell, jobs[: len(jobs) // 2])
        until(lambda: cell.counters()["placements"] > 100, "the work is under way")
        for member in members:
            group.kill(member)
        submit(cell, jobs[len(jobs) // 2 :])
        assert unfinished(cell)
        until(lambda: not any(alive for _, alive, _ in cell.schedulers.members().values()), "their leases end")
        for member in members:
            group.start(member)
        group.wait_ready(cell)
        until(lambda: not unfinished(cell), "all is done")
        check_all_ended(cell, jobs)


@pytest.mark.chaos
def test_the_executor_dies_and_comes_back(store_url: str, tmp_path: Path) -> None:
    jobs = mixed_jobs(Random("5/processes"), 1_500, "simulated", longest_ms=1_000)
    with (
        made_cell(store_url, "executor-dies", 20) as cell,
        started_processes(
            cell, store_url, tmp_path, "batch/0", "service/0", f"simulated/{DEFAULT_EXECUTOR}", lease_ms=600
        ) as group,
    ):
        submit(cell, jobs[: len(jobs) // 2])
        until(lambda: seen(cell, "finished"), "tasks run")
        group.kill(f"simulated/{DEFAULT_EXECUTOR}")
        submit(cell, jobs[len(jobs) // 2 :])
        # What is evicted meanwhile leaves only when the executor is back to say so (semantics 2).
        runs = [run for run in cell.machines.runs(range(20)) if not run.leaving]
        cell.executors.end(
            [TaskEnd(run.machine, run.placement, EndKind.EVICTED, "*", "drain") for run in runs[::3]], 0, "ada"
        )
        group.start(f"simulated/{DEFAULT_EXECUTOR}")
        until(lambda: not unfinished(cell), "all is done")
        check_all_ended(cell, jobs)
        assert seen(cell, "left")
        assert not any(run.leaving for run in cell.machines.runs(range(20)))


@pytest.mark.chaos
def test_a_job_larger_than_any_machine_sleeps_until_one_is_large_enough(store_url: str, tmp_path: Path) -> None:
    large = [
        simple_job("large-batch", 2, cpu=9_000),
        simple_job("large-service", 2, cpu=9_000, kind="service"),
        JobSpec("large-gang", "large-gang", "batch", (TaskGroup((9, 9), 3), TaskGroup((9_000, 64), 1)), gang=Gang.YES),
        simple_job("larger", 1, cpu=LARGEST, memory=LARGEST),
    ]
    small = [simple_job(f"small-{number}", kind=kind) for number, kind in enumerate(("batch", "service") * 20)]
    with (
        made_cell(store_url, "large", 3) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "service/0", f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        submit(cell, large)
        submit(cell, small)
        until(lambda: sum(cell.schedulers.queue_depths().values()) == len(large), "what fits is placed")
        until(lambda: unfinished(cell) == 9, "and ends")
        until(
            lambda: [figures["blocked"] for figures in cell.schedulers.figures().values()] == [3, 1],
            "what does not fit sleeps",
        )
        until(
            lambda: not any(figures["queued"] for figures in cell.schedulers.figures().values()),
            "the figures are newer",
        )
        until(lambda: cell.schedulers.figures()["batch/0"]["seconds"] > 1, "a while passes")
        figures = cell.schedulers.figures().values()
        assert [(each["conflicts"], each["abandoned"], each["queued"]) for each in figures] == [(0, 0, 0)] * 2
        assert sum(each["transactions"] for each in figures) == len(small)
        join(cell, [MachineSpec("big", (40_000, 65_536))])
        until(lambda: unfinished(cell) == 1, "the big machine takes them")
        assert group.dead() == {}
        assert [words_of(group, member) for member in group.members] == [[]] * 3
        larger = cell.jobs.get("larger")
        assert larger is not None
        assert larger.pending
        check(cell)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_hangs_up_leaves_no_member_behind(
    store_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with made_cell(store_url, "hangs-up", 1) as cell:
            processes = list[subprocess.Popen[bytes]]()

            def work() -> None:
                with started_processes(cell, store_url, tmp_path, "batch/0") as group:
                    processes.extend(group.members.values())
                    os.kill(os.getpid(), number)
                    time.sleep(60)

            with pytest.raises(KeyboardInterrupt):
                work()
            assert [process.returncode for process in processes] == [0]
            assert [fact.event[0] for fact in seen(cell, "leave")] == ["leave"]
            assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_who_is_to_ignore_that_the_terminal_hangs_up_does() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert leave_signals() == (signal.SIGINT, signal.SIGTERM)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signal.SIGHUP in leave_signals()
    finally:
        signal.signal(signal.SIGHUP, before)
