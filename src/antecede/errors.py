"""Every exception that the package raises, so that callers can catch by whose fault it is.

A wrong call is a :class:`UsageError`; a wrong packet from a peer is a :class:`PeerError`. A wrong
state of our own is a failed ``assert``, never an exception. What code may want to know about an
error is in its attributes; the text is for people.
"""

from __future__ import annotations

from collections.abc import Iterable


class AntecedeError(Exception):
    """Base of all errors raised by this package; never raised itself."""


class UsageError(AntecedeError):
    """The caller broke the contract of the API. Nothing has changed; fix the call."""


class PeerError(AntecedeError):
    """A packet from another process broke the protocol. Drop it, or drop the peer."""


class OtherViewError(PeerError):
    """A packet of another view: ``number``, where this endpoint is in view ``current``.

    Drop it for good if its view is older. If it is newer, offer it again in that view.
    """

    def __init__(self, message: str, *, number: int = 0, current: int = 0) -> None:
        super().__init__(message)
        self.number = number
        self.current = current


class SnapshotError(PeerError):
    """The bytes are not a usable snapshot: damaged, of other members, or of another version."""


class HoldFullError(AntecedeError):
    """A packet has to be held, but the holding buffer is full. Offer it again later.

    ``held`` messages are held, of at most ``held_max``.
    """

    def __init__(self, message: str, *, held: int = 0, held_max: int = 0) -> None:
        super().__init__(message)
        self.held = held
        self.held_max = held_max


class QueueFullError(HoldFullError):
    """Too many messages wait to be sent. Send again after some have gone out.

    ``queued`` messages wait, of at most ``queue_max``.
    """

    def __init__(self, message: str, *, queued: int = 0, queue_max: int = 0) -> None:
        super().__init__(message, held=queued, held_max=queue_max)
        self.queued = queued
        self.queue_max = queue_max


class MasterError(UsageError):
    """Spark cannot work with ``master``, for ``reason``."""

    def __init__(self, message: str, *, master: str, reason: str) -> None:
        super().__init__(message)
        self.master = master
        self.reason = reason


class LogError(UsageError):
    """A log cannot be read or written, or has no events: ``path`` (None: a table), ``reason``."""

    def __init__(self, message: str, *, path: object = None, reason: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason or message


class StoreError(AntecedeError):
    """A node's store cannot be opened, read or written; nothing that was saved is lost."""


class NodeClosedError(UsageError):
    """The node is closed, or has failed for the reason given; it sends and delivers no more."""


class HeaderError(PeerError):
    """A header of positions cannot be read: torn, too long, or of another version."""


class ContextEndedError(AntecedeError):
    """A write of a handler has an unknown outcome, so its record is not completed."""


class BrokerError(AntecedeError):
    """A broker refuses for good what was asked of it, or does not answer in time."""


class CauseMissingError(AntecedeError):
    """A record has waited for its causes longer than the limit, and ``on_limit`` is ``"raise"``."""


def shown(value: object) -> str:
    """Return a value as error messages show it: short and on one line."""
    try:
        text = repr(value[:60] if isinstance(value, str | bytes) else value)
    except Exception:  # what cannot be shown must not hide the error
        text = f"<{type(value).__name__} that cannot be shown>"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def meant(name: object, known: Iterable[str]) -> str:
    """Return which known names an unknown one is close to, or all of them."""
    import difflib  # needed only after a typing error

    known = list(known)
    near = difflib.get_close_matches(name, known, n=3) if isinstance(name, str) else []
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"


def listed(names: Iterable[str]) -> str:
    """Return names as error messages list them: on one line, whatever is in them."""
    return ", ".join([name if name.isprintable() else repr(name) for name in names])
