"""The destinations of a send: process names, groups, and the casts that a protocol offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from antecede.core.groups import group_of
from antecede.core.messages import MessageId
from antecede.core.registry import PROTOCOLS
from antecede.core.validation import check_message, is_count, listed, shown
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from antecede.core.endpoint import Endpoint
    from antecede.core.info import Cast
    from antecede.core.messages import Packet


TARGETS_MAX: Final = 4096
_STR: Final = {str}


class Targets:
    """Destinations, checked: all of them and those other than the sender, sorted by name.

    An endpoint that works on numbers sets ``mask``, ``others_mask`` and ``numbers`` (those of
    ``others``, in the same order).
    """

    __slots__ = ("has_me", "mask", "names", "numbers", "others", "others_mask")

    def __init__(self, names: tuple[str, ...], process: str) -> None:
        self.names = names
        self.has_me = process in names
        self.others = tuple([dest for dest in names if dest != process]) if self.has_me else names
        self.mask = self.others_mask = 0
        self.numbers: list[int] = []


class TargetCache:
    """The destinations of one endpoint's sends; the same recur, so they are checked once."""

    __slots__ = ("_endpoint", "_served", "known")

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.known: dict[tuple[str, ...], Targets] = {}
        """Those already checked, by the tuple that was given."""
        self._served: set[tuple[str, ...]] = set()
        """The destinations of packets that were checked: they are names of members, sorted."""

    def __reduce__(self) -> tuple[object, ...]:
        return TargetCache, (self._endpoint,)

    def find(self, dests: Iterable[str] | str) -> Targets:
        """Return these destinations; refuse what the protocol cannot serve."""
        if type(dests) is not tuple:
            if isinstance(dests, str):
                return self._made(dests)
            try:
                dests = tuple(dests)
            except TypeError:
                return self._made(dests)
        try:
            found = self.known.get(dests)
        except TypeError:  # not hashable, so not names
            found = None
        return self._made(dests) if found is None else found

    def _made(self, dests: Iterable[str] | str) -> Targets:
        found = Targets(targets_of(self._endpoint, dests), self._endpoint.process)
        self._endpoint._number_targets(found)
        if isinstance(dests, tuple):
            if len(self.known) >= TARGETS_MAX:
                self.known.clear()
            self.known[dests] = found
        return found

    def clear(self) -> None:
        """Forget them: the members have changed."""
        self.known.clear()
        self._served.clear()

    def check_message(self, packet: Packet) -> None:
        """Refuse a packet whose message, destinations or payload no endpoint would send."""
        if self._is_usual(packet):
            return
        check_message(self._endpoint, packet)
        message, dests = packet.message, packet.dests
        if message is not None:
            members = self._endpoint._positions.keys()
            if message.sender not in members or not members >= set(dests):
                self._endpoint._check_names(packet, (message.sender, *dests))
            if len(self._served) >= TARGETS_MAX:
                self._served.clear()
            self._served.add(dests)

    def _is_usual(self, packet: Packet) -> bool:
        """Tell whether a packet brings a member's message to destinations checked before."""
        message, dests = packet.message, packet.dests
        if type(message) is not MessageId or type(dests) is not tuple or packet.kind != "data":
            return False
        is_usual = (
            type(message.sender) is str
            and is_count(message.seq, 1)
            and set(map(type, dests)) == _STR
            and dests in self._served
            and type(packet.payload) is bytes
        )
        if self._endpoint.RELAYS:
            return is_usual and message.sender in self._endpoint._positions
        return is_usual and message.sender == packet.source and packet.dest in dests


def targets_of(endpoint: Endpoint, dests: Iterable[str] | str) -> tuple[str, ...]:
    """Return the destinations, sorted, each once; refuse those that the protocol cannot serve."""
    if isinstance(dests, str):
        groups = endpoint.options.get("groups")
        if isinstance(groups, dict) and dests in groups:
            dests = groups[dests]
        else:
            expected = _expected(groups)
            msg = f"dests is the string {dests!r}; {expected}: write [{dests!r}] for one process"
            raise UsageError(msg)
    try:
        names = set(dests)
    except TypeError:
        msg = f"dests is {shown(dests)}; expected a sequence of process names"
        raise UsageError(msg) from None
    if not names:
        msg = "dests is empty; name at least one process"
        raise UsageError(msg)
    unknown = names.difference(endpoint._positions)
    if unknown:
        strange = ", ".join(sorted(map(repr, unknown)))
        msg = f"cannot send to {strange}: not a member; the members are {listed(endpoint.members)}"
        raise UsageError(msg)
    targets = tuple(sorted(names))
    if "multicast" not in endpoint.INFO.casts:
        _check_cast(endpoint, targets)
    return targets


def _expected(groups: object) -> str:
    if isinstance(groups, dict):
        return f"expected one of the groups {', '.join(groups)}, or a list"
    return f"expected a list (protocols with named groups: {_able('groups')})"


def _check_cast(endpoint: Endpoint, targets: tuple[str, ...]) -> None:
    """Refuse a cast if the protocol, which does not multicast, does not offer it either."""
    others = set(targets) - {endpoint.process}
    fits: set[Cast] = set()
    if len(others) <= 1:
        fits.add("unicast")
    if others == set(endpoint.members) - {endpoint.process}:
        fits.add("broadcast")
    groups = endpoint.options.get("groups")
    if isinstance(groups, dict):  # then even a broadcast must go to one of the groups
        fits.discard("broadcast")
        if group_of(groups, endpoint.process, targets) is not None:
            fits.add("groups")
    offered = endpoint.INFO.casts
    if not others or fits.intersection(offered):
        return
    wanted: Cast = "unicast" if len(others) == 1 else "multicast"
    able = [f"protocols that {wanted}: {_able(wanted)}"]
    if others == set(endpoint.members) - {endpoint.process}:
        able.append(f"protocols that broadcast: {_able('broadcast')}")
    msg = (
        f"{endpoint.INFO.name} does not {wanted} to {', '.join(sorted(others))}: it offers "
        f"{' and '.join(offered)}; {'; '.join(able)}"
    )
    raise UsageError(msg)


def _able(cast: Cast) -> str:
    return ", ".join(name for name, info in PROTOCOLS.items() if cast in info.casts)
