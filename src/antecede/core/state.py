"""An endpoint's whole state as plain data: what snapshots hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from antecede.core.messages import Packet


class ChannelsState(TypedDict):
    """The numbers of all channels; see :class:`antecede.core.channels.Channels`."""

    sent: dict[str, int]
    prefix: dict[str, int]
    ahead: dict[str, list[tuple[int, int]]]
    parked: dict[str, dict[int, Packet]]


class State(TypedDict):
    """What ``Endpoint.state()`` returns. ``own`` is what the protocol adds, by attribute."""

    protocol: str
    process: str
    members: tuple[str, ...]
    removed: set[str]
    options: dict[str, object]
    pull: bool
    held_max: int
    queue_max: int
    seq: int
    events: int
    channels: ChannelsState
    arrivals: int
    held: list[tuple[int, Packet]]
    own: dict[str, object]
