"""The options of a simulation, shared by the commands of ``omega sim``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli.options import F, combined

if TYPE_CHECKING:
    from omega.experiments.configuration import Configuration


class Schedulers(click.IntRange):
    """A number of schedulers; in a replay also ``+2`` or ``-1``, more or less than a recording has."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number, or the text of a relative one. Fails as a usage error for another text."""
        relative = isinstance(value, str) and value[:1] in ("+", "-") and value[1:].isdecimal()
        if relative and ctx is not None and ctx.info_name == "replay":
            return value
        return super().convert(value, param, ctx)


SECONDS = click.FloatRange(min=0)
FORMS = (".svg", ".png")

figure_output = click.option(
    "--output",
    default="figures",
    show_default=True,
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the figure, written as SVG and PNG.",
)

executor_options = combined(
    click.option(
        "--executor", "where", metavar="dask://HOST:PORT", help="Run on a Dask cluster (default: local processes)."
    ),
    click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Number of local processes (default: one per core)."
    ),
)


def results_option(default: str | None, text: str) -> Callable[[F], F]:
    """Add --results to a command, which keeps its simulations in that file."""
    return click.option(
        "--results",
        default=default,
        show_default=default is not None,
        metavar="FILE.jsonl",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File of finished simulations{text}.",
    )


def page_options(default: str) -> Callable[[F], F]:
    """Add --output and --figures to a command that writes a page and its figures."""
    return combined(
        click.option(
            "--output",
            default=default,
            show_default=True,
            metavar="FILE.md",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The page to write.",
        ),
        click.option(
            "--figures",
            default="docs/figures",
            show_default=True,
            metavar="DIRECTORY",
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory of its figures, written as SVG.",
        ),
    )


machines_of_figure = click.option(
    "--machines",
    type=click.IntRange(1),
    metavar="N",
    help="Number of machines per cell: fewer is faster. Jobs arrive as often, with proportionally shorter tasks.",
)


architecture_option = click.option(
    "--architecture",
    metavar="NAME",
    help="monolithic-single, monolithic-multi, partitioned, two-level or shared-state (default).",
)
pools_option = click.option(
    "--pools",
    metavar="FILE.yaml",
    help="Pools, as of omega pool export; jobs without a pool belong to its leaf pools in turn.",
)
seed_option = click.option("--seed", type=int, help="Seed of all random numbers (default: 0).")
scheduler_options = combined(
    click.option("--batch", type=Schedulers(1, 256), metavar="N", help="Number of batch schedulers (default: 1)."),
    click.option("--service", type=Schedulers(1, 256), metavar="N", help="Number of service schedulers (default: 1)."),
    click.option("--t-job-batch", type=SECONDS, metavar="S", help="Decision time of a batch job in s (default: 0.1)."),
    click.option(
        "--t-job-service",
        type=SECONDS,
        metavar="S",
        help="Decision time of a service job in s (default: 0.1); under monolithic-single of every job.",
    ),
    click.option("--t-task", type=SECONDS, metavar="S", help="Decision time per task in s (default: 0.005)."),
    click.option(
        "--t-task-service",
        type=SECONDS,
        metavar="S",
        help="Decision time per task of a service job in s (default: --t-task).",
    ),
    click.option("--detection", type=click.Choice(["fine", "coarse"]), help="Conflict detection (default: fine)."),
    click.option("--commit", type=click.Choice(["incremental", "gang"]), help="Commit mode (default: incremental)."),
)
"""Numbers of schedulers, their decision times, detection and mode."""

configuration_options = combined(
    architecture_option,
    click.option(
        "--workload",
        metavar="FILE|PRESET",
        help="Workload file (.csv, or .yaml with machines, pools and jobs), or the cell A, B or C (default) "
        "of the Omega paper: C measured on Google's 2011 trace, A and B calibrated.",
    ),
    pools_option,
    click.option(
        "--machines",
        type=click.IntRange(1),
        metavar="N",
        help="Number of machines (default: 12477, a "
        "file's 1000). At a smaller preset jobs arrive as often, with proportionally shorter tasks.",
    ),
    click.option("--cpu", metavar="AMOUNT", help="Cores of each machine; with a preset, of the largest."),
    click.option("--memory", metavar="AMOUNT", help="Memory of each machine; with a preset, of the largest."),
    click.option("--days", type=click.FloatRange(0, 10_000, min_open=True), help="Simulated days (default: 1)."),
    seed_option,
    click.option(
        "--rate",
        type=click.FloatRange(0, min_open=True),
        metavar="FACTOR",
        help="Factor on the batch jobs of a preset (default: 1).",
    ),
    scheduler_options,
    click.option("--placement", metavar="NAME", help="Placement policy: random (default), first-fit or best-fit."),
    click.option("--sharing", metavar="NAME", help="Sharing of jobs among batch schedulers: hash or round-robin."),
    click.option(
        "--offers",
        metavar="RULES",
        help="Rules of two-level offers: paper, or authors for those of the "
        "authors' simulator (default under --reference-rules).",
    ),
    click.option(
        "--release-moves-number/--no-release-moves-number",
        default=None,
        help="Raise a machine's sequence number when a task ends (default: yes).",
    ),
    click.option(
        "--reference-rules",
        is_flag=True,
        default=None,
        help="Retry, abandon and count as the authors' simulator does.",
    ),
)
"""An option for every parameter of a Configuration; omitted options keep their defaults."""


def configuration(given: Mapping[str, Any]) -> "Configuration":
    """Return the configuration given by the options. Raises BadInput."""
    from omega.cellstate.resources import parse_amount
    from omega.experiments.configuration import Configuration

    said = {name: value for name, value in given.items() if value is not None}
    for name in ("cpu", "memory"):
        if name in said:
            said[name] = parse_amount(name, said[name])
    return Configuration().but(said)


class Several(click.Command):
    """A command with options, named in `several`, that take all words up to the next option: ``--cluster A B C``."""

    def __init__(self, *arguments: Any, several: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.several = frozenset(several)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before every value after the first, as click requires."""
        spread: list[str] = []
        last, values = "", 0
        for i, word in enumerate(args):
            if word == "--":
                spread += args[i:]
                break
            if word.startswith("-"):
                last, values = word, 0
            elif last in self.several:
                values += 1
                if values > 1:
                    spread.append(last)
            spread.append(word)
        return super().parse_args(ctx, spread)
