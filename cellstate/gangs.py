"""The size of a gang, and of its minimum (semantics 8)."""

from omega.cellstate.errors import BadInput


def check_gang(name: str, least: int, total: int, *, most: int, gang: bool) -> None:
    """Refuse a minimum without a gang or above its tasks, and more tasks together than the `most` of a transaction.

    `least`: the minimum, 0 for all `total` tasks. Raises BadInput.
    """
    if least and not gang:
        raise BadInput(f"job {name}: gang_min {least} without a gang; set gang")
    if not 0 <= least <= total:
        raise BadInput(f"job {name}: a gang of at least {least} tasks; want 1 to its {total}")
    if (least or total) > most:
        which = f"at least {least}" if least else f"{total}"
        raise BadInput(f"job {name}: a gang of {which} tasks; the most in one transaction is {most}")
