"""The scheduler and fleet processes that `crew` starts: ``python -m omega.live.member``.

What to be comes in the environment, so that a store's password is never in argv: OMEGA_STORE,
OMEGA_CELL, OMEGA_MEMBER (``batch/0``, ``fleet/NAME`` or ``agent/NAME``), OMEGA_LEASE_MS, OMEGA_SPEED; for
another scheduler than the one offered as that kind OMEGA_SCHEDULER (its name, or ``module:attribute``) or
OMEGA_SCHEDULER_FILE (TOML); to depart from it OMEGA_DETECTION (``fine``, ``coarse``), OMEGA_MODE
(``incremental``, ``gang``) and OMEGA_BATCH (jobs per round trip). OMEGA_LOG, OMEGA_LOG_FORMAT and OMEGA_METRICS
say what it tells of itself (schedulers/process_log.py, process_endpoint.py).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from cellstate.errors import BadInput, OmegaError
from cellstate.redis import RedisCell
from cellstate.transaction import Detection, Mode
from omega.embedded_places import state_directory
from omega.live.agent.process import run_agent
from omega.live.fleet_process import Stop, run_fleet
from schedulers import registry
from schedulers.live import LEASE_MS
from schedulers.process import run_member
from schedulers.process_log import configure, log
from schedulers.scheduler import Scheduler

AGENT_LEASES = 4
"""An agent's lease is so many of a scheduler's: that its tasks must be placed again costs more than a wait."""


def chosen(environment: Mapping[str, str], kind: str, seed: str) -> Scheduler:
    """The scheduler that OMEGA_SCHEDULER or OMEGA_SCHEDULER_FILE names, else the one offered as `kind`."""
    if "OMEGA_SCHEDULER_FILE" in environment:
        from schedulers import composition  # noqa: PLC0415 - reading a schema takes longer than starting

        return composition.read(Path(environment["OMEGA_SCHEDULER_FILE"])).fresh(seed)
    return registry.scheduler(environment.get("OMEGA_SCHEDULER", kind), seed)


def scheduler(environment: Mapping[str, str], kind: str, seed: str) -> Scheduler:
    """The scheduler asked for, with what the environment says otherwise. Raises BadInput."""
    found = chosen(environment, kind, seed)
    if found.kind != kind:
        raise BadInput(f"scheduler of kind {found.kind!r}: cannot run as {kind!r}; name it {found.kind}/…")
    try:
        found.detection = Detection[environment.get("OMEGA_DETECTION", found.detection.name).upper()]
        found.mode = Mode[environment.get("OMEGA_MODE", found.mode.name).upper()]
        found.batch = int(environment.get("OMEGA_BATCH", found.batch))
        if "OMEGA_PREEMPTION" in environment:
            found.preemption = registry.offer("preemption", environment["OMEGA_PREEMPTION"]).load()()
    except (KeyError, ValueError) as error:
        raise BadInput(f"scheduler {kind}: {error} is no value of OMEGA_DETECTION, OMEGA_MODE or OMEGA_BATCH") from None
    return found


def main(environment: Mapping[str, str]) -> int:
    """Be what the environment says; returns the exit code."""
    url, cell, member = (environment[f"OMEGA_{name}"] for name in ("STORE", "CELL", "MEMBER"))
    kind, _, name = member.partition("/")
    try:
        configure(environment)
        if kind == "fleet":
            speed = float(environment.get("OMEGA_SPEED", "1"))
            run_fleet(RedisCell.connect(url, cell), name, speed, Stop())
            return 0
        lease_ms = int(environment.get("OMEGA_LEASE_MS", str(LEASE_MS)))
        if kind == "agent":
            run_agent(url, cell, name, state_directory(), lease_ms=AGENT_LEASES * lease_ms)
            return 0
        error = run_member(url, cell, member, scheduler(environment, kind, f"{cell}/{member}"), lease_ms)
        if error is not None:
            raise error
    except OmegaError as error:
        log.error(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(os.environ))
