"""``omega bench all``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table


@click.command()
@click.option("--quick", is_flag=True, help="Fewer and shorter runs: a first impression.")
@benchmark("everything")
def command(document: dict[str, Any]) -> str:
    """Run all measurements and compare them with earlier ones.

    Takes about twelve minutes. The figures are compared with those of benchmarks/ranges.toml, possibly of another
    computer: `within` shows whether a figure is within its margin.
    """
    columns = [
        ("figure", "name"),
        (">now", "value"),
        (">before", "measured"),
        (">limit", "limit"),
        (">to reach", "target"),
        ("unit", "unit"),
        ("within", "within"),
    ]
    shown = [{"target": row["target"] or "", "within": "ok" if row["within"] else "no"} for row in document["ranges"]]
    table(columns, [row | texts for row, texts in zip(document["ranges"], shown, strict=True)])
    return "before: {machine}, {date}".format_map(document["measured"])
