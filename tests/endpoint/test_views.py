"""Views: packets belong to one, and a new one begins where a restart was not declared."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import antecede
from antecede import Codec, Endpoint, OtherViewError, PeerError, UsageError
from antecede.check import World, random_script
from antecede.check.cases import cases
from antecede.check.scripts import run_step

MEMBERS = ("a", "b", "c")


def make(process: str, view: int = 0, protocol: str = "optimal", **options: Any) -> Endpoint:
    members = options.pop("members", MEMBERS)
    return antecede.endpoint(protocol, process=process, members=members, view=view, **options)


def test_a_view_says_what_all_members_share() -> None:
    view = make("a", 7, lookahead=True).view
    assert (view.number, view.members, view.protocol) == (7, MEMBERS, "optimal")
    assert view.options["lookahead"] is True
    assert make("b", 7, lookahead=True).view is view


@pytest.mark.parametrize(
    ("theirs", "ours", "advice"), [(3, 4, "drop it"), (4, 3, "offer it again")]
)
def test_a_packet_of_another_view_is_refused_both_ways(theirs: int, ours: int, advice: str) -> None:
    a, b = make("a", theirs), make("b", ours)
    (packet,) = a.send(["b"]).packets
    before = b.state()
    with pytest.raises(OtherViewError, match=advice) as caught:
        b.receive(packet)
    assert (caught.value.number, caught.value.current) == (theirs, ours)
    assert b.state() == before
    with pytest.raises(OtherViewError, match=advice) as caught:
        Codec(b).decode(Codec(a).encode(packet))
    assert (caught.value.number, caught.value.current) == (theirs, ours)


@pytest.mark.parametrize(
    "other",
    [
        {"members": ("a", "b", "d")},
        {"members": ("b", "a", "c")},
        {"members": ("a", "b", "c", "d")},
        {"lookahead": True},
    ],
    ids=str,
)
def test_the_digest_tells_other_members_and_options_of_the_same_number(other: Any) -> None:
    (packet,) = make("a", **other).send(["b"]).packets
    b = make("b")
    with pytest.raises(PeerError, match="another view with the same number 0"):
        b.receive(packet)
    assert b.view.digest != packet.view.digest
    with pytest.raises(PeerError, match="same number 0"):
        Codec(b).decode(Codec(packet.view).encode(packet))


def test_another_protocol_is_named() -> None:
    (packet,) = make("a", protocol="matrix").send(["b"]).packets
    with pytest.raises(
        PeerError, match="is of protocol 'matrix', but this endpoint runs 'optimal'"
    ):
        make("b").receive(packet)


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_restored_without_resumed_an_endpoint_only_delivers(protocol: str) -> None:
    """It sends neither messages nor packets of its own, since their numbers may have been used."""
    delivered = 0
    for seed in range(6):
        case = cases(protocol, MEMBERS)[0]
        world = World(protocol, MEMBERS, promises=())
        script = random_script(seed, members=MEMBERS, casts=(case.cast,), steps=30)
        for step in script.steps:
            try:
                run_step(world, step)
            except UsageError:
                assert world.info.blocking
        codec = Codec(world.view)
        for name, end in world.endpoints.items():
            again = codec.restore(codec.snapshot(end))
            rng = Random(seed)
            waiting = [p for p in world.in_flight if p.dest == name]
            rng.shuffle(waiting)
            for packet in waiting:
                effects = again.receive(packet)
                assert effects.packets == ()
                delivered += len(effects.deliveries)
            before = again.state()
            for dests in ([m for m in MEMBERS if m != name][:1], [name]):
                with pytest.raises(UsageError, match=r"without resumed=True.*new view \(after 0\)"):
                    again.send(dests if case.cast != "broadcast" else list(MEMBERS))
            assert again.state() == before
    assert delivered > 0


@pytest.mark.parametrize(
    ("protocol", "options"),
    [*((name, {}) for name in antecede.PROTOCOLS), ("buffered", {"pipelined": True})],
)
def test_restored_from_an_old_snapshot_it_can_be_saved_again_and_still_only_delivers(
    protocol: str, options: dict[str, Any]
) -> None:
    a, b = (make(name, protocol=protocol, members=("a", "b"), **options) for name in "ab")
    codec = Codec(a)
    saved = codec.snapshot(a)
    rest = list(a.send(["b"], b"one").packets)
    answers = [packet for one in rest for packet in b.receive(one).packets]
    answers += b.send(["a"], b"two").packets
    again = codec.restore(saved)
    delivered: list[antecede.Delivery] = []
    for packet in answers:
        delivered += again.receive(packet).deliveries
        for resumed in (True, False):
            again = codec.restore(codec.snapshot(again), resumed=resumed)
            with pytest.raises(UsageError, match="without resumed=True"):
                again.send(["b"])
    if protocol not in {"probabilistic", "serial"}:  # counters; the token waits for an answer
        assert [one.payload for one in delivered] == [b"two"]


def test_restored_after_a_skip_it_still_may_not_send() -> None:
    a = make("a")
    a.skip("b")
    again = Codec(a).restore(Codec(a).snapshot(a))
    with pytest.raises(UsageError, match="without resumed=True"):
        again.send(["c"])
    assert Codec(a).restore(Codec(a).snapshot(a), resumed=True).send(["c"]).packets


def test_others_notice_a_restart_that_was_not_declared() -> None:
    """Restored from an old snapshot as if resumed, it hears of messages that it does not know."""
    a, b = make("a"), make("b")
    saved = Codec(a).snapshot(a)
    b.receive(a.send(["b"]).packets[0])
    again = Codec(a).restore(saved, resumed=True)
    with pytest.raises(PeerError, match="restored from a snapshot older than its last send"):
        again.receive(b.send(["a"]).packets[0])
