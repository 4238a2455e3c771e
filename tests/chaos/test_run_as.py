"""Tasks that run as another user than the agent: the store, the agent and other tasks are out of their reach."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.integration.stage import submit, until
from tests.integration.with_password import guarded_server, program

pytestmark = [pytest.mark.server, pytest.mark.chaos]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks as another user")
def test_a_task_of_another_user_reaches_nothing_of_the_agent(tmp_path: Path) -> None:
    with (
        guarded_server() as (url, password),
        tempfile.TemporaryDirectory(prefix="omega-", dir="/tmp") as open_place,
    ):
        top = Path(open_place)
        top.chmod(0o755)
        store = tmp_path / "store"
        store.write_text(url)
        store.chmod(0o600)
        script = (
            "id -un; pwd; touch here; echo $HOME; ls / > /dev/null; for p in /proc/[0-9]*; do "
            f"cat $p/environ $p/cmdline 2>/dev/null; done | tr '\\0' '\\n' | grep -c {password.replace('pw', 'p[w]')}; "
            f"cat {store} ../order.json ../../../nonce; ls .. ; kill -0 $PPID; true"
        )
        with connect(url) as client:
            cell = RedisCell.create(client, "secret", url=url)
            with (
                program("scheduler", "run", "batch", state=_made(top / "s"), store=store),
                program("agent", "--name", "h1", "--run-as", "nobody", state=_made(top / "a"), store=store),
            ):
                until(lambda: cell.machines.index_of("h1") is not None, "the agent lives")
                cell.schedulers.members()
                command = {"command": ["sh", "-c", script], "grace": 100}
                submit(cell, [JobSpec("r", "r", "batch", (TaskGroup((100, 64), 1, 0, command),))])
                until(lambda: cell.jobs.get("r").groups[0].finished, "the task ran")  # type: ignore[union-attr]
            (place,) = (top / "a").glob("agents/secret/h1/tasks/r.*")
            said = (place / "stdout.0").read_text().splitlines()
            assert said[:2] == ["nobody", str(place / "work")]
            assert said[3] == "0", "the password is nowhere"
            refused = (place / "stderr.0").read_text()
            assert refused.count("denied") + refused.count("not permitted") == 5, refused
            assert json.loads((place / "order.json").read_text())["user"]["name"] == "nobody"
            cell.close()


def _made(place: Path) -> Path:
    place.mkdir()
    return place
