"""Benchmarks: ratios measured side by side in one run, not absolute promises."""
