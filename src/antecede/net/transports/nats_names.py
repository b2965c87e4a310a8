"""Names on a NATS server: the URL of a group, its streams and subjects, and message headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from antecede.errors import UsageError
from antecede.net.transports.addresses import Address

PORT: Final = 4222
GROUP: Final = "antecede"
"""The group of a URL that names none."""
PAYLOAD_BYTES: Final = 1 << 19
"""A node's default largest payload: a frame with it fits into NATS's own limit of 1 MiB."""
PACKET_HEADER: Final = "Antecede-Packet"
"""The bytes of ``Codec.encode(packet, payload=False)`` in Base64."""
MESSAGE_HEADER: Final = "Antecede-Message"
"""The message's id, such as ``a:12``."""
STORE_HEADER: Final = "Antecede-Store"
"""The identity of the store that the packet's number belongs to."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class NatsUrl:
    """``nats://host:port/name?option=value``: one server or several, and a name on them."""

    servers: tuple[str, ...]
    """Addresses as the client takes them, with user and password if the URL has them."""
    addresses: tuple[Address, ...]
    name: str
    options: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        """Return the URL without password and options."""
        return f"nats://{','.join(map(str, self.addresses))}/{self.name}"

    def option(self, name: str) -> str | None:
        """Return the last value of an option."""
        return self.options[name][-1] if name in self.options else None


def parse_url(text: str, known: tuple[str, ...], *, name: str | None = None) -> NatsUrl:
    """Return the parts of a URL; without a path, it names ``name``."""
    try:
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise _not_understood(text, str(error)) from error
    if parts.scheme not in ("nats", "tls"):
        raise _not_understood(text, "its scheme is neither nats nor tls")
    found = unquote(parts.path.strip("/")) or name
    if found is None or not _PLAIN.fullmatch(found):
        raise _not_understood(text, "its path is not a name of letters, digits, - and _")
    collected: dict[str, tuple[str, ...]] = {}
    for key, value in options:
        if key not in known:
            reason = f"option {key!r} is not one of {', '.join(known) or 'none'}"
            raise _not_understood(text, reason)
        values = tuple(word for word in value.split(",") if word)
        collected[key] = (*collected.get(key, ()), *values)
    addresses = tuple(_address(text, word) for word in parts.netloc.split(","))
    login = parts.netloc.split(",")[0].rpartition("@")[0]
    prefix = f"{parts.scheme}://{login}@" if login else f"{parts.scheme}://"
    servers = tuple(prefix + str(address) for address in addresses)
    return NatsUrl(servers, addresses, found, collected)


def _address(text: str, word: str) -> Address:
    place = word.rpartition("@")[2]
    host, _, port = place.partition(":")
    if place.startswith("["):  # an IPv6 address
        host, _, rest = place[1:].partition("]")
        port = rest.removeprefix(":")
    if not host or (port and not port.isdecimal()) or int(port or PORT) > 65535:
        raise _not_understood(text, f"{place!r} is not host:port")
    return Address(host, int(port or PORT))


def _not_understood(text: str, reason: str) -> UsageError:
    shown = re.sub(r"//[^/@]*@", "//...@", text)  # keeps the password out of messages
    msg = (
        f"{shown!r} is not understood: {reason}; write nats://host:port/name, for example "
        "nats://127.0.0.1:4222/shop"
    )
    return UsageError(msg)


def token(name: str) -> str:
    """Return a process's name as one token of a subject; :func:`untoken` reverses it."""
    if _PLAIN.fullmatch(name):
        return name
    return "=" + name.encode(errors="surrogatepass").hex()


def untoken(text: str) -> str:
    """Return the name that :func:`token` turned into a token; raise ValueError for others."""
    if not text.startswith("="):
        return text
    return bytes.fromhex(text[1:]).decode(errors="surrogatepass")


@dataclass(frozen=True, slots=True)
class Names:
    """The streams and subjects of a group.

    Frames between nodes are in one stream, from which they vanish when the receiver has saved
    them. Packets for readers are in another stream, which keeps them.
    """

    group: str

    @property
    def frames(self) -> str:
        """The stream of frames between nodes."""
        return f"{self.group}-frames"

    @property
    def packets(self) -> str:
        """The stream of packets for readers."""
        return f"{self.group}-packets"

    def frames_to(self, dest: str, source: str | None = None) -> str:
        """Return the subject of frames for ``dest``, from ``source`` or from anyone."""
        return f"{self.group}.frames.{token(dest)}.{'*' if source is None else token(source)}"

    def packets_to(self, reader: str, source: str) -> str:
        """Return the subject of packets for ``reader`` from ``source``."""
        return f"{self.group}.packets.{token(reader)}.{token(source)}"
