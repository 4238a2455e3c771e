"""Reading for the audit the keys of a cell that expire by themselves and from which nothing follows."""

import re
from typing import Any

from omega.cellstate.inspection import Inspection
from omega.cellstate.redis.reads import RedisReads

_NAME = re.compile(rb"[\w.-]+")
_THREE_NUMBERS = re.compile(rb"(0|[1-9]\d*)( (0|[1-9]\d*)){2}")


class ExpiringInspection(RedisReads):
    """Readers of keys by their name, as in `RedisInspection`."""

    def _expiring(self, key: str, form: "re.Pattern[bytes]", what: str) -> None:
        """Raise ValueError for a key of another form, or without an expiry; not for one that has expired."""
        value: Any = self._command(self.client.get, self._prefix + key)
        if value is not None and not form.fullmatch(value):
            raise ValueError(f"{value!r} is not {what}")
        if self._command(self.client.pttl, self._prefix + key) == -1:
            raise ValueError("never expires")

    def _inspect_durations(self, _: Inspection, name: str) -> None:
        self._expiring(f"durations:{name}", _THREE_NUMBERS, "three numbers")

    def _inspect_chosen(self, _: Inspection, job: str) -> None:
        self._expiring(f"chosen:{job}", _NAME, "the name of a cell")
