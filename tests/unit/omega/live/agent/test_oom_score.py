"""The score of a task for the kernel's out-of-memory killer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omega.live.agent import lease_file
from omega.live.agent.guard_line import ROOT
from omega.live.agent.task_start import drop_protection
from tests.unit.omega.live.agent.lone_supervisor import PROGRAM

SCORE = Path("/proc/self/oom_score_adj")
TIMEOUT_SECONDS = 30.0


def task_score(place: Path, of_agent: int) -> int:
    """Run a task below a supervisor with this score; returns the task's."""
    (place / "work").mkdir()
    order = {
        "command": ["sh", "-c", "cat /proc/self/oom_score_adj > score"],
        "environment": {"PATH": os.environ["PATH"]},
        "directory": str(place / "work"),
        "restart": {"attempts": 0, "delay_ms": 10, "factor": 2.0},
        "lease": str(place / "lease"),
        "cgroup": "",
        "user": None,
        "umask": 0o022,
    } | {"time_limit_ms": 0, "grace_ms": 200, "log_bytes": 1 << 20, "memory_bytes": 0, "incarnation": 5}
    (place / "lease").write_text(f"{lease_file.now() + 600} {lease_file.now() + 700} 5")
    (place / "order.json").write_text(json.dumps(order))
    supervisor = [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), "0", str(place)]
    command = ["sh", "-c", f'echo {of_agent} > {SCORE} && exec "$@"', "sh", *supervisor]
    subprocess.run(command, timeout=TIMEOUT_SECONDS, check=True)
    return int((place / "work" / "score").read_text())


def may_protect() -> bool:
    tried = subprocess.run(["sh", "-c", f"echo -500 > {SCORE}"], stderr=subprocess.DEVNULL, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not SCORE.exists(), reason="this system has no scores")
def test_a_positive_score_is_inherited(tmp_path: Path) -> None:
    assert task_score(tmp_path, 700) == 700


@pytest.mark.skipif(not SCORE.exists() or not may_protect(), reason="needs the right to protect a process")
def test_the_protection_of_the_agent_is_not_inherited(tmp_path: Path) -> None:
    assert task_score(tmp_path, -500) == 0


@pytest.mark.parametrize(("of_agent", "of_task"), [("-900\n", 0), ("0\n", 0), ("500\n", 500), ("", None)])
def test_which_scores_are_dropped(tmp_path: Path, of_agent: str, of_task: int | None) -> None:
    score = tmp_path / "score"
    score.write_text(of_agent)
    drop_protection(score)
    assert score.read_text().strip() == ("" if of_task is None else str(of_task))
