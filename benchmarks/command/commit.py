"""``omega bench commit`` and ``omega bench instructions``."""

from typing import Any

import click

from benchmarks.command.harness import NUMBERS, Listed, benchmark, instruction_table, machines_option, table


@click.command()
@click.option("--clients", type=NUMBERS, metavar="N,…", help="Number of client processes (default: 1,2,4).")
@click.option("--size", "sizes", type=NUMBERS, metavar="N,…", help="Claims per transaction (default: 1,10,100).")
@click.option(
    "--in-flight",
    "--per-call",
    "per_call",
    type=click.IntRange(min=1),
    help="Transactions per round trip (default: as the batch scheduler).",
)
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Length of a round in seconds (default: 0.5).")
@click.option("--rounds", type=click.IntRange(min=1), help="Number of alternating rounds of each kind (default: 5).")
@machines_option
@benchmark("commit", counted=True)
def command(document: dict[str, Any]) -> str:
    """Measure commits per second against the same writes without checks.

    The ceiling is the better of plain pipelined commands and an unchecked script; both write the same keys and
    bytes as the commits, in alternating rounds.
    """
    columns = [
        (">clients", "clients"),
        (">claims per transaction", "size"),
        (">claims/s", "claims_per_second"),
        (">transactions/s", "transactions_per_second"),
        (">ceiling", "ceiling_claims_per_second"),
        (">ratio", "{ratio:.2f}"),
        (">from", "{spread[ratio][0]:.2f}"),
        (">to", "{spread[ratio][1]:.2f}"),
        ("ceiling is", "ceiling_kind"),
    ]
    table(columns, document["runs"])
    per_call = document["runs"][0]["transactions_per_call"]
    return f"{document['cell']['machines']:,} machines, {per_call} transactions per round trip"


@click.command()
@click.option(
    "--form",
    "forms",
    type=Listed(click.STRING),
    metavar="FORM,…",
    help="packed, spread, one per call, gangs (default: all).",
)
@click.option("--machines", type=click.IntRange(min=10), help="Machines in the cell (default: 1000).")
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs of each form (default: 320).")
@benchmark("instructions", stored=False)
def instructions(document: dict[str, Any]) -> str:
    """Count the instructions that the server executes for a job of ten tasks.

    Needs valgrind. The count includes the calls of a scheduler and an executor from the job's receipt to its
    end, and varies by a few per mille on the same server program, however busy the computer is.
    """
    instruction_table(document["forms"])
    return f"{document['chosen']['machines']:,} machines, jobs of {document['chosen']['tasks_per_job']} tasks"
