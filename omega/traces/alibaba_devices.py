"""GPUs of a cell as machines: a task gets room on single devices, never on parts of several.

A claim names a machine and amounts, not a device. So a device that fractions of a GPU may share is a machine of its
own, and the other devices of its node are a machine of which tasks take whole devices. Then sums are exact
(docs/decisions/0053-a-shared-gpu-is-a-machine.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from omega.cellstate.model import MachineSpec
from omega.cellstate.resources import Dimensions

GPU_DIMENSIONS = Dimensions(("cpu", "memory", "gpu"))
"""cpu in millicores, memory in MiB, gpu in thousandths of a device."""
DEVICE = 1_000
MOST_DEVICES = 64
"""Largest number of GPUs of a node."""
SHARED = "gpu_shared"
"""Attribute of a machine that is one shared device."""
MODEL, NODE = "gpu_model", "node"


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node: millicores, MiB, number of GPUs, and their model, ``""`` without one."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


def shared_devices(nodes: Sequence[GpuNode], part: float) -> dict[str, int]:
    """Return by node how many of its devices are shared: this part of the devices of each model, rounded up.

    Nodes with few devices are divided first, so that those with many stay whole. The largest one of a model is only
    divided if all devices are shared: tasks with several GPUs need it.
    """
    found: dict[str, int] = {}
    if part <= 0:
        return found
    for model in sorted({node.model for node in nodes if node.gpus}):
        of = sorted(
            (node for node in nodes if node.model == model and node.gpus), key=lambda node: (node.gpus, node.name)
        )
        left = ceil(round(part * sum(node.gpus for node in of), 6))
        for node in of if part == 1 or of[-1].gpus == 1 else of[:-1]:
            found[node.name] = min(left, node.gpus)
            left -= found[node.name]
    return found


def machines_of(nodes: Iterable[GpuNode], shared: Mapping[str, int]) -> list[MachineSpec]:
    """Return the machines of nodes: a shared device has its part of the node's cpu and memory."""
    machines = []
    for node in nodes:
        count = shared.get(node.name, 0)
        attributes = {NODE: node.name, **({MODEL: node.model} if node.model else {})}
        cpu, memory = (node.cpu // node.gpus, node.memory // node.gpus) if count else (0, 0)
        if count < node.gpus or not count:
            rest = (node.cpu - count * cpu, node.memory - count * memory, DEVICE * (node.gpus - count))
            machines.append(MachineSpec(node.name, rest, attributes))
        for device in range(count):
            name = f"{node.name}/gpu{node.gpus - count + device}"
            machines.append(MachineSpec(name, (cpu, memory, DEVICE), {**attributes, SHARED: "yes"}))
    return machines
