"""A gang of which only a part fits is tried when room is freed, and not again and again."""

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.schedulers.presets import batch
from omega.simulation import Settings, Simulation
from omega.workload.workload import Arrival, Workload


def test_a_gang_that_fits_in_part_waits_for_room() -> None:
    """The first job leaves one of two machines free for 600 s; the gang needs both."""

    def job(name: str, tasks: int) -> JobSpec:
        return JobSpec(name, name, "batch", (TaskGroup((1000, 1000), tasks, 600_000),), gang=Gang.YES)

    machines = [MachineSpec(f"m{i}", (1000, 1000)) for i in range(2)]
    workload = Workload(machines, [], [Arrival(0.0, job("one", 1)), Arrival(1.0, job("two", 2))], "a gang waits")
    own = batch()
    own.t_job = 0.1
    result = Simulation(workload, Settings(days=1_300 / 86_400), own=own, records=True).run()
    assert result.records is not None
    assert [(start / 1e6) for start in result.records.started] == [0.1, 600.2, 600.2]
    assert result.kinds["batch"].attempts == 3
