"""A locale that knows ASCII alone ends no command in a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega
from tests.cli.test_main import ROOT

LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
"""As in a container without locales whose Python was told not to help itself."""
JOB = "name: a\nuser: jörg\ntasks: [{constraints: [\"rack == 'rück→'\"], command: [echo, ü]}]\n"


@pytest.mark.chaos
def test_every_step_of_a_job(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    (tmp_path / "ü.yaml").write_text(JOB, encoding="utf-8")
    environment = os.environ | LOCALE | {"OMEGA_STORE": str(omega.url), "OMEGA_CELL": cell.name}
    for words in (
        ("machine", "set", "m0", "rack=rück→"),
        ("job", "submit", "--detach", str(tmp_path / "ü.yaml")),
        ("job", "status", "a"),
        ("store", "backup", str(tmp_path / "ü.bak")),
        ("--json", "events"),
    ):
        if words[:2] == ("machine", "set"):
            omega.run("machine", "add", "m0", "--cpu", "1", "--attribute", "rack=rück→")
        done = subprocess.run(
            [sys.executable, "-m", "omega.cli.main", *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        refused = b"is not valid UTF-8; write it in UTF-8" in done.stderr
        assert done.returncode == (1 if refused else 0), done.stderr
        assert refused == (words[1] == "set"), "bytes of the command line cannot be told in this locale"
    assert cell.jobs.all()[0].spec["user"] == "jörg"
