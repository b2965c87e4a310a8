"""CloudEvents: ``id``, ``source`` and ``causationid`` as id, topic and causes.

::

    inbox.offer(**offer_of(event)._asdict())

``causationid`` holds the causes, separated by blanks: ``topic/id``, or an id of the same source.
Events are accepted as dictionaries, as from JSON, and as objects of the package cloudevents.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any

from antecede.errors import PeerError, shown
from antecede.inbox.records import Offer, Outgoing

CAUSATION = "causationid"


def offer_of(event: Any, topics: Mapping[str, str] | None = None) -> Offer:
    """Return the offer for an event; ``topics`` gives the topic of each source.

    Without ``topics``, a source is its own topic, without a leading slash.
    """
    attributes, data = _parts(event)
    name, source = attributes.get("id"), attributes.get("source")
    if not isinstance(name, str) or not isinstance(source, str):
        raise PeerError(f"a CloudEvent needs id and source as text; it has {shown(attributes)}")
    topic = (topics or {}).get(source, source.lstrip("/"))
    text = attributes.get(CAUSATION)
    if text is not None and not isinstance(text, str):
        raise PeerError(f"{CAUSATION} is {shown(text)}; give ids in one text, separated by blanks")
    return Offer(name, data, (text or "").split(), topic, _time(attributes.get("time")))


def event_of(out: Outgoing, type: str) -> dict[str, Any]:
    """Return a message of the outbox as a CloudEvent, a dictionary for JSON."""
    causes = [cause for cause in out.causes if " " in cause]
    if causes:
        raise PeerError(
            f"the cause {shown(causes[0])} has a blank in it, which {CAUSATION} separates ids by"
        )
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": out.id,
        "source": out.topic,
        "type": type,
        "time": dt.datetime.fromtimestamp(out.time, dt.UTC).isoformat(),
    }
    if isinstance(out.body, bytes | bytearray | memoryview):
        event["data_base64"] = base64.b64encode(out.body).decode()
    else:
        event["data"] = out.body
    return {**event, CAUSATION: " ".join(out.causes)} if out.causes else event


def _parts(event: Any) -> tuple[Mapping[str, Any], Any]:
    """Return the attributes and the data of an event in any form."""
    if isinstance(event, Mapping):
        text = event.get("data_base64")
        return event, event.get("data") if text is None else _bytes(text)
    get = getattr(event, "get_attributes", None)
    if callable(get):  # cloudevents 2, and 1.12
        return get(), event.get_data()
    raise PeerError(
        f"{shown(event)} is no CloudEvent; give a dictionary or an object of cloudevents"
    )


def _bytes(text: object) -> bytes:
    """Return the data that JSON has as text."""
    try:
        return base64.b64decode(str(text), validate=True)
    except ValueError:
        raise PeerError(f"data_base64 is {shown(text)}; give bytes in base64") from None


def _time(value: object) -> float | None:
    if value is None:
        return None
    try:
        when = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
    except ValueError:
        raise PeerError(
            f"the time of a CloudEvent is {shown(value)}; give it as RFC 3339 says"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()
