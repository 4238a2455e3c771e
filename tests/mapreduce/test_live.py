"""The whole way: a job file, a MapReduce scheduler, an agent that runs the workers, the answer."""

import json
from pathlib import Path

import pytest

from omega.cellstate.model import JobState
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.jobfile.reader import JobFile, load
from omega.live.processes.supervisor import ProcessSupervisor
from tests.cli.conftest import Omega
from tests.integration.stage import check, made_cell
from tests.mapreduce.crowd import until
from tests.mapreduce.words import ADD, EACH, answer, counted, script

pytestmark = pytest.mark.server
JOB = """
name: words
id: words-{run}
kind: mapreduce
workers: 1
resources: {{cpu: 100m, memory: 512Mi}}
input: {{files: [{texts}/*.txt], shard: 500Ki}}
map: {{command: {map}}}
reduce: {{command: {reduce}, count: 2}}
output: {output}
"""


SLOW = script(
    "import sys,time\nlines=sys.stdin.buffer.readlines()\ntime.sleep(0.5)\n"
    "for l in lines:\n for w in l.split(): sys.stdout.buffer.write(w+b'\\t1\\n')"
)
"""As EACH, slowly: time for an eviction."""


NEVER_DONE = script("import os,time\ntime.sleep(3_600 * (os.environ['OMEGA_SHARD'] != '0'))")
"""Ends at once for the first shard alone: a job that is at work for as long as a test looks at it."""


def submit(cell: RedisCell, texts: Path, output: Path, run: int, mapper: str = "") -> str:
    mapper = mapper or json.dumps(EACH if run == 1 else SLOW)
    text = JOB.format(run=run, texts=texts, output=output, map=mapper, reduce=json.dumps(ADD))
    (spec,) = load([JobFile("words.yaml", text, local=True)], cell.dimensions, lambda: "made")
    cell.schedulers.members()
    cell.jobs.submit([spec], 0, "ada")
    return spec.id


def ended(cell: RedisCell, job_id: str) -> bool:
    job = cell.jobs.get(job_id)
    return job is not None and job.state is JobState.DONE


def evict_a_worker(cell: RedisCell, job_id: str) -> None:
    """Take the worker that was asked for off its machine while shards are worked on."""
    until(lambda: (progress := cell.shards.progress(job_id)) and progress.working, "shards are worked on")
    run = next(run for run in cell.machines.runs([0]) if run.job == job_id and run.group == 0 and not run.leaving)
    assert cell.executors.end([TaskEnd(0, run.placement, EndKind.EVICTED, run.tasks, "drain")], 1, "ada") == [1]


def test_words_counted_by_agents(store_url: str, texts: list[Path], tmp_path: Path) -> None:
    """The second run knows from the first how long a shard takes, gets four workers instead of one, and loses one."""
    settings = {"OMEGA_STATE": str(tmp_path / "state")}
    with (
        made_cell(store_url, "mr-live") as cell,
        ProcessSupervisor(store_url, cell.name, tmp_path / "logs", settings=settings) as group,
    ):
        group.start("mapreduce/0")
        group.start("agent/h1")
        group.wait_ready(cell)
        for run in (1, 2):
            output = tmp_path / f"counts{run}"
            job_id = submit(cell, texts[0].parent, output, run)
            if run == 2:
                evict_a_worker(cell, job_id)
            until(lambda job_id=job_id: ended(cell, job_id), "all is counted")  # type: ignore[misc]
            assert answer(output) == counted(texts)
            durations = cell.shards.durations("words")
            assert durations is not None
            assert durations.runs == run
        workers, surplus = cell.jobs.get("words-2").groups  # type: ignore[union-attr]
        assert (workers.finished, workers.failed) == (1, 0)
        assert surplus.indices == 3
        check(cell)


def test_a_job_that_is_stopped_leaves_no_files(store_url: str, texts: list[Path], tmp_path: Path) -> None:
    """Stopped by the command, while an agent runs its worker: neither files nor a shard in work stay."""
    output, settings = tmp_path / "counts", {"OMEGA_STATE": str(tmp_path / "state")}
    with (
        made_cell(store_url, "mr-stopped") as cell,
        ProcessSupervisor(store_url, cell.name, tmp_path / "logs", settings=settings) as group,
    ):
        group.start("mapreduce/0")
        group.start("agent/h1")
        group.wait_ready(cell)
        job_id = submit(cell, texts[0].parent, output, 2, json.dumps(NEVER_DONE))
        until(lambda: list(output.glob(f".scratch/{job_id}/map-*")), "a map is done")
        omega = Omega(store_url, cell.name)
        omega.json("job", "stop", job_id)
        until(lambda: not any(run.job == job_id for run in cell.machines.runs([0])), "its workers have left")
        assert not list(output.iterdir())
        assert omega.json("job", "status", job_id)["progress"]["working"] == 0
        check(cell)
