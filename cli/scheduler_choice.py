"""Selection of schedulers on the command line: an installed name, ``MODULE:ATTRIBUTE`` or a TOML file."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import BadInput

if TYPE_CHECKING:
    from omega.schedulers.scheduler import Scheduler

TAKEN = ("agent", "simulated")
MOST = 64


def variables(name: str) -> dict[str, str]:
    """Return the variables that select a scheduler (`omega.live.choice`): NAME, MODULE:ATTRIBUTE or FILE.toml."""
    return {"OMEGA_SCHEDULER_FILE" if name.endswith(".toml") else "OMEGA_SCHEDULER": name}


def selected(chosen: Mapping[str, str]) -> "Scheduler":
    """Return the scheduler that variables select. Modules are found from the current directory. Raises BadInput."""
    from omega.live.choice import chosen as load

    if ":" in chosen.get("OMEGA_SCHEDULER", "") and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, and the processes that are started
    return load(chosen, "", "0")


def kind_of(chosen: Mapping[str, str]) -> str:
    """Return the kind of the scheduler that variables select. Raises BadInput when it cannot run."""
    from omega.cellstate.executors import check_member
    from omega.live.choice import scheduler

    kind = selected(chosen).kind
    scheduler(chosen, kind, "0")
    if kind in TAKEN:
        raise BadInput(f"scheduler of kind {kind!r}: the name is reserved for executors; choose another kind")
    return check_member(f"{kind}/0").partition("/")[0]


def numbered(text: str) -> tuple[str, int]:
    """Return the two parts of a value of ``--scheduler``: its name, and the N of ``=N`` or 1. Raises UsageError."""
    name, _, count = text.rpartition("=") if "=" in text and not text.endswith(".toml") else (text, "", "1")
    if not count.isdecimal() or not 1 <= int(count) <= MOST:
        raise click.UsageError(f"--scheduler {text}: {count!r} is no number of schedulers; want 1 to {MOST}")
    return name, int(count)


def further(given: Sequence[str]) -> tuple[dict[str, int], dict[str, Mapping[str, str]]]:
    """Read values of ``--scheduler``: the number of processes and the variables that select the scheduler, by kind.

    A value is NAME, MODULE:ATTRIBUTE or FILE.toml, with ``=N`` for several processes. Raises BadInput, and UsageError
    when two of them are of one kind.
    """
    numbers, choices = dict[str, int](), dict[str, Mapping[str, str]]()
    for text in given:
        name, count = numbered(text)
        chosen = variables(name)
        kind = kind_of(chosen)
        if kind in numbers:
            raise click.UsageError(f"--scheduler {text}: kind {kind} is given twice; give it once, with =N for several")
        numbers[kind], choices[kind] = count, chosen
    return numbers, choices
