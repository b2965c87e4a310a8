"""Causal order over logs (Kafka, JetStream), for consumer groups, without a list of members.

A record carries, per log, how far its sender had read or written it; a group starts a record once
it has processed its logs that far. ``positions`` and ``gate`` do no I/O; each other module is the
adapter of one client, and imports that client only when it is used.
"""

from antecede.logs.gate import Gate, Metrics
from antecede.logs.positions import Context, Log, Positions, context, current, handling

__all__ = ["Context", "Gate", "Log", "Metrics", "Positions", "context", "current", "handling"]
