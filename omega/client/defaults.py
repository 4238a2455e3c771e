"""Default user and cell."""

import os
from collections.abc import Sequence

from omega.cellstate.errors import Refused

DEFAULT_CELL = "default"


def account_name() -> str:
    """Return OMEGA_USER, else the account's name; it is not authenticated."""
    import getpass  # only here: slow to import

    try:
        return os.environ.get("OMEGA_USER") or getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def author(user: str) -> str:
    """Return a user's name as the author of facts in the log."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in user) or "somebody"


def which(there: Sequence[str], url: str, *, surely: bool = False) -> str:
    """Return ``default``, else the name of the only cell of the store at `url`.

    Raises Refused when there are several and none of them is ``default``; with `surely` whenever there are several.
    """
    if len(there) > 1 and (surely or DEFAULT_CELL not in there):
        raise Refused(
            f"the store at {url} has {len(there)} cells: {', '.join(there)}; choose one with --cell or OMEGA_CELL"
        )
    return there[0] if len(there) == 1 else DEFAULT_CELL
