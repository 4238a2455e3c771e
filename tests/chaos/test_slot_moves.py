"""The slot of a cell on a Cluster moves back and forth under load, by the server's own command and key by key.

``make chaos ARGS='tests/chaos/test_slot_moves.py -s'`` prints how long the cell stood still; MOVES is their number.
"""

import os
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from omega.cellstate.connections import slot_of
from omega.cellstate.keys import prefix
from tests.chaos.load import CELL, loaded
from tests.integration.stage import words_of
from tests.server_groups import cluster

pytestmark = [pytest.mark.server, pytest.mark.chaos]
MOVES = int(os.environ.get("MOVES", "20"))


@pytest.mark.parametrize("atomic", [True, False], ids=["migrateslots", "setslot"])
def test_a_slot_moves_back_and_forth_under_load(atomic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    name = "CLUSTER MIGRATESLOTS" if atomic else "SETSLOT and MIGRATE"
    slot, moves = slot_of(prefix(CELL)), list[float]()
    with cluster(2) as nodes, loaded(nodes.url, tmp_path, name) as load:
        load.work()
        load.commits.gaps.clear()
        for _ in range(MOVES):
            after = next(each for each in nodes.servers if each is not nodes.owner(slot))
            began = time.monotonic()
            nodes.move(slot, after, atomic=atomic)
            moves.append(time.monotonic() - began)
            load.work(30)
        submitted, commits = load.client.acknowledged, load.commits
        account = load.end()
        jobs = load.cell.jobs.by_id([each.job for each in (*submitted, *commits.submitted)])
        still = [length for _, length in commits.gaps]
        text = f"{name}: {MOVES} moves, median {median(moves):.2f} s, longest {max(moves):.2f} s\n"
        text += f"longest time without an acknowledged commit {max(still, default=0.0):.2f} s\n"
        text += f"{len(load.client.jobs)} jobs, {len(commits.placed)} commits; {load.repeated()} tasks ended twice\n"
        text += f"errors of witnesses: {load.client.errors} {Counter(commits.errors)}\n"
        logs = {member: words_of(load.processes, member) for member in load.processes.members}
        text += "".join(f"{member}: {words}\n" for member, words in logs.items() if words)
        (tmp_path / "moves.md").write_text(text)
        sys.stdout.write(f"\n{text}")
        assert account.clean, account
        assert load.repeated() == 0
        assert load.client.errors == []
        assert len(jobs) == len(submitted) + len(commits.submitted)
        assert all(not jobs[each.job].unplaced + jobs[each.job].placed for each in commits.ended)
        assert all("error" not in word.partition(":")[0] for words in logs.values() for word in words)
