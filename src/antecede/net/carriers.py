"""Which transport a node uses: TCP, NATS, or one of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping

from antecede.errors import UsageError
from antecede.net.tcp import TcpTransport
from antecede.net.tls import Tls
from antecede.net.transports import Transport


def transport_for(
    process: str,
    given: Transport | str | None,
    *,
    listen: str | None,
    peers: Mapping[str, str],
    tls: Tls | None,
    allow_plaintext: bool,
    payload_bytes: int,
    chance: random.Random,
) -> Transport:
    """Return the transport that the arguments of a node ask for."""
    if given is not None and not isinstance(given, str):
        return given
    if given is None:
        return TcpTransport(
            process,
            listen=listen,
            peers=peers,
            tls=tls,
            allow_plaintext=allow_plaintext,
            chance=chance,
        )
    if listen is not None:
        msg = f"listen={listen!r} is for TCP; with transport={given!r} leave it out"
        raise UsageError(msg)
    try:
        from antecede.net.nats import NatsTransport
    except ModuleNotFoundError as error:
        msg = (
            f"a node over NATS needs {error.name}, which is not installed; "
            "run: pip install 'antecede[nats]'"
        )
        raise UsageError(msg) from error
    return NatsTransport(
        process,
        given,
        peers=peers,
        tls=tls,
        allow_plaintext=allow_plaintext,
        payload_bytes=payload_bytes,
        chance=chance,
    )
