"""optimal, option differential: [KS98] section 3.5, nothing twice over a channel."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede import Effects, Packet
from antecede.check import World, run_script
from antecede.check.scripts import run_step
from antecede.core.differences import applied, difference, is_difference, measured
from antecede.core.entries import Entries
from antecede.endpoint.registry import endpoint, size
from antecede.errors import UsageError
from antecede.protocols.optimal import Optimal
from tests.protocols.rig import (
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    scripts,
)

DIFFERENTIAL: dict[str, object] = {"differential": True}


def purged(log: dict[tuple[str, int], frozenset[str]]) -> Entries:
    """Return a log as it travels: no entry without destinations but its sender's newest."""
    newest = {sender: max(c for s, c in log if s == sender) for sender, _ in log}
    return tuple(
        (sender, clock, tuple(sorted(dests)))
        for (sender, clock), dests in sorted(log.items())
        if dests or clock == newest[sender]
    )


logs = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(1, 4)),
    st.frozensets(st.sampled_from("abc")),
).map(purged)


@given(logs, logs)
def test_a_difference_gives_back_the_whole(before: Entries, after: Entries) -> None:
    control = difference(before, after)
    assert applied(before, control) == after
    assert measured(control).model_bytes <= measured(after).model_bytes


@given(logs)
def test_what_has_not_changed_costs_nothing(log: Entries) -> None:
    assert measured(difference(log, log)).model_bytes == 0


def test_under_the_oracle_with_all_promises_of_optimal() -> None:
    """Channel order is part of causal order: nothing waits longer, and the log is the same."""
    campaign("optimal", 30, options=DIFFERENTIAL)
    campaign("optimal", 10, options=DIFFERENTIAL, pull=True)


def test_with_lookahead_order_is_kept() -> None:
    for script in scripts(["unicast", "multicast"], 40):
        run_script(
            script,
            "optimal",
            options={"differential": True, "lookahead": True},
            promises={"safety", "liveness", "quiescence"},
            drain=0,
        )


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


def test_processes_join_and_leave() -> None:
    world = World("optimal", "abc", options=DIFFERENTIAL)
    for sender, dests in (("a", ["b", "c"]), ("b", ["c"]), ("a", ["c"])):
        world.send(sender, dests)
    world.add("d")
    world.send("a", ["d", "c"])
    world.arrive_packet("a", "d")
    world.send("d", ["a", "b", "c"])
    world.remove("b")
    world.send("a", ["c", "d"])
    world.drain(-1)
    world.check()


def test_malformed_control_is_refused_and_changes_nothing() -> None:
    world = World("optimal", "abcd", options=DIFFERENTIAL)
    for dests in (["b"], ["c"], ["d"], ["d"]):
        world.send("a", dests)
    world.arrive(2)
    packet = next(packet for packet in world.in_flight if packet.n == 2)
    assert is_difference(packet.control)
    bad: list[object] = [None, ("diff", ()), ("diff", (("a",),), ()), ("diff", (("a", 0),), ())]
    bad += [("diff", (("x", 1),), ()), ("diff", (), (("a", 0, ()),)), ("diff", (), None)]
    bad += [("diff", None, ()), ("half", (), ()), ("diff", (), (("x", 1, ()),))]
    assert_refused(world.endpoints["d"], packet, bad)
    assert_refused(
        endpoint("optimal", process="d", members=tuple("abcd")),
        world.packets[2],
        [packet.control],
    )


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="differential='yes' is neither True nor False"):
        endpoint("optimal", process="a", members=("a", "b"), differential="yes")
    with pytest.raises(UsageError, match="choose one"):
        endpoint(
            "optimal", process="a", members=("a", "b"), differential=True, hardware_multicast=True
        )


def test_going_on_after_a_restart() -> None:
    assert_restarts("optimal", DIFFERENTIAL)


class IgnoresWhatIsGone(Optimal):
    """Takes a difference for additions only: absence is information, and it is lost."""

    def _shortened(self, packet: Packet) -> Packet:
        result = super()._shortened(packet)
        if is_difference(result.control):
            return replace(result, control=(result.control[0], (), result.control[2]))
        return result


class WithoutChannelOrder(Optimal):
    """Applies differences in the order of arrival."""

    def _receive_in_order(self, packet: Packet) -> Effects:
        self._check_packet(packet)
        if not self._is_seen(packet):
            full = self._in_full(packet)
            self._hold_back(full, self._blocker(full))
        return self._flush()


def test_mutants_are_caught() -> None:
    for mutant in (IgnoresWhatIsGone, WithoutChannelOrder):
        assert caught("optimal", mutant, options=DIFFERENTIAL) in {
            "safety",
            "necessity",
            "no_overblocking",
            "liveness",
        }
