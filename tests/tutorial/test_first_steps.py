"""First steps with a cell, from Python. Read from top to bottom; everything here runs against a real store."""

import time
from pathlib import Path

import pytest

from omega.cellstate.model import Gang, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from omega.cellstate.verify import verify
from omega.jobfile.reader import JobFile, load
from omega.live.processes.supervisor import ProcessSupervisor
from omega.live.simulated.executor import SimulatedExecutor
from tests.integration.stage import until

pytestmark = pytest.mark.server


def now_ms() -> int:
    """Times in a cell are milliseconds of whoever calls."""
    return int(time.time() * 1000)


def test_a_cell_a_job_and_a_transaction_by_hand(store_url: str) -> None:
    # A cell lives on a Redis-protocol server. Amounts are whole numbers: cpu in millicores, memory in MiB.
    cell = RedisCell.create(connect(store_url), "by-hand", url=store_url)
    assert cell.dimensions.names == ("cpu", "memory")

    # Machines join under an executor: whoever runs what is placed on them. Each gets an index.
    rack = [MachineSpec("m0", (4_000, 16_384)), MachineSpec("m1", (2_000, 16_384))]
    cell.executors.register("rack", "n", 60_000, now_ms())
    assert cell.machines.join("rack", rack, now_ms()) == [0, 1]

    # A job is one or more groups of identical tasks. Three tasks of one core and a gibibyte each:
    crawl = JobSpec("crawl", "crawl", "batch", (TaskGroup((1_000, 1_024), 3),))
    assert cell.jobs.submit([crawl], now_ms(), by="ada")[0].status == "new"
    assert cell.schedulers.pending() == {"batch": ["crawl"]}

    # A scheduler takes a name and may then commit. It looks at a working copy of the cell …
    me = cell.schedulers.register("batch/0", nonce="any-unique-word", lease_ms=60_000, at_ms=now_ms())
    copy = cell.schedulers.sync(Position())
    numbers = {int(row[0]): int(row[1]) for row in copy.rows}

    # … decides, and claims: two tasks on machine 1, one on machine 0. The store validates.
    claims = (Claim(1, 0, 2, seen=numbers[1]), Claim(0, 0, 1, seen=numbers[0]))
    reply = cell.schedulers.commit(CommitRequest(me, 1, [Transaction("crawl", claims)], copy.position, now_ms()))
    assert reply.outcomes[0].accepted
    assert [machine.allocated for machine in cell.machines.all()] == [(1_000, 1_024), (2_000, 2_048)]
    assert cell.schedulers.pending() == {}

    # What was placed together is a run; the executor ends it by the id of its placement.
    runs = cell.machines.runs([0, 1])
    cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in runs], now_ms(), by="rack")
    job = cell.jobs.get("crawl")
    assert job is not None
    assert (job.groups[0].finished, job.state) == (3, JobState.DONE)

    # Everything that happened is in the log, and an audit finds the cell as its rules say.
    assert [fact.event[0] for fact in cell.log.facts()] == [
        "enlist",
        "join",
        "join",
        "submit",
        "enlist",
        "place",
        "place",
        "finished",
        "finished",
        "done",
    ]
    assert verify(cell).ok
    cell.delete()
    cell.close()


def test_two_schedulers_want_the_same_room(store_url: str) -> None:
    cell = RedisCell.create(connect(store_url), "same-room", url=store_url)
    cell.executors.register("rack", "n", 60_000, now_ms())
    cell.machines.join("rack", [MachineSpec("m0", (1_000, 1_024))], now_ms())
    need = TaskGroup((600, 512), 1)
    jobs = [JobSpec("left", "left", "batch", (need,)), JobSpec("right", "right", "service", (need,))]
    cell.jobs.submit(jobs, now_ms(), by="ada")
    batch = cell.schedulers.register("batch/0", "a-nonce", 60_000, now_ms())
    service = cell.schedulers.register("service/0", "another", 60_000, now_ms())

    # Both see an empty machine and decide at the same time; nobody waits for a lock.
    seen = cell.schedulers.sync(Position()).position
    first = cell.schedulers.commit(CommitRequest(batch, 1, [Transaction("left", (Claim(0, 0, 1),))], seen, now_ms()))
    second = cell.schedulers.commit(
        CommitRequest(service, 1, [Transaction("right", (Claim(0, 0, 1),))], seen, now_ms())
    )

    # The first stands. The second is told why not, and what it did not know: the machine as it is now.
    assert first.outcomes[0].accepted
    assert second.outcomes[0].claims == ((0, Verdict.FULL),)
    assert second.outcomes[0].conflicted
    assert [tuple(row[-2:]) for row in second.rows] == [(600, 512)]
    assert cell.schedulers.pending() == {"service": ["right"]}
    assert verify(cell).ok
    cell.delete()
    cell.close()


def test_a_gang_is_placed_as_a_whole_or_not_at_all(store_url: str) -> None:
    cell = RedisCell.create(connect(store_url), "gang", url=store_url)
    cell.executors.register("rack", "n", 60_000, now_ms())
    cell.machines.join("rack", [MachineSpec("m0", (2_000, 4_096)), MachineSpec("m1", (1_000, 4_096))], now_ms())
    gang = JobSpec("mpi", "mpi", "batch", (TaskGroup((1_000, 1_024), 3),), gang=Gang.YES)
    cell.jobs.submit([gang], now_ms(), by="ada")
    me = cell.schedulers.register("batch/0", "a-nonce", 60_000, now_ms())

    # Machine 1 holds one task, not two: so none is placed, though the others would fit.
    tight = Transaction("mpi", (Claim(0, 0, 1), Claim(1, 0, 2)), Mode.GANG)
    reply = cell.schedulers.commit(CommitRequest(me, 1, [tight], Position(), now_ms()))
    assert reply.outcomes[0].claims == ((0, Verdict.ABORTED), (0, Verdict.FULL))

    roomy = Transaction("mpi", (Claim(0, 0, 2), Claim(1, 0, 1)), Mode.GANG)
    assert cell.schedulers.commit(CommitRequest(me, 2, [roomy], reply.position, now_ms())).outcomes[0].accepted
    assert verify(cell).ok
    cell.delete()
    cell.close()


@pytest.mark.chaos
def test_processes_do_the_work(store_url: str, tmp_path: Path) -> None:
    cell = RedisCell.create(connect(store_url), "at-work", url=store_url)

    # A simulated executor runs nothing and ends each task after its duration.
    SimulatedExecutor(cell, "executor", time.time).join(
        [MachineSpec(f"m{number}", (8_000, 32_768)) for number in range(10)]
    )

    # People write job files. Amounts and durations are written as people write them.
    text = """
    - name: crawl
      kind: batch
      tasks:
        - {count: 40, resources: {cpu: 500m, memory: 256Mi}, duration: 200ms}
    - name: shop
      kind: service
      precedence: 100
      tasks:
        - {count: 5, resources: {cpu: 1, memory: 1Gi}, duration: 200ms}
    """
    jobs = load([JobFile("jobs.yaml", text)], cell.dimensions, new_id=iter(["j1", "j2"]).__next__)

    # Each member is a process of its own: two batch schedulers share their jobs, a service scheduler has its own.
    with ProcessSupervisor(store_url, "at-work", tmp_path) as group:
        for member in ("batch/0", "batch/1", "service/0", "simulated/executor"):
            group.start(member)
        group.wait_ready(cell)
        cell.jobs.submit(jobs, now_ms(), by="ada")
        until(lambda: all(job.state is JobState.DONE for job in cell.jobs.all()), "both jobs are done")

    # Leaving the supervisor told all of them to finish and leave.
    assert [(job.name, job.groups[0].finished) for job in cell.jobs.all()] == [("crawl", 40), ("shop", 5)]
    assert cell.schedulers.members() == {}
    assert verify(cell).ok
    cell.delete()
    cell.close()
