"""Use by user, pool and kind."""

import csv
import io
import time

from omega.cellstate.digest.hours import HOUR_MS
from omega.cellstate.digest.step import digest
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join


def test_core_hours_tasks_and_waits(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    file = "{name: a, pool: web, tasks: [{count: 2, resources: {cpu: 2, memory: 512Mi}}]}"
    job_id = omega.json("job", "submit", "-", given=file)["jobs"][0]["id"]
    now = cell.store_ms()
    member = cell.schedulers.register("batch/0", "n", 60_000, now)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction(job_id, (Claim(0, 0, 2),))], Position(), now))
    digest(cell, now + HOUR_MS)
    (run,) = cell.machines.runs([0])
    cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED)], now + HOUR_MS, "here")
    digest(cell, now + HOUR_MS)
    document = omega.json("usage", "--to", "2100-01-01", "--from", "1h")
    (row,) = document["use"]
    assert (row["user"], row["started"], row["finished"], row["jobs_placed"]) == ("ada", 2, 2, 1)
    assert abs(row["cpu_hours"] - 4) < 0.01
    assert abs(row["memory_hours"] - 1_024) < 3
    assert document["gaps"] == []
    names, cells = csv.reader(io.StringIO(omega.text("usage", "--by", "kind", "--csv", "--to", "2100-01-01")))
    assert names == list(omega.json("usage", "--by", "kind", "--to", "2100-01-01")["use"][0])
    read = dict(zip(names, cells, strict=True))
    assert (read["kind"], read["started"], read["finished"]) == ("batch", "2", "2")
    assert abs(float(read["cpu_hours"]) - 4) < 0.01
    (of_pool,) = omega.json("usage", "--by", "pool", "--to", "2100-01-01")["use"]
    assert (of_pool["pool"], of_pool["started"]) == ("web", 2)
    assert omega.text("usage", "--by", "pool", "--to", "2100-01-01").splitlines()[1].split()[0] == "web"
    assert omega.text("usage", "--to", "2100-01-01").splitlines()[0].split()[1:3] == ["core-hours", "MiB-hours"]
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(document["counted_to_ms"] / 1000))
    told = omega.run("usage", "--to", "2100-01-01").output
    assert f"counted up to {until}; housekeeping adds what came later" in told
    assert omega.error("usage", "--from", "soon").startswith("'soon' is no time")
