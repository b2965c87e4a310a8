"""A message's id, topic, causes and time as headers, for any transport that has headers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from antecede.errors import PeerError, shown
from antecede.inbox.records import Offer, Outgoing

ID: Final = "antecede-id"
TOPIC: Final = "antecede-topic"
CAUSES: Final = "antecede-causes"
TIME: Final = "antecede-time"
#: A longer header is refused.
HEADER_CHARS_MAX: Final = 1 << 20


def headers_of(out: Outgoing) -> dict[str, str]:
    """Return the headers of a message to publish."""
    return written(out.id, out.topic, out.causes, out.time)


def written(name: str, topic: str, causes: tuple[str, ...], time: float) -> dict[str, str]:
    """Return headers in ASCII."""
    values = {ID: name, TOPIC: topic}
    plain = {key: json.dumps(value) for key, value in values.items()}
    return {**plain, CAUSES: json.dumps(list(causes)), TIME: repr(time)}


def offer_in(headers: Mapping[str, Any], body: object) -> Offer | None:
    """Return the message in some headers, or None without an id; names are in lower case."""
    name = _read(headers, ID, str)
    if name is None:
        return None
    causes, topic = _read(headers, CAUSES, list), _read(headers, TOPIC, str)
    return Offer(name, body, causes, topic, _read(headers, TIME, (int, float)))


def _read(headers: Mapping[str, Any], key: str, kind: Any) -> Any:
    text = headers.get(key)
    if text is None:
        return None
    text = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    try:
        if len(text) <= HEADER_CHARS_MAX and isinstance(value := json.loads(text), kind):
            return value
    except (ValueError, RecursionError):
        pass
    raise PeerError(
        f"the header {key} is {shown(text)}; it must be JSON as antecede.inbox.headers writes it"
    )


def packed(parts: Mapping[str, Any], body: bytes) -> str:
    """Return a transport's data packed, to be kept until the message is ready."""
    return json.dumps({**parts, "body": base64.b64encode(body).decode()})


def unpacked(text: str) -> tuple[dict[str, Any], bytes]:
    """Return what :func:`packed` packed."""
    parts: dict[str, Any] = json.loads(text)
    return parts, base64.b64decode(parts.pop("body"))
