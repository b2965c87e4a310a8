"""Scenarios: text in, trace out."""
