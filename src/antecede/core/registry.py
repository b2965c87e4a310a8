"""The registry: every protocol by name, and how to make an endpoint."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

from antecede.core.groups import as_flag, distinct_names
from antecede.core.info import CITATION_FORM, Citation, ProtocolInfo
from antecede.core.messages import ControlSize, Packet
from antecede.core.validation import listed, shown
from antecede.errors import UnknownProcessError, UsageError

if TYPE_CHECKING:
    from antecede.core.endpoint import Endpoint
    from antecede.core.state import State

    E = TypeVar("E", bound=type[Endpoint])
_classes: dict[str, type[Endpoint]] = {}
_infos: dict[str, ProtocolInfo] = {}
_by_wire_number: dict[int, str] = {}

PROTOCOLS: Mapping[str, ProtocolInfo] = MappingProxyType(_infos)
"""The protocols to choose from, by name."""

LIMIT_MAX: Final = (1 << 63) - 1
"""The highest limit: snapshots keep no higher number."""
_LIMITS = ("held_max", "held_bytes_max", "queue_max")


def register(cls: E) -> E:
    """Register a protocol's class; the modules in ``protocols`` use it as a decorator."""
    name = cls.INFO.name
    number = cls.INFO.wire_number
    assert name not in _classes, f"two protocols are named {name}"
    assert number not in _by_wire_number, f"{name} has the wire number of {_by_wire_number[number]}"
    module = cls.__module__.rpartition(".")[2]
    assert name == module, f"{module}.py registers {name}; INFO.name must be the module's name"
    if cls.INFO.citation == Citation():
        citation = Citation.first_of(sys.modules[cls.__module__].__doc__)
        assert citation.tag, f"the References in {module}.py must begin with {CITATION_FORM}"
        cls.INFO = replace(cls.INFO, citation=citation)
    _classes[name] = cls
    _infos[name] = cls.INFO
    if number:
        _by_wire_number[number] = name
    return cls


def protocol_of_number(number: int) -> str | None:
    """Return the name of the protocol with this number on the wire."""
    return _by_wire_number.get(number)


def protocol_class(name: str) -> type[Endpoint]:
    """Return the class behind a protocol's name."""
    if not isinstance(name, str) or name not in _classes:
        import difflib

        near = difflib.get_close_matches(name, _classes, n=3) if isinstance(name, str) else []
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(_classes)}"
        msg = f"unknown protocol {shown(name)}; {hint}"
        raise UsageError(msg)
    return _classes[name]


def endpoint(
    protocol: str,
    *,
    process: str,
    members: Iterable[str],
    pull: bool = False,
    **options: object,
) -> Endpoint:
    """Make one process's endpoint of a protocol.

    ``members`` are all processes, in the same order everywhere. ``held_max`` and ``queue_max``
    limit what is held and what waits to be sent, ``held_bytes_max`` the payloads of what is held;
    half of the limits on what is held is divided equally among the peers; the other options are the
    protocol's own (``antecede.PROTOCOLS[protocol].options``). With ``pull=True`` only ``take``
    delivers; messages ready to be taken count against ``held_max`` too, and the last place is
    reserved for one. ``removed`` names processes that left before this one joined: packets may
    still name them.
    """
    cls = protocol_class(protocol)
    names = distinct_names("members", members)
    gone = distinct_names("removed", options.pop("removed", ()))
    for name in gone:
        if name in names:
            msg = f"process {name!r} is both a member and removed; a removed name never comes back"
            raise UsageError(msg)
    if not names:
        msg = "members is empty; name all processes, this one included"
        raise UsageError(msg)
    if process not in names:
        msg = f"process {shown(process)} is not a member; the members are {listed(names)}"
        raise UsageError(msg)
    flag = as_flag("pull", pull)
    limits = {name: _limit(name, options.pop(name)) for name in _LIMITS if name in options}
    for name in options:
        if name not in cls.INFO.options:
            known = ", ".join([*cls.INFO.options, *_LIMITS, "pull", "removed"])
            msg = f"{protocol} has no option {name!r}; it takes {known}"
            raise UsageError(msg)
    chosen = {name: option.default for name, option in cls.INFO.options.items()} | options
    return cls(process=process, members=names, options=chosen, pull=flag, removed=gone, **limits)


def restore(state: State, *, checked: bool = False) -> Endpoint:
    """Make an endpoint that continues from a state taken by ``Endpoint.state()``.

    With ``checked=True``, a state that no endpoint of this protocol has raises ValueError.
    """
    if checked:
        _check_call(state)
    made = protocol_class(state["protocol"])(
        process=state["process"],
        members=state["members"],
        options=state["options"],
        pull=state["pull"],
        held_max=state["held_max"],
        held_bytes_max=state["held_bytes_max"],
        queue_max=state["queue_max"],
    )
    if checked:
        from antecede.core.kinds import ANY, are_in_order, check_state

        kinds = made.STATE if isinstance(made.STATE, dict) else dict.fromkeys(made.STATE, ANY)
        check_state(state, kinds, {} if state["removed"] else made.state()["own"])
        if state["removed"]:
            made._check_dynamic()
        if not are_in_order(state, is_fifo=made._fifo):
            msg = f"packets of {made.process!r} that wait for no turn, or lack one that came early"
            raise ValueError(msg)
    made.load(state)
    if checked:
        _check_packets(made, state)
    return made


def _check_call(state: State) -> None:
    """Refuse members, limits and options with which no endpoint can be made."""
    for name in _LIMITS:
        _limit(name, cast("Mapping[str, object]", state)[name])
    known = protocol_class(state["protocol"]).INFO.options
    if state["options"].keys() != known.keys():
        msg = f"options {shown(list(state['options']))}; expected {', '.join(known) or 'none'}"
        raise ValueError(msg)
    removed = distinct_names("removed", sorted(state["removed"]))
    if not set(removed).isdisjoint(state["members"]):
        msg = f"members that were removed: {shown(removed)}"
        raise ValueError(msg)


def _check_packets(made: Endpoint, state: State) -> None:
    """Refuse packets that are kept although the endpoint would not have accepted them."""
    from antecede.core.validation import check_address, check_message

    kept = [] if made.REWRITES else [packet for _, packet in state["held"]]
    for parked in state["channels"]["parked"].values():
        kept.extend(parked.values())
    for packet in kept:
        check_address(made, packet)
        try:
            check_message(made, packet)
            made._check(packet)
        except UnknownProcessError:  # it may name one who has been forgotten since it arrived
            if not made.INFO.dynamic:
                raise
    made.waiting()


def size(packet: Packet) -> ControlSize:
    """Return the size of a packet's control: entries, destinations, and bytes by the model."""
    if not isinstance(packet, Packet):
        msg = f"size() takes a Packet, got {type(packet).__name__}"
        raise UsageError(msg)
    cls = protocol_class(packet.protocol)
    try:
        return cls.measure(packet)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        msg = (
            f"packet has control {shown(packet.control)}, which is not {packet.protocol} control; "
            "measure packets as endpoints return them"
        )
        raise UsageError(msg) from error


def _limit(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= LIMIT_MAX:
        msg = f"{name}={shown(value)} is not a limit; expected an integer from 0 to {LIMIT_MAX}"
        raise UsageError(msg)
    return value
