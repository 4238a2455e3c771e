"""Executors run the tasks placed on their machines: agents run commands, simulated executors let time pass."""

from collections.abc import Iterator, Mapping, Sequence
from re import compile as pattern
from typing import NamedTuple

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown

AGENT = "agent/"
MOST_GIVEN_UP = 500
"""Maximum number of runs given up in one call: 60 ms of the server's time when each is of a job and lane of its own."""


class ExecutorRecord(NamedTuple):
    """A live executor: its number, incarnation, whether its lease holds, and the length of a lease (ms).

    `unfit` is why it cannot start tasks; empty if it can.
    """

    number: int
    incarnation: int
    lives: bool
    lease_ms: int
    unfit: str = ""


def is_agent(executor: str) -> bool:
    """Return whether an executor, by its name, is an agent."""
    return executor.startswith(AGENT)


def agents_of(executors: Mapping[str, ExecutorRecord]) -> dict[str, ExecutorRecord]:
    """Return those of the executors that are agents, by the name of their machine."""
    return {name.removeprefix(AGENT): record for name, record in executors.items() if is_agent(name)}


def number_of(executor: str, known: int) -> int:
    """Return the number of an executor that joins after `known` others: even for agents, odd for simulated ones."""
    return 2 * (known + 1) - (not is_agent(executor))


def simulates(number: int) -> bool:
    """Return whether an executor, by its number, simulates tasks instead of running their commands."""
    return number % 2 == 1


def portions(machines: Sequence[int], runs: Sequence[int], most: int = MOST_GIVEN_UP) -> Iterator[list[int]]:
    """Split machines, with so many runs each, into portions of at most `most` runs, or of one machine with more.

    A machine without a run counts as one.
    """
    portion, weight = list[int](), 0
    for machine, count in zip(machines, runs, strict=True):
        if portion and weight + max(1, count) > most:
            yield portion
            portion, weight = [], 0
        portion.append(machine)
        weight += max(1, count)
    if portion:
        yield portion


# Names of schedulers and executors, and nonces of their incarnations (semantics 15).

_EXECUTOR = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NONCE = pattern(r"[A-Za-z0-9._-]{1,64}")
_MEMBER = pattern(r"[a-z][a-z0-9_-]{0,31}/[A-Za-z0-9._-]{1,64}")


def check_nonce(nonce: str) -> str:
    """Return the nonce of an incarnation (semantics 15). Raises BadInput for one that its record cannot hold."""
    if not _NONCE.fullmatch(nonce):
        raise BadInput(f"nonce {shown(nonce)}: use 1 to 64 letters, digits, . _ -")
    return nonce


def check_executor(name: str) -> str:
    """Return the name of a simulated executor. Raises BadInput when it is invalid."""
    if not _EXECUTOR.fullmatch(name):
        raise BadInput(f"executor name {shown(name)}: use 1 to 64 letters, digits, . _ -")
    return name


def check_member(name: str) -> str:
    """Return a scheduler's name, ``kind/instance``. Raises BadInput when it is invalid."""
    if not _MEMBER.fullmatch(name):
        raise BadInput(f"scheduler name {shown(name)}: want kind/instance, for example batch/0")
    return name
