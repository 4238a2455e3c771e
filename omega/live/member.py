"""The schedulers, executors and agents that `supervisor` starts as processes: ``python -m omega.live.member``.

The store's URL, which may hold a password, comes through the socket that OMEGA_STORE_FD names (secrets.py), never by
environment or argv. The rest comes in the environment: OMEGA_CELL, OMEGA_MEMBER (``batch/0``, ``simulated/NAME`` or
``agent/NAME``), OMEGA_LEASE_MS, OMEGA_SPEED; for another scheduler than the one offered as that kind OMEGA_SCHEDULER
(its name, or ``module:attribute``) or OMEGA_SCHEDULER_FILE (TOML); to depart from it OMEGA_DETECTION (``fine``,
``coarse``), OMEGA_MODE (``incremental``, ``gang``) and OMEGA_JOBS_PER_CALL (jobs per round trip). OMEGA_LOG,
OMEGA_LOG_FORMAT and OMEGA_METRICS set what it reports of itself (schedulers/process/log.py and endpoint.py).
"""

import os
from collections.abc import Mapping

from omega.cellstate.errors import OmegaError
from omega.live.processes.bound import end_with_starter
from omega.live.secrets import take_store
from omega.schedulers.process.log import configure, log

AGENT_LEASES = 4
"""An executor's lease is so many of a scheduler's: that its tasks must be placed again costs more than a wait."""


def main(environment: Mapping[str, str]) -> int:
    """Run the member that the environment describes; returns the exit code."""
    environment = dict(environment)
    url = take_store(environment)
    environment |= {"OMEGA_STORE": url} if url is not None else {}
    end_with_starter(environment)
    kind = environment["OMEGA_MEMBER"].partition("/")[0]
    try:
        configure(environment)
        {"simulated": _simulated_executor, "agent": _agent}.get(kind, _scheduler)(environment)
    except OmegaError as error:
        log.error(str(error))
        return 1
    return 0


# Each function imports only its own needs: imports are most of the start time.


def _simulated_executor(environment: Mapping[str, str]) -> None:
    from omega.cellstate.store import connect_cell
    from omega.live.simulated.process import run_simulated_executor
    from omega.schedulers.process.signals import StopRequest
    from omega.schedulers.process.store_wait import await_store

    await_store(environment["OMEGA_STORE"], environment["OMEGA_MEMBER"])
    cell = connect_cell(environment["OMEGA_STORE"], environment["OMEGA_CELL"])
    lease_ms = AGENT_LEASES * int(environment["OMEGA_LEASE_MS"])
    speed = float(environment.get("OMEGA_SPEED", "1"))
    run_simulated_executor(cell, _name(environment), speed, StopRequest(), lease_ms)


def _agent(environment: Mapping[str, str]) -> None:
    from omega.embedded.places import state_directory
    from omega.live.agent.process import AgentOptions, run_agent

    url, cell, lease_ms = environment["OMEGA_STORE"], environment["OMEGA_CELL"], int(environment["OMEGA_LEASE_MS"])
    run_agent(url, cell, _name(environment), state_directory(), AgentOptions(lease_ms=AGENT_LEASES * lease_ms))


def _scheduler(environment: Mapping[str, str]) -> None:
    from omega.live.choice import scheduler
    from omega.schedulers.process.scheduler import record_failure, run_member

    url, cell, member = (environment[f"OMEGA_{name}"] for name in ("STORE", "CELL", "MEMBER"))
    try:
        chosen = scheduler(environment, member.partition("/")[0], f"{cell}/{member}")
    except OmegaError as error:
        record_failure(url, cell, member, error)
        raise
    ended = run_member(url, cell, member, chosen, int(environment["OMEGA_LEASE_MS"]))
    if ended is not None:
        raise ended


def _name(environment: Mapping[str, str]) -> str:
    return environment["OMEGA_MEMBER"].partition("/")[2]


if __name__ == "__main__":
    raise SystemExit(main(os.environ))
