"""What the parts of an endpoint's state look like, so that an impossible state can be refused.

A *kind* is written like the value itself: ``[int]`` is a list of numbers, ``{NAME: int}`` a dict,
``{NAME}`` a set, ``(NAME, int)`` and ``[int, int]`` are pairs, and ``(int, ...)`` is a tuple of any
length. Numbers are not negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, cast

from antecede.core.channels import Channels
from antecede.core.messages import INCARNATION_SHIFT, MessageId, Packet
from antecede.core.state import State
from antecede.core.tally import Tally
from antecede.core.validation import COUNT_MAX

NUMBER_MAX: Final = 2 * COUNT_MAX
"""The highest number in a state: a clock may go past the highest count that a peer may name."""
OWN_MAX: Final = COUNT_MAX - (1 << INCARNATION_SHIFT)
"""The highest count of our own sends and events: peers accept those of one more incarnation."""


class Special:
    """A kind that is not written like its values."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NAME: Final = Special("the name of a process")
PLACE: Final = Special("the position of a member")
EVENT: Final = Special("the number of an event, or -1 before the first")
ANY: Final = Special("anything")


class Maybe:
    """Something of this kind, or None."""

    def __init__(self, kind: object) -> None:
        self.kind = kind


class Some:
    """Something of this kind that is not empty."""

    def __init__(self, kind: object) -> None:
        self.kind = kind


LOG: Final = {NAME: {int: frozenset({NAME})}}
CHANNELS: Final = {
    "sent": {NAME: int},
    "prefix": {NAME: int},
    "ahead": {NAME: [(int, int)]},
    "parked": {NAME: {int: Packet}},
}
NUMBERED: Final[dict[str, object]] = {
    "_newest": {NAME: int},
    "_late": {MessageId},
    "_doubts": {NAME: [(int, MessageId)]},
    "_partings": {NAME: (bool, {NAME}, {NAME: int}, {NAME: int}, {NAME})},
    "_closed": {NAME: Some({int: int})},
}
"""What endpoints on numbers keep; see :class:`antecede.core.numbered_state.NumberedState`."""


class Kinds:
    """Compares values with kinds; knows the names and the number of members."""

    def __init__(self, state: State) -> None:
        self.process = state["process"]
        self.names = {*state["members"], *state["removed"]}
        self.count = len(state["members"])

    def fits(self, value: object, kind: object) -> bool:
        """Tell whether a value is of a kind."""
        if isinstance(kind, Maybe):
            return value is None or self.fits(value, kind.kind)
        if isinstance(kind, Some):
            return bool(value) and self.fits(value, kind.kind)
        if isinstance(kind, (type, Special)):
            return self._is(value, kind)
        return type(value) is type(kind) and self._fit(value, kind)

    def _is(self, value: object, kind: type | Special) -> bool:
        if kind is NAME:
            result = type(value) is str and value in self.names
        elif kind is PLACE:
            result = type(value) is int and 0 <= value < self.count
        elif kind is EVENT:
            result = type(value) is int and -1 <= value <= OWN_MAX
        elif kind is int:
            result = type(value) is int and 0 <= value <= NUMBER_MAX
        elif kind is Packet:
            result = isinstance(value, Packet) and self._is_packet(value)
        elif kind is MessageId:
            result = type(value) is MessageId and self.fits(tuple(value), (str, int))
        else:
            result = kind is ANY or type(value) is kind
        return result

    def _fit(self, value: object, kind: object) -> bool:
        if isinstance(kind, dict):
            ((key_kind, item_kind),) = kind.items()
            pairs = cast("dict[object, object]", value).items()
            return all(self.fits(k, key_kind) and self.fits(v, item_kind) for k, v in pairs)
        items = cast("tuple[object, ...]", value)
        is_list = isinstance(kind, list) and len(kind) == 1
        if not is_list and isinstance(kind, (list, tuple)) and kind[-1] is not ...:
            return len(items) == len(kind) and all(map(self.fits, items, kind))
        inner = next(iter(cast("tuple[object, ...]", kind)))
        return all(self.fits(item, inner) for item in items)

    def _is_packet(self, packet: Packet) -> bool:
        return (
            self.fits(packet.source, NAME)
            and packet.dest == self.process
            and self.fits(packet.n, int)
            and packet.kind in ("data", "control")
            and self.fits(packet.message, Maybe(MessageId))
            and self.fits(packet.dests, (str, ...))
            and type(packet.payload) is bytes
            and (packet.message is None) == (packet.kind == "control")
        )


def check_state(state: State, own: Mapping[str, object], fresh: Mapping[str, object]) -> None:
    """Raise ValueError unless all parts of a state have their kinds.

    ``own`` are the kinds of the protocol's own parts, ``fresh`` their values in a new endpoint:
    rows and columns are as long as there.
    """
    kinds = Kinds(state)
    channels = cast("dict[str, object]", state["channels"])
    is_fine = channels.keys() == CHANNELS.keys()
    for name, kind in CHANNELS.items():
        is_fine = is_fine and kinds.fits(channels[name], kind)
    held = state["held"]
    is_fine = is_fine and kinds.fits(held, [(int, Packet)])
    for count in (state["seq"], state["events"], state["arrivals"]):
        is_fine = is_fine and kinds.fits(count, int) and count <= OWN_MAX
    if not is_fine or not _are_counted(state) or not _are_numbered(state):
        msg = f"counters, channels or packets of {state['process']!r} that contradict each other"
        raise ValueError(msg)
    for name, kind in own.items():
        value = state["own"][name]
        is_alike = kind is not ANY or name not in fresh or type(value) is type(fresh[name])
        if not is_alike or not kinds.fits(value, kind) or not _is_as_long(value, fresh.get(name)):
            msg = f"{name.strip('_')} of {state['process']!r} that it cannot have"
            raise ValueError(msg)


def _are_counted(state: State) -> bool:
    """Tell whether counters and held packets agree: each packet is held once, by arrival."""
    if max(state["channels"]["sent"].values(), default=0) > OWN_MAX:
        return False
    if state["seq"] % (1 << INCARNATION_SHIFT) > state["events"]:
        return False
    held = state["held"]
    arrivals = [0, *[arrival for arrival, _ in held], state["arrivals"] + 1]
    packets = {(packet.source, packet.n, packet.message) for _, packet in held}
    return arrivals == sorted(set(arrivals)) and len(packets) == len(held)


def _are_numbered(state: State) -> bool:
    """Tell whether the numbers of all channels agree, and those of the packets that are kept."""
    channels = state["channels"]
    parts = cast("dict[str, dict[str, object]]", channels).values()
    if any(state["process"] in part for part in parts):
        return False
    for source, gaps in channels["ahead"].items():
        ends = [channels["prefix"].get(source, 0), *[n for gap in gaps for n in gap]]
        if not gaps or any(b - a < (2, 0)[i % 2] for i, (a, b) in enumerate(pairwise(ends))):
            return False
    for source, parked in channels["parked"].items():
        if not parked or any((p.source, p.n) != (source, n) for n, p in parked.items()):
            return False
    numbers: Channels[str] = Channels(Tally())
    numbers.prefix, numbers.ahead = channels["prefix"], channels["ahead"]
    return all(numbers.is_seen(packet.source, packet.n) for _, packet in state["held"])


def are_in_order(state: State, *, is_fifo: bool) -> bool:
    """Tell whether the packets that wait for their turn are those that came too early."""
    channels = state["channels"]
    if not is_fifo:
        return not channels["parked"]
    for source in channels["ahead"].keys() | channels["parked"].keys():
        parked, gaps = channels["parked"].get(source, {}), channels["ahead"].get(source, [])
        if source in state["removed"]:  # what came too early was dropped
            gaps = []
        early = sum(last - first + 1 for first, last in gaps)
        if early != len(parked) or any(n not in parked for a, b in gaps for n in range(a, b + 1)):
            return False
    return True


def _is_as_long(value: object, fresh: object) -> bool:
    """Tell whether rows and columns have the lengths, and dicts the keys, of a new endpoint."""
    if isinstance(fresh, dict):
        if not isinstance(value, dict):
            return True
        return all(key in value and _is_as_long(value[key], fresh[key]) for key in fresh)
    if not isinstance(fresh, list) or not fresh:
        return True
    rows = cast("list[object]", value)
    return len(rows) == len(fresh) and all(map(_is_as_long, rows, fresh))
