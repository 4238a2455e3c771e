"""``omega cell backtest``: would other settings have helped? Asked of a recording."""

from collections.abc import Sequence
from pathlib import Path

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App

MOST_RUNS = 64


@click.command(short_help="Run a recording again under other settings, and compare.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--vary", "varied", multiple=True, metavar="NAME=VALUE,…",
    help="Values to try; repeatable, then all combinations run. Names: batch, service and mapreduce (schedulers; 3, or "
    "+2 more), detection, commit, placement, preemption, jobs-per-call, t-job (seconds), pools (a file, or none), "
    "machines (8, -2, -20%), limits (50%).",
)  # fmt: skip
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=3,
    metavar="N",
    help="Runs of each setting; medians count (default: 3).",
)
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw waits and use (.svg, .png)."
)
@click.pass_obj
def command(app: App, file: Path, varied: Sequence[str], seeds: int, figure: Path | None) -> None:
    """Run the recording FILE under its own settings and under others, and compare with what really happened.

    Two checks stand behind each answer. Every recorded transaction is judged again, and must get the same verdict. The
    run under the recorded settings must agree with what happened, within a fixed tolerance. A difference that is not
    larger than the tolerance is answered "cannot tell".
    """
    from omega.cli.cell.what_if import show
    from omega.what_if.answers import Questions, each_combination

    changes = each_combination(combined(varied))
    if len(changes) > MOST_RUNS:
        raise BadInput(f"vary: {len(changes)} combinations; the most is {MOST_RUNS}")
    with render.busy(f"reading {file}", quiet=app.as_json) as tell:
        answers = Questions(file, seeds, tell).ask(changes)
    if figure is not None:
        from omega.what_if.picture import draw

        draw(answers, figure)
    if app.as_json:
        render.document(answers.as_json())
    else:
        show(answers)


def combined(varied: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of --vary by name. Raises UsageError."""
    from omega.what_if.schedulers import NAMES

    values: dict[str, list[str]] = {}
    for text in varied:
        name, sign, words = text.partition("=")
        if not sign or not all(words.split(",")):
            raise click.UsageError(f"--vary {text}: write NAME=VALUE,…, for example batch=1,2,4")
        if name not in NAMES:
            raise click.UsageError(f"--vary {text}: unknown name {name!r}; known: {', '.join(NAMES)}")
        if name in values:
            raise click.UsageError(f"--vary {text}: {name} is given twice; write all its values in one")
        values[name] = words.split(",")
    return values
