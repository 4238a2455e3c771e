"""A task supervisor as a process of its own, without a guard."""

import subprocess
import sys
from pathlib import Path

from omega.live.agent.guard_line import ROOT

PROGRAM = """
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
from omega.live.agent.supervisor import supervise
supervise(None, 0, lambda: 0, Path(sys.argv[2]))
"""


def start(place: Path) -> "subprocess.Popen[bytes]":
    """Start the supervisor of a directory that holds an order."""
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), str(place)])
