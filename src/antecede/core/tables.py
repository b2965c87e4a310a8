"""The columns of the tables that packages exchange, and the words used in them.

Writers and readers share these names, so they cannot drift apart. The module needs only the
standard library, so small programs can use it with nothing else installed.
"""

from __future__ import annotations

from typing import Final

SEND: Final = "send"
DELIVER: Final = "deliver"
LOCAL: Final = "local"
EVENT_KINDS: Final = (SEND, DELIVER, LOCAL)

#: One row per event; ``dests`` and ``time`` may be missing.
EVENT_COLUMNS: Final = ("process", "seq", "kind", "message", "dests", "time")
EVENT_COLUMNS_NEEDED: Final = ("process", "seq", "kind", "message")

#: Separates the destinations of a send in a CSV field.
DESTS_SEPARATOR: Final = ";"

FIFO: Final = "fifo"
CAUSAL: Final = "causal"

#: One row per (process, message): the message was delivered there after an effect of it.
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

#: One row per (process, message): addressed to it, never delivered, although an effect was.
MISSING_COLUMNS: Final = ("process", "message", "sender", "overtaker", "overtaker_seq")

DELIVERY_WITHOUT_SEND: Final = "delivery without send"
SENT_TWICE: Final = "message sent twice"
DELIVERED_TWICE: Final = "delivered twice"
CAUSAL_CYCLE: Final = "causal cycle"
CONTRADICTORY_SEQ: Final = "contradictory seq"
FINDING_KINDS: Final = (
    DELIVERY_WITHOUT_SEND,
    SENT_TWICE,
    DELIVERED_TWICE,
    CAUSAL_CYCLE,
    CONTRADICTORY_SEQ,
)

#: One row per inconsistency in a log, with the event that showed it.
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

#: ``study``: one row per run; an experiment may add its own.
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
