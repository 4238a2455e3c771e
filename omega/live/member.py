"""The schedulers, executors and agents that `supervisor` starts as processes: ``python -m omega.live.member``.

The store's URL, which may hold a password, comes through the socket that OMEGA_STORE_FD names (secrets.py), never by
environment or argv. The rest comes in the environment: OMEGA_CELL, OMEGA_MEMBER (``batch/0``, ``simulated/NAME`` or
``agent/NAME``), OMEGA_LEASE_MS, OMEGA_SPEED; for another scheduler than the one offered as that kind OMEGA_SCHEDULER
(its name, or ``module:attribute``) or OMEGA_SCHEDULER_FILE (TOML); to depart from it OMEGA_DETECTION (``fine``,
``coarse``), OMEGA_MODE (``incremental``, ``gang``), OMEGA_JOBS_PER_CALL (jobs per round trip) and OMEGA_CALL_SECONDS
(time that a policy has for a job). OMEGA_LOG, OMEGA_LOG_FORMAT and OMEGA_METRICS set what it reports of itself
(schedulers/process/log.py and endpoint.py).
"""

import os
import signal
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from omega.cellstate.errors import OmegaError
from omega.live.processes.bound import end_with_starter
from omega.live.secrets import take_store
from omega.schedulers.process.beat import HEARTBEAT
from omega.schedulers.process.log import configure, log

if TYPE_CHECKING:
    from omega.live.processes.watch import Watch

EXECUTORS = ("simulated", "agent")
AGENT_LEASES = 4
"""An executor's lease is so many of a scheduler's: that its tasks must be placed again costs more than a wait."""


def main(environment: Mapping[str, str]) -> int:
    """Run the member that the environment describes; returns the exit code.

    A scheduler is watched by this process and runs in a child of it: a policy may never return.
    """
    environment = dict(environment)
    url = take_store(environment)
    environment |= {"OMEGA_STORE": url} if url is not None else {}
    member = environment["OMEGA_MEMBER"]
    if member.partition("/")[0] in EXECUTORS:
        return run(environment)
    from omega.live.processes.watch import Watch, call_seconds

    try:
        configure(environment)
        seconds = call_seconds(environment)
    except OmegaError as error:
        log.error(str(error))
        return 1
    return _as_it_ended(Watch(member, seconds).run(lambda watch: run(environment, watch)))


def run(environment: Mapping[str, str], watch: "Watch | None" = None) -> int:
    """Run the member in this process; returns the exit code."""
    kind = environment["OMEGA_MEMBER"].partition("/")[0]
    end_with_starter(environment)
    try:
        configure(environment)
        if kind in EXECUTORS:
            {"simulated": _simulated_executor, "agent": _agent}[kind](environment)
        else:
            _scheduler(environment, watch)
    except OmegaError as error:
        log.error(str(error))
        return 1
    return 0


def _as_it_ended(code: int) -> int:
    """Return an exit code; of a child that a signal ended, as one that was just starting, end by that signal."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


# Each function imports only its own needs: imports are most of the start time.


def _simulated_executor(environment: Mapping[str, str]) -> None:
    from omega.cellstate.store import connect_cell
    from omega.live.simulated.process import run_simulated_executor
    from omega.schedulers.process.signals import StopRequest, await_store

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


def _scheduler(environment: Mapping[str, str], watch: "Watch | None") -> None:
    from omega.live.choice import scheduler
    from omega.schedulers.process.scheduler import record_failure, run_member

    url, cell, member = (environment[f"OMEGA_{name}"] for name in ("STORE", "CELL", "MEMBER"))
    try:
        with nullcontext() if watch is None else watch.beat.calling(HEARTBEAT):  # its modules are imported
            chosen = scheduler(environment, member.partition("/")[0], f"{cell}/{member}")
    except OmegaError as error:
        record_failure(url, cell, member, error)
        raise
    ended = run_member(url, cell, member, chosen, int(environment["OMEGA_LEASE_MS"]), watch)
    if ended is not None:
        raise ended


def _name(environment: Mapping[str, str]) -> str:
    return environment["OMEGA_MEMBER"].partition("/")[2]


if __name__ == "__main__":
    raise SystemExit(main(os.environ))
