"""A cell with everything in it, tampered with in every way; what the audit misses, and what it may miss."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4
from zlib import crc32

from omega.cellstate.cuts import Report
from omega.cellstate.digest.step import digest
from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.model import After, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare, PoolTree
from omega.cellstate.replies import Budget, Original, Waits
from omega.cellstate.server import connect
from omega.cellstate.shards import Worker
from omega.cellstate.tasks import EndKind, HealthOf, HealthReport, HealthState, OutputPart, TaskEnd, TaskProgress
from omega.cellstate.transaction import Claim
from omega.cellstate.verify import Log, look, verify
from tests.unit.cellstate.audit.tampering import Table
from tests.unit.cellstate.audit.town import LEASE_MS, SMALL, Town, job

PAGE = Path(__file__).parents[4] / "docs/semantics.md"
"""Its table has what the audit cannot find, and why."""

UNSEEN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("`meta`", "`keep_jobs`, `keep_ms`, `durability`, names of `resources`"):
        (r"meta field (keep_jobs|keep_ms|resources|durability) .*",),
    ("`meta`", "`arrivals`, `lanes` or `transactions` that is too large; `ticks`"):
        (r"meta field (arrivals|lanes|transactions) word 0 changed", r"meta field ticks .*"),
    ("`specs`", "content of a specification"): (r"specs field \w+ entry \w+",),
    ("`operator` `drains`", "a record removed, a deadline changed"):
        (r"operator (key|field \w+|field \d entry) removed", r"drains (key|field 0|field 0 word 0) (removed|changed)"),
    ("`schedulers` `agents`", "nonce, number of the last call, length of the lease"):
        (r"(agents|schedulers) field \d word [123] \w+",),
    ("`lease`", "removed"): (r"lease key removed",),
    ("`box`",
     "messages removed or in another order; those of placements that ended; whether tasks wait for leaving ones"):
        (r"box (key|item) (removed|moved)", r"box item word 3 \w+"),
    ("`runs` `pools`", "an empty record removed"): (r"(runs|pools) field empty removed",),
    ("`health`", "removed; another task or state of the same placement"):
        (r"health (key|field 0) removed", r"health field 0 word [23] changed"),
    ("`copied`", "a job added that is not kept"): (r"copied field 0 duplicated",),
    ("`asleep` `owners` `wake`", "any"): (r"(asleep|owners|wake) .*",),
    ("`stats`", "any"): (r"stats .*",),
    ("`progress` `answer` `durations` `chosen` `output`", "any"):
        (r"(progress|answer|durations|chosen) .*", r"output field \d (word 0 )?\w+"),
    ("`directories` `confirmed` `settling` `unsettled`", "any"): (r"(directories|confirmed|settling|unsettled) .*",),
    ("`shards`", "durations, finishers, the whole key"):
        (r"shards key \w+", r"shards field \d (word \d )?(changed|moved|removed)"),
    ("`cuts`", "any"): (r"cuts .*",),
    ("`times` `done` `outputs`", "times; the order of entries"): (r"times .*", r"(done|outputs) item moved"),
    ("`pending`", "another arrival that no job has, in the same order"): (),
    ("`serving`", "why an executor cannot start tasks"):
        (r"serving field \d word 1 \w+", r"serving field \d word 0 duplicated"),
    ("`jobnames`", "the name of ended jobs removed"): (r"jobnames field \w+ removed",),
    ("`history` `results` `usage`",
     "events, machines and times of ended tasks, sums of use except that of running tasks"):
        (r"history field \w+ .*", r"results field 0 bytes changed", r"usage .*"),
    ("`changes`", "a tag replaced by another of its form"): (r"changes item tag moved",),
    ("`log`", "the whole key removed"): (r"log key removed",),
    ("`log`", "time, author, `basis` or `settings` of an entry"):
        (r"log (at|by) changed", r"log basis removed", r"log settings (removed|changed)"),
    ("`log`", "facts of conflicts, refusals, executors that cannot start tasks, lost versions and replaced pools"):
        (r"log (conflict|aborted|rejected|fit|unfit) (line|word \d+) \w+", r"log (reset|cut) word \d \w+"),
    ("`log`", "reasons; equal amounts that trade places; which tasks got copies; the machine of a late report"):
        (r"log (stopped|finished|failed|lost|retried) word [789] duplicated", r"log left word 5 duplicated",
         r"log retried word (9|10) \w+", r"log (speculate|unneeded) word [23] \w+", r"log late word 2 changed"),
    ("`log`", "amounts and shares of an `assert`, or that it is there twice"):
        (r"log assert word ([2-9]|1[1-5]) \w+", r"log assert line duplicated"),
    ("`log`", "an `awaited`, `gate`, `hold` or `pass` fact that others replace"):
        (r"log awaited line duplicated", r"log pass line removed"),
    ("`log`", "a fact moved to the next version"): (),
}  # a table # fmt: skip
"""Rows of the table of the page, and patterns of the changes that each is about."""

UNSEEN_WITHOUT_LOG = (
    ("`jobs`", "gang, duration, budget, optional or indices of a job whose submission is not in the log"),
    ("`static`", "attributes of a machine whose last change is not in the log"),
    ("`updates`", "an update of a job that is not kept and whose submission is not in the log"),
)
"""Rows of the table about a log that was trimmed; in this cell it is whole."""


def page_rows() -> list[tuple[str, str]]:
    """Key and change of each row of the page's table."""
    _, _, table = PAGE.read_text().partition("| key | change that is not found | reason |\n")
    lines = table.partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(reason for _, _, reason in rows)
    return [(key, change) for key, change, _ in rows]


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
    agent = cell.executors.register_agent("h1", "nonce-h1", LEASE_MS, 10)
    index = cell.machines.join(agent.member, [MachineSpec("h1", (4000, 4000), {"rack": "r1", "zone": "z"})], 10)[0]
    cell.machines.set_attributes(index, {"rack": "r2"}, 10, "ada")
    cell.jobs.submit([job("words", TaskGroup((10, 10), 2, 5, {"command": ["true"], "name": "w"}))], 11, "ada")
    assert town.commit("words", Claim(index, 0, 2)) == 2
    shards(town, index)
    cell.tasks.answer_output("ab" * 8, OutputPart(1, 0, b"a line"))
    cell.jobs.update("words", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 13, "ada")
    cell.jobs.settle("words", "new tasks fail", 13, "batch/0")
    cell.jobs.update("held", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 13, "ada")
    cell.tasks.keep_tails({("words", 0, 1, "stdout"): b"said", ("words", 0, 1, "stderr"): b"wrong"})
    cell.jobs.submit([job("broad", TaskGroup((1, 1), 300))], 13, "ada")
    assert town.commit("broad", Claim(index, 0, 270), Claim(3, 0, 30)) == 300
    assert town.end("broad", 3, EndKind.EVICTED, "280-285", "drain") == 6
    cell.machines.set_deadline(4, 60_000)
    cell.schedulers.set_blocked("batch/0", Waits(lanes=(1,)))
    cell.schedulers.members()
    cell.schedulers.renew(
        town.members["batch"], LEASE_MS, {"busy_seconds": 0.5, "seconds": 2.5, "conflicts": 1, "accepted": 2}
    )
    cell.jobs.submit([job("late", SMALL, kind="service")], 14, "ada")
    cell.jobs.submit([job("later", SMALL, kind="service")], 15, "ada")
    cell.jobs.note_attempts(["later"], 15, "batch/0")
    gone = cell.schedulers.register("batch/9", "nonce-9", LEASE_MS, 15)
    cell.schedulers.deregister(gone, 16)
    cell.jobs.retire(17)
    cell.machines.join("simulated", [MachineSpec("far", (40, 40), {"zone": "edge"})], 17)
    pools = Pools((Pool("team", limits={"tasks": 500, "cpu": 90_000}), Pool("lab", "team"), Pool("own", weight=2),
                   Pool("edge", tree="edge", guarantee={"cpu": 40}, lending={"cpu": 10})),
                  (PoolTree(default_parent="team"), PoolTree("edge", "zone == 'edge'")))  # fmt: skip
    cell.pools.set(Pools((Pool("early"),)), 0, 17, "ada")
    town.client.hset(town.prefix + "pools", "trees", b"\xc1")  # the next ones replace what nobody can read
    stored = cell.pools.set(pools, None, 17, "ada")
    half = 0.5, 0.5
    share = PoolShare(
        name="team", parent="<Root>", tree="default", weight=1.0, fair_share=half, demand=half, usage=half,
        guarantee=half, integral=half, limits=half, promised=half, estimated=half, satisfaction=1.0,
    )  # fmt: skip
    epoch = Epoch(
        number=1, version=stored.version, pools_version=stored.version, at_ms=18, by="batch/0",
        totals={"default": (1, 1), "edge": (40, 40)}, pools={"team": share},
    )  # fmt: skip
    assert cell.pools.publish_epoch(epoch, 1_000, 18)
    assert_shares(town)
    rarities(town)
    failures(town)
    copies(town)
    cell.report_cut(Report(known=0, agreed=1, first_lost=2, seen=3, by="ada"))
    town.client.set(town.prefix + "confirmed", "", px=LEASE_MS)
    town.client.hset(town.prefix + "meta", "durability", "replicas=1,timeout=1s")
    while digest(cell, cell.store_ms()):
        pass


def shards(town: Town, index: int) -> None:
    """Two jobs share their work by shards on a machine; one has claimed its output directory."""
    cell, worker = town.cell, Worker(index, town.run_of("words", index), 0)
    for phase, failed_ms in (("map", 11), ("map", None), ("reduce", None)):
        cell.shards.claim("words", worker, 1, 1, 99_999)
        cell.shards.end("words", "words-name", worker, phase, 0, 20, failed_ms=failed_ms)
    cell.shards.claim_directory("/data/words", "words", expire_ms=600_000)
    cell.jobs.claim(["words"], cell.name, expire_ms=600_000)
    cell.jobs.submit([job("counts", SMALL)], 12, "ada")
    assert town.commit("counts", Claim(index, 0, 2)) == 2
    worker = Worker(index, town.run_of("counts", index), 0)
    cell.shards.claim("counts", worker, 3, 2, 12)
    cell.shards.end("counts", "counts-name", worker, "map", 0, 20, level=1)
    cell.shards.claim("counts", worker, 3, 2, 12)


def assert_shares(town: Town) -> None:
    """A job of one pool evicts a task of another, under an assertion on both."""
    task = TaskGroup((10, 10), 3)
    town.cell.jobs.submit(
        [JobSpec(pool, pool, "batch", (task,), spec={"pool": pool}) for pool in ("own", "lab")], 17, "ada"
    )
    (index,) = town.cell.machines.join("simulated", [MachineSpec("small", (30, 30))], 17)
    assert town.commit("own", Claim(index, 0, 3)) == 3
    assertion = Assertion(Threshold(("lab",), (100.0, 100.0)), (Threshold(("own",), (10.0, 10.0)),), 0)
    claim = Claim(index, 0, 1, evict=((town.run_of("own", index), 1),))
    assert town.commit("lab", claim, assertion=assertion) == 1


def rarities(town: Town) -> None:
    """Rare facts: jobs held, waiting, abandoned, updated; tasks lost, ended late, optional, without a budget."""
    cell, now = town.cell, [10_000_000]
    cell.store_ms = lambda: now[0]  # type: ignore[method-assign]
    cell.jobs.submit(
        [job("paused", SMALL), job("given-up", SMALL), job("halting", SMALL), job("anew", SMALL)], 18, "ada"
    )
    cell.jobs.hold("paused", 18, "ada")
    cell.jobs.release("paused", 18, "ada")
    cell.jobs.hold("paused", 18, "ada")
    for name, reason in (("anew", "no budget"), ("anew", ""), ("anew", "closed"), ("paused", "no budget")):
        cell.jobs.gate(name, reason, 18, "batch/0")
    cell.jobs.release("anew", 18, "ada")
    cell.jobs.stop("given-up", 18, "batch/0", JobState.ABANDONED)
    cell.jobs.update("anew", [TaskGroup((20, 20), 1, 5)], {"groups": [{}, {"command": ["false"]}]}, 18, "ada")
    cell.jobs.settle("anew", "", 18, "batch/0")
    cell.jobs.submit([job("one", TaskGroup((1, 1), 1)), job("two", TaskGroup((1, 1), 1))], 18, "ada")
    cell.jobs.submit([JobSpec("both", "both", "batch", (SMALL,), after=(After("one"), After("two")))], 18, "ada")
    assert town.commit("one", Claim(3, 0, 1)) == 1
    assert town.end("one", 3, EndKind.FINISHED) == 1
    lossy = (TaskGroup((1, 1), 3), TaskGroup((1, 1), 2, budget=0), TaskGroup((1, 1), 2, optional=True))
    cell.jobs.submit([JobSpec("lossy", "lossy", "batch", lossy)], 18, "ada")
    assert town.commit("lossy", Claim(3, 0, 3), Claim(3, 1, 2), Claim(3, 2, 2)) == 7
    placements = sorted(run.placement for run in cell.machines.runs([3]) if run.job == "lossy")
    for placement, tasks in zip(placements, ("0-1", "0", "1"), strict=True):
        assert cell.executors.end([TaskEnd(3, placement, EndKind.LOST, tasks)], 18, "simulated")[0]
    assert cell.executors.end([TaskEnd(3, placements[0], EndKind.FINISHED, "1", job="lossy")], 18, "simulated") == [1]
    now[0] += 1_000
    assert cell.jobs.housekeep(19, "batch/0").queued == 1
    agent = cell.executors.register_agent("h2", "nonce-h2", LEASE_MS, 20)
    (index,) = cell.machines.join(agent.member, [MachineSpec("h2", (100, 100))], 20)
    assert town.commit("lossy", Claim(index, 0, 1)) == 1
    for reason in ("No space left on device", ""):
        cell.executors.report_fitness(agent, [index], reason, 20)
    town.client.delete(f"{town.prefix}lease:{agent.member}")
    assert cell.executors.deregister(agent, 21, "batch/0")
    assert town.commit("halting", Claim(3, 0, 3)) == 3
    cell.jobs.submit([job("twice", SMALL)], 21, "ada")
    assert town.commit_each("twice", Claim(3, 0, 1), Claim(3, 0, 2)) == 3
    cell.jobs.stop("halting", 22, "ada")


def failures(town: Town) -> None:
    """Tasks of a service: one failed and is delayed, one is healthy and one is not."""
    cell = town.cell
    cell.jobs.submit([job("served", TaskGroup((1, 1), 3), kind="service")], 23, "ada")
    assert town.commit("served", Claim(3, 0, 3)) == 3
    placement = town.run_of("served", 3)
    assert town.end("served", 3, EndKind.RETRIED, "2", "exit 3") == 1
    states = [HealthOf(placement, 0, HealthState.READY), HealthOf(placement, 1, HealthState.ASKS)]
    assert cell.tasks.report_health(HealthReport(job="served", machine=3, tasks=states), 23)


def copies(town: Town) -> None:
    """Copies of slow tasks: one was promoted, one was not needed any more, one runs."""
    cell = town.cell
    cell.jobs.submit(
        [JobSpec("slow", "slow", "batch", (TaskGroup((1, 1), 3), TaskGroup((1, 1), 0, copies=True)))], 24, "ada"
    )
    assert town.commit("slow", Claim(3, 0, 3)) == 3
    placement = town.run_of("slow", 3)
    cell.tasks.report_progress("slow", 3, [TaskProgress(0, task, 40) for task in range(3)])
    assert (
        len(
            cell.jobs.speculate(
                "slow", [Original(3, placement, task) for task in range(3)], Budget(9, 9), 24, "batch/0"
            )
        )
        == 3
    )
    assert town.commit("slow", Claim(0, 1, 1)) == 1
    assert cell.executors.end([TaskEnd(3, placement, EndKind.LOST, "0")], 24, "simulated") == [1]
    assert cell.executors.end([TaskEnd(3, placement, EndKind.FINISHED, "1")], 24, "simulated") == [1]
    assert town.commit("slow", Claim(0, 1, 1)) == 1


def is_missed(town: Town, log: Log, key: str) -> bool:
    """Whether the audit, in one reading, finds nothing; `log`: that of the town before it was tampered with."""
    if town.cell.log.unusable():
        return False
    log = Log(town.cell) if key in ("log", "meta") else log
    looked = look(town.cell, log)
    assert looked is not None
    return not looked[1] and not log.books.violations


def missed(town: Town, one_in: int) -> tuple[list[str], Counter[str]]:
    """Tamper in every way, or in one of so many: the rows that the audit misses, and how many were tried of each key.

    Of each key some are tried.
    """
    table, found, rows, log = Table(town.client, town.prefix), list[str](), Counter[str](), Log(town.cell)
    # Nobody saw the cell before it was tampered with: lost versions are not reported, which would write to it.
    town.cell.look_back = lambda: None  # type: ignore[method-assign]
    for tampering in table.rows():
        if rows[tampering.key] and crc32(tampering.row.encode()) % one_in:
            continue
        rows[tampering.key] += 1
        tampering.edit()
        if is_missed(town, log, tampering.key):
            found.append(tampering.row)
        table.restore(tampering.keys)
    assert verify(town.cell).ok, "everything was restored"
    return found, rows


def unexplained(rows: list[str]) -> list[str]:
    """Those of the missed rows that no row of the page covers."""
    patterns = [pattern for each in UNSEEN.values() for pattern in each]
    return [row for row in rows if not any(re.fullmatch(pattern, row) for pattern in patterns)]


def stale(rows: list[str]) -> list[str]:
    """Patterns in UNSEEN that cover nothing any more."""
    patterns = [pattern for each in UNSEEN.values() for pattern in each]
    return [pattern for pattern in patterns if not any(re.fullmatch(pattern, row) for row in rows)]


def shares(rows: list[str], tried: Mapping[str, int]) -> str:
    """A table: of each key, how many changes were tried, and how many of them the audit found."""
    unseen = Counter(row.partition(" ")[0] for row in rows)
    counts = [*((key, tried[key], unseen[key]) for key in sorted(tried)), ("all", sum(tried.values()), len(rows))]
    lines = [f"{key:<14}{all_:>6}{all_ - less:>6}{1 - less / all_:>7.0%}" for key, all_, less in counts]
    return "\n".join([f"{'key':<14}{'tried':>6}{'found':>6}{'share':>7}", *lines])
