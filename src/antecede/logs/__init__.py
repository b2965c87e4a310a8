"""Causal order over logs (Kafka, JetStream), with consumer groups and without members.

A record carries, per log, how far its sender had seen or written it; a group starts a record when
it has processed its own logs up to there. ``positions`` and ``gate`` do no I/O; each other module
is the adapter of one client, and imports that client only when it is used.
"""

from antecede.logs.gate import Gate, Metrics
from antecede.logs.positions import Context, Log, Positions, context, current, handling

__all__ = ["Context", "Gate", "Log", "Metrics", "Positions", "context", "current", "handling"]
