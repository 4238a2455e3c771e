"""What a worker does when something goes wrong: commands that fail, workers that are gone, files that are damaged."""

import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.errors import Fenced, Refused, Unreachable
from omega.cellstate.shards import TRIES, Errand
from omega.cellstate.tasks import EndKind
from omega.live.agent.task_start import DECIDED
from omega.live.mapreduce import JobFailed, ShardWorker
from omega.mapreduce.near import NearShards
from omega.mapreduce.output import MARKER
from omega.schedulers.constraints.locality import Locality
from tests.mapreduce.conftest import Make
from tests.mapreduce.crowd import until
from tests.mapreduce.words import answer, script

WHO = script("import os\nprint('by\\t'+os.environ['OMEGA_TASK'])")
"""A mapper that says which worker's it is."""
AT_GATE = script(
    "import os,time\nfrom pathlib import Path\n"
    "gate=Path(os.environ['GATE'],os.environ['OMEGA_TASK'])\ngate.with_suffix('.reached').touch()\n"
    "while not gate.exists(): time.sleep(0.02)\n"
    "print('by\\t'+os.environ['OMEGA_TASK'])"
)
"""The same, each worker's at a gate of its own."""
SHOW = script("import sys\nsys.stdout.writelines(sys.stdin)")


def said(output: Path) -> list[str]:
    """All lines of an answer, in order."""
    return [line for part in sorted(output.iterdir()) for line in part.read_text().splitlines()]


def test_numbers_as_input(crowd: Make) -> None:
    odd = script("import sys\nfor l in sys.stdin: print('odd' if int(l)%2 else 'even',1,sep='\\t')")
    job = crowd(numbers="0-99,200-210", shard=20, map=odd, reduces=2)
    assert job.here().run() == 6 + 2
    assert answer(job.output) == {b"even": 56, b"odd": 55}


def test_commands_learn_what_they_work_on(crowd: Make) -> None:
    words = "os.environ['OMEGA_PHASE'],os.environ['OMEGA_SHARD'],os.environ['COLOUR']"
    tell = script(f"import os,sys\nprint({words},sep='\\t')\nsys.stdout.writelines(sys.stdin)")
    job = crowd(numbers="0", reduces=2, map=tell, reduce=tell, environment={"COLOUR": "red"})
    job.here().run()
    assert set(said(job.output)) == {"reduce\t0\tred", "reduce\t1\tred", "map\t0\tred", "0"}


def test_a_worker_needs_little_and_tells_its_commands_nothing_of_the_store(crowd: Make) -> None:
    tell = script("import os\nprint(*(n for n in os.environ if n.startswith('OMEGA')),sep='\\n')")
    job = crowd(numbers="0", map=tell, reduce=SHOW, reduces=1)
    process = job.start(0)
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (96 << 20,) * 2)
    job.finish()
    names = {line.partition("\t")[0] for line in said(job.output)}
    assert {"OMEGA_PHASE", "OMEGA_SHARD", "OMEGA_TASK"} <= names
    assert not names & {"OMEGA_STORE", "OMEGA_CELL"}


def test_an_empty_input(crowd: Make) -> None:
    job = crowd(reduces=2)
    job.here().run()
    assert sorted(each.name for each in job.output.iterdir()) == ["part-00000", "part-00001"]
    assert answer(job.output) == {}


def test_a_command_that_wants_no_more(crowd: Make, texts: list[Path]) -> None:
    first = script("import sys\nprint(sys.stdin.buffer.readline()[:0].decode()+'first\\t1')")
    job = crowd(files=texts, map=first, reduces=1)
    job.here().run()
    assert answer(job.output) == {b"first": job.plan.maps}


def test_a_command_that_fails_once(crowd: Make, tmp_path: Path) -> None:
    once = script(
        "import os,sys\nfrom pathlib import Path\nflag=Path(os.environ['FLAG'])\n"
        "print('x\\t1',flush=True)\nif not flag.exists(): flag.touch(); sys.exit(3)"
    )
    job = crowd(numbers="0-1", shard=1, map=once, reduces=1, environment={"FLAG": str(tmp_path / "flag")})
    job.here().run()
    assert job.said == [f"map shard 0: {once[0]}: exit 3"]
    assert answer(job.output) == {b"x": 2}


@pytest.mark.parametrize("phase", ["map", "reduce"])
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (script("import sys; sys.exit(1)"), "exit 1"),
        (script("import os; os.kill(os.getpid(),9)"), "killed by SIGKILL"),
        (["no-such-command"], "command not found: no-such-command"),
    ],
)
def test_a_command_that_always_fails(crowd: Make, phase: str, command: list[str], why: str) -> None:
    job = crowd(numbers="0-1", shard=1, reduces=2, workers=2, **{phase: command})
    workers = [job.thread(task, hasten=True) for task in range(2)]
    assert [worker.join() for worker in workers] == [-1, -1]
    for worker in workers:
        assert re.fullmatch(rf"job words: {phase} shard [01] failed {TRIES} times; see its tasks.*", str(worker.error))
    failures = [line for line in job.said if not line.startswith("machine excluded")]
    assert len(failures) >= TRIES
    assert all(re.match(rf"{phase} shard [01]: ", line) and line.endswith(why) for line in failures)
    assert not list(job.output.glob("part-*"))


def test_a_machine_on_which_all_fails_leaves_the_job_to_the_others(crowd: Make) -> None:
    """Nothing is wrong with the shards: the first worker's machine has no working command."""
    here = script("import os,sys\nme=os.environ['OMEGA_TASK']\nif me=='0': sys.exit(1)\nprint('by\\t'+me)")
    job = crowd(numbers="0-9", shard=1, map=here, reduce=SHOW, reduces=1, workers=2)
    bad = job.thread(0, hasten=True)
    until(lambda: any(line.startswith("machine excluded") for line in job.said), "the machine is left out")
    progress = job.cell.shards.progress(job.job)
    assert progress is not None
    assert (progress.left_out, progress.failed, progress.map.done) == ([0], "", 0)
    good = job.thread(1, hasten=True)
    assert good.join() == 11
    assert bad.join() == 0
    assert said(job.output) == ["by\t1"] * 10


def test_an_input_that_is_gone(crowd: Make, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b\n")
    job = crowd(files=[path])
    path.unlink()
    worker = job.here(hasten=True)
    with pytest.raises(Refused, match="map shard 0 failed"):
        worker.run()
    assert "No such file" in job.said[0]


def test_what_a_fenced_worker_wrote_counts_for_nothing(crowd: Make, tmp_path: Path) -> None:
    """A worker is evicted and does not hear of it; its shard is done by another; then it ends its own."""
    job = crowd(numbers="0", map=AT_GATE, reduce=SHOW, reduces=1, workers=2, environment={"GATE": str(tmp_path)})
    (tmp_path / "1").touch()
    late = job.thread(0)
    until((tmp_path / "0.reached").exists, "the first worker is at its gate")
    job.end(0, EndKind.LOST)
    assert job.here(1).run() == 2
    assert said(job.output) == ["by\t1"]
    (tmp_path / "0").touch()
    assert late.join() == -1
    assert isinstance(late.error, Fenced)
    assert said(job.output) == ["by\t1"]


def test_what_an_evicted_worker_still_finished_is_not_done_again(crowd: Make, tmp_path: Path) -> None:
    job = crowd(numbers="0", map=AT_GATE, reduce=SHOW, reduces=1, workers=2, environment={"GATE": str(tmp_path)})
    leaving = job.thread(0)
    until((tmp_path / "0.reached").exists, "the first worker is at its gate")
    job.end(0, EndKind.EVICTED)
    (tmp_path / "0").touch()
    leaving.join()
    assert job.here(1).run() == 1
    assert said(job.output) == ["by\t0"]


def test_the_answer_of_one_that_died_before_it_said_so(crowd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is done, and the last worker is gone before the parts have their names: the next one names them."""
    job = crowd(numbers="0", map=WHO, reduce=SHOW, reduces=2, workers=2)
    dead = job.here(0)
    monkeypatch.setattr(ShardWorker, "_publish", lambda _: None)
    dead.run()
    monkeypatch.undo()
    assert not list(job.output.glob("part-*"))
    assert job.here(1).run() == 0
    assert said(job.output) == ["by\t0"]
    assert job.here(0).run() == 0


def test_a_part_that_somebody_took_away(crowd: Make) -> None:
    job = crowd(numbers="0", map=WHO, reduce=SHOW, reduces=1, workers=2)
    job.here(0).run()
    (job.output / "part-00000").unlink()
    with pytest.raises(Refused, match=r"part-00000 is missing; run the job again"):
        job.here(1).run()


def test_a_file_between_the_phases_that_is_damaged(crowd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    job = crowd(numbers="0-1", shard=1, map=WHO, reduces=1)
    worker = job.here(hasten=True)
    reduce = ShardWorker._reduce

    def spoil(self: ShardWorker, shard: int) -> None:
        for path in (job.folder / "scratch" / job.job).glob("map-*"):
            path.write_bytes(path.read_bytes()[:-1])
        reduce(self, shard)

    monkeypatch.setattr(ShardWorker, "_reduce", spoil)
    with pytest.raises(Refused, match="reduce shard 0 failed"):
        worker.run()
    assert "was changed after it was written; run the job again" in job.said[0]


def test_a_worker_waits_for_what_others_hold(crowd: Make, tmp_path: Path) -> None:
    job = crowd(numbers="0", map=AT_GATE, reduce=SHOW, reduces=1, workers=2, environment={"GATE": str(tmp_path)})
    other = job.thread(0)
    until((tmp_path / "0.reached").exists, "the first worker is at its gate")
    waiting = job.here(1)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            (tmp_path / "0").touch()
            other.join()

    waiting.pause = pause
    waiting.run()
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_a_worker_takes_near_shards_first_and_waits_before_it_takes_others(
    crowd: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine has 2 and 3, its rack 0 and 1; 5 to 7 are elsewhere, 4 is nowhere."""
    tell = script("import os\nprint(os.environ['OMEGA_SHARD'])")
    job = crowd(numbers="0-7", shard=1, reduces=1, map=tell, reduce=SHOW)
    worker, clock = job.here(), [100.0]
    wants = Locality(("m0",), "", ("rack",), (2.0, 3.0))
    worker.near = NearShards(wants, [0, 2, 5], [1, 0, 2], ["2-3", "0-1", "5-7"], "4")
    taken: list[tuple[int, float]] = []

    def pause(seconds: float) -> None:
        clock[0] += seconds

    def claim(*words: Any) -> Errand:
        errand = original(*words)
        taken.extend([(errand.shard, clock[0] - 100)] if errand.what == "map" else [])
        return errand

    original, worker.now, worker.pause = worker.cell.shards.claim, lambda: clock[0], pause
    monkeypatch.setattr(worker.cell.shards, "claim", claim)
    worker.run()
    assert taken == [(2, 0), (3, 0), (4, 0), (0, 2), (1, 2), (5, 5), (6, 5), (7, 5)]
    assert job.said == [
        "the unclaimed shards are on other machines; this worker takes those of its rack after 2 s, any after 5 s"
    ]
    progress = job.cell.shards.progress(job.job)
    assert progress is not None
    assert progress.levels == ((0, 2), (1, 2), (2, 3))


def test_a_surplus_worker_leaves_when_nothing_more_is_to_begin(crowd: Make) -> None:
    job = crowd(numbers="0", workers=2, reduces=1)
    first = job.here(0)
    for phase in ("map", "reduce"):
        assert job.cell.shards.claim(job.job, first.worker, 1, 1, 0) == Errand(phase, 0)
        if phase == "map":
            assert job.cell.shards.end(job.job, "words", first.worker, "map", 0, 1)
    assert job.here(1, surplus=True).run() == 0


def test_a_store_that_is_away_for_a_while(crowd: Make) -> None:
    job = crowd(numbers="0", map=WHO, reduce=SHOW, reduces=1)
    worker = job.here()
    worker.pause = lambda _: None

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        left = [None, None]

        def attempt(*words: Any, **named: Any) -> Any:
            if left:
                left.pop()
                raise Unreachable("store: no answer")
            return call(*words, **named)

        return attempt

    for name in ("claim", "end", "finishers"):
        setattr(worker.cell.shards, name, failing(getattr(worker.cell.shards, name)))
    assert worker.run() == 2
    assert job.said == ["waits: store: no answer"] * 3


# The output directory


def test_two_jobs_with_one_output_do_not_mix(crowd: Make) -> None:
    """The marker stops the second job, also when it was submitted to another store or under another name."""
    first, second = crowd(numbers="0-9", reduces=2), crowd(numbers="10-19", reduces=2)
    assert first.output == second.output
    working = first.here()
    working._own_output()
    with pytest.raises(JobFailed, match=rf"holds job {first.job} of cell {first.cell.name}, by .*; name another"):
        second.here().run()
    working.run()
    assert sorted(each.name for each in first.output.iterdir()) == ["part-00000", "part-00001"]
    with pytest.raises(JobFailed, match="holds the result of an earlier run"):
        second.here().run()


def test_the_marker_of_a_job_that_has_ended_is_replaced(crowd: Make) -> None:
    job = crowd(numbers="0-9", reduces=1)
    job.output.mkdir()
    (job.output / MARKER).write_text(f"{job.cell.name} gone\n")
    job.here().run()
    assert [each.name for each in job.output.iterdir()] == ["part-00000"]


def test_an_output_that_another_job_took_is_not_named(crowd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    job = crowd(numbers="0-1", shard=1, reduces=1)
    worker, original = job.here(), ShardWorker._do

    def steal(self: ShardWorker, errand: Errand) -> None:
        original(self, errand)
        (job.output / MARKER).write_text("other job\n")

    monkeypatch.setattr(ShardWorker, "_do", steal)
    with pytest.raises(JobFailed, match=r"is missing, and .* belongs to another job; run the job again"):
        worker.run()
    assert not list(job.output.glob("part-*"))
    assert (job.output / MARKER).read_text() == "other job\n"


def test_a_failed_job_leaves_nothing_in_its_output(crowd: Make) -> None:
    job = crowd(
        numbers="0-3", shard=1, reduces=1, map=script("import os,sys; sys.exit(os.environ['OMEGA_SHARD']=='2')")
    )
    with pytest.raises(JobFailed, match="map shard 2 failed 4 times"):
        job.here(hasten=True).run()
    assert not list(job.output.iterdir())
    assert not list((job.folder / "scratch").iterdir())


def test_a_line_without_a_tab_reaches_the_reducer_as_it_was(crowd: Make) -> None:
    same = script("import sys; sys.stdout.writelines(sys.stdin)")
    job = crowd(numbers="5-7", reduces=1, map=same, reduce=same)
    job.here().run()
    assert said(job.output) == ["5", "6", "7"]


def test_a_worker_of_a_failed_job_is_not_restarted(crowd: Make) -> None:
    job = crowd(numbers="0", reduces=1, map=["false"])
    with pytest.raises(JobFailed):
        job.here(hasten=True).run()
    process = job.start(0)
    assert process.wait() == DECIDED
