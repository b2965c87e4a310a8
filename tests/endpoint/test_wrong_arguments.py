"""Wrong arguments are the caller's fault: a UsageError in one line, whatever was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import antecede
from antecede import Codec, UsageError

MEMBERS = ("a", "b", "c")
ANY: Any = None


def endpoint(protocol: Any = "optimal", **parts: Any) -> antecede.Endpoint:
    return antecede.endpoint(protocol, **({"process": "a", "members": MEMBERS} | parts))


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "snapshot": (lambda: Codec(MEMBERS).snapshot(ANY), "NoneType; expected an Endpoint"),
    "wire_bytes": (lambda: Codec(MEMBERS).wire_bytes(ANY), "NoneType; expected a Packet"),
    "encode": (lambda: Codec(MEMBERS).encode(ANY), "NoneType; expected a Packet"),
    "decode": (lambda: Codec(MEMBERS).decode(ANY), "got NoneType; expected bytes"),
    "size": (lambda: antecede.size(ANY), r"size\(\) takes a Packet, got NoneType"),
    "receive": (lambda: endpoint().receive(ANY), r"takes a Packet, got None"),
    "view": (lambda: endpoint(view=-1), "view=-1 is not the number of a view"),
    "pull": (lambda: endpoint(pull=1), "pull=1 is neither True nor False"),
    "skip-self": (lambda: endpoint().skip("a"), "cannot skip 'a': it is this process itself"),
    "skip-name": (lambda: endpoint().skip("z"), "'z' is not a member"),
    "skip-upto": (lambda: endpoint().skip("b", 0), "upto=0 is not the number of a message"),
    "other-view": (lambda: Codec(endpoint(view=1)).snapshot(endpoint()), "make one for it"),
    "limit": (lambda: endpoint(held_max=10**30), r"from 0 to 4611686018427387903"),
    "empty": (lambda: endpoint(members=()), "got 0 members; expected 1 to 65536"),
    "no-protocol": (lambda: endpoint(None), "unknown protocol None; known: "),
    "lines": (lambda: endpoint(members=("a", "b\nc")).send(["z"]), r"are a, 'b\\nc'$"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_argument_is_refused_in_one_line(name: str) -> None:
    call, text = CASES[name]
    with pytest.raises(UsageError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dests", [None, 5, [["b"]], [None], [5]])
def test_destinations_that_are_no_names_are_refused(dests: Any) -> None:
    with pytest.raises(UsageError):
        endpoint().send(dests)


@pytest.mark.parametrize("name", [["x"], 5])
def test_names_that_are_no_names_are_refused(name: Any) -> None:
    one = endpoint(pull=True)
    for call in (one.take, one.skip):
        with pytest.raises(UsageError, match="is not a member"):
            call(name)


@pytest.mark.parametrize(
    "call",
    [
        {"protocol": []},
        {"members": None},
        {"members": 5},
        {"members": ([],)},
        {"process": ["a"]},
        {"pull": "no"},
        {"view": True},
    ],
    ids=str,
)
def test_wrong_calls_are_usage_errors(call: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        endpoint(**call)


def test_groups_may_be_sets() -> None:
    groups = {"g": {"a", "b"}, "all": {"a", "b", "c"}}
    end = endpoint("broadcast", groups=groups)
    assert [packet.dest for packet in end.send("g").packets] == ["b"]
