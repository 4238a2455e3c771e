"""What an entry of the log says of settings, beside its facts: a JSON text in the field ``settings``.

The client that changes the settings knows them: scripts pass the text on. The facts of the entry have the numbers and
digests that the audit checks; recordings read the values here.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from omega.cellstate.schema import COPIES, NEVER

if TYPE_CHECKING:
    from omega.cellstate.model import GroupStatus, JobSpec, TaskGroup
    from omega.cellstate.pools import Pools


def scheduler_text(settings: Mapping[str, Any]) -> str:
    """Return the text of a scheduler's settings at its registration; "" for none."""
    return _text({"scheduler": dict(settings)}) if settings else ""


def attributes_text(machines: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Return the text of the attributes of machines, by name. A machine that joins and is left out has none."""
    return _text({"attributes": {name: dict(given) for name, given in machines}})


Terms = tuple[int, int, int]
"""What of a task group never changes, beside the need: duration (ms), budget of losses, and ``optional``."""
GangTerms = tuple[int, int]
"""Form of a gang (model.Gang), and its minimum."""


def terms_of(group: "TaskGroup | GroupStatus") -> Terms:
    """Return the terms of a group, as its record has them (cellstate/schema.py)."""
    optional = COPIES if group.copies else int(group.optional)
    return group.duration_ms, NEVER if group.once else group.budget, optional


def jobs_text(jobs: Sequence["JobSpec"]) -> str:
    """Return the text of jobs that are submitted: terms of their groups, and which are gangs.

    An id that is there twice is left out: the client cannot know which of the two the store takes.
    """
    times = Counter(job.id for job in jobs)
    jobs = [job for job in jobs if times[job.id] == 1]
    gangs = {job.id: (int(job.gang), job.gang_min) for job in jobs if job.gang or job.gang_min}
    groups = {job.id: list(map(terms_of, job.groups)) for job in jobs}
    return _text({"gangs": gangs, "groups": groups} if gangs else {"groups": groups})


def update_text(job_id: str, groups: Iterable["TaskGroup"]) -> str:
    """Return the text of the groups that an update adds to a job."""
    return _text({"groups": {job_id: list(map(terms_of, groups))}})


@lru_cache(maxsize=8)
def terms_in(text: str) -> tuple[Mapping[str, GangTerms], Mapping[str, tuple[Terms, ...]]]:
    """Return the gangs, and the groups of jobs, in the settings of an entry. Raises ValueError or TypeError."""
    settings: dict[str, Any] = json.loads(text) if text else {}
    gangs, groups = settings.get("gangs", {}), settings.get("groups", {})
    return (
        {job: (int(form), int(least)) for job, (form, least) in gangs.items()},
        {job: tuple((int(ms), int(budget), int(how)) for ms, budget, how in each) for job, each in groups.items()},
    )


@lru_cache(maxsize=8)
def attributes_in(text: str) -> Mapping[str, Mapping[str, str]]:
    """Return the attributes of machines in the settings of an entry, by name. Raises ValueError when it has others."""
    settings = json.loads(text) if text else {}
    named: dict[str, dict[str, str]] = settings.get("attributes", {}) if isinstance(settings, dict) else {}
    if not all(isinstance(given, dict) for given in named.values()):
        raise ValueError(text)
    return named


def plain_pools(pools: "Pools") -> dict[str, Any]:
    """Return all pools and trees as plain values, which `read_pools` reads."""
    from omega.cellstate.pools.records import plain  # noqa: PLC0415 - few calls change pools

    return {"pools": [plain(pool) for pool in pools.pools], "trees": [plain(tree) for tree in pools.trees]}


def pools_text(pools: "Pools") -> str:
    """Return the text of all pools and trees."""
    return _text(plain_pools(pools))


def read_pools(settings: Mapping[str, Any], version: int) -> "Pools | None":
    """Return the pools in the settings of an entry, None without any. Raises TypeError for an unknown setting."""
    from omega.cellstate.pools import Pool, Pools, PoolTree  # noqa: PLC0415
    from omega.cellstate.pools.records import settings as read  # noqa: PLC0415

    if "pools" not in settings:
        return None
    pools, trees = settings["pools"], settings["trees"]
    return Pools(tuple(read(Pool, each) for each in pools), tuple(read(PoolTree, each) for each in trees), version)


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, separators=(",", ":"), sort_keys=True)
