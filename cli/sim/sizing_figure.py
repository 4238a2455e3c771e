"""Figures 15 and 16 of the Omega paper from a trace."""

from pathlib import Path
from typing import TYPE_CHECKING

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.claims import print_claims
from omega.cli.sim.executor import writable
from omega.cli.sim.options import FORMS

if TYPE_CHECKING:
    from omega.experiments.trace_mapreduce import MapReduceForm


def sizing_figure(app: App, number: int, form: "MapReduceForm", output: Path) -> None:
    """Run the sizing policies, draw figure 15 or 16, and print its points and claims. Raises BadInput."""
    from omega.experiments.bootstrap import Interval
    from omega.experiments.plots.trace_sizing import TITLES, draw_sizing
    from omega.experiments.sizing_claims import judged
    from omega.experiments.trace_mapreduce import simulated_policies

    writable(output / "figure")
    paths = [output / f"figure-{number}{ending}" for ending in FORMS]
    with render.busy("simulating and drawing", quiet=app.as_json):
        outcome = simulated_policies(form)
        draw_sizing(number, outcome, *paths)
    claims = [each.as_json() for each in judged(outcome) if each.figure == number]
    points, files = list(outcome.points()), [str(path) for path in paths]
    if app.as_json:
        plain = [
            {name: value.as_json() if isinstance(value, Interval) else value for name, value in point.items()}
            for point in points
        ]
        head = {"figure": number, "title": TITLES[number], "trace": form.run.trace, "load": outcome.source}
        render.document({**head, "points": plain, "claims": claims, "files": files})
        return
    rows = [
        (
            point["cell"], point["policy"], f"{point['jobs']:,}", point["benefit"].text(), point["speedup_p80"].text(),
            point["variation"].text(), f"{point['utilisation'].get('cpu', 0):.0%}",
        )
        for point in points
    ]  # fmt: skip
    render.table(("cell", "policy", ">jobs", ">faster", ">80th percentile", ">deviation", ">cpu in use"), rows)
    print_claims(claims)
    for file in files:
        render.line(file)
    render.note(f"other jobs: {outcome.source}")
