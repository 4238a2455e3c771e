"""``omega mapreduce``."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="mapreduce",
    table={"worker": ("omega.cli.mapreduce.worker", "Process the shards of a job; tasks of MapReduce jobs run this.")},
    help="Run workers of MapReduce jobs. Agents run this; submit such a job with omega job submit.",
)
