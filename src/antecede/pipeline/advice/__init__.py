"""Advice on a protocol for the traffic that a log shows."""
