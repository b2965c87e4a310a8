"""Packets and endpoint states to bytes and back: versioned, canonical, compact.

docs/wire.md specifies the format. Only the standard library is used.
"""

from antecede.wire.codec import Codec

__all__ = ["Codec"]
