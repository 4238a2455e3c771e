"""What `job status` prints of task groups, and `machine status` of jobs."""

from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join

JOB = """
name: a
user: ada
tasks:
  - {name: t, command: [echo, a b], time_limit: 90m, constraints: ["arch == 'x86_64'", {prefer: has ssd, weight: 3}]}
  - {name: plain}
"""


def test_what_groups_run_and_whose_they_are(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.json("job", "submit", "-", given=JOB)
    told = omega.text("job", "status", "a").splitlines()
    assert "t: echo 'a b' · time limit 1h30m · constraints arch == 'x86_64', prefer has ssd" in told
    assert not [line for line in told if line.startswith("plain:")]
    now, given = cell.store_ms(), "{name: b, user: ada, tasks: [{}]}"
    job_id = omega.json("job", "submit", "-", given=given)["jobs"][0]["id"]
    member = cell.schedulers.register("batch/0", "n", 60_000, now)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction(job_id, (Claim(0, 0, 1),))], Position(), now))
    (run,) = omega.json("machine", "status", "m0")["runs"]
    assert (run["name"], run["user"]) == ("b", "ada")
    assert "ada" in omega.text("machine", "status", "m0")
