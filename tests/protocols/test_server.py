"""server: [KK89], where only the server's requests are ordered."""

import pytest

from antecede.check import World, causal_violations
from antecede.endpoint.messages import FREE, Need, Packet
from antecede.endpoint.registry import PROTOCOLS, endpoint, size
from antecede.errors import UsageError
from antecede.protocols.server import Server
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    control_of,
    delivered,
    forged,
)


def test_worked_example() -> None:
    world = World("server", "abc")
    world.send("b", ["a"])
    world.send("b", ["c"])
    world.arrive_packet("b", "c")
    world.send("c", ["a"])
    world.arrive_packet("c", "a")
    assert world.endpoints["a"].waiting() == {("c", 1): (Need("b", 1),)}
    world.drain()
    world.check()

    assert delivered(world, "a") == [("b", 1), ("c", 1)]
    assert control_of(world, "b", 1, "a") == (0, 0, 0)
    assert control_of(world, "b", 2, "c") == (0, 1, 0)
    assert control_of(world, "c", 1, "a") == (0, 1, 0)


@pytest.mark.parametrize("place", [0, 1])
def test_the_server_serves_in_causal_order_and_clients_need_not(place: int) -> None:
    violations_elsewhere = 0
    options = {"server": "b"} if place else None
    for world in campaign("server", 100, options=options):
        n, at = len(world.endpoints), "ab"[place]
        found = causal_violations(world.history)
        assert [v for v in found if v.process == at] == []
        violations_elsewhere += len(found)
        assert {size(packet) for packet in world.packets} <= {(n, 0, 4 * n)}
    assert violations_elsewhere > 0, "the registry says that clients are not ordered"
    assert "safety" not in PROTOCOLS["server"].promises


def test_the_server_is_ordered_in_pull_mode_too() -> None:
    for world in campaign("server", 60, pull=True):
        assert [v for v in causal_violations(world.history) if v.process == "a"] == []


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="server='x' is not a member; the members are a, b"):
        endpoint("server", process="a", members=("a", "b"), server="x")
    with pytest.raises(
        UsageError, match="does not send to b, c from 'a': it offers unicast; optimal sends"
    ):
        endpoint("server", process="a", members=("a", "b", "c")).send(["b", "c"])


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("server", "abc")
    world.send("b", ["a"])
    knowing = forged(world.in_flight[0], control=[1 << 2, 1, 2])
    assert_refused(world.endpoints["a"], [knowing], "knows of more messages")
    assert_damage_is_harmless(campaign("server", 5, sizes=(3,))[-1])


def test_going_on_after_a_restart() -> None:
    assert_restarts("server")


class SkipsTheSender(Server):
    """Compares as [MF95] words it, without the sender's own entry."""

    def blocker(self, packet: Packet) -> int:
        found = [key for key in self.missing(packet) if key & self.low != packet.source_no]
        return found[0] if found else FREE


def test_the_rule_as_worded_needs_channels_that_keep_order() -> None:
    def overtaken(rules: type[Server]) -> list[tuple[str, int]]:
        world = World("server", "ab", rules=rules, promises=())
        world.send("b", ["a"])
        world.send("b", ["a"])
        world.drain(-1)
        return delivered(world, "a")

    assert overtaken(SkipsTheSender) == [("b", 2), ("b", 1)]
    assert overtaken(Server) == [("b", 1), ("b", 2)]
