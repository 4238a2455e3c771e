"""Logs of the processes of a cell are this user's, also where their directory was there before."""

import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from omega.live.processes.supervisor import ProcessSupervisor


def test_the_directory_of_logs_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "state" / "logs" / "c"
    logs.mkdir(parents=True)
    logs.chmod(0o755)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(pid=1))
    assert ProcessSupervisor("unix:///nowhere", "c", logs).start("batch/0") == 1
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    fresh = tmp_path / "other" / "logs" / "c"
    ProcessSupervisor("unix:///nowhere", "c", fresh).start("agent/m1")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (fresh, fresh.parent)] == [0o700, 0o700]
    assert [path.name for path in fresh.iterdir()] == ["agent-m1.log"]
