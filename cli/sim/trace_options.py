"""The options of trace readers, shared by the commands that read a trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli.options import combined

if TYPE_CHECKING:
    from omega.traces import TraceOptions

COUNT = click.IntRange(1)

trace_argument = click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
reader_options = combined(
    click.option("--hours", type=click.FloatRange(0, 240_000, min_open=True), help="Length to read (default: all)."),
    click.option("--tasks", type=COUNT, metavar="N", help="Maximum number of arriving tasks (default: all)."),
    click.option(
        "--factor",
        type=click.FloatRange(0.01, 100),
        help="Google: machines have so many times their capacity (default: 1.55 with residents kept, else 1).",
    ),
    click.option(
        "--residents",
        type=click.Choice(["keep", "scale", "thin"]),
        help="Google: keep the jobs that run at the beginning on their machines (default), scale their requests until "
        "they fit, or keep a random choice of them on random machines.",
    ),
    click.option(
        "--service-jobs",
        "service_jobs",
        type=click.Choice(["class", "priority"]),
        help="Google: service jobs have priority 9 or more (default), or also scheduling class 2 or 3.",
    ),
    click.option(
        "--constraints",
        type=click.Choice(["trace", "synthetic", "none"]),
        help="Google: constraints of the trace's tables if there are any (default), synthetic ones, or none.",
    ),
    click.option(
        "--overruns",
        type=click.Choice(["run", "cut"]),
        help="SWF: jobs that ran longer than requested run as long as they did (default), or are cut at the request.",
    ),
    click.option("--processors", type=COUNT, metavar="N", help="SWF: processors per machine (default: by the header)."),
    click.option(
        "--start-hours",
        type=click.FloatRange(0, 240_000),
        help="Google: hours of the directory's parts before the beginning (default: 0).",
    ),
    click.option(
        "--shared-gpus",
        type=click.FloatRange(0, 1),
        metavar="PART",
        help="Alibaba: part of the GPUs that tasks may share (default: the part of GPU time that they ask for).",
    ),
    click.option("--machines", type=COUNT, metavar="N", help="SWIM: machines (default: the published number)."),
    click.option("--skip-bad-rows", is_flag=True, help="Continue after rows that cannot be read, and count them."),
    click.option("--no-cache", is_flag=True, help="Parse the files, instead of reading the columns kept of them."),
)


def trace_options(given: Mapping[str, Any], seed: int) -> "TraceOptions":
    """Return the options of a reader. Raises BadInput."""
    from omega.traces import TraceOptions
    from omega.traces.cache import cache_directory

    values = {name: given[name] for name in _SAME if given[name] is not None}
    if given["hours"] is not None:
        values["seconds"] = 3600 * given["hours"]
    if given["start_hours"] is not None:
        values["start_seconds"] = 3600 * given["start_hours"]
    if given["service_jobs"] is not None:
        values["service"] = given["service_jobs"]
    return TraceOptions(seed=seed, cache=None if given["no_cache"] else cache_directory(), **values)


_SAME = (
    "tasks",
    "factor",
    "residents",
    "constraints",
    "overruns",
    "processors",
    "machines",
    "skip_bad_rows",
    "shared_gpus",
)
