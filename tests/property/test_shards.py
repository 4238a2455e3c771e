"""Workers of a MapReduce job come, go and claim at random: twin and scripts agree, each shard is finished once."""

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omega.cellstate.memory import shards
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.shards import RETRY_MS, TRIES, Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.property.worlds import LEASE_MS, Worlds

MEMBER = "batch/0"
WORKERS = 4


NEAR = ((), (), ("1-2",), ("2,4", "0-1"), ("-", "3"), ("-",))


class Shards(RuleBasedStateMachine):
    """One job whose workers are placed, lost, evicted and placed again."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds = Worlds()
        self.twin = self.worlds.twin
        self.number = self.now = 0
        self.finished: dict[tuple[str, int], Worker] = {}
        self.workers: list[Worker] = []
        """All there ever were."""

    @initialize(maps=st.integers(1, 5), reduces=st.integers(1, 3))
    def begin(self, maps: int, reduces: int) -> None:
        self.maps, self.reduces = maps, reduces
        machines = [MachineSpec(f"m{i}", (9, 9)) for i in range(2)]
        self.worlds.do(lambda world: world.cell.executors.register("e0", "n", LEASE_MS, 0))
        self.worlds.do(lambda world: world.cell.machines.join("e0", machines, 0))
        spec = JobSpec("j", "j", "mapreduce", (TaskGroup((1, 1), WORKERS),))
        self.worlds.do(lambda world: world.cell.jobs.submit([spec], 0, "ada"))
        _, self.membership = self.worlds.do(lambda world: world.cell.schedulers.register(MEMBER, "n", LEASE_MS, 0))
        self.place(2, 0)

    def unplaced(self) -> int:
        job = self.twin.jobs.get("j")
        assert job
        return job.unplaced

    @precondition(lambda self: self.unplaced() > 0)
    @rule(count=st.integers(1, WORKERS), machine=st.integers(0, 1))
    def place(self, count: int, machine: int) -> None:
        self.number += 1
        number, claim = self.number, Claim(machine, 0, min(count, self.unplaced()))
        wanted = [Transaction("j", (claim,))]
        position = self.twin.schedulers.sync(Position()).position
        self.worlds.do(
            lambda world: (
                world.cell.schedulers.commit(CommitRequest(self.membership, number, wanted, position, 0)).outcomes
            )
        )
        known = set(self.workers)
        found = [
            Worker(run.machine, run.placement, task)
            for run in self.twin.machines.runs([0, 1])
            if not run.leaving
            for task in range(int(run.tasks[0]), int(run.tasks[-1]) + 1)
        ]
        self.workers += [worker for worker in found if worker not in known]

    @rule(data=st.data(), how=st.sampled_from([EndKind.LOST, EndKind.EVICTED, EndKind.FAILED, EndKind.FINISHED]))
    def lose(self, data: st.DataObject, how: EndKind) -> None:
        if how in (EndKind.FAILED, EndKind.FINISHED) and data.draw(st.integers(0, 3)):
            how = EndKind.LOST
        machine, placement, task = data.draw(st.sampled_from(self.workers))
        ending = TaskEnd(machine, placement, how, str(task))
        self.worlds.do(lambda world: world.cell.executors.end([ending], 0, "e0"))

    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.now += data.draw(st.sampled_from([0, 1, RETRY_MS, 4 * RETRY_MS]))
        now, near = self.now, data.draw(st.sampled_from(NEAR))
        _, errand = self.worlds.do(
            lambda world: world.cell.shards.claim("j", worker, self.maps, self.reduces, now, near)
        )
        counts = (self.maps, self.reduces) if errand.what == "far" else (9, 9)  # nothing is stored yet, perhaps
        _, again = self.worlds.do(lambda world: world.cell.shards.claim("j", worker, *counts, now, near))
        assert again == errand

    @rule(data=st.data(), failed=st.integers(0, 2).map(lambda n: n == 1), milliseconds=st.integers(0, 10**13))
    def end(self, data: st.DataObject, failed: bool, milliseconds: int) -> None:
        held = self.twin.tables["j"].held if "j" in self.twin.tables else {}
        worker = data.draw(st.sampled_from([*held, *held, *self.workers]))
        phase = data.draw(st.sampled_from(["map", "map", "reduce"]))
        now = self.now
        level = data.draw(st.sampled_from([None, 0, 2]))
        shard = held.get(worker, 0) if data.draw(st.integers(0, 4)) else data.draw(st.integers(0, 5))
        _, stands = self.worlds.do(
            lambda world: world.cell.shards.end(
                "j", "j", worker, phase, shard, milliseconds, failed_ms=now if failed else None, level=level
            )
        )
        if stands and not failed:
            assert self.finished.setdefault((phase, shard), worker).mark == worker.mark, "a shard finished twice"

    @invariant()
    def holds(self) -> None:
        _, progress = self.worlds.do(lambda world: world.cell.shards.progress("j"))
        self.worlds.do(lambda world: world.cell.shards.durations("j"))
        self.worlds.do(lambda world: [world.cell.shards.finishers("j", phase, 6) for phase in ("map", "reduce")])
        if progress is None:
            return
        count = {phase: sum(p == phase for p, _ in self.finished) for phase in ("map", "reduce")}
        assert (progress.map.done, progress.reduce.done) == (count["map"], count["reduce"])
        left = progress.map.total - progress.map.done, progress.reduce.total - progress.reduce.done
        working = (progress.working, 0) if left[0] else (0, progress.working)
        assert (progress.map.waiting, progress.reduce.waiting) == (left[0] - working[0], left[1] - working[1])
        if left[0]:
            assert not progress.reduce.done, "a reduce before the last map"

    def teardown(self) -> None:
        """Whoever is left brings it to its end, unless it failed."""
        if self.unplaced():
            self.place(1, 0)
        live = [worker for worker in self.workers if shards.is_live(self.twin, "j", worker)]
        for _ in range(self.maps + self.reduces + 1):
            said = {self.step(worker) for worker in live}
            if said <= {"done", "failed", "out"} and said != {"out"}:
                return
        raise AssertionError("workers that are left do not come to an end")

    def step(self, worker: Worker) -> str:
        """Let a worker do what it is told to."""
        now = self.now = self.now + 2**TRIES * RETRY_MS
        _, errand = self.worlds.do(lambda world: world.cell.shards.claim("j", worker, self.maps, self.reduces, now))
        what, shard = errand.what, errand.shard
        if what in ("map", "reduce"):
            _, stands = self.worlds.do(lambda world: world.cell.shards.end("j", "j", worker, what, shard, 1))
            assert stands
        return str(what)


SHORT = settings(
    max_examples=12, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def test_twin_and_scripts_agree_on_shards() -> None:
    run_state_machine_as_test(Shards, settings=SHORT)
