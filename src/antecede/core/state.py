"""An endpoint's whole state as plain data: what snapshots hold."""

from typing import TypedDict, TypeVar, cast

from antecede.core.messages import Packet

T = TypeVar("T")


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
    held_bytes_max: int
    queue_max: int
    seq: int
    events: int
    channels: ChannelsState
    arrivals: int
    held: list[tuple[int, Packet]]
    own: dict[str, object]


def copied(value: T) -> T:
    """Return ``value`` with every mutable container in it copied; leaves are shared."""
    return cast("T", _copied(value))


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, set):
        return set(value)
    return value
