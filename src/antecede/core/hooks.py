"""What a protocol defines: its record and its hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from antecede.core.info import ProtocolInfo
from antecede.core.messages import ControlSize, MessageId, Need, Packet, Sending
from antecede.errors import UsageError

if TYPE_CHECKING:
    from antecede.core.casts import Targets


class Hooks:
    """The part of an endpoint that protocols fill in; :class:`Endpoint` calls it."""

    INFO: ClassVar[ProtocolInfo]
    STATE: ClassVar[tuple[str, ...] | dict[str, object]] = ()
    """The attributes that hold the protocol's own state, all of them plain data.

    As a dict it also says what each looks like, so that snapshots with other values are refused;
    see :mod:`antecede.core.kinds`.
    """
    FIFO: ClassVar[bool] = False
    """Whether the base hands packets to the protocol in channel order.

    If that depends on an option, the protocol sets ``_fifo`` in ``_start``.
    """
    RELAYS: ClassVar[bool] = False
    """Whether a packet may bring a message that its source did not send."""
    REWRITES: ClassVar[bool] = False
    """Whether packets are held in another form than that in which they came."""

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit information kept: messages with their remaining destinations."""
        from antecede.core.registry import PROTOCOLS, protocol_class

        do = [p for p in PROTOCOLS if protocol_class(p).dependencies is not Hooks.dependencies]
        msg = f"{self.INFO.name} keeps no explicit dependencies; only these do: {', '.join(do)}"
        raise UsageError(msg)

    def kept_entries(self) -> int | None:
        """Return how many entries of control information this process keeps.

        What an entry is depends on the protocol; None means that it does not count them.
        """
        return None

    def notes(self) -> dict[str, int]:
        """Return the protocol's own counters for experiments, by name; most have none."""
        return {}

    def _set_up(self) -> None:
        """Prepare what a kind of endpoints shares, before the protocol's own start."""

    def _number_targets(self, to: Targets, /) -> None:
        """Note the numbers of destinations, if this endpoint works on numbers."""

    def _start(self) -> None:
        """Check the options and set the initial state."""

    def _admit(self, targets: tuple[str, ...], /) -> None:
        """Refuse a send before anything changes (a full queue, a call out of turn)."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        """Return the control for each destination, and record the send."""
        raise NotImplementedError

    def _check(self, packet: Packet) -> None:
        """Raise PeerError unless this protocol could have sent the packet's control."""
        raise NotImplementedError

    def _unmet(self, packet: Packet, /) -> Iterator[Need]:
        """Yield what the packet still waits for; nothing means that it can be delivered."""
        raise NotImplementedError

    def _own_unmet(self) -> tuple[Need, ...]:
        """Return the lost messages that what this process sends now rests on."""
        return ()

    def _absorb(self, packet: Packet, /) -> Iterable[Need]:
        """Record the delivery of a packet; return the needs that it met."""
        raise NotImplementedError

    def _on_control(self, packet: Packet, /) -> Iterable[Need]:
        """Handle a control packet; return the needs that it met."""
        raise NotImplementedError

    def _check_dynamic(self) -> None:
        """Refuse a change of membership where there can be none."""
        if not self.INFO.dynamic:
            why = self.INFO.fixed_because
            msg = f"{self.INFO.name} has a fixed membership ({why}); make new endpoints instead"
            raise UsageError(msg)

    def _joined(self, process: str) -> None:
        """Prepare for a new member."""

    def _left(self, process: str) -> None:
        """Drop what concerns a member that left."""

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the size of the packet's control by the model of [JPCY97]."""
        entry_bytes = cls.INFO.bytes_per_entry
        assert entry_bytes is not None, f"{cls.INFO.name} does not measure {packet}"
        entries = cls._entry_count(packet.control) if entry_bytes else 0
        return ControlSize(entries, 0, entry_bytes * entries)

    @staticmethod
    def _entry_count(control: object) -> int:
        """Count a control's entries: by default its integers, each with the names around it."""
        return _integers(control)


def _integers(value: object) -> int:
    if not isinstance(value, tuple):
        return 0
    kinds = list(map(type, value))
    return kinds.count(int) + (sum(map(_integers, value)) if tuple in kinds else 0)
