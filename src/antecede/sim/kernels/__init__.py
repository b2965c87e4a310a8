"""Compiled engines: the same runs as on the plain engine, but fast.

Each kernel is one module that exports a record `KERNEL`; `registry` finds them. A kernel supplies
the steps of its protocol, and `loop` runs the events. Papers are cited by tag; the full references
are in the modules of `antecede.protocols`.
"""
