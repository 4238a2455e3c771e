"""``omega sim replay`` of a recording: compared with what really happened, under its own settings and under others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App

ORDINARY = (
    "names",
    "takes",
    "records",
    "batsim",
    "paper",
    "compare_paper",
    "compare_lightweight",
    "url",
    "architecture",
)
"""Options of a replay that is no comparison: with one of them a recording is replayed as any other trace is."""
_CHANGES = ("batch", "service", "detection", "commit", "placement", "preemption", "pools")
_TIMES = ("t_job_batch", "t_job_service", "t_task", "t_task_service")


def is_question(path: Path, given: Mapping[str, Any]) -> bool:
    """Return whether a replay is a comparison: of a recording, without options of another kind of replay."""
    from omega.recording.file import is_recording

    recording = is_recording(path)
    for name in ("placement", "preemption"):
        if given[name] is not None and not recording:
            raise click.UsageError(f"--{name} is for recordings; give --scheduler for the traces of others")
    if not recording:
        relative = [name for name in ("batch", "service") if isinstance(given[name], str)]
        if relative:
            raise click.UsageError(f"--{relative[0]} {given[relative[0]]}: a number more or less is for recordings")
    ordinary = [name for name in ORDINARY if given[name]]
    for name in ("batch", "service", "placement", "preemption"):
        if ordinary and isinstance(given[name], str):
            raise click.UsageError(f"--{name} {given[name]} is for comparisons; leave out the options of other replays")
    return recording and not ordinary


def answer(app: App, path: Path, given: Mapping[str, Any]) -> None:
    """Compare runs of a recording with what happened, and print that; draw it with --figures. Raises BadInput."""
    from omega.cli.cell.what_if import show
    from omega.what_if.answers import Questions
    from omega.what_if.schedulers import Change

    words = {name: str(given[name]) for name in _CHANGES if given[name] is not None}
    if unknown := [name for name in _TIMES[1:] if given[name] is not None]:
        option = unknown[0].replace("_", "-")
        raise click.UsageError(
            f"--{option}: runs of a recording have measured decision times; give --t-job-batch for all"
        )
    if given["t_job_batch"] is not None:
        words["t-job"] = f"{given['t_job_batch']:g}"
    with render.busy(f"reading {path}", quiet=app.as_json) as tell:
        answers = Questions(path, told=tell).ask([Change(words=words)] if words else [])
    drawn = []
    if given["figures"] is not None:
        from omega.what_if.picture import draw

        folder = given["figures"]
        folder.mkdir(parents=True, exist_ok=True)
        drawn = [folder / "what-if.svg", folder / "what-if.png"]
        for file in drawn:
            draw(answers, file)
    if app.as_json:
        render.document(answers.as_json() | {"files": [str(file) for file in drawn]})
        return
    show(answers)
    for file in drawn:
        render.line(str(file))
