"""Packets and snapshots as bytes."""

from antecede.wire.codec import Codec

__all__ = ["Codec"]
