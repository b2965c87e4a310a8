"""What nodes log: a sentence for people, and the same facts as fields for programs."""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any, Final

LOG: Final = logging.getLogger("antecede.net")


def tell(level: int, node: str, event: str, sentence: str, **fields: object) -> None:
    """Log a sentence about a node; ``event`` is a short name for what happened.

    The fields of the record are ``node``, ``event`` and those given, such as ``peer``.
    """
    LOG.log(level, "%s: %s", node, sentence, extra={"node": node, "event": event, **fields})


class JsonFormatter(logging.Formatter):
    """Writes each record as a JSON object in one line: time, level, logger, message and fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        when = dt.datetime.fromtimestamp(record.created, dt.UTC)
        row: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        row |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


_USUAL: Final = {*vars(logging.makeLogRecord({})), "message", "asctime"}
