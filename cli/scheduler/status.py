"""``omega scheduler status``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.errors import Refused
from cli import render, words
from cli.app import App
from cli.scheduler.list import describe

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

OVER_AND_OVER = 10
"""Rejections in a row by one machine that are no contention any more."""


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """How the scheduler NAME does (batch/0), or all of a kind (batch), or all: busyness, waits, conflicts, queues.

    A machine that rejects one claim after the other is told: that is a fault, and not contention.
    """
    cell = app.open()
    found = status(cell, name)
    if app.as_json:
        render.document({"cell": cell.name, "schedulers": found})
        return
    if not found:
        render.note("no schedulers; start one with omega scheduler run batch")
    for number, each in enumerate(found):
        if number:
            render.line()
        show(each)


def status(cell: "RedisCell", name: str | None) -> list[dict[str, Any]]:
    """Every scheduler that is meant, as plain values; times in seconds. Refused when there is none of that name."""
    members, pending, names = cell.members(), cell.queue_depths(), dict[int, str]()
    found, described = [], describe(cell)
    asked = meant(cell, [each["member"] for each in described], name)
    for each in described:
        member = each["member"]
        kind = member.partition("/")[0]
        if member not in asked:
            continue
        figures: Mapping[str, Any] = members.get(member, (0, False, {}))[2]
        rejecting = figures.get("rejecting_machines", [])
        unnamed = [index for index, *_ in rejecting if index not in names]
        names |= {index: found[0] for index, found in zip(unnamed, cell.described(unnamed), strict=True)}
        found.append(each | {
            "kind": kind, "pending_of_kind": pending.get(kind, 0), "blocked": each["asleep"],
            "evicts": figures.get("evicts"),
            "last_cycle": {"seconds": figures.get("last_cycle"), "ago": figures.get("last_cycle_ago")},
            "rejecting_machines": [
                {"machine": names[index] or str(index), "rejections": count, "in_a_row": row}
                for index, count, row in rejecting
            ],
        })  # fmt: skip
    return found


def meant(cell: "RedisCell", members: Sequence[str], asked: str | None) -> Sequence[str]:
    """The schedulers that are meant: by name, by kind, by what only one name, or only one kind, begins with.

    Raises Refused when there is none, or several begin so.
    """
    kinds = {member: member.partition("/")[0] for member in members}
    named = [member for member, kind in kinds.items() if asked in (None, member, kind)]
    if named or asked is None:
        return named
    near = [member for member in members if asked and member.startswith(asked)]
    if len(near) == 1 or ("/" not in asked and len({kinds[member] for member in near}) == 1):
        return near
    if near:
        raise Refused(f"scheduler {asked!r}: {words.listing(near)} begin so; write more of the name")
    raise Refused(f"scheduler {asked!r}: not in cell {cell.name}; there is {words.listing(members) or 'none'}")


def show(each: Mapping[str, Any]) -> None:
    """Print one scheduler."""
    if each["busyness"] is None:
        render.facts({"scheduler": f"{each['member']} · {each['state']} · no figures yet"})
        return
    wait, last = each["wait_seconds"], each["last_cycle"]
    commits, given_up = words.count(each["transactions"], "commit"), each["abandoned"]
    render.facts({
        "scheduler": f"{each['member']} · {each['state']} · incarnation {each['incarnation']}"
                     + (" · evicts by precedence" if each["evicts"] else ""),
        "busyness": f"{each['busyness']:.2f} over {words.seconds(each['seconds'])}",
        "wait": f"{words.seconds(wait['mean'])} mean, {words.seconds(wait['p90'])} p90 of {each['jobs']:,} jobs",
        "conflicts": f"fraction {words.fraction(each['conflict_fraction'])} · {each['conflicts']:,} of {commits}"
                     + (f" · {words.count(given_up, 'job')} given up" if given_up else ""),
        "placed": words.count(each["tasks"], "task"),
        "queue": f"{each['queued']:,} in hand · {each['blocked']:,} blocked · "
                 f"{each['pending_of_kind']:,} of kind {each['kind']} pending in the cell",
        "last cycle": "none yet" if last["seconds"] is None
                      else f"took {words.seconds(last['seconds'])}, {words.age(last['ago'])} ago",
        "rejections": " · ".join(_rejecting(machine) for machine in each["rejecting_machines"]),
    })  # fmt: skip
    for machine in each["rejecting_machines"]:
        if machine["in_a_row"] >= OVER_AND_OVER:
            told = f"machine {machine['machine']} rejected {machine['in_a_row']} claims of {each['member']} in a row"
            render.warning(f"{told}; that is no contention: see omega machine status {machine['machine']}")


def _rejecting(machine: Mapping[str, Any]) -> str:
    row = f" ({machine['in_a_row']:,} in a row)" if machine["in_a_row"] > 1 else ""
    return f"{machine['machine']} {machine['rejections']:,} ×{row}"
