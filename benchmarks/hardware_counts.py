"""Instructions that running processes execute, counted by the processor (Linux, with the program `perf`).

Processor time of a shared computer varies by half from run to run, the number of instructions by a few per cent.
"""

import shutil
import signal
import subprocess
from collections.abc import Mapping

WAIT_SECONDS = 10.0


class InstructionCounts:
    """Counts user instructions of processes from its creation to `stop`; counts nothing where `perf` cannot."""

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
        found = {}
        for name, process in self._running.items():
            _, text = process.communicate(timeout=WAIT_SECONDS)
            count = text.partition(",")[0].strip().splitlines()
            if count and count[-1].isdigit():
                found[name] = int(count[-1])
        return found
