"""Workers of MapReduce jobs are placed on machines with maps that are left, and divided among them."""

from collections import Counter

from omega.cellstate import ranges
from omega.cellstate.model import JobSpec, MachineState, TaskGroup
from omega.cellstate.shards import Worker
from omega.cellstate.tasks import EndKind
from omega.schedulers.constraints.locality import Place, field_of_all, with_locality
from omega.schedulers.sizing import PLAN, AsAsked, MaxParallelism
from tests.unit.schedulers.rig import Rig, spec
from tests.unit.schedulers.test_resizing import pass_looks, rig


def near(job_id: str, asked: int, *places: Place, maps: int) -> JobSpec:
    """A job with places and `maps` maps, as its job file would be stored."""
    field = field_of_all(places, {"wait_ms": [5_000, 0]})
    own = {"spread": ["machine"]}
    workers, surplus = (with_locality(own, field, waits=waits) for waits in (True, False))
    groups = (
        TaskGroup((100, 100), asked, spec=workers),
        TaskGroup((100, 100), 0, spec=surplus, optional=True),
    )
    plan = {"maps": maps, "reduces": 1, "places": [tuple(place) for place in places], "near": {"wait_ms": [5_000, 0]}}
    return JobSpec(job_id, "words", "mapreduce", groups, spec={PLAN: plan})


def where(found: Rig, job_id: str = "a") -> Counter[int]:
    runs = [run for run in found.other.machines.runs(range(10)) if run.job == job_id and not run.leaving]
    return Counter({run.machine: ranges.count(run.tasks) for run in runs})


def finish_maps(found: Rig, maps: int, near: str) -> None:
    """The worker finishes the maps of a set."""
    (machine,) = where(found)
    (run,) = (run for run in found.other.machines.runs([machine]) if run.job == "a")
    worker = Worker(machine, run.placement, int(run.tasks))
    for shard in ranges.indices(near):
        assert found.other.shards.claim("a", worker, maps, 1, 0, (near,)).shard == shard
        assert found.other.shards.end("a", "words", worker, "map", shard, 1_000)


def test_workers_are_divided_among_the_machines_with_the_input() -> None:
    found = rig(AsAsked())
    found.submit(near("a", 6, Place(1, 10, ["m3"], ""), Place(1, 10, ["m5", "m8"], ""), maps=20))
    found.until_placed("a")
    assert where(found) == {3: 2, 5: 2, 8: 2}


def test_a_worker_goes_where_maps_are_left() -> None:
    """It is evicted when those of its first machine are done; maps without a location, and reduces, are anywhere."""
    found = rig(AsAsked())
    found.submit(near("a", 1, Place(1, 3, ["m6"], ""), Place(1, 2, ["m4"], ""), maps=6))
    found.until_placed("a")
    (first,) = where(found)
    assert first in (6, 4)
    mine, other, after = ("0-2", "3-4", 4) if first == 6 else ("3-4", "0-2", 6)
    finish_maps(found, 6, mine)
    found.other.machines.set_state(first, MachineState.DRAINED, 0, "ada")
    found.end("a", how=EndKind.EVICTED)
    found.other.machines.set_state(first, MachineState.UP, 0, "ada")
    found.until_placed("a")
    assert where(found) == {after: 1}
    finish_maps(found, 6, other)
    began = found.clock.seconds
    for machine in (4, 6):
        found.other.machines.set_state(machine, MachineState.DRAINED, 0, "ada")
    found.end("a", how=EndKind.EVICTED)
    found.until_placed("a")
    assert found.clock.seconds - began < 5, "no maps with a location are left, so it waits for no machine"


def test_the_map_of_a_lost_worker_is_left() -> None:
    """It held the last one of its machine."""
    found = rig(AsAsked())
    found.submit(near("a", 1, Place(1, 2, ["m7"], ""), maps=5))
    found.until_placed("a")
    finish_maps(found, 5, "0")
    (run,) = found.other.machines.runs([7])
    assert found.other.shards.claim("a", Worker(7, run.placement, 0), 5, 1, 0, ("1",)).shard == 1
    found.end("a", how=EndKind.EVICTED)
    found.until_placed("a")
    assert where(found) == {7: 1}


def test_a_worker_that_waits_goes_where_maps_are_left() -> None:
    """Its machines have no room; meanwhile the maps of one are done, so it waits for the other one only."""
    found = rig(AsAsked(), [(200, 200), *[(100, 100)] * 3])
    full = [spec("half", 1), spec("full", 1)]
    found.submit(*full, near("a", 2, Place(1, 2, ["m0"], ""), Place(1, 2, ["m1"], ""), maps=4))
    for machine, each in enumerate(full):
        assert found.foreign(each.id, machine, 1).name == "PLACED"
    found.until(lambda: where(found) == {0: 1})
    finish_maps(found, 4, "0-1")
    pass_looks(found, 1.5)
    found.end("half")
    pass_looks(found, 1.5)
    assert where(found) == {0: 1}, "m0 has room, and none of the maps that are left"
    found.end("full")
    pass_looks(found, 1.5)
    assert where(found) == {0: 1, 1: 1}


def test_surplus_waits_for_no_place() -> None:
    found = rig(MaxParallelism(), [(100, 100)] * 4)
    found.submit(near("a", 1, Place(1, 4, ["m2"], ""), maps=4))
    found.until_placed("a")
    pass_looks(found)
    assert where(found) == {0: 1, 1: 1, 2: 1, 3: 1}
    workers = next(run for run in found.other.machines.runs(range(4)) if run.group == 0)
    assert workers.machine == 2
