"""The columns of the package's tables, and the values they may hold.

They are defined once, with only the standard library, so that writers and readers of a table cannot
drift apart.

What an event is
----------------
``EVENT_SCHEMA`` states it; a row is an event if every column fits its line:

- A *name* is a non-empty string. A whole number is read as its text.
- A *whole* is an integer of 64 bits (in a column of floating point numbers, one without a
  fraction), a *kind* one of ``EVENT_KINDS``.
- *Names* is a list of names, possibly empty, or a text of names between semicolons.
- *Seconds* is a number, a timestamp or a date as text. Any other text and a number that is not
  finite are read as null, for time is only a hint.
- A value may be null (or an empty name) unless the event's kind needs it.

Three readers implement this, each in one place: ``events.rule`` for plain Python,
``events.arrow_columns`` for Arrow tables, ``spark.frames`` for Spark. One table of cases tests all
three.
"""

from typing import Final, NamedTuple

SEND: Final = "send"
DELIVER: Final = "deliver"
LOCAL: Final = "local"
EVENT_KINDS: Final = (SEND, DELIVER, LOCAL)

NAME: Final = "name"
WHOLE: Final = "whole"
KIND: Final = "kind"
NAMES: Final = "names"
SECONDS: Final = "seconds"


class EventColumn(NamedTuple):
    """One column of the event log: its name, what it holds, and the kinds that need a value."""

    name: str
    holds: str
    needed_by: tuple[str, ...] = ()


#: One row per event. A column that no kind needs may be absent.
EVENT_SCHEMA: Final = (
    EventColumn("process", NAME, EVENT_KINDS),
    EventColumn("seq", WHOLE, EVENT_KINDS),
    EventColumn("kind", KIND, EVENT_KINDS),
    EventColumn("message", NAME, (SEND, DELIVER)),
    EventColumn("dests", NAMES),
    EventColumn("time", SECONDS),
)
EVENT_COLUMNS: Final = tuple(column.name for column in EVENT_SCHEMA)
EVENT_COLUMNS_NEEDED: Final = tuple(column.name for column in EVENT_SCHEMA if column.needed_by)

#: An optional further column: which events of other processes an event follows, as a map from a
#: process to the number of its events in this log, by ``seq``. It adds order to that of the
#: messages. The event's own process, counts below 1 and processes without events mean nothing,
#: except that a count below 1 of its own process means: the event may follow more than this.
CLOCK: Final = "clock"

#: The separator between the destinations of a send in a CSV field.
DESTS_SEPARATOR: Final = ";"

FIFO: Final = "fifo"
CAUSAL: Final = "causal"

#: One row per (process, message): delivered there after one of its effects.
VIOLATION_COLUMNS: Final = (
    "process",
    "message",
    "sender",
    "seq",
    "overtaker",
    "overtaker_sender",
    "overtaker_seq",
    "kind",
    "lateness",
    "chain",
)

#: One row per (process, message): never delivered to its destination, although an effect was.
MISSING_COLUMNS: Final = ("process", "message", "sender", "overtaker", "overtaker_seq")

DELIVERY_WITHOUT_SEND: Final = "delivery without send"
DELIVERY_AMBIGUOUS: Final = "ambiguous delivery"
SENT_TWICE: Final = "message sent twice"
DELIVERED_TWICE: Final = "delivered twice"
CAUSAL_CYCLE: Final = "causal cycle"
CONTRADICTORY_SEQ: Final = "contradictory seq"
CLOCK_AHEAD: Final = "clock ahead of the log"
FINDING_KINDS: Final = (
    DELIVERY_WITHOUT_SEND,
    DELIVERY_AMBIGUOUS,
    SENT_TWICE,
    DELIVERED_TWICE,
    CAUSAL_CYCLE,
    CONTRADICTORY_SEQ,
    CLOCK_AHEAD,
)

#: One row per inconsistency of a log, with the event that shows it.
FINDING_COLUMNS: Final = ("kind", "process", "seq", "message", "detail")

#: One row per line or row that could not be read as an event.
REJECTED_COLUMNS: Final = ("source", "line", "text", "reason")

#: ``advise``: one row per protocol.
ADVISE_COLUMNS: Final = (
    "protocol",
    "status",
    "entries_per_copy",
    "model_bytes_per_copy",
    "wire_bytes_per_copy",
    "added_delay_mean",
    "added_delay_p99",
    "held_fraction",
    "buffer_peak",
    "state_bytes_peak",
    "extra_packets_per_message",
    "reason",
)

#: ``study``: one row per run; an experiment may add columns.
STUDY_COLUMNS: Final = (
    "run_id",
    "experiment",
    "protocol",
    "options",
    "workload",
    "cast",
    "n",
    "seed",
    "deliveries",
    "entries_per_copy",
    "destinations_per_copy",
    "model_bytes_per_copy",
    "model_bytes_per_message",
    "wire_bytes_per_copy",
    "log_entries_mean",
    "log_entries_peak",
    "held_fraction",
    "held_time_mean",
    "held_time_p50",
    "held_time_p95",
    "held_time_p99",
    "held_time_max",
    "latency_mean",
    "buffer_mean",
    "buffer_peak",
    "extra_packets_per_message",
    "extra_bytes_per_message",
    "saturated",
    "seconds",
)
