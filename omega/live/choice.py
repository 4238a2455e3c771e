"""Selection of a process's scheduler from its environment (`omega.live.member`)."""

from collections.abc import Mapping
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.schedulers import registry
from omega.schedulers.scheduler import Scheduler


def chosen(environment: Mapping[str, str], kind: str, seed: str) -> Scheduler:
    """Return the scheduler of OMEGA_SCHEDULER or OMEGA_SCHEDULER_FILE, else the one offered as `kind`."""
    if "OMEGA_SCHEDULER_FILE" in environment:
        from omega.schedulers import composition  # noqa: PLC0415 - parsing the schema takes longer than starting

        return composition.read(Path(environment["OMEGA_SCHEDULER_FILE"])).fresh(seed)
    return registry.scheduler(environment.get("OMEGA_SCHEDULER", kind), seed)


def scheduler(environment: Mapping[str, str], kind: str, seed: str) -> Scheduler:
    """Return the selected scheduler with the settings of the environment. Raises BadInput."""
    selected = chosen(environment, kind, seed)
    if selected.kind != kind:
        raise BadInput(f"scheduler of kind {selected.kind!r}: cannot run as {kind!r}; name it {selected.kind}/…")
    try:
        selected.detection = Detection[environment.get("OMEGA_DETECTION", selected.detection.name).upper()]
        selected.mode = Mode[environment.get("OMEGA_MODE", selected.mode.name).upper()]
        selected.jobs_per_call = int(environment.get("OMEGA_JOBS_PER_CALL", selected.jobs_per_call))
        if "OMEGA_PREEMPTION" in environment:
            selected.preemption = registry.offer("preemption", environment["OMEGA_PREEMPTION"]).load()()
    except (KeyError, ValueError) as error:
        raise BadInput(
            f"scheduler {kind}: {error} is not a value of OMEGA_DETECTION, OMEGA_MODE or OMEGA_JOBS_PER_CALL"
        ) from None
    return selected
