"""What a drain with the deadline 0 says: housekeeping evicts, not the command."""

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join


def test_a_drain_at_once_says_who_evicts(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    name = omega.json("machine", "list")["machines"][0]["name"]
    told = omega.text("machine", "drain", name, "--deadline", "0s")
    assert told.rstrip().endswith(" · evicted next, by housekeeping")
    assert omega.text("machine", "drain", name, "--deadline", "1h").rstrip().endswith("after 1h00m, by housekeeping")
