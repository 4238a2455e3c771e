"""Task groups with more runs than stand in a job's record: twin, scripts and audit agree whatever happens to them."""

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from omega.cellstate import ranges
from omega.cellstate.model import Gang, JobSpec, JobState, MachineSpec, MachineState, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Transaction
from tests.property.gathering import gather
from tests.property.worlds import EVERY_BUCKET, LEASE_MS, World, Worlds

MACHINES = 5
ENDS = (EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.RETRIED, EndKind.STOPPED, EndKind.EVICTED)


class LargeGroups(RuleBasedStateMachine):
    """One scheduler, five machines, and jobs of up to 600 tasks."""

    placements: ClassVar[int] = 0
    """Placements in all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds = Worlds()
        self.twin = self.worlds.twin
        self.now = self.number = self.jobs = 0

    def tick(self) -> int:
        self.now += 3
        self.worlds.now = self.now
        return self.now

    @initialize()
    def begin(self) -> None:
        machines = [MachineSpec(f"m{i}", (4_000, 4_000)) for i in range(MACHINES)]
        self.worlds.do(lambda world: world.cell.executors.register("e0", "n", LEASE_MS, 0))
        self.worlds.do(lambda world: world.cell.machines.join("e0", machines, 0))

        def enlist(world: World) -> None:
            world.memberships["batch/0"] = world.cell.schedulers.register("batch/0", "n", LEASE_MS, 0)

        self.worlds.do(enlist)

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        counts = data.draw(st.lists(st.sampled_from([3, 256, 257, 500]), min_size=1, max_size=2), "counts")
        gang = data.draw(st.sampled_from([Gang.NO, Gang.NO, Gang.STRICT]))
        self.jobs += 1
        groups = tuple(TaskGroup((1, 1), count) for count in counts)
        spec = JobSpec(f"j{self.jobs}", f"n{self.jobs}", "batch", groups, self.jobs, gang)
        at = self.tick()
        self.worlds.do(lambda world: world.cell.jobs.submit([spec], at, "ada"))

    @precondition(lambda self: self.twin.schedulers.pending().get("batch"))
    @rule(data=st.data(), evict=st.booleans())
    def place(self, data: st.DataObject, evict: bool) -> None:
        job = self.twin.jobs.get(data.draw(st.sampled_from(self.twin.schedulers.pending()["batch"]), "job"))
        assert job is not None
        claims: list[Claim] = []
        for number, group in enumerate(job.groups):
            left = ranges.count(group.waiting)
            while (left and len(claims) < 40) or (left and job.gang):
                count = min(left, data.draw(st.sampled_from([1, 2, 40, 100, 256]), "tasks"))
                machine = data.draw(st.integers(0, MACHINES - 1), "machine")
                victims = tuple((run.placement, 3) for run in self.twin.machines.runs([machine])[:2]) if evict else ()
                claims.append(Claim(machine, number, count, seen=0, evict=victims))
                left -= count
        if not claims:
            return
        self.number += 1
        mode = Mode.GANG if job.gang else Mode.INCREMENTAL
        transaction, at = Transaction(job.id, tuple(claims), mode, Detection.FINE), self.tick()

        def commit(world: World) -> tuple[Any, ...]:
            known, member = world.positions["batch/0"][-1], world.memberships["batch/0"]
            reply = world.cell.schedulers.commit(
                CommitRequest(
                    member, self.number, [transaction], known, at, intake=world.intake("batch/0", 3, EVERY_BUCKET)
                )
            )
            return world.take("batch/0", reply, latest=True)

        self.worlds.do(commit)

    @precondition(lambda self: any(m.runs for m in self.twin.M.values()))
    @rule(data=st.data(), leaving=st.booleans())
    def end(self, data: st.DataObject, leaving: bool) -> None:
        runs = [run for run in self.twin.machines.runs(list(self.twin.M)) if run.leaving == leaving]
        endings = []
        for run in data.draw(st.lists(st.sampled_from(runs), max_size=12), "runs") if runs else ():
            how = EndKind.LEFT if leaving else data.draw(st.sampled_from(ENDS))
            why, tasks = "drain" if how is EndKind.EVICTED else "", ranges.indices(run.tasks)
            some = data.draw(
                st.sampled_from([tasks, tasks[:1], tasks[-1:], tasks[1:], tasks[: len(tasks) // 2]]), "tasks"
            )
            endings.append(TaskEnd(run.machine, run.placement, how, gather(some) if some else "*", why, run.job))
        at = self.tick()
        self.worlds.do(lambda world: world.cell.executors.end(endings, at, "e0"))

    @precondition(lambda self: self.twin.J)
    @rule(data=st.data(), what=st.sampled_from(["resize", "resize", "stop", "tend", "down", "start", "shrink"]))
    def disturb(self, data: st.DataObject, what: str) -> None:
        at, job_id = self.tick(), data.draw(st.sampled_from(list(self.twin.J)), "job")
        machine = data.draw(st.integers(0, MACHINES - 1), "machine")
        if what == "resize":
            total = data.draw(st.sampled_from([0, 2, 200, 300, 600]), "total")
            self.worlds.do(lambda world: world.cell.jobs.resize(job_id, {0: total}, at, "ada"))
        elif what == "stop":
            self.worlds.do(lambda world: world.cell.jobs.stop(job_id, at, "ada", JobState.STOPPED))
        elif what == "tend":
            self.now += data.draw(st.sampled_from([0, 700_000]))
            at, most = self.tick(), data.draw(st.integers(1, 9))
            self.worlds.do(lambda world: world.cell.jobs.housekeep(at, "batch/0", most))
        elif what == "down":
            self.worlds.do(lambda world: world.cell.machines.set_state(machine, MachineState.DOWN, at, "ada"))
            self.worlds.do(lambda world: world.cell.machines.set_state(machine, MachineState.UP, at, "ada"))
        elif what == "shrink":
            runs = [(run.placement, 900) for run in self.twin.machines.runs([machine]) if not run.leaving]
            self.worlds.do(lambda world: world.cell.machines.set_capacity(machine, (300, 300), at, "ada", runs))
        else:
            asked = [(run.machine, run.placement) for run in self.twin.machines.runs(list(self.twin.M))]
            self.worlds.do(lambda world: world.cell.executors.may_start(asked))

    def teardown(self) -> None:
        self.worlds.do(lambda world: [world.cell.jobs.get(job_id) for job_id in self.twin.J])
        self.worlds.compare()
        LargeGroups.placements += self.twin.placements


SHORT = settings(
    max_examples=8,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, derandomize=False, max_examples=200, stateful_step_count=60)


def test_twin_and_scripts_agree_about_large_groups() -> None:
    before = LargeGroups.placements
    run_state_machine_as_test(LargeGroups, settings=SHORT)
    assert LargeGroups.placements - before > 50, "the histories place something"


@pytest.mark.chaos
def test_twin_and_scripts_agree_about_large_groups_in_long_histories() -> None:
    run_state_machine_as_test(LargeGroups, settings=LONG)
