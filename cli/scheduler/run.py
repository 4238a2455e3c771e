"""``omega scheduler run``."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cellstate import errors
from omega.cellstate.errors import Duplicate, OmegaError, StoreError
from omega.cellstate.override import override
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import process_options
from omega.cli.scheduler.status import show_table
from omega.cli.scheduler_choice import kind_of
from omega.queries import units
from omega.queries.failures import NewFailures
from omega.queries.schedulers import describe

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.schedulers import RedisSchedulers
    from omega.live.processes.supervisor import ProcessSupervisor
    from omega.live.processes.watch import Watch
    from omega.schedulers.instruments import Instrument

LOOK_SECONDS = 0.2
TRIES = 5
"""Attempts to find a free name while other processes take names."""


@click.command()
@click.argument("kind", required=False)
@click.option("--file", "path", type=click.Path(path_type=Path), help="TOML file that composes the scheduler.")
@click.option("--preemption", metavar="POLICY", help="Preemption policy for jobs that fit nowhere: none, precedence.")
@click.option(
    "--instances",
    default=1,
    show_default=True,
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of scheduler processes.",
)
@click.option("--name", metavar="NAME", help="Name of the scheduler, KIND/NAME (default: the first free number).")
@process_options
@click.pass_obj
def command(
    app: App, kind: str | None, path: Path | None, preemption: str | None, instances: int, name: str | None
) -> None:
    """Run schedulers of a KIND in the foreground; Ctrl-C lets them finish and deregister.

    KIND is batch, service, mapreduce, a kind of an installed package (omega scheduler policies), or
    MODULE:ATTRIBUTE, imported from the current directory. Several instances are separate processes; they share the
    jobs of their kind with all other schedulers of the cell.
    """
    if name is not None and instances > 1:
        raise click.UsageError("--name is for one scheduler; leave it out with --instances")
    if (kind is None) == (path is None):
        raise click.UsageError("give either a KIND or --file")
    chosen = {"OMEGA_SCHEDULER": kind} if kind is not None else {"OMEGA_SCHEDULER_FILE": str(path)}
    chosen |= {"OMEGA_PREEMPTION": preemption} if preemption is not None else {}
    kind = kind_of(chosen)  # raises before any process starts
    app.await_store()
    cell = app.open()
    ran = (
        [_run_here(app, cell, kind, chosen, name)]
        if instances == 1
        else _run_supervised(app, cell, kind, chosen, instances)
    )
    ended = [each for each in describe(cell, everybody=True) if each["member"] in ran]
    if app.as_json:
        render.document({"cell": cell.name, "schedulers": ended})
    else:
        show_table(ended)


def free_names(schedulers: "RedisSchedulers", kind: str, number: int) -> list[str]:
    """Return the first free member names of a kind: ``batch/0``, ``batch/2``."""
    taken = {member for member, (_, alive, _) in schedulers.members().items() if alive}
    names: list[str] = []
    i = 0
    while len(names) < number:
        if f"{kind}/{i}" not in taken:
            names.append(f"{kind}/{i}")
        i += 1
    return names


def _run_here(app: App, cell: "RedisCell", kind: str, chosen: Mapping[str, str], name: str | None) -> str:
    """Run one scheduler in this process until a signal; returns its member name."""
    from omega.cellstate.executors import check_member
    from omega.live.processes.watch import Watch, call_seconds
    from omega.schedulers.process.log import configure

    configure(os.environ)
    seconds = call_seconds(os.environ)
    for _ in range(TRIES):
        member = check_member(f"{kind}/{name}" if name is not None else free_names(cell.schedulers, kind, 1)[0])
        error = _run_watched(app.url, cell.name, member, chosen, Watch(member, seconds))
        if error is None:
            return member
        if not isinstance(error, Duplicate) or name is not None:
            raise error
    raise Duplicate(f"scheduler {kind}: every free name was taken by other processes; choose one with --name")


def _run_watched(url: str, cell: str, member: str, chosen: Mapping[str, str], watch: "Watch") -> OmegaError | None:
    """Run a scheduler in a child of this process; return the error that ended it, or None."""
    from omega.live.choice import scheduler
    from omega.schedulers.process.beat import HEARTBEAT
    from omega.schedulers.process.scheduler import run_member

    reading, writing = os.pipe()

    def run(watch: "Watch") -> int:
        try:
            with watch.beat.calling(HEARTBEAT):  # its modules are imported
                own = scheduler(chosen, member.partition("/")[0], f"{cell}/{member}")
            if not watch.former:
                own.instruments.append(_announcement(f"scheduler {member} on cell {cell} · Ctrl-C stops it"))
            error = run_member(url, cell, member, own, watched=watch)
        except OmegaError as found:
            error = found
        if error is not None:
            os.write(writing, json.dumps([type(error).__name__, str(error)]).encode())
        return 0 if error is None else 1

    with open(reading, "rb") as said:  # noqa: PTH123 - a descriptor
        try:
            code = watch.run(run)
        finally:
            os.close(writing)
        text = said.read()
    if text:
        name, why = json.loads(text)
        kind: type[OmegaError] = getattr(errors, name, OmegaError)
        return kind(why)
    return None if code == 0 else OmegaError(f"scheduler {member}: ended with code {code}")


def _announcement(text: str) -> "Instrument":
    """Return a listener that prints the text once the scheduler is registered."""
    from omega.schedulers.instruments import Instrument

    class Announcement(Instrument):
        """Prints at the first registration."""

        told = False

        @override
        def registered(self, incarnation: int, now: float) -> None:
            if not self.told:
                self.told = True
                render.note(text)

    return Announcement()


def _run_supervised(app: App, cell: "RedisCell", kind: str, chosen: Mapping[str, str], number: int) -> list[str]:
    """Run several processes until a signal, or until one of them ends."""
    from omega.embedded.places import state_directory
    from omega.live.processes.supervisor import ProcessSupervisor

    names = free_names(cell.schedulers, kind, number)
    stopping = threading.Event()
    logs = state_directory() / "logs" / cell.name
    with ProcessSupervisor(app.url, cell.name, logs, settings=chosen) as group, _signals(stopping.set):
        for member in names:
            group.start(member)
        group.wait_ready(cell)
        pids = " ".join(str(process.pid) for process in group.members.values())
        render.note(f"schedulers {' '.join(names)} on cell {cell.name} · pid {pids} · Ctrl-C stops them")
        dead: dict[str, int] = {}
        failures = NewFailures()
        while len(dead) < number and not stopping.wait(LOOK_SECONDS):
            _tell_dead(group, dead)
            with suppress(StoreError):
                for error in failures.read(cell, group.members):
                    render.warning(error)
        render.note(f"stopping {units.count(number - len(dead), 'scheduler')}")
    if dead:
        raise StoreError(f"schedulers {', '.join(dead)}: ended unexpectedly; see {group.logs}")
    return names


def _tell_dead(group: "ProcessSupervisor", known: dict[str, int]) -> None:
    """Warn once about each member that ended; the remaining schedulers take over its jobs."""
    for member, code in group.dead().items():
        if member not in known:
            known[member] = code
            how = group.end_of(member, code)
            render.warning(f"scheduler {member}: {how}; the others take over its jobs")


@contextmanager
def _signals(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` on a termination signal instead of the default action."""
    from omega.schedulers.process.signals import leave_signals

    before = {each: signal.signal(each, lambda *_: tell()) for each in leave_signals()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
