"""Running tasks as another user: its account, and access to directories."""

import os
import subprocess
from pathlib import Path
from typing import Any

from omega.cellstate.errors import BadInput
from omega.live.agent.places import AgentPlaces
from omega.live.agent.task_start import account


def task_user(name: str) -> dict[str, Any]:
    """Return the account of the tasks' user. Raises BadInput when this process may not use it."""
    if os.geteuid() != 0:
        raise BadInput(f"--run-as {name}: only an agent that runs as root can run tasks as another user")
    try:
        user = account(name)
    except KeyError:
        raise BadInput(f"--run-as {name}: no user of this name on this computer") from None
    if user["uid"] == 0:
        raise BadInput(f"--run-as {name}: is root; choose a user without root's rights")
    return user


def admit(places: AgentPlaces, user: dict[str, Any]) -> None:
    """Grant a user passage through the agent's directories to its tasks', without listing them.

    Raises BadInput when a parent directory is closed to that user.
    """
    for place in (places.state, places.state / "agents", places.top.parent, places.top, places.tasks):
        place.chmod(0o711)
    if not may_enter(str(places.tasks), user):
        where = "set OMEGA_STATE to a directory below one that all may enter, such as /var/lib/omega"
        raise BadInput(f"--run-as {user['name']}: that user cannot enter {places.tasks}; {where}")


def may_enter(directory: str, user: dict[str, Any] | None) -> bool:
    """Return whether a directory exists that a user (None: this process's user) may enter."""
    if user is None:
        return os.path.isdir(directory)  # noqa: PTH112 - returns False for a name with a zero byte
    if not directory or "\0" in directory or not Path(directory).is_absolute():
        return False
    return not subprocess.run(
        ["test", "-d", directory, "-a", "-x", directory],
        check=False,
        cwd="/",
        env={"PATH": os.defpath},
        user=user["uid"],
        group=user["gid"],
        extra_groups=user["groups"],
    ).returncode
