"""The event log of a group, which ``antecede audit`` reads: what it processed, and in which order.

Each record has its own sending process, whose clock counts the last record below each of its
positions; a group is a process that receives records. So an audit has as many processes as records:
write the events of a few thousand records, not of all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from typing import Any

from antecede.errors import LogError
from antecede.logs.positions import Log


class Events:
    """Appends the records that one instance of a group has processed; instances may share a file.

    Their clocks decide the order between them, so audit a file from several machines only if their
    clocks differ by less than the time of a look-up.
    """

    def __init__(self, path: str | os.PathLike[str], group: str, topics: Collection[str]) -> None:
        self.path, self.group, self.topics = os.fspath(path), group, frozenset(topics)
        self._last = 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # a process was killed while writing a line
        except OSError as error:
            msg = f"cannot write the event log {self.path!r}: {error.strerror}; choose another path"
            raise LogError(msg, path=path, reason=str(error.strerror)) from None

    def processed(self, log: Log, offset: int, needs: Mapping[Log, int]) -> None:
        """Record that the group has processed a record."""
        name = f"{log}@{offset}"
        self._last = max(self._last + 1, time.time_ns())
        moment = self._last / 1e9
        clock = {
            f"{need}@{position - 1}": 1
            for need, position in sorted(needs.items())
            if need.topic in self.topics
        }
        sent: dict[str, Any] = {
            "process": name,
            "seq": 0,
            "kind": "send",
            "message": name,
            "time": moment,
        }
        if clock:
            sent["clock"] = clock
        got = {"process": self.group, "seq": self._last, "kind": "deliver", "message": name}
        data = "".join(
            json.dumps(row, separators=(",", ":")) + "\n" for row in (sent, got | {"time": moment})
        )
        os.write(self._file, data.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
