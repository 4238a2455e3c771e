"""Reads of a whole key that grows with the cell: each has its reason here (semantics 40).

A question about one job or one page must cost the same in a cell a thousand times as large. Whoever adds such a read
adds a line; a line whose read is gone fails as well.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("omega/client", "omega/jobfile", "omega/live", "omega/mapreduce", "omega/pools", "omega/queries", "cli",
           "schedulers")  # a table # fmt: skip
METHODS = {
    "cell.machines.all",
    "cell.jobs.all",
    "cell.jobs.heads",
    "cell.jobs.names",
    "cell.jobs.ids",
    "cell.jobs.page",
    "cell.pools.demands",
    "cell.machines.indices_of_prefix",
    "cell.executors.machines_of",
    "cell.jobs.copied",
    "cell.schedulers.sync",
}
"""Methods of a cell that read all machines or all jobs, at least for some arguments."""
FUNCTIONS = {"working_copy", "latest", "rows_of", "machine_room"}
"""Functions that do so through one of them."""

FREE = "free amounts of all machines: no sum tells where a task fits"
EVICT = "an operator lowers limits with --evict: the victims are chosen among all jobs"
FIRST = "first synchronisation of a follower; later reads have what changed since"
POOLS = "fair shares are computed from the demand of every live job, at one version"
READS = {
    ("cli/demo.py", "stop_jobs", "cell.jobs.heads"): "the end of a demonstration, whose cell is its own",
    ("cli/job/list.py", "command", "cell.jobs.page"): "a page by the index; a filter reads back until the page is full",
    ("cli/up.py", "_simulated", "cell.executors.machines_of"): "start of a cell on this computer",
    (
        "omega/client/client.py",
        "jobs",
        "cell.jobs.page",
    ): "a page by the index; a filter reads back until the page is full",
    ("omega/limits.py", "evict", "cell.jobs.all"): EVICT,
    (
        "omega/limits.py",
        "_use_of_pool",
        "cell.jobs.all",
    ): "a dry run: the store sums this once a pool has limits",
    ("omega/live/processes/supervisor.py", "_serving", "cell.executors.machines_of"): "start of a simulated executor",
    ("omega/live/simulated/executor.py", "resume", "cell.executors.machines_of"): FIRST,
    ("omega/live/waiting.py", "look", "cell.jobs.all"): "waits for more jobs than are read one by one",
    (
        "omega/pools/leaving.py",
        "after_pools",
        "cell.machines.all",
    ): "an operator divides the machines anew: formulas name them",
    ("omega/queries/evictions.py", "evictions_for", "working_copy"): FREE,
    ("omega/queries/explanations.py", "explain_machine", "working_copy"): FREE,
    ("omega/queries/explanations.py", "of", "latest"): FREE,
    ("omega/queries/job_warnings.py", "empty", "working_copy"): "constraints name attributes of machines",
    ("omega/queries/jobs.py", "names_and_ids", "cell.jobs.page"): "a page by the index",
    ("omega/queries/machine_room.py", "machine_room", "latest"): FREE,
    (
        "omega/queries/machines.py",
        "find_machines",
        "cell.machines.indices_of_prefix",
    ): "text that is neither a name nor an index",
    ("omega/queries/machines.py", "page", "rows_of"): "a filter by state, or a list without a limit",
    ("omega/queries/machines.py", "rows_of", "cell.schedulers.sync"): "see its callers",
    ("omega/queries/mirror/loading.py", "_load_jobs", "cell.jobs.page"): "a page by the index; each job is read once",
    ("omega/queries/mirror/overviews.py", "_first_pending", "cell.schedulers.sync"): FIRST,
    ("omega/queries/mirror/reader.py", "read", "cell.schedulers.sync"): FIRST,
    ("omega/queries/plans.py", "__init__", "working_copy"): FREE,
    ("omega/queries/pool_shares.py", "_read", "cell.pools.demands"): POOLS,
    ("omega/queries/pool_shares.py", "shares_with", "cell.pools.demands"): POOLS,
    ("omega/queries/room.py", "_explained", "latest"): "constraints name attributes of machines",
    ("omega/queries/room.py", "room", "machine_room"): FREE,
    ("omega/queries/working_copy.py", "latest", "cell.schedulers.sync"): FIRST,
    ("omega/queries/working_copy.py", "latest", "working_copy"): FIRST,
    ("omega/queries/working_copy.py", "working_copy", "cell.schedulers.sync"): FIRST,
    (
        "omega/pools/changes.py",
        "check_all",
        "cell.schedulers.sync",
    ): "an operator changes pools: guarantees are compared with machines",
    ("schedulers/live_driver.py", "_sync", "cell.schedulers.sync"): FIRST,
    (
        "schedulers/process/copies.py",
        "request",
        "cell.jobs.copied",
    ): "the index of these jobs, once per heartbeat, as their records",
    ("schedulers/process/epochs.py", "publish", "cell.pools.demands"): POOLS,
    ("schedulers/resizing.py", "measure", "cell.jobs.all"): "growth of MapReduce jobs, once per interval",
}
"""File, function and method of each read of all machines or jobs, and why."""
IN_SCRIPTS = {
    ("changed_records.lua", "kinds_key"): "kinds with limits are few",
    ("claim_directory.lua", "directories_key"): "output directories of MapReduce jobs that are being written",
    ("digest.lua", "usage_key"): "the hours that are kept, when a new one begins",
    ("health.lua", "health_key"): "grants for unhealthy tasks, which live for seconds",
    ("limit.lua", "lanes_key"): "at most 32,000 lanes; an operator sets the first limit of a kind",
    ("pools.lua", "lanenames_key"): "at most 32,000 lanes; an operator changes pools",
    ("pools.lua", "lanes_key"): "at most 32,000 lanes; an operator changes pools",
    ("shares.lua", "lanes_key"): "at most 32,000 lanes; evictions between pools",
    ("sums.lua", "machines_key"): "a machine of more than 4,000,000,000 of a resource joins",
}
"""Scripts and keys of reads of whole hashes that may be large."""


def test_reads_of_all_machines_or_jobs_have_a_reason() -> None:
    files = [*(ROOT / "omega").glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    found = {read for path in files for read in reads_of(path)}
    assert found - READS.keys() == set(), "read a page, an index or sums instead, or give the reason in READS"
    assert READS.keys() - found == set(), "these reads are gone: remove their lines"


def reads_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the reads of a file."""
    name = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        inner = {id(node) for each in functions if each is not function and _within(each, function)
                 for node in ast.walk(each)}  # fmt: skip
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and id(node) not in inner and (called := _called(node)):
                yield name, function.name, called


def _within(inner: ast.FunctionDef, outer: ast.FunctionDef) -> bool:
    return outer.lineno < inner.lineno and (inner.end_lineno or 0) <= (outer.end_lineno or 0)


def _called(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in FUNCTIONS else None
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name | ast.Attribute):
        return None
    owner = function.value
    name = f"cell.{owner.id if isinstance(owner, ast.Name) else owner.attr}.{function.attr}"
    return name if name in METHODS else None


def test_scripts_read_whole_hashes_only_where_these_are_bounded() -> None:
    small = {"serving_key", "agents_key", "schedulers_key"}
    found = set()
    for path in sorted((ROOT / "cellstate/lua").rglob("*.lua")):
        for command, key in re.findall(r"'(HGETALL|HKEYS|HVALS|HSCAN)', *([\w.]+)", path.read_text("utf-8")):
            assert command
            if key not in small and key != "named.asleep":
                found.add((path.name, key))
    assert found == set(IN_SCRIPTS)
