"""A filled cell for tests of the console and for its screenshots: the same jobs, machines and events each time."""

import time
from dataclasses import dataclass, field, replace
from math import sin
from typing import Any

from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.model import JobState, Limits, MachineSpec, MachineState
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Basis, Claim, Detection, Mode, Position, Transaction
from omega.client.client import Client
from omega.schedulers.instruments import Figures
from omega.schedulers.process.epochs import Publisher

LEASE_MS = 3_600_000
GIB = 1024
"""A gibibyte in the cell's unit of memory."""
CAPACITY = (16_000, 64 * GIB)
RACK = 20
"""Machines of a rack."""
MARKUP = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&amp;"
"""Text that a page must show as it is."""
HOSTILE_OUTPUT = (
    b"\x1b[31mred\x1b[0m \x1b]0;title\x07 "
    + MARKUP.encode()
    + b"\n\xff\xfe invalid \xe2\x80\xae bidi\n"
    + b"x" * 60_000
)
"""Output of a task: terminal escapes, markup, invalid UTF-8, a bidirectional override, a long line."""


def group(count: int, cpu: str, memory: str, duration: str = "1h", **more: Any) -> dict[str, Any]:
    """Return a task group of a job file."""
    return {"count": count, "resources": {"cpu": cpu, "memory": memory}, "duration": duration, **more}


JOBS: list[tuple[str, dict[str, Any]]] = [
    ("ada", {"name": "site", "kind": "service", "pool": "web", "precedence": 200,
             "tasks": [group(40, "1", "2Gi", name="front", health={"command": ["true"]}),
                       group(8, "4", "16Gi", name="cache")]}),
    ("ada", {"name": "api", "kind": "service", "pool": "web", "precedence": 200, "tasks": [group(24, "2", "4Gi")]}),
    ("grace", {"name": "crawl", "pool": "research",
               "tasks": [{"array": "0-99", "resources": {"cpu": "500m", "memory": "1Gi"}, "duration": "1h",
                          "command": ["python3", "fetch.py"]}]}),
    ("grace", {"name": "train", "pool": "research", "tasks": [group(900, "2", "8Gi", name="worker")]}),
    ("linus", {"name": "daily", "pool": "reports", "precedence": 100, "tasks": [group(60, "2", "4Gi")]}),
    ("linus", {"name": "urgent", "pool": "reports", "precedence": 900, "tasks": [group(4, "8", "16Gi")]}),
    ("barbara", {"name": "simulate", "pool": "research", "gang": True, "tasks": [group(16, "4", "8Gi")]}),
    ("barbara", {"name": "starved", "pool": "reports", "precedence": 100, "tasks": [group(500, "4", "8Gi")]}),
    ("barbara", {"name": "impossible", "pool": "research",
                 "tasks": [group(3, "1", "1Gi", constraints=["arch == 'riscv64'"])]}),
    ("barbara", {"name": "too-large", "pool": "research", "tasks": [group(2, "64", "1Gi")]}),
    ("grace", {"name": "publish", "pool": "research", "after": ["train"], "tasks": [group(1, "1", "1Gi")]}),
    ("grace", {"name": "paused", "pool": "research", "tasks": [group(10, "1", "1Gi")]}),
    ("linus", {"name": "broken", "pool": "reports", "tasks": [group(6, "1", "1Gi", command=["false"])]}),
    ("linus", {"name": "extract", "pool": "reports", "tasks": [group(12, "1", "1Gi")]}),
    ("linus", {"name": "cancelled", "pool": "reports", "tasks": [group(5, "1", "1Gi")]}),
    ("grace", {"name": "given-up", "pool": "research", "tasks": [group(5, "1", "1Gi")]}),
    ("grace", {"name": "racer", "pool": "research", "tasks": [group(30, "1", "1Gi")]}),
    ("mallory", {"name": "hostile", "pool": "research", "annotations": {"note": MARKUP, "right": "عربي"},
                 "environment": {"X": MARKUP + "\n\t"}, "directory": "/tmp/" + "d" * 300,
                 "tasks": [group(3, "1", "1Gi", command=["sh", "-c", f"echo {MARKUP!r}"])]}),
]  # fmt: skip
"""The jobs with their users, in the order of submission; each has its name as id."""
POOLS = Pools(
    (
        Pool("production", weight=2, guarantee={"cpu": 400_000}),
        Pool("web", "production", guarantee={"cpu": 200_000}),
        Pool("reports", "production"),
        Pool("research", limits={"tasks": 100_000}),
        Pool("people", weight=0.5),
    ),
    (PoolTree(default_parent="people"),),
)


@dataclass(slots=True)
class DemoCell:
    """The cell and its two schedulers, which act when they are told to."""

    cell: RedisCell
    url: str
    machines: int
    members: dict[str, Membership] = field(default_factory=dict)
    _calls: int = 0

    @property
    def client(self) -> Client:
        """A client of the cell for the user ada."""
        return Client(self.url, self.cell.name, user="ada")

    def commit(
        self, member: str, job: str, claims: list[Claim], *, seen: int = 0, mode: Mode = Mode.INCREMENTAL,
        assertion: Assertion | None = None,
    ) -> int:  # fmt: skip
        """Let a scheduler claim machines on its snapshot of version `seen`, coarsely if there is one."""
        self._calls += 1
        now = _now_ms()
        detection = Detection.COARSE if seen else Detection.FINE
        request = CommitRequest(
            self.members[member], self._calls, [Transaction(job, claims, mode, detection, assertion)],
            Position(), now, basis=Basis(seen or self.version, now - 20),
        )  # fmt: skip
        return self.cell.schedulers.commit(request).outcomes[0].placed

    @property
    def version(self) -> int:
        """The version of the cell."""
        return self.cell.log.changed_records(0, 0).version

    def end(self, job: str, how: EndKind, machines: range, reason: str = "") -> int:
        """End the tasks of a job on machines."""
        runs = [run for run in self.cell.machines.runs(machines) if run.job == job and not run.leaving]
        return sum(
            self.cell.executors.end(
                [TaskEnd(run.machine, run.placement, how, "*", reason) for run in runs], _now_ms(), "demo"
            )
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(url: str, name: str, machines: int = 200) -> DemoCell:
    """Create a cell with that many machines, at least 200, and let everything happen in it once."""
    demo = DemoCell(RedisCell.create(connect(url), name, url=url), url, machines)
    cell, now = demo.cell, _now_ms()
    for member in ("batch/0", "batch/1", "service/0"):
        demo.members[member] = cell.schedulers.register(member, "nonce", LEASE_MS, now)
    cell.executors.register("demo", "nonce", LEASE_MS, now)
    specs = [_machine(index) for index in range(machines)]
    for start in range(0, machines, 1_000):
        cell.machines.join("demo", specs[start : start + 1_000], now)
    cell.executors.register("away", "nonce", 1, now)
    cell.machines.join("away", [MachineSpec("away-0", CAPACITY, {"rack": "r-away", "zone": "z9"})], now)
    cell.pools.set(POOLS, 0, now, "ada")
    cell.pools.set_limits("service", Limits((600_000, None), 50), now, "ada")
    for user, job in JOBS:
        demo.client.as_user(user).submit({"id": job["name"], "simulate": True, **job}, hold=job["name"] == "paused")
    _place(demo)
    _end(demo)
    _change(demo)
    if machines > 1_000:
        _fill_rest(demo)
    Publisher(cell).publish("batch/0")
    report(demo)
    return demo


def _machine(index: int) -> MachineSpec:
    attributes = {
        "rack": f"r{index // RACK:03}",
        "zone": f"z{index // RACK % 4}",
        "arch": ("x86_64", "aarch64")[index % 2],
    }
    if index == 7:
        attributes["note"] = MARKUP
    return MachineSpec(f"node-{index:05}", CAPACITY, attributes)


def _place(demo: DemoCell) -> None:
    """Let the schedulers place jobs, conflict with one another and evict."""
    one_each = {
        "site": (0, 40, 1),
        "api": (40, 24, 1),
        "crawl": (60, 50, 2),
        "daily": (64, 60, 1),
        "extract": (150, 12, 1),
    }
    for job, (first, count, tasks) in one_each.items():
        member = "service/0" if job in ("site", "api") else "batch/0"
        demo.commit(member, job, [Claim(index, 0, tasks) for index in range(first, first + count)])
    demo.commit("service/0", "site", [Claim(index, 1, 1) for index in range(20, 28)])
    demo.commit("batch/1", "train", [Claim(index, 0, 7) for index in range(100, 150)])
    demo.commit("batch/1", "simulate", [Claim(index, 0, 1) for index in range(170, 186)], mode=Mode.GANG)
    demo.commit("batch/0", "broken", [Claim(160, 0, 6)])
    demo.commit("batch/0", "hostile", [Claim(7, 0, 3)])
    demo.commit("batch/0", "cancelled", [Claim(161, 0, 3)])
    # batch/1 fills machines that batch/0 chose as well: fine conflicts; then coarse ones, decided on an old version.
    old = demo.version - 3
    demo.commit("batch/0", "racer", [Claim(index, 0, 3) for index in range(100, 106)])
    demo.commit("batch/0", "racer", [Claim(index, 0, 1) for index in range(170, 174)], seen=old)
    demo.commit("batch/0", "racer", [Claim(index, 0, 1) for index in range(186, 190)])
    victims = [(run.machine, run.placement) for run in demo.cell.machines.runs(range(64, 68)) if run.job == "daily"]
    for machine, placement in victims:
        demo.commit("batch/1", "urgent", [Claim(machine, 0, 1, evict=((placement, 1),))])
    starving = Threshold(("reports", "production"), (2_000_000.0, 6_000_000.0))
    assertion = Assertion(starving, (Threshold(("research",), (10.0, 10.0)),), 0)
    victims = [(run.machine, run.placement) for run in demo.cell.machines.runs(range(145, 149)) if run.job == "train"]
    for machine, placement in victims:
        demo.commit("batch/0", "starved", [Claim(machine, 0, 1, evict=((placement, 1),))], assertion=assertion)


def _end(demo: DemoCell) -> None:
    """End tasks in every way; keep output of some."""
    demo.end("extract", EndKind.FINISHED, range(150, 162))
    demo.end("crawl", EndKind.FINISHED, range(60, 80))
    demo.end("crawl", EndKind.FAILED, range(80, 83), "exit status 3")
    demo.end("crawl", EndKind.LOST, range(83, 84), "machine down")
    demo.end("broken", EndKind.FAILED, range(160, 161), "exit status 1")
    demo.end("train", EndKind.EVICTED, range(149, 150), "drain")
    demo.cell.tasks.keep_tails(
        {("hostile", 0, 0, "stdout"): HOSTILE_OUTPUT, ("crawl", 0, 0, "stdout"): b"fetched 12 pages\n"}
    )


def _change(demo: DemoCell) -> None:
    """Let people change jobs and machines."""
    cell, now = demo.cell, _now_ms()
    demo.client.as_user("linus").stop("cancelled")
    cell.jobs.stop("given-up", now, "batch/1", JobState.ABANDONED)
    demo.client.as_user("grace").resize("crawl", 100)
    cell.machines.set_state(149, MachineState.DRAINED, now, "ada")
    cell.machines.set_state(190, MachineState.DRAINED, now, "ada")
    cell.machines.set_state(191, MachineState.DOWN, now, "ada")


def _fill_rest(demo: DemoCell) -> None:
    """Submit a job that uses the other machines of a large cell, each with another number of tasks."""
    demo.client.submit({"id": "broad", "name": "broad", "pool": "research", "tasks": [group(90_000, "1", "2Gi")]})
    for first in range(200, demo.machines, 500):
        machines = range(first, min(first + 500, demo.machines))
        demo.commit("batch/0", "broad", [Claim(index, 0, index * 7 % 15 + 1) for index in machines])


def report(demo: DemoCell, beats: int = 0) -> None:
    """Send the schedulers' heartbeats, with reasons and with figures that grow with the number of beats."""
    now = time.time()
    at_ms = int(now * 1000)
    reasons = {"impossible": "CONSTRAINT", "too-large": "TOO_LARGE", "starved": "RESOURCES", "racer": "CONFLICTS"}
    for number, membership in enumerate(demo.members.values()):
        busy = sum(0.15 + 0.1 * number + 0.1 * sin(beat / (9 + number)) for beat in range(beats))
        done = sum(round(20 + 8 * sin(beat / (7 + number))) for beat in range(beats))
        figures = replace(
            Figures(since=now - 600 - beats), jobs=400 + done, tasks=9_000 + 9 * done, transactions=800 + done,
            conflicts=60 * number + done * number // 12, busy_seconds=90.0 * (number + 1) + busy,
        )  # fmt: skip
        figures.think.add(0.6 * figures.busy_seconds)
        figures.wait.add_all([0.2 + 0.1 * sin((beats + at) / 9) for at in range(60 + 10 * number)])
        document = figures.as_dict(now, 3, 2) | {
            "reasons": {} if number else {job: [(at_ms - 5_000, reason)] for job, reason in reasons.items()},
            "starving": {} if number else {"reports": "starving"},
            "at_ms": at_ms, "pid": 4_000 + number, "host": "demo", "uses_pools": True,
        }  # fmt: skip
        demo.cell.schedulers.renew(membership, LEASE_MS, document)
