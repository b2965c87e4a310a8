"""Nodes: causal delivery between real processes, durable and bounded."""
