"""Log of processes on stderr: structured lines, from the level warning by default.

OMEGA_LOG is the minimum level (debug, info, warning, error), OMEGA_LOG_FORMAT is text or json (one document a line).
A line has a short event and fields; programs that read logs rely on the fields.
"""

import json
import logging
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.cellstate.plain_text import escaped

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
NAME = "omega"


class _WithFields(logging.LoggerAdapter[logging.Logger]):
    """Takes the fields of an event as keywords and passes them on as extra."""

    @override
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        passed = {name: kwargs.pop(name) for name in _OF_LOGGING if name in kwargs}
        return msg, {**passed, "extra": {"said": {**(self.extra or {}), **kwargs}}}

    def bind(self, **fields: Any) -> "_WithFields":
        """Return a log that adds these fields to each event."""
        return _WithFields(self.logger, fields)


_OF_LOGGING = ("exc_info", "stack_info", "stacklevel")
log = _WithFields(logging.getLogger(NAME))
"""``log.info("joined", member="batch/0")``."""


class LogFormatter(logging.Formatter):
    """Format a record as a line of text or as a JSON document."""

    def __init__(self, form: str) -> None:
        """Set the format, one of FORMATS."""
        super().__init__()
        self.form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level, said = record.levelname.lower(), dict(getattr(record, "said", {}))
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        event = record.getMessage()
        if self.form == "json":
            return escaped(
                json.dumps({"at": at, "level": level, "event": event, **said}, ensure_ascii=False, default=str)
            )
        fields = "".join(f" {name}={_shown(value)}" for name, value in said.items())
        return f"{at} {level}: {_line(event)}{fields}"


def _shown(value: Any) -> str:
    r"""Return a value as text; in quotes, with unsafe characters as ``\uXXXX``, where its end would be ambiguous."""
    text = str(value)
    unquoted = text and not set(text) & set(' "=') and escaped(text) == text and "\n" not in text
    return text if unquoted else escaped(json.dumps(text, ensure_ascii=False))


def _line(event: str) -> str:
    r"""Return an event without unsafe characters, which would end the line or forge another: as ``\uXXXX``."""
    return escaped(event).replace("\n", "\\u000a")


def configure(environment: Mapping[str, str]) -> None:
    """Write to stderr as OMEGA_LOG and OMEGA_LOG_FORMAT set. Raises BadInput for other values."""
    level = environment.get("OMEGA_LOG") or "warning"
    form = environment.get("OMEGA_LOG_FORMAT") or "text"
    for name, value, known in (("OMEGA_LOG", level, LEVELS), ("OMEGA_LOG_FORMAT", form, FORMATS)):
        if value not in known:
            raise BadInput(f"{name} {value!r}: want {', '.join(known)}")
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(form))
    logger = logging.getLogger(NAME)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
