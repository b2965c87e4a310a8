"""The event log of a group, which ``antecede audit`` reads: what it processed, and in which order.

A log is a process that sends its records, each after the records below its positions; a group is a
process that gets them. That a log's records follow each other adds nothing that a group could
break, because it processes each log in order.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from typing import Final

from antecede.errors import LogError
from antecede.logs.positions import ENTRIES_MAX, Log

#: Room in a log's numbers for what a record follows, and for the record itself.
_PLACES: Final = 2 * ENTRIES_MAX


class Events:
    """Appends what one instance of a group has processed; instances may share a file.

    Their clocks decide on the order between them, so audit a file of several machines only if
    their clocks agree better than a look-up takes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        group: str,
        topics: Collection[str],
        *,
        ordered: bool = True,
    ) -> None:
        self.path, self.group, self.topics = os.fspath(path), group, frozenset(topics)
        self._ordered = ordered
        self._last = 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # somebody was killed within a line
        except OSError as error:
            msg = f"cannot write the event log {self.path!r}: {error.strerror}; choose another path"
            raise LogError(msg, path=path, reason=str(error.strerror)) from None

    def processed(self, log: Log, offset: int, needs: Mapping[Log, int]) -> None:
        """Write that the group has processed a record."""
        source, name = str(log), f"{log}@{offset}"
        if not self._ordered:
            source = name  # nothing follows from the places of records in a log without order
        rows = [
            (source, offset * _PLACES + place, "deliver", f"{need}@{position - 1}")
            for place, (need, position) in enumerate(sorted(needs.items()))
            if need.topic in self.topics and (not self._ordered or need[:2] != log[:2])
        ]
        rows.append((source, offset * _PLACES + _PLACES - 1, "send", name))
        self._last = max(self._last + 1, time.time_ns())
        rows.append((self.group, self._last, "deliver", name))
        moment = self._last / 1e9
        data = "".join(
            json.dumps(
                {"process": process, "seq": seq, "kind": kind, "message": message, "time": moment},
                separators=(",", ":"),
            )
            + "\n"
            for process, seq, kind, message in rows
        )
        os.write(self._file, data.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
