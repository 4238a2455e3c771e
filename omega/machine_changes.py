"""Changes of machines by operators: added, drained, up, down, removed, with other attributes or another capacity."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import Duplicate, Refused
from omega.cellstate.model import MachineState, merged
from omega.queries import units
from omega.queries.machines import machines_to_change, tasks_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from omega.cellstate.cell import Cell, Executors
    from omega.cellstate.model import Machine, MachineSpec, Run

JOIN_CHUNK = 1_000
"""Machines per call: a few milliseconds of the server's time."""


def add(
    cell: "Cell",
    executor: str,
    specs: "Sequence[MachineSpec]",
    now_ms: int,
    progress: "Callable[[int, int], object]" = min,
) -> dict[str, Any]:
    """Add simulated machines; an identical existing one stays as it is. Duplicate for one that differs.

    `progress` gets the number of added machines and of all that are to be added after each call.
    """
    fresh = _fresh(cell, specs)
    for start in range(0, len(fresh), JOIN_CHUNK):
        cell.machines.join(executor, fresh[start : start + JOIN_CHUNK], now_ms)
        progress(min(start + JOIN_CHUNK, len(fresh)), len(fresh))
    same = len(specs) - len(fresh)
    if same:
        cell.await_replicas()  # an earlier command may have added them without its confirmation
    added = [spec.name for spec in fresh]
    return {
        "cell": cell.name,
        "added": added,
        "unchanged": same,
        "executor_lives": executor_lives(cell.executors, executor),
    }


def executor_lives(executors: "Executors", executor: str) -> bool:
    """Return whether an executor holds its lease."""
    known = executors.records()
    return executor in known and known[executor].lives


def _fresh(cell: "Cell", specs: "Sequence[MachineSpec]") -> "list[MachineSpec]":
    """Return those that are not there. Duplicate when one is there with other amounts or attributes."""
    indices = cell.machines.indices([spec.name for spec in specs])
    known = {machine.name: machine for machine in cell.machines.at(sorted(indices.values()))}
    for spec in specs:
        there = known.get(spec.name)
        if there is not None and (there.capacity, dict(there.attributes)) != (spec.capacity, dict(spec.attributes)):
            has = units.amounts(cell.dimensions, there.capacity)
            if there.capacity == spec.capacity:
                has = ", ".join(f"{key}={value}" for key, value in there.attributes.items()) or "no attributes"
            raise Duplicate(
                f"machine {spec.name}: in cell {cell.name} already, with {has}; "
                "change it with omega machine resize, remove it first, or choose another name"
            )
    return [spec for spec in specs if spec.name not in known]


def set_state(
    cell: "Cell", names: Sequence[str], to: MachineState, now_ms: int, by: str, deadline_ms: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Set the state of machines; return the document, and warnings. Refused for names that mean no machine.

    `deadline_ms`: after this time the machines' tasks are evicted; None clears an earlier deadline.
    """
    machines = machines_to_change(cell, names)
    agents = (
        {agent.number for agent in cell.executors.agents().values() if agent.lives} if to is MachineState.GONE else ()
    )
    answers = []
    for machine in machines:
        put_back = cell.machines.set_state(machine.index, to, now_ms, by)
        cell.machines.set_deadline(machine.index, deadline_ms)
        answers.append((machine, put_back))
    runs = cell.machines.runs([machine.index for machine in machines])
    if cell.dry and to in (MachineState.DOWN, MachineState.GONE):
        runs = []  # none would be running
    left = tasks_on(runs)
    changed = [
        {
            "name": machine.name,
            "index": machine.index,
            "before": machine.state.name.lower(),
            "state": to.name.lower(),
            "put_back": put_back,
            "tasks": left.get(machine.index, 0),
            **({} if deadline_ms is None else {"deadline_ms": deadline_ms}),
            **({"agent_ends": True} if machine.executor in agents else {}),
        }
        for machine, put_back in answers
    ]
    endless = to is MachineState.DRAINED and deadline_ms is None
    warnings = _endless(cell, runs, {machine.index: machine.name for machine in machines}) if endless else []
    return {"cell": cell.name, "machines": changed}, warnings


def _endless(cell: "Cell", runs: "Sequence[Run]", names: Mapping[int, str]) -> list[str]:
    """Return a warning for each machine that services keep from becoming empty."""
    there = cell.jobs.by_id(sorted({run.job for run in runs if not run.leaving}))
    services = defaultdict[int, set[str]](set)
    for run in runs:
        job = there.get(run.job)
        if job is not None and job.kind == "service" and not run.leaving:
            services[run.machine].add(job.name)
    return [
        f"machine {names[machine]}: drained without a deadline, and keeps {units.listing(sorted(jobs))}: services do "
        "not end by themselves; drain it again with --deadline"
        for machine, jobs in sorted(services.items())
    ]


def set_attributes(
    cell: "Cell", name: str, changes: Mapping[str, str | None], now_ms: int, by: str, *, evict: bool = False
) -> dict[str, Any]:
    """Set attributes of a machine; None removes one. Refused when tasks must leave its pool tree, unless `evict`."""
    from omega.pools.leaving import after_attributes, check

    machine = machines_to_change(cell, [name])[0]
    leaving = after_attributes(cell, machine.index, changes)
    check(leaving, f"machine {machine.name}", evict=evict)
    cell.machines.set_attributes(machine.index, changes, now_ms, by)
    ((_, now),) = cell.machines.described([machine.index])
    return {
        "cell": cell.name,
        "name": machine.name,
        "index": machine.index,
        "attributes": merged(dict(now), changes) if cell.dry else dict(now),
        "evicted": leaving.total(),
    }


def resize(
    cell: "Cell", name: str, amounts: Mapping[str, str | float], now_ms: int, by: str, *, evict: bool = False
) -> dict[str, Any]:
    """Change the capacity of a machine in some resources. Refused when more is allocated, unless `evict` is set.

    Then tasks that no longer fit are evicted: lowest precedence first, newest first.
    """
    machine = machines_to_change(cell, [name])[0]
    parsed = cell.dimensions.parse(amounts)
    given = [amount if each in amounts else None for each, amount in zip(cell.dimensions.names, parsed, strict=True)]
    capacity = [old if new is None else new for old, new in zip(machine.capacity, given, strict=True)]
    victims = _victims(cell, machine) if evict else []
    try:
        evicted = cell.machines.set_capacity(machine.index, given, now_ms, by, victims)
    except Refused:
        raise Refused(
            f"machine {machine.name}: has more allocated than {units.amounts(cell.dimensions, capacity)}; "
            "add --evict, or drain it first"
        ) from None
    return {
        "cell": cell.name,
        "name": machine.name,
        "index": machine.index,
        "capacity": cell.dimensions.numbers(capacity),
        "evicted": evicted,
    }


def _victims(cell: "Cell", machine: "Machine") -> list[tuple[int, int]]:
    """Return all placements of a machine as (placement, tasks), in eviction order; the store evicts only as needed."""
    from omega.cellstate.ranges import count

    runs = [run for run in cell.machines.runs([machine.index]) if not run.leaving]
    jobs = {run.job: cell.jobs.get(run.job) for run in runs}
    precedence = {job_id: job.precedence if job else 0 for job_id, job in jobs.items()}
    runs.sort(key=lambda run: (precedence[run.job], -run.placement))
    return [(run.placement, count(run.tasks)) for run in runs]
