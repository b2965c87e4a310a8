"""Spans of distributed traces as events; the formats otlp, jaeger and zipkin share it.

`model` says what a span is and what it does with messages, `pairing` finds which span delivers what
and which order follows, and `events` puts it all into the order of each process.
"""
