"""Causal message ordering."""
