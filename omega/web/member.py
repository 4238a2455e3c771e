"""``omega serve`` as a process of ``omega up`` and ``omega demo``: ``python -m omega.web.member``.

As other members (omega/live/member.py) it gets the store's URL by a socket, and OMEGA_CELL, the default cell.
OMEGA_WEB has the settings and the start token as JSON, OMEGA_WEB_READY the file into which it writes where it listens.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from omega.cellstate.errors import OmegaError, StoreError
from omega.client.defaults import account_name
from omega.live.processes.bound import end_with_starter
from omega.live.processes.supervisor import ProcessSupervisor
from omega.live.secrets import take_store
from omega.schedulers.process.log import configure, log
from omega.web.access.tokens import new_token, write_private
from omega.web.server import Serving, Settings, WebServer, check_tokens

MODULE = "omega.web.member"
KIND = "web"
STARTING_SECONDS, PAUSE_SECONDS = 60.0, 0.05


def main(environment: Mapping[str, str]) -> int:
    """Serve as the environment describes; returns the exit code."""
    environment = dict(environment)
    url = take_store(environment)
    end_with_starter(environment)
    said = json.loads(environment["OMEGA_WEB"])
    try:
        configure(environment)
        server = WebServer(
            url or environment["OMEGA_STORE"], environment["OMEGA_CELL"], Settings(**said["settings"]), said["token"]
        )
        ready = Path(environment["OMEGA_WEB_READY"])
        server.run(lambda serving: write_private(ready, json.dumps(serving.as_json())))
    except OmegaError as error:
        log.error(str(error))
        return 1
    return 0


def settings_of(listen: str, tokens: str | None = None) -> Settings:
    """Return the settings of a console beside a cell on this computer. Raises BadInput."""
    file = None if tokens is None else Path(tokens).expanduser().absolute()
    settings = Settings(listen=listen, user=account_name(), tokens=None if file is None else str(file))
    settings.check()
    if file is not None:
        check_tokens(file)
    return settings


def prepare(group: ProcessSupervisor, settings: Settings) -> None:
    """Let a supervisor start a console, also again when it ended: with the same address and token."""
    ready = group.logs / "web.ready"
    said = json.dumps({"settings": asdict(settings), "token": new_token()})
    group.programs = {**group.programs, KIND: MODULE}
    group.choices = {**group.choices, KIND: {"OMEGA_WEB": said, "OMEGA_WEB_READY": str(ready)}}


def start(group: ProcessSupervisor, settings: Settings) -> Serving:
    """Start a console and wait until it answers. Raises StoreError when it ends, or is late."""
    prepare(group, settings)
    ready, member = Path(group.choices[KIND]["OMEGA_WEB_READY"]), f"{KIND}/{settings.listen}"
    ready.unlink(missing_ok=True)
    group.start(member)
    until = time.monotonic() + STARTING_SECONDS
    while not ready.exists():
        code = group.members[member].poll()
        if code is not None:
            raise StoreError(f"console: {group.end_of(member, code)}")
        if time.monotonic() > until:
            raise StoreError(f"console: not ready after {STARTING_SECONDS:.0f} s; see {group.logs}")
        time.sleep(PAUSE_SECONDS)
    said = json.loads(ready.read_text("utf-8"))
    ready.unlink()
    return Serving(said["url"], said["login"], Path(said["token_file"]))


if __name__ == "__main__":
    raise SystemExit(main(os.environ))
