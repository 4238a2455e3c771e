"""``omega scheduler test``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.testing.mutants import Mutant


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--mutants",
    "number",
    default=40,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Number of mutants of the file; 0: only the contracts.",
)
@click.option("--seed", default=0, show_default=True, help="Seed that draws the mutants.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Number of processes (default: one per core).")
@click.pass_context
def command(ctx: click.Context, path: Path, number: int, seed: int, workers: int | None) -> None:
    """Test the policies of FILE, a Python file, with the contracts of omega.testing.

    Each policy and scheduler that FILE defines is tested with the contract of its kind. A contract class in FILE
    replaces the generated one. FILE is executed, as by omega scheduler run. Exits 1 when a contract does not hold.

    Then mutants are tested: copies of FILE with one place changed, for example a comparison, a call or a condition. A
    mutant that no contract finds survives: its line is not tested, or only states a preference. Write a test for it.
    """
    from omega.live.contract_workers import ContractWorkers

    app: App = ctx.obj
    try:
        from omega.testing.mutants import drawn
    except ImportError as error:
        raise BadInput(f"omega.testing: {error}; run pip install 'omega-scheduler[testing]'") from None
    try:
        source = path.read_text(encoding="utf-8")
        mutants = drawn(source, number, seed)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise BadInput(f"{path}: cannot be read as Python: {error}; fix it and run it again") from None
    with ContractWorkers(path, workers or os.cpu_count() or 1) as pool:
        with render.busy(f"contracts of {path}", quiet=app.as_json):
            examined = pool.examine(source)
        failed = any(each["failures"] for each in examined)
        errors = list[str]()
        if not failed and mutants:
            with render.progress(quiet=app.as_json) as bars:
                bar = bars.add_task("mutants", total=len(mutants), more="", left="")
                errors = pool.found([each.source for each in mutants], lambda: bars.update(bar, advance=1))
    if app.as_json:
        tested = [_mutant(each, error) for each, error in zip(mutants, errors, strict=False)]
        render.document({"ok": not failed, "file": str(path), "contracts": examined, "seed": seed, "mutants": tested})
    else:
        _show(examined, mutants, errors)
    ctx.exit(1 if failed else 0)


def _mutant(mutant: "Mutant", error: str) -> dict[str, Any]:
    """Return a mutant as plain values; `error` is what found it."""
    return {"line": mutant.line, "before": mutant.before, "after": mutant.after, "found": bool(error), "error": error}


def _show(examined: Sequence[dict[str, Any]], mutants: "Sequence[Mutant]", errors: Sequence[str]) -> None:
    """Print the contracts, their failures, and the mutants that survive."""
    rows = [
        (
            each["subject"],
            each["axis"],
            each["tests"],
            len(each["failures"]),
            "" if each["greedy"] is not False else "greedy = False",
        )
        for each in examined
    ]
    render.table(("policy", "contract", ">tests", ">failures", "tested with"), rows)
    for each in examined:
        for failure in each["failures"]:
            render.line(f"{each['subject']}: {failure['test']}: {failure['error']}")
    if not errors:
        return
    survivors = [each for each, error in zip(mutants, errors, strict=True) if not error]
    render.line(
        f"{units.count(len(mutants), 'mutant')} · {len(mutants) - len(survivors)} found · {len(survivors)} survive"
    )
    if survivors:
        render.table(
            (">line", "the file has", "the mutant that survives has"),
            [(each.line, each.before, each.after) for each in survivors],
        )
