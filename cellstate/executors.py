"""Executors run the tasks placed on their machines: agents run commands, simulated executors let time pass."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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
