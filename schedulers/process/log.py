"""Log of processes on stderr: structured lines, from the level warning by default.

OMEGA_LOG is the minimum level (debug, info, warning, error), OMEGA_LOG_FORMAT is text or json (one document a line).
A line has a short event and fields; programs that read logs rely on the fields.
"""

import json
import logging
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any

import structlog

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import escaped

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
NAME = "omega"


def _for_logging(_: Any, __: str, said: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Pass an event to the standard library: the event as message, the fields as extra."""
    return {"msg": said.pop("event"), "extra": {"said": dict(said)}}


log = structlog.wrap_logger(
    logging.getLogger(NAME),
    wrapper_class=structlog.stdlib.BoundLogger,
    processors=[structlog.stdlib.filter_by_level, _for_logging],
)
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
