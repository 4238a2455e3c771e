"""The reader of Alibaba's GPU trace, and that a GPU is never put together of parts of several."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MachineSpec
from omega.traces import Trace, TraceOptions, read_trace
from omega.traces.alibaba_devices import DEVICE, NODE, SHARED, GpuNode, machines_of, shared_devices
from omega.workload.workload import JobEvent

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,65536,0,\nn1,96000,393216,8,G2\nn2,16000,122880,2,P100\n"
NODES += "n3,16000,122880,1,P100\nn4,96000,393216,8,G2\n"
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def read(directory: Path, *pods: str, nodes: str = NODES, header: str = HEADER, **options: object) -> Trace:
    (directory / "openb_node_list_all_node.csv").write_text(nodes)
    (directory / "openb_pod_list_default.csv").write_text(header + "".join(f"{pod}\n" for pod in pods))
    return read_trace(directory, TraceOptions(**options))  # type: ignore[arg-type]


def counts(trace: Trace) -> dict[str, int]:
    return {defect.rule: defect.count for defect in trace.defects}


def test_pods_are_jobs_with_a_gpu_dimension(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "a,6000,12288,1,460,P100|G2,LS,Succeeded,100,160,110",
        "b,1000,1024,8,1000,,BE,Failed,105,205,105",
        "c,1000,1024,0,0,,Burstable,Running,107,300,107",
    )
    workload = trace.workload
    assert workload.dimensions.names == ("cpu", "memory", "gpu")
    a, b, c = (arrival.job for arrival in workload.arrivals)
    assert [job.groups[0].need for job in (a, b, c)] == [(6_000, 12_288, 460), (1_000, 1_024, 8_000), (1_000, 1_024, 0)]
    assert a.groups[0].spec == {"constraints": ["gpu_shared == 'yes'", "gpu_model in ['P100', 'G2']"]}
    assert b.groups[0].spec == c.groups[0].spec == {}
    assert [(job.kind, job.precedence) for job in (a, b, c)] == [("service", 2), ("batch", 0), ("batch", 1)]
    assert [arrival.at_seconds for arrival in workload.arrivals] == [0.0, 5.0, 7.0]
    assert [arrival.durations[0].tolist() for arrival in workload.arrivals] == [
        [50_000_000],
        [100_000_000],
        [193_000_000],
    ]
    assert counts(trace) == {"no-end": 1}
    assert trace.facts["pods_with_fraction"] == 1


def test_a_shared_device_is_a_machine_with_its_part_of_the_node(tmp_path: Path) -> None:
    trace = read(tmp_path, "a,6000,12288,1,460,,LS,Succeeded,100,160,110", shared_gpus=0.1)
    machines = {machine.name: (machine.capacity, dict(machine.attributes)) for machine in trace.workload.machines}
    assert machines == {
        "n0": ((32_000, 65_536, 0), {"node": "n0"}),
        "n1": ((72_000, 294_912, 6_000), {"node": "n1", "gpu_model": "G2"}),
        "n1/gpu6": ((12_000, 49_152, 1_000), {"node": "n1", "gpu_model": "G2", "gpu_shared": "yes"}),
        "n1/gpu7": ((12_000, 49_152, 1_000), {"node": "n1", "gpu_model": "G2", "gpu_shared": "yes"}),
        "n2": ((16_000, 122_880, 2_000), {"node": "n2", "gpu_model": "P100"}),
        "n3/gpu0": ((16_000, 122_880, 1_000), {"node": "n3", "gpu_model": "P100", "gpu_shared": "yes"}),
        "n4": ((96_000, 393_216, 8_000), {"node": "n4", "gpu_model": "G2"}),
    }
    assert (trace.facts["gpus"], trace.facts["gpus_shared"]) == (19, 3)


def admitted(machines: Sequence[MachineSpec], pods: Sequence[int], rng: Random) -> dict[str, list[int]]:
    """Place pods (thousandths of GPUs) by sums alone, as the store does, on random machines; None of them moves."""
    free = {machine.name: machine.capacity[2] for machine in machines}
    shared = [machine.name for machine in machines if SHARED in machine.attributes]
    placed: dict[str, list[int]] = {name: [] for name in free}
    for pod in pods:
        allowed = [name for name in (shared if pod < DEVICE else free) if free[name] >= pod]
        if allowed:
            name = rng.choice(allowed)
            free[name] -= pod
            placed[name].append(pod)
    return placed


def fits_devices(devices: int, pods: Sequence[int]) -> bool:
    """The oracle: whether pods fit single devices, tried exhaustively; whole GPUs need free devices."""
    left = devices - sum(pod // DEVICE for pod in pods if pod >= DEVICE)
    fractions = sorted((pod for pod in pods if pod < DEVICE), reverse=True)

    def packs(at: int, room: tuple[int, ...]) -> bool:
        if at == len(fractions):
            return True
        tried = {each for each in room if each >= fractions[at]}
        return any(packs(at + 1, _less(room, each, fractions[at])) for each in tried)

    return left >= 0 and packs(0, (DEVICE,) * left)


def _less(room: tuple[int, ...], device: int, amount: int) -> tuple[int, ...]:
    at = room.index(device)
    return (*room[:at], device - amount, *room[at + 1 :])


@pytest.mark.parametrize("seed", range(40))
def test_what_sums_admit_fits_single_devices(seed: int) -> None:
    rng = Random(seed)
    nodes = [GpuNode(f"n{at}", 8_000, 8_192, rng.choice((1, 2, 4, 8)), rng.choice(("A", "B"))) for at in range(4)]
    machines = machines_of(nodes, shared_devices(nodes, rng.choice((0.1, 0.3, 0.5, 1.0))))
    assert sum(machine.capacity[2] for machine in machines) == DEVICE * sum(node.gpus for node in nodes)
    pods = [rng.choice((50, 230, 460, 810, 990, 1_000, 1_000, 2_000, 4_000, 8_000)) for _ in range(40)]
    placed = admitted(machines, pods, rng)
    assert sum(map(len, placed.values())) > 0
    for node in nodes:
        # A task stays on its machine, so each machine alone must fit its own devices.
        for machine in (each for each in machines if each.attributes[NODE] == node.name):
            assert fits_devices(machine.capacity[2] // DEVICE, placed[machine.name])
        together = [pod for each in machines if each.attributes[NODE] == node.name for pod in placed[each.name]]
        assert fits_devices(node.gpus, together)


def test_the_oracle_finds_what_sums_of_a_whole_node_would_allow() -> None:
    assert not fits_devices(2, [770, 770, 460]), "460 on 230 + 230 of two GPUs"
    assert not fits_devices(8, [50, 7_000, 1_000]), "8 whole GPUs beside a fraction"
    assert fits_devices(2, [770, 540, 460, 230])


@pytest.mark.parametrize(("part", "shared"), [(0.0, 0), (0.01, 2), (0.5, 4), (0.9, 4), (1.0, 12)])
def test_nodes_with_few_devices_are_divided_first(part: float, shared: int) -> None:
    nodes = [GpuNode("a", 8, 8, 8, "G2"), GpuNode("b", 8, 8, 1, "T4"), GpuNode("c", 8, 8, 1, "G2")]
    nodes.append(GpuNode("d", 8, 8, 2, "G2"))
    found = shared_devices(nodes, part)
    assert sum(found.values()) == shared
    assert found.get("c", 0) == min(1, shared)


def test_pods_that_were_never_scheduled_are_stopped_when_they_were_deleted(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "a,100,100,1,1000,,BE,Pending,10,60,",
        "b,100,100,1,1000,,BE,Pending,20,,",
        "c,100,100,1,1000,,LS,Running,30,,40",
    )
    assert list(trace.workload.events) == [JobEvent(50.0, "a", "stop")]
    assert counts(trace) == {"never-scheduled": 2, "no-end": 1}
    assert trace.workload.arrivals[2].durations[0].tolist() == [20_000_000], "until the last time of the file"


def test_contradictions_and_gaps_are_counted(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "a,100,100,1,1000,,LS,Failed,10,60,5",
        "a,100,100,1,1000,,LS,Failed,9,20,30",
        "c,100,100,2,500,,XX,Failed,12,12,12",
        "d,100,100,1,,,LS,Failed,13,14,13",
        "e,100,100,9,1000,,LS,Failed,13,14,13",
        "f,100,100,1,1000,A100,LS,Failed,13,14,13",
    )
    assert counts(trace) == {
        "ends-before-start": 1,
        "starts-before-submission": 1,
        "zero-length": 1,
        "name-twice": 1,
        "out-of-order": 1,
        "fraction-of-several": 1,
        "no-fraction": 1,
        "too-large": 2,
        "no-qos": 1,
    }
    assert [arrival.job.groups[0].need[2] for arrival in trace.workload.arrivals] == [1_000, 1_000, 2_000, 1_000]


def test_other_columns_and_bad_rows_are_named(tmp_path: Path) -> None:
    good = "a,6000,12288,1,460,,LS,Succeeded,100,160,110"
    with pytest.raises(BadInput, match=r"default\.csv:1: no column num_gpu; want name,"):
        read(tmp_path, good, header=HEADER.replace("num_gpu", "gpus"))
    with pytest.raises(BadInput, match=r"all_node\.csv:2: 2 fields; want 5"):
        read(tmp_path, good, nodes="sn,cpu_milli,memory_mib,gpu,model\nn0,1\n")
    for wrong, what in (("x,y", "2 fields; want 11"), (good.replace("160", "late"), "deletion_time 'late' is not a")):
        with pytest.raises(BadInput, match=rf"default\.csv:3: {what}"):
            read(tmp_path, good, wrong)
        assert counts(read(tmp_path, good, wrong, skip_bad_rows=True))["bad-row"] == 1
    with pytest.raises(BadInput, match="no row; fetch"):
        read(tmp_path)


def test_columns_may_stand_in_another_order_and_one_list_is_named(tmp_path: Path) -> None:
    trace = read(tmp_path, "x,a,6000,1,1,460,,LS,Succeeded,100,160,110", header=f"more,{HEADER}")
    assert trace.workload.tasks == 1
    (tmp_path / "openb_pod_list_cpu050.csv").write_text(HEADER + "a,1,1,0,0,,LS,Succeeded,1,2,1\n")
    with pytest.raises(BadInput, match="2 files openb_pod_list"):
        read_trace(tmp_path)
    assert read_trace(tmp_path / "openb_pod_list_cpu050.csv").workload.arrivals[0].job.groups[0].need == (1, 1, 0)
    (tmp_path / "openb_node_list_all_node.csv").unlink()
    with pytest.raises(BadInput, match="no openb_node_list"):
        read_trace(tmp_path / "openb_pod_list_cpu050.csv")


def test_the_published_lists(shared_directory: Path) -> None:
    directory = shared_directory / "traces/alibaba-gpu-v2023"
    if not directory.is_dir():
        pytest.skip(f"no trace at {directory}")
    trace = read_trace(directory)
    assert (trace.facts["nodes"], trace.facts["gpus"], trace.workload.tasks) == (1_523, 6_212, 200)
    assert counts(trace) == {"never-scheduled": 15, "no-end": 108}
    assert sum(machine.capacity[2] for machine in trace.workload.machines) == 6_212_000
    models = [text for a in trace.workload.arrivals for text in a.job.groups[0].spec.get("constraints", ())]
    assert "gpu_model in ['V100M16', 'V100M32']" in models
