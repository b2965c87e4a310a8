"""The hash by which Kafka's Java client, and many others, choose a key's partition."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of ``data`` with the seed that Kafka uses."""
    length = len(data)
    found = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        part = (part ^ part >> 24) * _FACTOR & _MASK
        found = found * _FACTOR & _MASK ^ part
    if length & 3:
        found ^= int.from_bytes(data[whole:], "little")
        found = found * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
