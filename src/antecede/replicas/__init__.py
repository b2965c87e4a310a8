"""A key-value store with causal consistency, replicated in part or in full."""

from antecede.replicas.replica import Answer, Outcome, Replica, Write

__all__ = ["Answer", "Outcome", "Replica", "Write"]
