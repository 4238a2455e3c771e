"""``omega mapreduce``."""

from cli.lazy import Lazy

command = Lazy(
    name="mapreduce",
    table={"worker": ("cli.mapreduce.worker", "Work on the shards of a job; the tasks of MapReduce jobs run this.")},
    help="What the tasks of MapReduce jobs run. Submit such a job with omega job submit.",
)
