"""``omega trace``: published traces of clusters."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="trace",
    help="Describe published traces of clusters: docs/traces.md.",
    table={"info": ("omega.cli.trace.info", "Print machines, jobs, distributions and defects of a trace.")},
)
