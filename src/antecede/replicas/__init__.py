"""A replicated key-value store with causal consistency: see :mod:`antecede.replicas.replica`."""

from antecede.replicas.replica import Answer, Outcome, Replica, Write

__all__ = ["Answer", "Outcome", "Replica", "Write"]
