"""``omega bench commit``."""

from typing import Any

import click

from benchmarks.command.harness import (
    NUMBERS,
    append_only_option,
    count_instructions,
    foot,
    instruction_table,
    instructions_option,
    machines_option,
    measure,
    stated,
    store_option,
)
from omega.cli import render
from omega.cli.app import App


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
@append_only_option
@store_option
@instructions_option
@click.pass_obj
def command(app: App, /, instructions: bool, **settings: Any) -> None:
    """Measure commits per second against the same writes without checks.

    The ceiling is the better of plain pipelined commands and an unchecked script; both write the same keys and
    bytes as the commits, in alternating rounds.
    """
    counted = count_instructions(app, instructions)
    document = measure(app, "commit", stated(**settings))
    if counted:
        document["instructions"] = counted
    if app.as_json:
        render.document(document)
        return
    render.table(
        [
            ">clients",
            ">claims per transaction",
            ">claims/s",
            ">transactions/s",
            ">ceiling",
            ">ratio",
            ">from",
            ">to",
            "ceiling is",
        ],
        [
            [
                run["clients"],
                run["size"],
                run["claims_per_second"],
                run["transactions_per_second"],
                run["ceiling_claims_per_second"],
                f"{run['ratio']:.2f}",
                *(f"{r:.2f}" for r in run["spread"]["ratio"]),
                run["ceiling_kind"],
            ]
            for run in document["runs"]
        ],
    )
    instruction_table(counted)
    per_call = document["runs"][0]["transactions_per_call"]
    foot(document, f"{document['cell']['machines']:,} machines, {per_call} transactions per round trip")
