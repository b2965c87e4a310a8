"""Wrong arguments are the caller's fault: a UsageError in one line, whatever was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import antecede
from antecede import Codec, MessageId, Packet, UsageError

MEMBERS = ("a", "b", "c")
ANY: Any = None


def packet(**parts: Any) -> Packet:
    whole = Packet("a", "b", 1, "data", MessageId("a", 1), ("b",), b"", (), "optimal")
    return replace(whole, **parts)


def endpoint(protocol: Any = "optimal", **parts: Any) -> antecede.Endpoint:
    return antecede.endpoint(protocol, **({"process": "a", "members": MEMBERS} | parts))


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "snapshot": (lambda: Codec(MEMBERS).snapshot(ANY), "NoneType; expected an Endpoint"),
    "wire_bytes": (lambda: Codec(MEMBERS).wire_bytes(ANY), "NoneType; expected a Packet"),
    "message": (lambda: Codec(MEMBERS).encode(packet(message="x")), "message 'x'"),
    "dests": (lambda: Codec(MEMBERS).encode(packet(dests=None)), "dests None"),
    "protocol": (lambda: Codec(MEMBERS).encode(packet(protocol=None)), "protocol None"),
    "source": (lambda: Codec(MEMBERS).encode(packet(source=["a"])), r"source \['a'\]"),
    "size": (lambda: antecede.size(packet(control=(("x",),))), "not optimal control"),
    "limit": (lambda: endpoint(held_max=10**30), r"from 0 to 9223372036854775807"),
    "empty": (lambda: endpoint(members=()), "members is empty"),
    "no-protocol": (lambda: endpoint(None), "unknown protocol None; known: "),
    "lines": (lambda: endpoint(members=("a", "b\nc")).send(["z"]), r"are a, 'b\\nc'$"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_argument_is_refused_in_one_line(name: str) -> None:
    call, text = CASES[name]
    with pytest.raises(UsageError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)
