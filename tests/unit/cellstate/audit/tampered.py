"""A cell with everything in it, tampered with in every way; what the audit misses, and what it may miss."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4
from zlib import crc32

from omega.cellstate.audit import verify
from omega.cellstate.audit.report import Log, look
from omega.cellstate.cuts import Report
from omega.cellstate.digest.step import digest
from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.health import HealthOf, HealthReport, HealthState
from omega.cellstate.model import After, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare, PoolTree
from omega.cellstate.replies import Budget, Original
from omega.cellstate.server import connect
from omega.cellstate.shards import Worker
from omega.cellstate.task_ends import EndKind, TaskEnd
from omega.cellstate.task_output import OutputPart
from omega.cellstate.task_progress import TaskProgress
from omega.cellstate.transaction import Claim
from tests.unit.cellstate.audit.tampering import Table
from tests.unit.cellstate.audit.town import LEASE_MS, SMALL, Town, job

UNSEEN: list[tuple[str, str]] = [
    (r"(agents|schedulers) field \d word [1-9] \w+", "nonce, length of lease, last call: its owner alone knows them"),
    (r"(asleep|wake) .*", "a hint to wake a scheduler; without it the scheduler looks again by itself"),
    (r"stats .*", "figures for people; a scheduler replaces them with each heartbeat"),
    (r"copied field 0 duplicated", "a job that is no longer kept leaves the list when a scheduler reads it"),
    (r"progress .*", "what tasks report of their progress is kept nowhere else, and expires"),
    (r"answer .*", "output that a client asked for is kept by the agent, and expires here"),
    (r"durations .*", "what earlier runs took: an estimate for new jobs, nothing follows from it"),
    (r"directories .*", "claims of output directories, which markers in the directories repeat"),
    (r"chosen .*", "where a job was sent, for submitters that repeat the submission; it expires"),
    (r"lease key removed", "the same as a lease that expired"),
    (r"operator (key|field \d|field \d entry) removed", "what operators set of a machine is kept nowhere else"),
    (r"drains (key|field 0|field 0 word 0) (removed|changed)", "a deadline is kept nowhere else"),
    (
        r"box (key|item|item word (0|1|2|3|6|7|10|11)) \w+",
        "read messages are gone, and tasks and durations of those left are the executor's to compare with the runs",
    ),
    (r"cuts .*", "what the store lost is kept nowhere else"),
    (r"changes item tag moved", "a tag is random: one more of the same form may be any call's"),
    (r"output field \d (word 0 )?\w+", "the text of a task's output may be anything"),
    (r"shards (key \w+|field \d word \d (changed|moved))", "durations and finishers of shards are kept nowhere else"),
    (r"specs field \d entry (removed|changed|duplicated)", "what a job's author wrote for schedulers and executors"),
    (r"static field 0 entry (changed|moved)", "values of attributes: facts have their number alone"),
    (r"confirmed .*", "renewed before replicas confirm a change, and expires: nothing follows from it"),
    (
        r"meta field (keep_jobs|keep_ms|resources|durability) .*",
        "settings of the cell: nothing follows from them",
    ),
    (r"meta field (arrivals|lanes|transactions) word 0 changed", "numbers may be left out, so a counter may be ahead"),
    (
        r"jobs field \d (gang|gang_min|group (duration|indices|budget|optional)) \w+",
        "gang, duration, indices beyond the total, and what happens to lost tasks: nothing else is kept of them",
    ),
    (r"times .*", "what the clock showed at some versions: it decides only how long finished jobs are kept"),
    (r"housekeeping score .*", "from when housekeeping acts on a job; it acts later or earlier"),
    (r"(settling|unsettled) .*", "how far a restored cell is held back, and for whom: it expires within a lease"),
    (r"log key removed", "a log without entries is one that was trimmed"),
    (r"log basis removed", "what a commit was decided on is kept nowhere else"),
    (r"log settings (removed|changed)", "the facts beside have their numbers and digests"),
    (r"log (at|by) changed", "who acted, and when, is kept nowhere else; submissions apart"),
    (r"log (conflict|aborted|rejected) (line|word \d+) \w+", "conflicts change nothing, so nothing follows from them"),
    (r"log late word 2 changed", "of lost tasks the store keeps the placement, not the machine"),
    (r"log awaited line duplicated", "a job may wait twice for another, for its end and for its success"),
    (
        r"log (stopped|finished|failed|lost) word [789] duplicated|log lost word 9 changed",
        "equal amounts move on; the reason is free text",
    ),
    (r"log assert word ([2-9]|1[1-5]) \w+", "usage and shares that a transaction asserted are kept nowhere else"),
    (
        r"jobnames field \d removed",
        "a name of ended jobs: one with leaving tasks is kept longer than newer ones",
    ),
    (
        r"log pass line removed",
        "the gate's next answer, for another reason, replaces the one that it passed",
    ),
    (r"done item moved", "a job with tasks that still leave goes to the end of the list when its turn comes"),
    (r"updates field \d duplicated", "the update of a job that is no longer kept stands until a scheduler settles it"),
    (r"history field \d .*", "events of a job for people; they outlive the log, so nothing else is kept of them"),
    (r"results field \d word 0 changed", "machines and times of ended tasks outlive the log too"),
    (r"usage .*", "sums of use outlive the log, so nothing else is kept of them; those of running tasks apart"),
    (r"meta field ticks .*", "the age of placements is kept nowhere else: from it follows which losses count"),
]
"""What the audit cannot find, as patterns of rows, and why."""


@contextmanager
def full(store_url: str) -> Iterator[Town]:
    """A town with everything in it: every key that a cell can have."""
    client = connect(store_url)
    town = Town.founded(client, f"full-{uuid4().hex[:8]}").populate()
    furnish(town)
    yield town
    town.cell.delete()
    client.close()


def furnish(town: Town) -> None:
    """Add the records that the town lacks: agents, shards, updates, output, drains, blocked jobs, figures."""
    cell = town.cell
    agent = cell.register_agent("h1", "nonce-h1", LEASE_MS, 10)
    index = cell.join(agent.member, [MachineSpec("h1", (4000, 4000), {"rack": "r1", "zone": "z"})], 10)[0]
    cell.set_machine_attributes(index, {"rack": "r2"}, 10, "ada")
    cell.submit([job("words", TaskGroup((10, 10), 2, 5, {"command": ["true"], "name": "w"}))], 11, "ada")
    assert town.commit("words", Claim(index, 0, 2)) == 2
    shards(town, index)
    cell.answer_output("ab" * 8, OutputPart(1, 0, b"a line"))
    cell.update("words", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 13, "ada")
    cell.settle("words", "new tasks fail", 13, "batch/0")
    cell.update("held", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 13, "ada")
    cell.keep_tails({("words", 0, 1, "stdout"): b"said", ("words", 0, 1, "stderr"): b"wrong"})
    cell.submit([job("broad", TaskGroup((1, 1), 300))], 13, "ada")
    assert town.commit("broad", Claim(index, 0, 270), Claim(3, 0, 30)) == 300
    assert town.end("broad", 3, EndKind.EVICTED, "280-285", "drain") == 6
    cell.set_deadline(4, 60_000)
    cell.set_blocked("batch/0", blocked=True)
    cell.members()
    cell.renew_scheduler(
        town.members["batch"], LEASE_MS, {"busy_seconds": 0.5, "seconds": 2.5, "conflicts": 1, "accepted": 2}
    )
    cell.submit([job("late", SMALL, kind="service")], 14, "ada")
    cell.submit([job("later", SMALL, kind="service")], 15, "ada")
    cell.note_attempts(["later"], 15, "batch/0")
    gone = cell.register_scheduler("batch/9", "nonce-9", LEASE_MS, 15)
    cell.deregister_scheduler(gone, 16)
    cell.retire(17)
    cell.join("simulated", [MachineSpec("far", (40, 40), {"zone": "edge"})], 17)
    pools = Pools((Pool("team", limits={"tasks": 500, "cpu": 90_000}), Pool("lab", "team"), Pool("own", weight=2),
                   Pool("edge", tree="edge", guarantee={"cpu": 40}, lending={"cpu": 10})),
                  (PoolTree(default_parent="team"), PoolTree("edge", "zone == 'edge'")))  # fmt: skip
    cell.set_pools(Pools((Pool("early"),)), 0, 17, "ada")
    town.client.hset(town.prefix + "pools", "trees", b"\xc1")  # the next ones replace what nobody can read
    stored = cell.set_pools(pools, None, 17, "ada")
    half = 0.5, 0.5
    share = PoolShare(
        name="team", parent="<Root>", tree="default", weight=1.0, fair_share=half, demand=half, usage=half,
        guarantee=half, integral=half, limits=half, promised=half, estimated=half, satisfaction=1.0,
    )  # fmt: skip
    epoch = Epoch(
        number=1, version=stored.version, pools_version=stored.version, at_ms=18, by="batch/0",
        totals={"default": (1, 1), "edge": (40, 40)}, pools={"team": share},
    )  # fmt: skip
    assert cell.publish_epoch(epoch, 1_000, 18)
    assert_shares(town)
    rarities(town)
    failures(town)
    copies(town)
    while digest(cell, cell.store_ms()):
        pass
    cell.report_cut(Report(known=0, agreed=1, first_lost=2, seen=3, by="ada"))
    town.client.set(town.prefix + "confirmed", "", px=LEASE_MS)
    town.client.hset(town.prefix + "meta", "durability", "replicas=1,timeout=1s")


def shards(town: Town, index: int) -> None:
    """Two jobs share their work by shards on a machine; one has claimed its output directory."""
    cell, worker = town.cell, Worker(index, town.run_of("words", index), 0)
    for phase, failed_ms in (("map", 11), ("map", None), ("reduce", None)):
        cell.claim_shard("words", worker, 1, 1, 99_999)
        cell.end_shard("words", "words-name", worker, phase, 0, 20, failed_ms=failed_ms)
    cell.claim_directory("/data/words", "words", expire_ms=600_000)
    cell.claim_jobs(["words"], cell.name, expire_ms=600_000)
    cell.submit([job("counts", SMALL)], 12, "ada")
    assert town.commit("counts", Claim(index, 0, 2)) == 2
    worker = Worker(index, town.run_of("counts", index), 0)
    cell.claim_shard("counts", worker, 3, 2, 12)
    cell.end_shard("counts", "counts-name", worker, "map", 0, 20, level=1)
    cell.claim_shard("counts", worker, 3, 2, 12)


def assert_shares(town: Town) -> None:
    """A job of one pool evicts a task of another, under an assertion on both."""
    task = TaskGroup((10, 10), 3)
    town.cell.submit([JobSpec(pool, pool, "batch", (task,), spec={"pool": pool}) for pool in ("own", "lab")], 17, "ada")
    (index,) = town.cell.join("simulated", [MachineSpec("small", (30, 30))], 17)
    assert town.commit("own", Claim(index, 0, 3)) == 3
    assertion = Assertion(Threshold(("lab",), (100.0, 100.0)), (Threshold(("own",), (10.0, 10.0)),), 0)
    claim = Claim(index, 0, 1, evict=((town.run_of("own", index), 1),))
    assert town.commit("lab", claim, assertion=assertion) == 1


def rarities(town: Town) -> None:
    """Rare facts: jobs held, waiting, abandoned, updated; tasks lost, ended late, optional, without a budget."""
    cell, now = town.cell, [10_000_000]
    cell.store_ms = lambda: now[0]  # type: ignore[method-assign]
    cell.submit([job("paused", SMALL), job("given-up", SMALL), job("halting", SMALL), job("anew", SMALL)], 18, "ada")
    cell.hold("paused", 18, "ada")
    cell.release("paused", 18, "ada")
    cell.hold("paused", 18, "ada")
    for name, reason in (("anew", "no budget"), ("anew", ""), ("anew", "closed"), ("paused", "no budget")):
        cell.gate(name, reason, 18, "batch/0")
    cell.release("anew", 18, "ada")
    cell.stop("given-up", 18, "batch/0", JobState.ABANDONED)
    cell.update("anew", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 18, "ada")
    cell.settle("anew", "", 18, "batch/0")
    cell.submit([job("one", TaskGroup((1, 1), 1)), job("two", TaskGroup((1, 1), 1))], 18, "ada")
    cell.submit([JobSpec("both", "both", "batch", (SMALL,), after=(After("one"), After("two")))], 18, "ada")
    assert town.commit("one", Claim(3, 0, 1)) == 1
    assert town.end("one", 3, EndKind.FINISHED) == 1
    lossy = (TaskGroup((1, 1), 3), TaskGroup((1, 1), 2, budget=0), TaskGroup((1, 1), 2, optional=True))
    cell.submit([JobSpec("lossy", "lossy", "batch", lossy)], 18, "ada")
    assert town.commit("lossy", Claim(3, 0, 3), Claim(3, 1, 2), Claim(3, 2, 2)) == 7
    placements = sorted(run.placement for run in cell.runs([3]) if run.job == "lossy")
    for placement, tasks in zip(placements, ("0-1", "0", "1"), strict=True):
        assert cell.end([TaskEnd(3, placement, EndKind.LOST, tasks)], 18, "simulated")[0]
    assert cell.end([TaskEnd(3, placements[0], EndKind.FINISHED, "1", job="lossy")], 18, "simulated") == [1]
    now[0] += 1_000
    assert cell.housekeep(19, "batch/0").queued == 1
    agent = cell.register_agent("h2", "nonce-h2", LEASE_MS, 20)
    (index,) = cell.join(agent.member, [MachineSpec("h2", (100, 100))], 20)
    assert town.commit("lossy", Claim(index, 0, 1)) == 1
    town.client.delete(f"{town.prefix}lease:{agent.member}")
    assert cell.deregister_executor(agent, 21, "batch/0")
    assert town.commit("halting", Claim(3, 0, 3)) == 3
    cell.submit([job("twice", SMALL)], 21, "ada")
    assert town.commit_each("twice", Claim(3, 0, 1), Claim(3, 0, 2)) == 3
    cell.stop("halting", 22, "ada")


def failures(town: Town) -> None:
    """Tasks of a service: one failed and is delayed, one is healthy and one is not."""
    cell = town.cell
    cell.submit([job("served", TaskGroup((1, 1), 3), kind="service")], 23, "ada")
    assert town.commit("served", Claim(3, 0, 3)) == 3
    placement = town.run_of("served", 3)
    assert town.end("served", 3, EndKind.RETRIED, "2", "exit 3") == 1
    states = [HealthOf(placement, 0, HealthState.READY), HealthOf(placement, 1, HealthState.ASKS)]
    assert cell.report_health(HealthReport(job="served", machine=3, tasks=states), 23)


def copies(town: Town) -> None:
    """Copies of slow tasks: one was promoted, one was not needed any more, one runs."""
    cell = town.cell
    cell.submit(
        [JobSpec("slow", "slow", "batch", (TaskGroup((1, 1), 3), TaskGroup((1, 1), 0, copies=True)))], 24, "ada"
    )
    assert town.commit("slow", Claim(3, 0, 3)) == 3
    placement = town.run_of("slow", 3)
    cell.report_progress("slow", 3, [TaskProgress(0, task, 40) for task in range(3)])
    assert (
        len(cell.speculate("slow", [Original(3, placement, task) for task in range(3)], Budget(9, 9), 24, "batch/0"))
        == 3
    )
    assert town.commit("slow", Claim(0, 1, 1)) == 1
    assert cell.end([TaskEnd(3, placement, EndKind.LOST, "0")], 24, "simulated") == [1]
    assert cell.end([TaskEnd(3, placement, EndKind.FINISHED, "1")], 24, "simulated") == [1]
    assert town.commit("slow", Claim(0, 1, 1)) == 1


def is_missed(town: Town, log: Log, key: str) -> bool:
    """Whether the audit, in one reading, finds nothing; `log`: that of the town before it was tampered with."""
    if town.cell.unusable():
        return False
    log = Log(town.cell) if key in ("log", "meta") else log
    looked = look(town.cell, log)
    assert looked is not None
    return not looked[1] and not log.replay.violations


def missed(town: Town, one_in: int) -> tuple[list[str], int]:
    """Tamper in every way, or in one of so many: the rows that the audit misses, and how many were tried."""
    table, found, rows, log = Table(town.client, town.prefix), list[str](), 0, Log(town.cell)
    for tampering in table.rows():
        if crc32(tampering.row.encode()) % one_in:
            continue
        rows += 1
        tampering.edit()
        if is_missed(town, log, tampering.key):
            found.append(tampering.row)
        table.restore(tampering.keys)
    assert verify(town.cell).ok, "everything was restored"
    return found, rows


def unexplained(rows: list[str]) -> list[str]:
    """Those of the missed rows that no reason in UNSEEN covers."""
    return [row for row in rows if not any(re.fullmatch(pattern, row) for pattern, _ in UNSEEN)]


def stale(rows: list[str]) -> list[str]:
    """Reasons in UNSEEN that cover nothing any more."""
    return [pattern for pattern, _ in UNSEEN if not any(re.fullmatch(pattern, row) for row in rows)]
