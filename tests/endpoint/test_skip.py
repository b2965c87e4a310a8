"""``skip``: no message waits for one that is declared lost, and its effects say so."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import antecede
from antecede import PROTOCOLS, Codec, Endpoint, MessageId, Need, Packet, PeerError
from antecede.check import World, random_script, run_script
from antecede.check.cases import cases, random_groups
from antecede.check.scripts import process_names
from antecede.endpoint.registry import rules_of, view_of

MEMBERS = ("a", "b", "c")


def group(protocol: str = "optimal", members: tuple[str, ...] = MEMBERS) -> dict[str, Endpoint]:
    return {name: antecede.endpoint(protocol, process=name, members=members) for name in members}


def ordered() -> list[str]:
    """Return the protocols that wait for messages by their numbers, on unicasts."""
    return [
        name
        for name, info in PROTOCOLS.items()
        if "no_overblocking" in info.promises and "multicast" in info.casts and not info.queueing
    ]


@pytest.mark.parametrize("protocol", ordered())
def test_what_waits_only_for_the_lost_is_delivered_and_says_so(protocol: str) -> None:
    ends = group(protocol)
    lost, second = (ends["a"].send(["c"]).packets[0] for _ in range(2))
    c = ends["c"]
    assert c.receive(second).deliveries == ()
    (need,) = c.waiting()[MessageId("a", 2)]
    assert need == Need("a", 1)
    (delivery,) = c.skip(need.process, need.number).deliveries
    assert (delivery.message, delivery.unmet) == (("a", 2), (Need("a", 1),))
    before = c.state()
    with pytest.raises(PeerError, match="was declared lost"):
        c.receive(lost)
    assert c.state() == before
    assert c.receive(second) == antecede.Effects(event=1), "a duplicate is still one"


@pytest.mark.parametrize("protocol", ordered())
def test_what_rests_on_such_a_delivery_says_so_too(protocol: str) -> None:
    ends = group(protocol)
    ends["a"].send(["c"])
    ends["b"].receive(ends["a"].send(["b"]).packets[0])
    c = ends["c"]
    c.receive(ends["b"].send(["c"]).packets[0])
    (need,) = c.waiting()[MessageId("b", 1)]
    assert need.process == "a"
    (delivery,) = c.skip(need.process, need.number).deliveries
    assert delivery.unmet == (need,)
    (own,) = c.send(["a", "c"]).deliveries
    assert own.unmet == (need,)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("zones", {"zones": (("a", "b"), ("b", "c"))}),
        ("tree", {"links": (("a", "b"), ("b", "c"))}),
        ("central", {"relay": "b"}),
        ("hierarchy", {"clusters": (("b", "a", "c"),)}),
    ],
)
def test_what_a_skip_releases_is_passed_on_at_once(protocol: str, options: dict[str, Any]) -> None:
    a, b = (
        Endpoint(view_of(protocol, MEMBERS, **options), name, rules_of(protocol)) for name in "ab"
    )
    _, second = (next(p for p in a.send(["b", "c"]).packets if p.dest == "b") for _ in range(2))
    assert not b.receive(second).deliveries
    effects = b.skip("a", 1)
    assert [delivery.message for delivery in effects.deliveries] == [("a", 2)]
    assert [(packet.dest, packet.message) for packet in effects.packets] == [("c", ("a", 2))]
    assert not b.flush().packets


def test_skip_does_not_release_what_waits_for_something_else() -> None:
    ends = group(members=("a", "b", "c", "d"))
    ends["a"].send(["d"])
    from_b = ends["b"].send(["d"]).packets[0]
    for source in "ab":
        ends["c"].receive(ends[source].send(["c"]).packets[0])
    d = ends["d"]
    d.receive(ends["c"].send(["d"]).packets[0])
    assert d.skip("a", 1).deliveries == ()
    assert d.waiting() == {("c", 1): (Need("b", 1),)}
    deliveries = d.receive(from_b).deliveries
    assert [(one.message.sender, one.unmet) for one in deliveries] == [
        ("b", ()),
        ("c", (Need("a", 1),)),
    ]


def test_what_was_lost_takes_its_needs_along_but_what_is_held_still_comes_first() -> None:
    """x:1 is held; the lost y:1 followed it, and z:1 names only that."""
    ends = group(members=("w", "x", "y", "z", "d"))
    from_w = {p.dest: p for p in ends["w"].send(["x", "d"]).packets}
    ends["x"].receive(from_w["x"])
    from_x = {p.dest: p for p in ends["x"].send(["y", "d"]).packets}
    ends["y"].receive(from_x["y"])
    from_y = {p.dest: p for p in ends["y"].send(["z", "d"]).packets}
    ends["z"].receive(from_y["z"])
    d = ends["d"]
    d.receive(from_x["d"])
    d.receive(ends["z"].send(["d"]).packets[0])
    assert d.skip("y", 1).deliveries == ()
    found = [one.message.sender for one in d.receive(from_w["d"]).deliveries]
    assert found == ["w", "x", "z"]


def test_a_process_that_is_gone_is_refused_for_good_and_nothing_is_sent_to_it() -> None:
    ends = group()
    (packet,) = ends["a"].send(["c"]).packets
    c = ends["c"]
    c.skip("a")
    with pytest.raises(PeerError, match="was declared lost"):
        c.receive(packet)
    assert [p.dest for p in c.send(["a", "b"]).packets] == ["b"]


def test_what_was_here_before_is_not_lost() -> None:
    ends = group()
    packets: list[Packet] = [ends["a"].send(["c"]).packets[0] for _ in range(3)]
    c = ends["c"]
    c.receive(packets[0])
    c.receive(packets[2])
    (delivery,) = c.skip("a", 3).deliveries
    assert (delivery.message, delivery.unmet) == (("a", 3), (Need("a", 2),))


@pytest.mark.parametrize("protocol", ordered())
def test_what_becomes_ready_and_then_waits_for_a_late_message_is_woken_by_it(protocol: str) -> None:
    a, b, c = (antecede.endpoint(protocol, process=p, members=MEMBERS, pull=True) for p in MEMBERS)
    b.receive(a.send(["b", "c"]).packets[0])
    b.take()
    one, two, three = (b.send(["c"]).packets[0] for _ in range(3))
    c.receive(three)
    c.skip("a", 1)
    taken: list[str] = []
    for packet in (two, one):
        c.receive(packet)
        taken += [str(d.message) for d in c.take().deliveries]
    while found := c.take().deliveries:
        taken += [str(d.message) for d in found]
    assert sorted(taken) == ["b:1", "b:2", "b:3"]
    assert c.held == 0


def test_what_came_after_a_skip_is_still_lost_at_the_next_one() -> None:
    ends = group("central", ("a", "b", "c", "d"))
    relay, d = ends["a"], ends["d"]
    first = relay.receive(ends["c"].send(["d"]).packets[0]).packets[0]
    lost = relay.receive(ends["b"].send(["d"]).packets[0]).packets[0]
    d.skip("b", upto=1)
    assert not d.receive(lost).deliveries
    assert not d.skip("b").deliveries
    assert [one.message for one in d.receive(first).deliveries] == [("c", 1)]


def test_waiting_names_no_message_where_a_packet_of_the_protocol_is_missing() -> None:
    a, b = (
        antecede.endpoint("buffered", process=name, members=("a", "b"), pipelined=True)
        for name in "ab"
    )
    answer = b.receive(a.send(["b"]).packets[0]).packets[0]
    (message,) = b.send(["a"]).packets
    assert not a.receive(message).deliveries
    assert a.waiting() == {MessageId("b", 1): (Need("b", 1, "packet"),)}
    assert a.receive(answer).deliveries
    ends = {
        name: antecede.endpoint(
            "flooding", process=name, members=MEMBERS, links=(("a", "b"), ("b", "c"))
        )
        for name in MEMBERS
    }
    ends["a"].link("c")
    ends["b"].receive(ends["a"].send(["b", "c"]).packets[0])
    assert ends["b"].waiting() == {MessageId("a", 1): (Need("a", 1, "packet"),)}
    assert ends["b"].skip("a").deliveries


def test_what_waits_for_a_lost_message_that_others_brought_can_be_saved() -> None:
    """It was held for a message that its sender knew of, and goes on waiting for that."""
    world = World("flooding", ("a", "b", "c", "d"))
    others = {name: [one for one in "abcd" if one != name] for name in "cd"}
    steps = "c cb1 d d dc2 db1 d c cd2 c bd1 d dc1 cb5 cd1 d skip db3 db2 db4 db6 db5"
    for step in steps.split():
        if step == "skip":
            world.skip("b", "c", 2)
        elif step in others:
            world.send(step, others[step])
        else:
            world.arrive_packet(step[0], step[1], int(step[2]), keep=True)
    before = world.endpoints["b"]
    world.restart("b")
    assert world.endpoints["b"].waiting() == before.waiting()
    assert all(before.waiting().values()), "none is held without a reason"


@pytest.mark.parametrize("protocol", ["optimal", "history", "phases", "central", "serial"])
def test_losses_survive_a_snapshot(protocol: str) -> None:
    members = process_names(4)
    for seed in range(12):
        case = cases(protocol, members)[0]
        script = random_script(
            seed,
            members=members,
            casts=(case.cast,),
            steps=40,
            crashes=1,
            restart_share=0.2,
        )
        world = run_script(script, protocol, drain=Random(seed))
        for end in world.endpoints.values():
            codec = Codec(world.view)
            assert codec.restore(codec.snapshot(end), resumed=True).state() == end.state()


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_crashes_under_the_oracle(protocol: str, pull: bool) -> None:
    """Nothing overtaken, everything marked, nothing waits: or the record says why not."""
    for seed in range(24):
        members = process_names(3 + seed % 3)
        known = cases(protocol, members)
        case = known[seed % len(known)]
        groups = random_groups(members, seed) if case.cast == "groups" else None
        script = random_script(
            seed,
            members=members,
            casts=(case.cast,),
            steps=40,
            crashes=1 + seed % 2,
            pull=pull,
            ranks=PROTOCOLS[protocol].orders_by_after,
            groups=groups,
        )
        options = {name: value for name, value in case.options.items() if name != "groups"}
        run_script(script, protocol, options=options, promises=case.promises, drain=Random(seed))


def test_every_record_says_what_a_skip_costs_in_a_sentence() -> None:
    for info in PROTOCOLS.values():
        for text in (info.lost_by_skip, info.unmarked_by_skip):
            assert text == text.strip()
            assert not text.endswith(".")
