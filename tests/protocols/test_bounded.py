"""bounded against [SA00] and the oracle: the bound, extra messages, multicast."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from antecede import (
    Codec,
    Endpoint,
    HoldFullError,
    Packet,
    UsageError,
    endpoint,
    size,
    view_of,
)
from antecede.check import Script, World, explore
from antecede.check.scripts import run_step
from antecede.protocols.bounded import CHOICES, Bounded, Columns
from antecede.protocols.specs.bounded import Entries
from tests.protocols.rig import assert_damage_is_harmless, forged
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    run,
    scripts,
)

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast
    from antecede.endpoint.view import View
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


def limits(n: int) -> tuple[int, ...]:
    """Return the tightest k, the default and the loosest."""
    return (n + 1, 2 * n, n * n)


def entries_of(ep: Endpoint) -> int:
    kept = ep.kept_entries()
    assert kept is not None
    return kept


def run_within(
    script: Script, k: int, column: str = "fullest", rules: type[Bounded] | None = None
) -> World:
    """Run a script; check after every step that no process keeps or sends more than k entries."""
    world = World(
        "bounded",
        script.members,
        options={"k": k, "column": column},
        fifo=script.fifo,
        pull=script.pull,
        rules=rules,
    )
    for step in script.steps:
        run_step(world, step)
        assert all(entries_of(ep) <= k for ep in world.endpoints.values())
    world.drain(Random(k))
    world.check()
    assert all(size(packet).entries <= k for packet in world.packets)
    return world


# The bound, and the promises under it.


@pytest.mark.parametrize("cast_name", ALL_CASTS)
@pytest.mark.parametrize("pull", [False, True])
def test_promises_hold_within_the_bound(cast_name: Cast, pull: bool) -> None:
    for script in scripts(28, (cast_name,), pull=pull):
        for k in limits(len(script.members)):
            run_within(script, k)


@pytest.mark.parametrize("column", CHOICES)
def test_promises_hold_whichever_column_goes(column: str) -> None:
    for script in scripts(30, ALL_CASTS, first=100):
        run_within(script, len(script.members) + 1, column)


def test_the_bound_is_reached() -> None:
    """Exactly k entries are allowed: the reading of [SA00] that we chose."""
    peaks = Counter[bool]()
    for script in scripts(20, ("unicast",), first=200, steps=100):
        k = len(script.members) + 1
        world = World("bounded", script.members, options={"k": k})
        peak = 0
        for step in script.steps:
            run_step(world, step)
            peak = max(peak, *map(entries_of, world.endpoints.values()))
        peaks[peak == k] += 1
    assert peaks[True] > 10


def test_without_a_limit_there_are_no_extra_messages_and_nothing_waits_too_long() -> None:
    """k = n*n is the matrix with zeros: own column, cleared columns, no message added."""
    promises = {"safety", "liveness", "quiescence", "no_overblocking"}
    for script in scripts(40, ALL_CASTS, first=400):
        n = len(script.members)
        world = run(script, "bounded", options={"k": n * n}, promises=promises)
        assert all(packet.kind == "data" for packet in world.packets)
        assert world.history.events == run(script, "matrix").history.events


def test_no_extra_message_is_needed_from_the_square_of_n_minus_1_on() -> None:
    """The own column is zero and nobody sends to itself, so (n-1)*(n-1) entries is the most."""
    for script in scripts(30, ALL_CASTS, first=450):
        n = len(script.members)
        k = max(n + 1, (n - 1) ** 2)
        world = run(script, "bounded", options={"k": min(k, n * n)})
        assert all(packet.kind == "data" for packet in world.packets)


class Tightest(Bounded):
    """A limit below the paper's range, so that three processes need extra messages at all."""

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._k = view.n - 1


@pytest.mark.parametrize(
    ("casts", "messages"), [(("unicast",), 4), (("unicast", "multicast", "broadcast"), 3)]
)
def test_extra_messages_survive_every_interleaving(casts: tuple[Cast, ...], messages: int) -> None:
    found = explore("bounded", 3, messages, casts=casts, rules=Tightest)
    assert found.is_complete
    assert found.is_clean, str(found)


def test_a_tighter_limit_costs_more_extra_messages() -> None:
    extras: Counter[str] = Counter()
    for script in scripts(40, ("unicast",), first=500, steps=100):
        n = len(script.members)
        if n < 4:
            continue
        for name, k in zip(("n+1", "2n", "n*n"), limits(n), strict=True):
            world = run(script, "bounded", options={"k": k})
            extras[name] += sum(packet.kind == "control" for packet in world.packets)
    assert extras["n+1"] > extras["2n"] > extras["n*n"] == 0


def test_the_own_column_is_zero_and_a_send_clears_its_column() -> None:
    for script in scripts(20, ALL_CASTS, first=600):
        world = World("bounded", script.members)
        for step in script.steps:
            run_step(world, step)
            for name, ep in world.endpoints.items():
                entries = cast("Entries", ep.kept())
                assert all(dest != name for _, dest, _ in entries)
                if step[0] == "send" and step[1] == name:
                    for dest in set(cast("tuple[str, ...]", step[2])) - {name}:
                        assert [k for k, d, _ in entries if d == dest] == [name]


# Extra messages, step by step. c keeps four entries with k = 4; one more brings an extra message.


def crowded() -> tuple[World, Packet]:
    """Let c learn of messages to a and b by two senders each, one entry too many."""
    world = World("bounded", "abcd", options={"k": 5})
    for sender, dests in (("a", "bdc"), ("b", "adc"), ("d", "abc")):
        for dest in dests:
            world.send(sender, [dest])
    for sender in "abd":
        world.arrive_packet(sender, "c")
    extra = next(packet for packet in world.packets if packet.kind == "control")
    return world, extra


def test_one_entry_too_many_brings_an_extra_message_with_the_fullest_column() -> None:
    world, extra = crowded()
    assert (extra.source, extra.dest, extra.message) == ("c", "a", None)
    assert extra.control == (("b", "a", 1), ("d", "a", 1))
    assert entries_of(world.endpoints["c"]) == 5
    assert size(extra) == (2, 0, 16)


def test_an_extra_message_waits_but_nobody_sees_it() -> None:
    world, _ = crowded()
    world.arrive_packet("c", "a")
    a = world.endpoints["a"]
    assert a.held == 1
    assert a.waiting() == {}
    assert world.history.deliveries("a") == []
    message = world.send("c", ["a"])
    world.arrive_packet("c", "a")
    assert [str(need) for need in a.waiting()[message]] == ["message 1 of c"]
    world.arrive_packet("b", "a")
    assert a.held == 2
    world.arrive_packet("d", "a")
    assert a.held == 0
    assert [m.sender for m in world.history.deliveries("a")] == ["b", "d", "c"]


def test_in_pull_mode_extra_messages_are_taken_in_by_themselves() -> None:
    a = endpoint("bounded", process="a", members=tuple("abcd"), k=5, pull=True)
    _, extra = crowded()
    b, d = (endpoint("bounded", process=name, members=tuple("abcd"), k=5) for name in "bd")
    a.receive(extra)
    a.receive(b.send(["a"]).packets[0])
    a.receive(d.send(["a"]).packets[0])
    assert a.held == 3
    assert a.take("c").deliveries == ()
    assert [len(a.take().deliveries) for _ in range(3)] == [1, 1, 0]
    assert a.held == 0


def test_holding_extra_messages_is_bounded_too() -> None:
    _, extra = crowded()
    a = endpoint("bounded", process="a", members=tuple("abcd"), k=5, held_max=0)
    before = a.state()
    with pytest.raises(HoldFullError):
        a.receive(extra)
    assert a.state() == before
    for name in "bd":
        other = endpoint("bounded", process=name, members=tuple("abcd"), k=5)
        a.receive(other.send(["a"]).packets[0])
    a.receive(extra)
    assert a.held == 0


def made(column: str, columns: dict[int, list[int]], n: int) -> Bounded:
    """Return the rules of the first process with one constraint by each of these senders."""
    view = view_of("bounded", tuple("abcde"[:n]), column=column)
    rules = Bounded(view, 0)
    for dest, senders in columns.items():
        rules._put(dest, dict.fromkeys(senders, (1, 1)))
    return rules


@pytest.mark.parametrize(
    ("column", "chosen"),
    [
        ("fullest", ["d", "b", "e"]),
        ("sparsest", ["b", "e", "d"]),
        ("rotating", ["b", "d", "e"]),
    ],
)
def test_the_choice_of_column(column: str, chosen: list[str]) -> None:
    """Two constraints on b, one on c, three on d, two on e; those on c cannot become fewer."""
    rules = made(column, {1: [2, 3], 2: [1], 3: [1, 2, 4], 4: [1, 2]}, 5)
    picked = []
    for _ in chosen:
        dest = rules._chosen_column()
        picked.append("abcde"[dest])
        rules._stand_in(dest, 0)
    assert picked == chosen


def test_rotating_goes_on_after_the_last_column_chosen() -> None:
    rules = made("rotating", {1: [2, 3], 2: [1, 3]}, 4)
    assert [rules._chosen_column() for _ in range(4)] == [1, 2, 1, 2]


# Options, bad packets, snapshots.


@pytest.mark.parametrize("k", [0, 3, 10, -1, True, 4.0, "6"])
def test_a_limit_out_of_bounds_is_refused(k: object) -> None:
    with pytest.raises(UsageError, match="use 4 to 9, or None"):
        endpoint("bounded", process="a", members=tuple("abc"), k=k)


def test_a_group_of_one_is_restored_with_the_limit_that_it_has_by_default() -> None:
    a = endpoint("bounded", process="a", members=["a"])
    codec = Codec(a)
    assert codec.restore(codec.snapshot(a), resumed=True).state() == a.state()


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(UsageError, match="column='best' is unknown; expected one of fullest"):
        endpoint("bounded", process="a", members=tuple("abc"), column="best")


def pair() -> tuple[Endpoint, Packet]:
    """Return b and a's second packet to it, which carries entries on b and c."""
    a, b = (endpoint("bounded", process=name, members=tuple("abc")) for name in "ab")
    b.receive(a.send(["b"]).packets[0])
    a.send(["c"])
    return b, a.send(["b"]).packets[0]


def test_what_no_member_sends_is_refused() -> None:
    b, packet = pair()
    assert packet.control == (("a", "b", 1), ("a", "c", 1))
    columns = cast("Columns", packet.content.control)
    for control, match in (
        ({}, "says that 0 packets came before it, but it is number 2"),
        (columns | {1: {0: (2, 2)}}, "says that 2 packets came before"),
        (columns | {2: {1: (1, 1)}}, "knows of more messages of this process"),
    ):
        assert_refused(b, forged(packet, control=control), match=match)
    assert_refused(b, forged(packet, n=7), match="says that 1 packets came before it")


def test_an_extra_message_for_another_column_is_refused() -> None:
    _, extra = crowded()
    a = endpoint("bounded", process="a", members=tuple("abcd"), k=5)
    assert_refused(a, forged(extra, control={3: {1: (1, 1)}}), match="is an extra message for")
    control = {0: {2: (1, 1)}}
    assert_refused(a, forged(extra, control=control), match="says that 1 packets came before")


def test_damaged_bytes_are_harmless() -> None:
    for script in scripts(3, ALL_CASTS, first=30):
        options = {"k": len(script.members) + 1}
        assert_damage_is_harmless(run(script, "bounded", options=options))


def test_after_a_crash_extra_messages_wait_for_nothing_that_is_lost() -> None:
    world, _ = crowded()
    world.crash("b", (1 << 16) - 1)
    assert world.settle()
    world.check()
    assert not any(one.held for one in world.endpoints.values())


@pytest.mark.parametrize("column", CHOICES)
@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(column: str, pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=71, pull=pull):
        options = {"column": column, "k": len(script.members) + 1}
        assert_goes_on_equal(script, "bounded", options=options)
