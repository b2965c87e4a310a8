"""Snapshots: an endpoint's whole state as bytes, with a checksum against damage.

The checksum also covers the members' names, so a snapshot is not restored under other names by
mistake. It is not a signature: whoever can write your snapshots can forge any endpoint.
"""

import hashlib
from collections.abc import Callable
from typing import Final, cast, get_origin, get_type_hints, is_typeddict

from antecede.core.endpoint import Endpoint
from antecede.core.registry import PROTOCOLS, protocol_class
from antecede.core.registry import restore as restored
from antecede.core.state import State
from antecede.errors import PeerError, SnapshotError, UsageError
from antecede.wire.roster import Scope, WireRoster
from antecede.wire.stream import SNAPSHOT_MARK, VERSION, Reader, check_mark, put_varint
from antecede.wire.values import get_value, put_value

CHECKSUM_BYTES: Final = 8
SNAPSHOT_BYTES_MAX: Final = 1 << 30
_FIELD_TYPES: Final[dict[str, type]] = {
    name: dict if is_typeddict(hint) else get_origin(hint) or hint
    for name, hint in get_type_hints(State).items()
}


def make_snapshot(endpoint: Endpoint, roster: WireRoster) -> bytes:
    """Return the state of an endpoint whose members the roster knows."""
    for member in endpoint.members:
        roster.number(member)
    out = bytearray((SNAPSHOT_MARK + VERSION,))
    out += roster.identity
    put_value(out, endpoint.state(), Scope(roster, is_flat=False))
    out += _checksum(bytes(out), roster)
    return bytes(out)


def get_snapshot(reader: Reader, roster_of: Callable[[Reader], WireRoster]) -> Endpoint:
    """Return the endpoint whose state was written, or raise a SnapshotError that says why not."""
    if reader.left > SNAPSHOT_BYTES_MAX:
        msg = f"snapshot of {reader.left} bytes is longer than the {SNAPSHOT_BYTES_MAX} allowed"
        raise SnapshotError(msg)
    try:
        check_mark(reader, SNAPSHOT_MARK, "snapshot")
        roster = roster_of(reader)
        _check_sum(reader, roster)
        state = get_value(reader, Scope(roster, is_flat=False))
        if reader.left != CHECKSUM_BYTES:
            reader.fail("continues after its state")
    except PeerError as error:
        msg = f"snapshot is not usable: {error}"
        raise SnapshotError(msg) from error
    return _endpoint(state, roster)


def _check_sum(reader: Reader, roster: WireRoster) -> None:
    body, checksum = reader.data[:-CHECKSUM_BYTES], reader.data[-CHECKSUM_BYTES:]
    if len(reader.data) < CHECKSUM_BYTES or checksum != _checksum(body, roster):
        reader.fail(
            "does not match its checksum",
            "it is damaged, truncated or of other members; use another copy",
        )


def _checksum(body: bytes, roster: WireRoster) -> bytes:
    names = bytearray()
    for name in roster.names:
        text = name.encode(errors="surrogatepass")
        put_varint(names, len(text))
        names += text
    return hashlib.blake2b(names + body, digest_size=CHECKSUM_BYTES).digest()


def _endpoint(state: object, roster: WireRoster) -> Endpoint:
    """Make the endpoint; refuse a state that this version cannot have."""
    if not isinstance(state, dict) or set(state) != set(_FIELD_TYPES):
        msg = (
            "snapshot does not hold an endpoint's state; it was made by another version of antecede"
        )
        raise SnapshotError(msg)
    for name, kind in _FIELD_TYPES.items():
        if type(state[name]) is not kind:
            msg = f"snapshot has {type(state[name]).__name__} as {name}; expected {kind.__name__}"
            raise SnapshotError(msg)
    members = state["members"]
    if (
        not all(type(name) is str for name in members)
        or len(set(members)) != len(members)
        or not set(members) <= set(roster.names)
    ):
        msg = f"snapshot is of members {members}; expected members of this Codec, each once"
        raise SnapshotError(msg)
    if state["process"] not in members:
        msg = f"snapshot is of process {state['process']!r}, which is not among its own members"
        raise SnapshotError(msg)
    protocol = state["protocol"]
    if protocol not in PROTOCOLS or set(state["own"]) != set(protocol_class(protocol).STATE):
        msg = f"snapshot of protocol {protocol!r} does not fit this version of antecede"
        raise SnapshotError(msg)
    try:
        return restored(cast("State", state), checked=True)
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        PeerError,
        RuntimeError,
        TypeError,
        UsageError,
        ValueError,
    ) as error:
        msg = f"snapshot of protocol {protocol!r} holds an impossible state ({error})"
        raise SnapshotError(msg) from error
