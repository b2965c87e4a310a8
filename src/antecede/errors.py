"""Every exception the package raises, so that callers can catch by whose fault it is.

A wrong call by our user is a :class:`UsageError`; a wrong packet from a peer is a
:class:`PeerError`. A wrong state of our own is a failed ``assert``, never an exception.
"""

from __future__ import annotations


class AntecedeError(Exception):
    """Base of all errors raised by this package; never raised itself."""


class UsageError(AntecedeError):
    """The caller broke the contract of the API; fix the call. Nothing was changed."""


class PeerError(AntecedeError):
    """A packet from another process broke the protocol; drop it or drop the peer."""


class UnknownProcessError(PeerError):
    """A packet comes from, or speaks of, a process that is not (yet) a member.

    This is the normal race at a join: offer the packet again after ``add``.
    """


class SnapshotError(PeerError):
    """Bytes that should be a snapshot are not: damaged, of other members, or of another version."""


class HoldFullError(AntecedeError):
    """A packet would have to be held and the holding buffer is full; offer it again later."""


class QueueFullError(HoldFullError):
    """What waits to be sent has reached its limit; send again after some has gone out."""


class LogError(UsageError):
    """A log cannot be read or holds no events: ``path`` (or a name for it) and ``reason``."""

    def __init__(self, message: str, *, path: object, reason: str) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason
