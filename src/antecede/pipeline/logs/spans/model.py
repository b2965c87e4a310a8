"""What a span is, whatever file it was read from, and what it does with messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from antecede.eventlog.rule import is_text

#: What names a span: the id of its trace (may be empty) and its own.
Ref = tuple[str, str]

_TIME_END = 2**63
_HEX = re.compile(r"[0-9a-fA-F]{16}([0-9a-fA-F]{16})?")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{11}=|[A-Za-z0-9+/_-]{22}==")
_TITLE_CHARS = 80


class Role(StrEnum):
    """What a span does."""

    CREATE = "create"
    """It makes one message, which another span may send later."""
    SEND = "send"
    RECEIVE = "receive"
    """It asks the broker for messages (a poll), and ends when they are there."""
    PROCESS = "process"
    CONSUME = "consume"
    """It receives or processes messages; the span does not say which."""
    CLIENT = "client"
    SERVER = "server"
    NONE = ""


#: The words for messaging operations, of all versions of the conventions.
_OPERATIONS = {
    "create": Role.CREATE,
    "send": Role.SEND,
    "publish": Role.SEND,
    "produce": Role.SEND,
    "receive": Role.RECEIVE,
    "poll": Role.RECEIVE,
    "pull": Role.RECEIVE,
    "process": Role.PROCESS,
    "deliver": Role.PROCESS,
    "settle": Role.NONE,
    "ack": Role.NONE,
    "nack": Role.NONE,
    "commit": Role.NONE,
}
_OPERATION_KEYS = ("messaging.operation.type", "messaging.operation", "messaging.operation.name")
_MESSAGE_KEYS = ("messaging.message.id", "messaging.message_id")
_KINDS = {
    "PRODUCER": Role.SEND,
    "CONSUMER": Role.CONSUME,
    "CLIENT": Role.CLIENT,
    "SERVER": Role.SERVER,
}
#: The attributes that may name an instance of a service, best first.
INSTANCES = ("service.instance.id", "k8s.pod.name", "container.id", "host.name", "hostname", "ip")


@dataclass(frozen=True, slots=True)
class Span:
    """One span; times are nanoseconds by the clock of its process."""

    service: str
    instance: str
    ref: Ref
    role: Role
    title: str
    start: int
    end: int | None = None
    parent: Ref | None = None
    links: tuple[Ref, ...] = ()
    failed: bool = False
    message: str = ""
    """The id that the broker or the application gave the message, if the span names one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a format found in a span, as text and numbers of its own units."""

    service: object
    instance: object
    ref: Ref
    kind: str
    title: object
    start: int | None
    end: int | None = None
    parent: Ref | None = None
    links: tuple[Ref, ...] = ()
    attributes: Mapping[str, object] | None = None
    failed: bool = False


def span_of(draft: Draft) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not draft.ref[1] or draft.start is None:
        return "a span needs an id and a start time"
    attributes = draft.attributes or {}
    title = draft.title if isinstance(draft.title, str) else ""
    title = " ".join(title.split())[:_TITLE_CHARS]
    service, instance = str(draft.service or "unknown"), str(draft.instance or "")
    refs = [draft.ref, *draft.links, *([draft.parent] if draft.parent else [])]
    if not is_text(service, instance, title, *(word for ref in refs for word in ref)):
        return "a name is not UTF-8"
    role = _role(draft.kind, attributes, title)
    # A span that ends before it starts has no end that could be trusted.
    end = None if draft.end is None or draft.end < draft.start else draft.end
    parent = draft.parent if draft.parent and draft.parent[1] else None
    message = next((str(attributes[key]) for key in _MESSAGE_KEYS if attributes.get(key)), "")
    return Span(
        service, instance, draft.ref, role, title, draft.start, end, parent, draft.links,
        draft.failed, message,
    )  # fmt: skip


def _role(kind: str, attributes: Mapping[str, object], title: str) -> Role:
    """Return what a span does: by its messaging operation if it names one, else by its kind."""
    for key in _OPERATION_KEYS:
        word = str(attributes.get(key) or "").lower()
        if word in _OPERATIONS:
            return _OPERATIONS[word]
    role = _KINDS.get(kind, Role.NONE)
    if role is Role.CONSUME and title:  # Older conventions say it in the name of the span only.
        words = title.lower().split()
        for word in (words[-1], words[0]):
            if _OPERATIONS.get(word) in {Role.RECEIVE, Role.PROCESS}:
                return _OPERATIONS[word]
    return role


def plain_id(value: object) -> str:
    """Return an id as lower-case hexadecimal digits if it is one in any encoding; "" if none."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if _BASE64.fullmatch(text):
        text = base64.b64decode(text, altchars=b"-_" if set(text) & set("-_") else None).hex()
    elif _HEX.fullmatch(text):
        text = text.lower()
    return text if text.strip("0") else ""


def whole(value: object, unit: int = 1) -> int | None:
    """Return a time in nanoseconds, or None if there is none that fits; ``unit`` is in them."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, float) and abs(value) < _TIME_END:
        value = round(value * unit)
    elif isinstance(value, int) and not isinstance(value, bool):
        value *= unit
    else:
        return None
    return value if 0 <= value < _TIME_END else None
