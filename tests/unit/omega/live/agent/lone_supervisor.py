"""A task supervisor as a process of its own, without a guard."""

import socket
import subprocess
import sys
from pathlib import Path

from omega.live.agent.guard_line import ROOT

PROGRAM = """
import socket
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
from omega.live.agent.supervisor import supervise
line = socket.socket(fileno=int(sys.argv[2])) if sys.argv[2] != "0" else None
supervise(line, 0, lambda: 0, *map(Path, sys.argv[3:]))
"""


def start(place: Path) -> "subprocess.Popen[bytes]":
    """Start the supervisor of a directory that holds an order."""
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), "0", str(place)])


def listen(line: socket.socket) -> "subprocess.Popen[bytes]":
    """Start a supervisor that is told of its tasks through a line."""
    program = [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), str(line.fileno())]
    return subprocess.Popen(program, pass_fds=[line.fileno()])
