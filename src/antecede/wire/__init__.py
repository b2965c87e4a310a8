"""Packets and endpoint states to bytes and back: versioned, canonical, compact.

docs/wire.md specifies the format. The package needs only the standard library.
"""

from antecede.wire.codec import Codec

__all__ = ["Codec"]
