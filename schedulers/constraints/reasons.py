"""Reasons of job states: a stable word for programs and a line for people."""

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """The values of every ``reason`` field. `MEANING` has a line for each."""

    WAITING = "WAITING"
    LOCALITY = "LOCALITY"
    NO_SCHEDULER = "NO_SCHEDULER"
    FAILING = "FAILING"
    NO_MACHINE = "NO_MACHINE"
    NO_EXECUTOR = "NO_EXECUTOR"
    SIMULATED = "SIMULATED"
    TOO_LARGE = "TOO_LARGE"
    CONSTRAINT = "CONSTRAINT"
    UNAVAILABLE = "UNAVAILABLE"
    SPREAD = "SPREAD"
    RESOURCES = "RESOURCES"
    LIMIT = "LIMIT"
    NEVER = "NEVER"
    HELD = "HELD"
    DEPENDENCY = "DEPENDENCY"
    LOST = "LOST"
    BACKOFF = "BACKOFF"
    CONFLICTS = "CONFLICTS"
    STOPPING = "STOPPING"
    PLACED = "PLACED"
    DONE = "DONE"


MEANING: Mapping[str, str] = {
    Reason.WAITING: "it would fit; its scheduler will come to it",
    Reason.LOCALITY: "it would fit; its scheduler waits for machines that its placement prefers",
    Reason.NO_SCHEDULER: "no scheduler of its kind is live; start one with omega scheduler run",
    Reason.FAILING: "its scheduler fails: a policy raises an error",
    Reason.NO_MACHINE: "no machine is up",
    Reason.NO_EXECUTOR: "machines are offline: no live executor; start omega up, omega agent or omega machine simulate",
    Reason.SIMULATED: "it runs commands, machines are simulated; start omega agent, or submit it with simulate: true",
    Reason.TOO_LARGE: "a task wants more than any machine that it may use has",
    Reason.CONSTRAINT: "no machine satisfies its constraints",
    Reason.UNAVAILABLE: "the machines that fit it are drained, down, offline, unfit or over",
    Reason.SPREAD: "there is room only where it would have too many tasks in one domain or on one machine",
    Reason.RESOURCES: "no machine has room for what is left",  # for a gang: not for all its tasks
    Reason.LIMIT: "a limit of its kind or of its pools is reached",
    Reason.NEVER: "a task needs more than a limit of its kind or of its pools admits at all; raise the limit",
    Reason.HELD: "held: it is not to be placed yet",
    Reason.DEPENDENCY: "it waits for other jobs to end; or one of them did not finish, and so it was stopped",
    Reason.LOST: "its unplaced tasks were lost, and are delayed before they are placed again",
    Reason.BACKOFF: "its tasks failed, or their health check did, after all restarts; they are delayed before the next",
    Reason.CONFLICTS: "given up after too many conflicts",
    Reason.STOPPING: "stopped, and tasks are still on machines",
    Reason.PLACED: "all of its tasks have machines",
    Reason.DONE: "nothing of it waits for a machine",
}

FOR_GOOD = frozenset(
    {
        Reason.NO_MACHINE,
        Reason.NO_EXECUTOR,
        Reason.SIMULATED,
        Reason.TOO_LARGE,
        Reason.CONSTRAINT,
        Reason.UNAVAILABLE,
        Reason.NEVER,
    }
)
"""What stays until a user changes machines, limits or the job."""
