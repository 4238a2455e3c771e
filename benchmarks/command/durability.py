"""``omega bench durability``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table


@click.command()
@click.option("--calls", type=click.IntRange(min=1), help="Calls of each kind in a round (default: 500).")
@click.option("--rounds", type=click.IntRange(min=1), help="Number of alternating rounds (default: 5).")
@benchmark("durability", stored=False)
def command(document: dict[str, Any]) -> str:
    """Measure what the durability of a cell costs for each commit and each submission.

    Each setting has servers of its own on this computer; a call is one job, or one transaction of one claim.
    """
    columns = [
        ("durability", "setting"), ("call", "call"), (">µs round trip", "round_trip_us"), (">from", "{spread[0]:.0f}"),
        (">to", "{spread[1]:.0f}"), (">µs primary", "primary_cpu_us"), (">µs each replica", "replica_cpu_us"),
        (">µs client", "client_cpu_us"),
    ]  # fmt: skip
    table(columns, document["rows"])
    return "{calls} calls in each of {rounds} rounds; medians, processor time except for the round trip".format_map(
        document["chosen"]
    )
