"""Open a transport over NATS, whose client is imported only here."""

from __future__ import annotations

import random
from collections.abc import Iterable

from antecede.errors import UsageError
from antecede.net.tls import Tls
from antecede.net.transports import Transport


def nats_transport(
    process: str,
    url: str,
    *,
    peers: Iterable[str],
    tls: Tls | None,
    allow_plaintext: bool,
    payload_bytes: int,
    chance: random.Random,
) -> Transport:
    """Return a transport over NATS, or say what to install."""
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
        url,
        peers=peers,
        tls=tls,
        allow_plaintext=allow_plaintext,
        payload_bytes=payload_bytes,
        chance=chance,
    )
