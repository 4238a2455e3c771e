"""Names of schedulers and executors, and nonces of their incarnations (semantics 15)."""

from re import compile as pattern

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown

_EXECUTOR = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NONCE = pattern(r"[A-Za-z0-9._-]{1,64}")
_MEMBER = pattern(r"[a-z][a-z0-9_-]{0,31}/[A-Za-z0-9._-]{1,64}")


def check_nonce(nonce: str) -> str:
    """Return the nonce of an incarnation (semantics 15). Raises BadInput for one that its record cannot hold."""
    if not _NONCE.fullmatch(nonce):
        raise BadInput(f"nonce {shown(nonce)}: use 1 to 64 letters, digits, . _ -")
    return nonce


def check_executor(name: str) -> str:
    """Return the name of a simulated executor. Raises BadInput when it is invalid."""
    if not _EXECUTOR.fullmatch(name):
        raise BadInput(f"executor name {shown(name)}: use 1 to 64 letters, digits, . _ -")
    return name


def check_member(name: str) -> str:
    """Return a scheduler's name, ``kind/instance``. Raises BadInput when it is invalid."""
    if not _MEMBER.fullmatch(name):
        raise BadInput(f"scheduler name {shown(name)}: want kind/instance, for example batch/0")
    return name
