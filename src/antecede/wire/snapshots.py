"""Snapshots: the whole state of an endpoint, by field names, as JSON.

Bytes and packets are texts in base 64 within an object of one field. Whatever no endpoint can have
is refused, field by field.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Packet
from antecede.endpoint.registry import restored, view_of
from antecede.endpoint.saved import Saved, State
from antecede.endpoint.view import View
from antecede.errors import AntecedeError, SnapshotError, listed

FORMAT: Final = "antecede snapshot"
VERSION: Final = 3
BYTES: Final = "base64"
PACKET: Final = "packet"
_OTHER: Final = (
    f"not a snapshot of version {VERSION}: it is damaged, or of another release of antecede; start "
    "anew, in a new view"
)


def put_snapshot(endpoint: Endpoint, encode: Callable[[Packet], bytes]) -> bytes:
    """Return an endpoint as bytes."""
    view = endpoint.view

    def plain(value: object) -> object:
        if isinstance(value, bytes):
            return {BYTES: b64encode(value).decode()}
        assert isinstance(value, Packet), f"{value!r} cannot be saved"
        return {PACKET: b64encode(encode(value)).decode()}

    record = {
        "format": FORMAT,
        "version": VERSION,
        "view": view.number,
        "members": view.members,
        "protocol": view.protocol,
        "options": view.options,
        "endpoint": endpoint.state(),
    }
    return json.dumps(record, default=plain, separators=(",", ":")).encode()


def get_snapshot(
    data: bytes,
    members: tuple[str, ...],
    view: View | None,
    decoder: Callable[[View], Callable[[bytes], Packet]],
    *,
    resumed: bool,
) -> Endpoint:
    """Return the endpoint of a snapshot; SnapshotError says why there is none."""
    if not data.startswith(b"{"):
        raise SnapshotError(_OTHER)
    try:
        record = Saved("snapshot", json.loads(data))
        if record.value("format", "") != FORMAT or record.number("version", 0) != VERSION:
            return _refuse(_OTHER)
        number, names = record.number("view", 0), record.plain("members")
        protocol, options = record.value("protocol", ""), record.value("options", State())
        if names != [*members]:
            return _refuse(f"a snapshot of other members than {listed(members)}; use its own Codec")
        made = view_of(protocol, members, number=number, **_tuples(options))
        if view is not None and made.digest != view.digest:
            return _refuse(f"a snapshot of {made}, not of {view}; use the Codec of its view")
        state = _read(record.plain("endpoint"), decoder(made))
        record.read(lambda _: None)
        return restored(made, state, resumed=resumed)
    except SnapshotError:
        raise
    except (AntecedeError, ValueError, TypeError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SnapshotError(f"not a snapshot that can be used: {reason}; take a new one") from error


def _refuse(why: str) -> Endpoint:
    raise SnapshotError(why)


def _read(value: object, decode: Callable[[bytes], Packet]) -> object:
    """Return state with its bytes and packets."""
    if isinstance(value, list):
        return [_read(part, decode) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES}:
        return b64decode(value[BYTES], validate=True)
    if value.keys() == {PACKET}:
        return decode(b64decode(value[PACKET], validate=True))
    return {name: _read(part, decode) for name, part in value.items()}


def _tuples(value: Any) -> Any:
    """Return options as they were given: JSON has lists for tuples."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {name: _tuples(part) for name, part in value.items()}
    return value
