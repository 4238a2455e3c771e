"""Set a case of a truth table up on a cell, commit its transactions and return the results of them.

    machines   m0=4 m1=4/8 m2=4:drained m3=4>2      capacity, state; >2 came back with that much
    running    low=1x2@m0                           two tasks that need 1 each run on m0, one run
    limit      2  or  -/3  jobs=1  from=30          limits of the claiming job's kind
    job        1x3+2x1 gang                         groups (need x tasks); gang strict held stopped absent
    minimums   job=3 strict=4                       minimums of gangs (optional)
    pools      job=a low=b                          pools of jobs (optional, as asserts)
    trees      m0=a m1=b                            trees of machines, "-" for none (optional); pool a is in tree a
    configured a b                                pools that are configured, in one tree (optional)
    asserts    a+c<2 b>1.5/8                        shares of the evictor's pool and of victims' (+: several leaf pools)
    moved      m0                                   another client changes m0 after the sync
    mode       inc fine, gang coarse
    claims     m0*2 m1*1:1!low*2,low#2*1 | m0*1     machine*tasks:group!victims; | begins a transaction
    outcome    2:placed 0:full | 1:placed           tasks placed, and the verdict of the rest
    left       m0=4 m1=0/3                          allocated afterwards
    leaving    low*1                                tasks evicted

Jobs are named after their precedence (low 10, mid 20, high 30); the claiming job has 20. Jobs that
begin with own are of the claiming job's kind, all with the same need have one group.
"""

import re
from collections import defaultdict

from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MOST_PRECEDENCE, Gang, JobSpec, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.ranges import count as tasks_in
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.transaction import Claim, Detection, Mode, Outcome, Transaction
from tests.contract.conftest import Make, Member
from tests.contract.table import Case

PRECEDENCE = {"low": 10, "mid": 20, "high": 30, "strict": 10}
JOB = "job"


def amounts(text: str) -> Resources:
    """Read ``4`` or ``4/8``."""
    return tuple(map(int, text.split("/")))


class Scene:
    """A case on a cell, before its transactions are committed."""

    def __init__(self, make: Make, case: Case) -> None:
        self.case = case
        machines = dict(word.split("=") for word in case["machines"].split())
        self.size = len(amounts(machines["m0"].partition(":")[0].partition(">")[0]))
        self.cell: MemoryCell | RedisCell = make(Dimensions(("cpu", "memory")[: self.size])).cell
        self.index: dict[str, int] = {}
        self.placements: dict[str, int] = {}
        self.add_machines(machines)
        self.add_running()
        self.add_trees()
        self.add_job()
        self.change_machines(machines)
        self.limit()
        self.member = Member(self.cell)
        self.seen = {m.index: m.number for m in self.cell.machines.all()}
        self.move()

    def add_machines(self, machines: dict[str, str]) -> None:
        sizes = {name: text.partition(":")[0].partition(">")[0] for name, text in machines.items()}
        trees = self.trees()
        specs = [MachineSpec(name, amounts(size), {"tree": trees.get(name, "-")}) for name, size in sizes.items()]
        self.cell.executors.register("e0", "n", 600_000, 0)
        self.index = dict(zip(machines, self.cell.machines.join("e0", specs, 0), strict=True))

    def add_running(self) -> None:
        runs = [re.split("[=x@]", word) for word in self.case["running"].split()]
        totals: dict[str, int] = defaultdict(int)
        needs: dict[str, Resources] = {}
        for name, need, tasks, _ in runs:
            totals[name] += int(tasks)
            needs[name] = amounts(need)
        specs = []
        for name, total in totals.items():
            kind = "batch" if name.startswith("own") else "service"
            precedence = PRECEDENCE[name.removeprefix("own").rstrip("0123456789") or "mid"]
            gang = Gang.STRICT if name.startswith("strict") else Gang.NO
            tasks = (TaskGroup(needs[name], total),)
            least = self.minimum_of(name)
            specs.append(JobSpec(name, name, kind, tasks, precedence, gang, self.pool_of(name), gang_min=least))
        self.cell.jobs.submit(specs, 0, "ada")
        elsewhere = Member(self.cell, "service/0")
        for name in totals:
            mine = [(self.index[machine], int(tasks)) for other, _, tasks, machine in runs if other == name]
            mode = Mode.GANG if name.startswith("strict") else Mode.INCREMENTAL
            assert elsewhere.place(name, *mine, mode=mode).accepted
            found = self.cell.jobs.get(name)
            assert found is not None
            for number, (placement, _, _) in enumerate(found.groups[0].runs, 1):
                self.placements[f"{name}#{number}"] = placement
        self.other = elsewhere

    def trees(self) -> dict[str, str]:
        return dict(word.split("=") for word in self.case.get("trees", "").split())

    def add_trees(self) -> None:
        if configured := self.case.get("configured", "-").replace("-", "").split():
            self.cell.pools.set(Pools(tuple(Pool(name) for name in configured)), 0, 0, "ada")
        names = sorted(set(self.trees().values()) - {"-"})
        if names:
            trees = tuple(PoolTree(name, f"tree == '{name}'") for name in names)
            self.cell.pools.set(Pools(tuple(Pool(name, tree=name) for name in names), trees), 0, 0, "ada")

    def minimum_of(self, name: str) -> int:
        return int(dict(word.split("=") for word in self.case.get("minimums", "").split()).get(name, 0))

    def pool_of(self, name: str) -> dict[str, str]:
        pools = dict(word.split("=") for word in self.case.get("pools", "").split())
        return {"pool": pools[name]} if name in pools else {}

    def asserted(self) -> Assertion | None:
        words = [re.split("[<>]", word) for word in self.case.get("asserts", "").split()]
        if not words:
            return None
        evictor, *victims = (
            Threshold(tuple(leaves.split("+")), tuple(map(float, share.split("/")))) for leaves, share in words
        )
        return Assertion(evictor, tuple(victims))

    def add_job(self) -> None:
        groups, *words = self.case["job"].split()
        if "absent" in words:
            return
        pairs = [group.split("x") for group in groups.split("+")]
        tasks = tuple(TaskGroup(amounts(need), int(total)) for need, total in pairs)
        gang = Gang.YES if "gang" in words else Gang.NO
        spec = JobSpec(JOB, JOB, "batch", tasks, 20, gang, self.pool_of(JOB), gang_min=self.minimum_of(JOB))
        self.cell.jobs.submit([spec], 0, "ada", held="held" in words)
        if "stopped" in words:
            self.cell.jobs.stop(JOB, 0, "ada", JobState.STOPPED)

    def change_machines(self, machines: dict[str, str]) -> None:
        for name, text in machines.items():
            size, _, state = text.partition(":")
            if ">" in size:
                self.cell.executors.register("e0", "n", 600_000, 0)
                self.cell.machines.join("e0", [MachineSpec(name, amounts(size.partition(">")[2]))], 0)
            if state:
                self.cell.machines.set_state(self.index[name], MachineState[state.upper()], 0, "ada")

    def limit(self) -> None:
        words = self.case["limit"].split()
        if not words:
            return
        named = dict(word.split("=") for word in words if "=" in word)
        positional = [word for word in words if "=" not in word] or ["/".join("-" * self.size)]
        resources = tuple(None if amount == "-" else int(amount) for amount in positional[0].split("/"))
        jobs = int(named["jobs"]) if "jobs" in named else None
        self.cell.pools.set_limits(
            "batch", Limits(resources, jobs, (int(named.get("from", 0)), MOST_PRECEDENCE)), 0, "ada"
        )

    def move(self) -> None:
        for number, machine in enumerate(self.case["moved"].split()):
            name = f"visitor{number}"
            spec = JobSpec(name, name, "service", (TaskGroup((0,) * self.size, 1),))
            self.cell.jobs.submit([spec], 0, "ada")
            assert self.other.place(name, (self.index[machine], 1)).accepted

    def claim(self, text: str) -> Claim:
        text, _, evict = text.partition("!")
        text, _, group = text.partition(":")
        name, _, tasks = text.partition("*")
        machine = self.index.get(name, 99)
        victims = tuple(self.victim(victim) for victim in evict.split(",") if victim)
        return Claim(machine, int(group or 0), int(tasks), seen=self.seen.get(machine, 0), evict=victims)

    def victim(self, text: str) -> tuple[int, int]:
        name, _, tasks = text.partition("*")
        return self.placements.get(name if "#" in name else f"{name}#1", 999), int(tasks)

    def transactions(self) -> list[Transaction]:
        """The transactions of the case."""
        mode, detection = self.case["mode"].split()
        return [
            Transaction(
                JOB, tuple(self.claim(word) for word in part.split()),
                Mode.GANG if mode == "gang" else Mode.INCREMENTAL, Detection[detection.upper()], self.asserted(),
            )
            for part in self.case["claims"].split("|")
        ]  # fmt: skip

    def commit(self) -> str:
        """Commit; returns the outcome as the table writes it."""
        return " | ".join(map(written, self.member.transact(*self.transactions())))

    def left(self) -> str:
        """Return the allocated amounts of the machines of the case."""
        names = {index: name for name, index in self.index.items()}
        asked = [word.partition("=")[0] for word in self.case["left"].split()]
        held = {names[m.index]: "/".join(map(str, m.allocated)) for m in self.cell.machines.all()}
        return " ".join(f"{name}={held[name]}" for name in asked)

    def leaving(self) -> str:
        """The tasks that were evicted, by job."""
        sums: dict[str, int] = defaultdict(int)
        for run in self.cell.machines.runs(list(self.index.values())):
            if run.leaving:
                sums[run.job] += tasks_in(run.tasks)
        return " ".join(f"{name}*{tasks}" for name, tasks in sorted(sums.items()))


def written(outcome: Outcome) -> str:
    """Write an outcome as the tables do."""
    return " ".join(f"{placed}:{verdict.name.lower()}" for placed, verdict in outcome.claims)
