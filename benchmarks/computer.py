"""The measuring computer: model, load, and resource use of processes."""

import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

PERF_SECONDS = 10.0
"""Time for `perf` to print its counts."""
CALM = 0.3
"""Processors in use by others at most, when a measurement begins."""


def computer() -> dict[str, object]:
    """On what this was measured: processors, their model, the load before."""
    model = platform.processor() or platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processors": os.cpu_count(),
        "model": model,
        "system": platform.system(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def wait_calm(most_seconds: float) -> None:
    """Wait until the computer is idle, at most `most_seconds`: other load distorts the figures."""
    deadline = time.monotonic() + most_seconds
    while time.monotonic() < deadline:
        if is_calm():
            return


def is_calm() -> bool:
    """Whether the computer is idle for a quarter of a second."""
    first = _busy_seconds()
    time.sleep(0.25)
    return (_busy_seconds() - first) / 0.25 < CALM


def cpu_seconds(pid: int, *, children: bool = False) -> float:
    """Return the CPU seconds of a process, with those of its ended `children` if asked for; 0 where unavailable."""
    lines = _lines(f"/proc/{pid}/stat")
    if not lines:
        return 0.0
    words = lines[0].rpartition(")")[2].split()
    return sum(map(int, words[11 : 15 if children else 13])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 where unavailable."""
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _busy_seconds() -> float:
    lines = _lines("/proc/stat")
    if not lines:
        return 0.0
    user, nice, system, _, _, irq, soft, steal = map(int, lines[0].split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []


def middle(values: Sequence[float]) -> float:
    """The median; 0 of nothing."""
    return float(median(values)) if values else 0.0


def spread(values: Sequence[float], digits: int | None = None) -> list[float]:
    """The lowest and the highest, rounded to so many digits; zeros of nothing."""
    ends = [min(values, default=0.0), max(values, default=0.0)]
    return ends if digits is None else [round(end, digits) for end in ends]


class InstructionCounts:
    """Counts user instructions of processes from its creation to `stop`; counts nothing where `perf` cannot.

    Processor time of a shared computer varies by half from run to run, the number of instructions by a few per cent.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Begin to count; `pids` by the names under which `stop` returns the counts."""
        program = shutil.which("perf") or ""
        self._running = {
            name: subprocess.Popen(
                [program, "stat", "-x", ",", "-e", "instructions:u", "-p", str(pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
            for name, pid in (pids.items() if program else ())
        }

    def stop(self) -> dict[str, int]:
        """Return the instructions of each process since the creation; without those that could not be counted."""
        for process in self._running.values():
            process.send_signal(signal.SIGINT)
        counts = {}
        for name, process in self._running.items():
            _, text = process.communicate(timeout=PERF_SECONDS)
            lines = text.partition(",")[0].strip().splitlines()
            if lines and lines[-1].isdigit():
                counts[name] = int(lines[-1])
        return counts
