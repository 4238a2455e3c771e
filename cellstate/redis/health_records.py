"""Records of the health of tasks: what `lua/health.lua` writes."""


def read_health(text: bytes) -> tuple[tuple[int, ...], ...]:
    """Read the record of a job: machine, placement, task, expiry of a grant (0: ready, 1: down) of each task."""
    return tuple(tuple(map(int, each.split(b":"))) for each in text.split())
