"""One process's side of a protocol: the endpoint, the rules it follows, and the view they share.

Nothing here does I/O, reads a clock or uses randomness, or needs more than the standard library.
Import what you need from the modules here, or from ``antecede`` itself.
"""
