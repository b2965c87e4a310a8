"""optimal, option differential: [KS98] section 3.5, nothing twice over a channel."""

from typing import cast

import pytest

from antecede import Packet
from antecede.check import World
from antecede.check.scripts import run_step
from antecede.endpoint.messages import Message
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Own
from antecede.errors import UsageError
from antecede.protocols.optimal import Change, Differential
from tests.protocols.rig import (
    assert_restarts,
    campaign,
    caught,
    delivered,
    scripts,
)

DIFFERENTIAL: dict[str, object] = {"differential": True}


def test_under_the_oracle_with_all_promises_of_optimal() -> None:
    """Channel order is part of causal order: nothing waits longer, and the log is the same."""
    campaign("optimal", 30, options=DIFFERENTIAL)
    campaign("optimal", 10, options=DIFFERENTIAL, pull=True)


def test_deliveries_are_those_of_optimal_and_the_cost_is_never_higher() -> None:
    """At every step the same messages are delivered; concurrent ones may change places."""
    saved = 0
    for script in scripts(["unicast", "multicast"], 12, steps=120):
        plain = World("optimal", script.members, promises=())
        short = World("optimal", script.members, promises=(), options=DIFFERENTIAL)
        for step in script.steps:
            run_step(plain, step)
            run_step(short, step)
            for name in script.members:
                assert set(delivered(plain, name)) == set(delivered(short, name))
        for full, some in zip(plain.packets, short.packets, strict=True):
            assert size(some).model_bytes <= size(full).model_bytes
            saved += size(full).model_bytes - size(some).model_bytes
    assert saved > 0


def test_the_second_message_names_only_what_changed() -> None:
    world = World("optimal", "abcd", options=DIFFERENTIAL)
    for dests in (["b"], ["c"], ["d"], ["d"]):
        world.send("a", dests)
    first, second = (packet.control for packet in world.packets[2:])
    assert first == (("a", 1, ("b",)), ("a", 2, ("c",)))
    assert second == ("diff", (), (("a", 3, ("d",)),))


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="differential='yes' is neither True nor False"):
        endpoint("optimal", process="a", members=("a", "b"), differential="yes")
    with pytest.raises(UsageError, match="choose one"):
        endpoint(
            "optimal", process="a", members=("a", "b"), differential=True, hardware_multicast=True
        )


def test_going_on_after_a_restart() -> None:
    assert_restarts("optimal", DIFFERENTIAL)


class IgnoresWhatIsGone(Differential):
    """Takes a difference for additions only: absence is information, and it is lost."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        changes = cast("dict[int, Change]", own)
        return {dest: (is_all, [], fresh) for dest, (is_all, _, fresh) in changes.items()}


class KeepsTheFirst(Differential):
    """Applies every difference to what the channel carried first."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        before = self._last_received[packet.source_no]
        places = super().taken(packet)
        if before:
            self._last_received[packet.source_no] = before
        return places


def test_mutants_are_caught() -> None:
    for mutant in (IgnoresWhatIsGone, KeepsTheFirst):
        assert caught("optimal", mutant, options=DIFFERENTIAL) in {
            "safety",
            "necessity",
            "no_overblocking",
            "liveness",
        }
