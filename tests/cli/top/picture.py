"""Draw docs/figures/top.svg: `python -m tests.cli.top.picture` runs a cell and takes its screen in `omega top`."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omega.cellstate.store import connect_cell
from omega.cli.top.screen import HIGH, WIDE, Top
from omega.embedded.server import default_url
from omega.queries.mirror import TopMirror
from tests.tutorial.page import at_work

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "figures" / "top.svg"
STORE = "unix:///home/ada/.local/state/omega/store.sock"
FONT = '"DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace'
JOBS = (
    "--name index --count 90 --cpu 4 --memory 8Gi --duration 10m --precedence 20",
    "--name train --count 20 --cpu 16 --memory 32Gi --duration 10m",
    "--name web --kind service --count 30 --cpu 2 --memory 4Gi --duration 10m --precedence 60",
    "--name wide --kind service --gang --count 150 --cpu 10 --memory 1Gi --duration 10m",
    """--name render --cpu 1 --duration 1m --constraint "rack == 'r9'" """,
    "--name nightly --count 20 --cpu 1 --duration 1m --after index",
)
"""Options of `omega job run`; `SHORT` ones follow, one after the other, until the screen is taken."""
SHORT = "--name scan{0} --count {1} --cpu 1 --memory 1Gi --duration 3s"


@contextmanager
def demo_cell() -> Iterator[tuple[str, Callable[[str], None]]]:
    """Run a cell with 100 simulated machines and three schedulers; yields its store's URL, and `omega` for commands."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"OMEGA_STATE": folder, "OMEGA_CELL": "lab", "OMEGA_USER": "ada"}
        environment.pop("OMEGA_STORE", None)
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

        def omega(words: str) -> None:
            subprocess.run(["omega", *shlex.split(words)], env=environment, check=True, capture_output=True)

        up = ["omega", "up", "--machines", "100", "--batch", "2", "--attribute", "rack=r1,r2,r3,r4"]
        try:
            with at_work(up, Path(folder), environment):
                for job in JOBS:
                    omega(f"job run --detach {job}")
                omega("machine drain m17")
                yield default_url(Path(folder)), omega
        finally:
            omega("store stop")


async def screen(url: str, omega: Callable[[str], None], size: tuple[int, int]) -> str:
    """Return the screen as SVG while short jobs are placed."""
    mirror = TopMirror(connect_cell(url, "lab"), STORE)
    top = Top(mirror, lambda: time.time_ns() // 1_000_000)
    async with top.run_test(size=size) as pilot:
        for number, count in enumerate((20, 44, 8, 60, 32, 16, 56), 1):
            await asyncio.to_thread(omega, f"job run --detach {SHORT.format(number, count)}")
            await asyncio.sleep(2)
        await pilot.press("4", "ctrl+home", "1")
        await pilot.pause()
        return top.export_screenshot(title="omega top")


def readable(svg: str) -> str:
    """Replace the fonts that a page would load from elsewhere by those of the reader's computer."""
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONT}", svg)


if __name__ == "__main__":
    with demo_cell() as (store, command):
        PICTURE.write_text(readable(asyncio.run(screen(store, command, (WIDE, HIGH)))), encoding="utf-8")
