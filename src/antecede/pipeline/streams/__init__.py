"""Causal order for streams: the state machine, its state in Spark, and the function ``reorder``."""
