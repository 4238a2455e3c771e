"""Conditions for the acknowledgement of changes of a cell: ``none``, ``fsync`` or ``replicas=1,timeout=1s``."""

from dataclasses import dataclass

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown

TIMEOUT_MS = 1_000
"""Time to wait for replicas where no other is set."""
MOST_TIMEOUT_MS = 2_000
"""Maximum time to wait for replicas: a scheduler that waits so long between renewals of its lease (5 s) keeps it."""
MOST_REPLICAS = 99
UNCHECKED = "durability fsync not checked: this user may not read CONFIG"
"""What processes log of it."""
FORMS = "write none, fsync or replicas=N,timeout=T, such as replicas=1,timeout=1s"


@dataclass(frozen=True, slots=True)
class Durability:
    """A change is acknowledged once `replicas` replicas have it, or by a server that syncs each write (`fsync`).

    `timeout_ms` is the time to wait for the replicas. Without either, the server's settings decide about losses.
    """

    replicas: int = 0
    timeout_ms: int = 0
    fsync: bool = False

    @property
    def mode(self) -> str:
        """Return ``none``, ``fsync`` or ``replicas``."""
        return "fsync" if self.fsync else "replicas" if self.replicas else "none"

    @property
    def text(self) -> str:
        """Return the form that `parse` reads."""
        if not self.replicas:
            return self.mode
        seconds, rest = divmod(self.timeout_ms, 1_000)
        return f"replicas={self.replicas},timeout={f'{self.timeout_ms}ms' if rest else f'{seconds}s'}"

    @classmethod
    def parse(cls, text: str) -> "Durability":
        """Return a durability from its text. Raises BadInput."""
        if text in ("none", "fsync"):
            return cls(fsync=text == "fsync")
        words = [word.strip().partition("=") for word in text.split(",")]
        given = {name: value for name, _, value in words}
        if len(given) != len(words) or not {"replicas"} <= given.keys() <= {"replicas", "timeout"}:
            raise BadInput(f"durability {shown(text)}: {FORMS}")
        number = given["replicas"]
        if not (number.isascii() and number.isdecimal() and len(number) <= 2 and 1 <= int(number) <= MOST_REPLICAS):
            raise BadInput(f"durability {shown(text)}: replicas is a number from 1 to {MOST_REPLICAS}")
        timeout_ms = parse_duration(given["timeout"]) if "timeout" in given else TIMEOUT_MS
        if not 1 <= timeout_ms <= MOST_TIMEOUT_MS:
            raise BadInput(f"durability {shown(text)}: timeout is from 1ms to {MOST_TIMEOUT_MS // 1_000}s")
        return cls(int(number), timeout_ms)
