"""The event log: one row per send, delivery or local event of a process.

Any program can write one, with one call per event and without other packages. ``antecede audit``,
``advise`` and ``report`` read it. Two formats need no extras: JSON lines, and CSV with a header (a
file name that ends in ``.csv``)::

    with EventLog("shop.jsonl", process="billing") as log:
        log.send("order-17/invoice", ["mail", "stock"])
        log.deliver("order-17/paid")
"""

from antecede.events.lines import read, read_rows, rows_in
from antecede.events.rule import Event, Rejected, Row, left_out, parse
from antecede.events.writer import EventLog, message_name, write

__all__ = [
    "Event",
    "EventLog",
    "Rejected",
    "Row",
    "left_out",
    "message_name",
    "parse",
    "read",
    "read_rows",
    "rows_in",
    "write",
]
