"""The options that say what is simulated, shared by the commands of ``omega sim``."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from omega.experiments.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])

SECONDS = click.FloatRange(min=0)


def configuration_options(function: F) -> F:
    """Add an option for every parameter of a Configuration; what is not given keeps its default."""
    for option in reversed((
        click.option("--architecture", metavar="NAME", help="monolithic-single, monolithic-multi, partitioned, "
                     "two-level or shared-state (default)."),
        click.option("--workload", metavar="FILE.csv|PRESET", help="A workload file, or the cell A, B or C (default) "
                     "of the Omega paper: C measured on Google's 2011 trace, A and B calibrated."),
        click.option("--machines", type=click.IntRange(1), metavar="N", help="Machines (default: 12477, with a file "
                     "1000). At a smaller preset jobs arrive as often and run shorter in proportion."),
        click.option("--cpu", metavar="AMOUNT", help="Cores of every machine; of a preset's largest one."),
        click.option("--memory", metavar="AMOUNT", help="Memory of every machine; of a preset's largest one."),
        click.option("--days", type=click.FloatRange(0, 10_000, min_open=True), help="Simulated days (default: 1)."),
        click.option("--seed", type=int, help="Same seed, same run (default: 0)."),
        click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="FACTOR",
                     help="Times the batch jobs of a preset (default: 1)."),
        click.option("--batch", type=click.IntRange(1, 256), metavar="N", help="Batch schedulers (default: 1)."),
        click.option("--t-job-batch", type=SECONDS, metavar="S", help="Decision time of a batch job (default: 0.1)."),
        click.option("--t-job-service", type=SECONDS, metavar="S", help="Of a service job (default: 0.1); under "
                     "monolithic-single of every job."),
        click.option("--t-task", type=SECONDS, metavar="S", help="On top for each task (default: 0.005)."),
        click.option("--t-task-service", type=SECONDS, metavar="S", help="For each task of a service job."),
        click.option("--detection", type=click.Choice(["fine", "coarse"]), help="Of conflicts (default: fine)."),
        click.option("--commit", type=click.Choice(["incremental", "gang"]), help="Default: incremental."),
        click.option("--placement", metavar="NAME", help="random (default), first-fit or best-fit."),
        click.option("--sharing", metavar="NAME", help="How batch schedulers share jobs: hash or round-robin."),
        click.option("--offers", metavar="RULES", help="Two-level: as in the paper, or with what the authors' "
                     "simulator adds: authors (default under --reference-rules)."),
        click.option("--release-moves-number/--no-release-moves-number", default=None,
                     help="Whether a task that ends moves its machine's sequence number (default: yes)."),
        click.option("--reference-rules", is_flag=True, default=None,
                     help="Retry, give up and count as the authors' simulator does."),
    )):  # fmt: skip
        function = option(function)
    return function


def configuration(given: Mapping[str, Any]) -> "Configuration":
    """What the options say. Raises BadInput."""
    from cellstate.resources import parse_amount
    from omega.experiments.configuration import Configuration

    said = {name: value for name, value in given.items() if value is not None}
    for name in ("cpu", "memory"):
        if name in said:
            said[name] = parse_amount(name, said[name])
    return Configuration().but(said)
