"""Addresses of nodes: ``host:port``."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from antecede.errors import UsageError


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether it can only be reached from this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parsed(text: str) -> Address:
    """Return an address written as ``host:port`` or ``[host]:port``."""
    host, colon, port = str(text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        msg = f"address {text!r} is not understood; write host:port, for example 127.0.0.1:7001"
        raise UsageError(msg)
    return Address(host, int(port))
