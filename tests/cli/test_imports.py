"""What commands and the client import before their first call to the store: no library that this call does not need."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from omega.cli.main import omega as program
from tests.cli.test_main import ROOT, leaves

HEAVY = ("numpy", "pydantic", "yaml", "rich", "anyio", "lark", "prometheus_client", "textual", "matplotlib")
FILES = {"pydantic", "yaml"}
NEEDED = {
    "job submit": FILES, "job plan": FILES, "job update": FILES,  # they check the file first
    "pool import": FILES, "pool plan": FILES,
    "store backup": {"rich"},  # the bar of its progress
    "top": {"numpy"},
}  # fmt: skip
"""Libraries that a command does need."""
LOCAL = {
    "store acl", "store start", "store stop", "store restore", "down", "completion", "version", "mapreduce worker",
    "pool compute", "serve", "token", "scheduler policies", "scheduler test", "cell backtest",
}  # fmt: skip
"""Commands that make no call, or that read a file or a process first."""
SCHEDULERS = {"scheduler run", "demo"}
"""Commands that are schedulers themselves."""
WORDS = {"names": "m1", "changes": "a=b", "value": "2", "words": "3"}
OPTIONS = {
    "store backup": ["--force"],
    "cell create": ["c"],
    "machine resize": ["--cpu", "1"],
    "machine add": ["--cpu", "1"],
    "job run": ["--", "true"],
}

PROGRAM = """
import json, socket, sys
class Call(BaseException): pass
def connect(*_):
    raise Call
socket.socket.connect = connect
heavy, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
def imported(what):
    called = False
    try:
        what()
    except Call:
        called = True
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    return [called, [name for name in heavy if name in sys.modules]]
found = {}
if "client" in commands:
    import omega
    from omega.cellstate.model import JobSpec, TaskGroup
    job = JobSpec("x", "x", "batch", (TaskGroup((1, 1), 1),))
    found["client"] = imported(lambda: omega.Client(cell="c").submit(job))
from omega.cli.main import omega as program
for name, words in commands.items():
    if words:
        found[name] = imported(lambda: program.main(words))
print(json.dumps(found))
"""


def imported(folder: Path, heavy: Sequence[str], commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return which of some modules are imported before the first call by each command in turn; all make a call."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(heavy), json.dumps(commands)],
        cwd=ROOT,
        env={**os.environ, "OMEGA_STORE": f"unix://{folder}/s", "OMEGA_CELL": "c", "OMEGA_STATE": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert [name for name, (called, _) in found.items() if not called] == [], done.stderr
    return {name: modules for name, (_, modules) in found.items()}


def test_commands_about_jobs_import_neither_pools_nor_the_audit(tmp_path: Path) -> None:
    """Their tables of settings and records take a tenth of the start; most cells have no pools."""
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ntasks: [{command: ['true']}]\n")
    heavy = ("omega.cellstate.pools", "omega.cellstate.primary", "omega.queries.explanations")
    named = {f"job {word}": ["job", word, "x"] for word in ("status", "stop", "tasks", "hold")}
    rest = {
        "cell list": ["cell", "list"],
        "job list": ["job", "list"],
        "up": ["up"],
        "job submit": ["job", "submit", str(file)],
    }
    found = imported(tmp_path, heavy, {**named, **rest})
    assert [name for name, modules in found.items() if modules] == []


def test_nothing_heavy_is_imported_before_the_first_call_to_the_store(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ntasks: [{command: ['true']}]\n")
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: [{name: a}]\n")
    commands: dict[str, list[str]] = {}
    for path, command in leaves(program):
        name = " ".join(path)
        if path[0] in ("sim", "trace", "bench", "experiment") or name in LOCAL | SCHEDULERS:
            continue
        asked = [each.name or "" for each in command.params if isinstance(each, click.Argument) and each.required]
        known = {**WORDS, "file": str(pools if path[0] == "pool" else file), "files": str(file)}
        commands[name] = [*path, *(known.get(each, "x") for each in asked), *OPTIONS.get(name, [])]
    known_names = {" ".join(path) for path, _ in leaves(program)}
    assert LOCAL | SCHEDULERS | NEEDED.keys() | OPTIONS.keys() <= known_names, "a renamed command would not be checked"
    ordered = sorted(commands, key=lambda name: (len(NEEDED.get(name, ())), "numpy" in NEEDED.get(name, ())))
    found = imported(tmp_path, HEAVY, {"client": [], **{name: commands[name] for name in ordered}})
    allowed = set[str]()
    for name in ("client", *ordered):
        allowed |= NEEDED.get(name, set())
        assert set(found[name]) <= allowed, name
