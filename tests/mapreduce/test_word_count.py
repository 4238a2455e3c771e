"""Word count: the same counts as a single process, whatever the number of workers and whoever is evicted or killed."""

from pathlib import Path

import pytest

from omega.cellstate.tasks import EndKind
from tests.mapreduce.conftest import Make
from tests.mapreduce.crowd import kill, until
from tests.mapreduce.words import answer, counted, script
from tests.tiers import first

GATED = script(
    "import os,sys,time\nfrom pathlib import Path\n"
    "gate=Path(os.environ['GATE'])\n"
    "if os.environ['OMEGA_TASK']=='0' and not (gate/'open').exists():\n"
    " (gate/'reached').touch()\n"
    " while not (gate/'open').exists(): time.sleep(0.02)\n"
    "for l in sys.stdin.buffer:\n"
    " for w in l.split(): sys.stdout.buffer.write(w+b'\\t1\\n')"
)
"""A mapper that says every word; the first worker's waits at a gate."""


@pytest.mark.parametrize("workers", first(1, [4, 1]))
def test_words_of_2_mb(crowd: Make, texts: list[Path], workers: int) -> None:
    job = crowd(files=texts, workers=workers)
    running = [job.thread(task) for task in range(workers)]
    done = [each.join() for each in running]
    assert sum(done) == job.plan.maps + job.plan.reduces == 7 + 3
    assert answer(job.output) == counted(texts)
    assert not (job.folder / "scratch" / job.job).exists()
    assert job.said == []


def test_words_of_2_mb_with_an_eviction_and_a_kill(crowd: Make, texts: list[Path], tmp_path: Path) -> None:
    """Worker 0 is evicted in the middle of a shard and placed anew; worker 1 is killed and its task lost."""
    job = crowd(files=texts, workers=4, map=GATED, environment={"GATE": str(tmp_path)})
    evicted = job.start(0)
    until((tmp_path / "reached").exists, "worker 0 has a shard")
    job.end(0)
    kill(evicted)
    lost = job.start(1)
    until(
        lambda: (progress := job.cell.shards.progress(job.job)) and progress.map.done, "worker 1 has finished a shard"
    )
    kill(lost)
    job.end(1, EndKind.LOST)
    (tmp_path / "open").touch()
    job.place()
    for task in range(4):
        job.start(task)
    job.finish()
    assert answer(job.output) == counted(texts)
