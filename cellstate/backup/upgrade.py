"""Records of an older schema converted to the present one: what `omega store restore` and `migrate` share."""

from collections.abc import Callable

from omega.cellstate import keys
from omega.cellstate.backup import Backup
from omega.cellstate.errors import Unsuitable

STEPS: dict[int, Callable[[Backup], None]] = {}
"""Converter of each schema from `keys.OLDEST` to the one before the present: it changes the records of a backup to the
form of the next schema."""


def check_schema(backup: Backup) -> None:
    """Raise Unsuitable unless the records of a backup have the present schema, or one that `upgraded` converts."""
    if backup.schema != keys.SCHEMA and backup.schema not in STEPS:
        raise Unsuitable(f"cell {backup.cell}: {keys.other_schema(backup.schema, 'omega store restore')}")


def upgraded(backup: Backup) -> Backup:
    """Convert the records of a backup, in place, to the present schema. Raises Unsuitable."""
    check_schema(backup)
    while backup.schema != keys.SCHEMA:
        STEPS[backup.schema](backup)
        backup.schema += 1
    meta = backup.small["meta"].items
    meta[2 * meta[::2].index(b"schema") + 1] = b"%d" % keys.SCHEMA
    return backup
