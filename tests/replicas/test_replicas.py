"""The replicated store: the oracle, its specification, broken variants, bytes and refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from antecede import Codec, PeerError, UsageError
from antecede.endpoint import logs
from antecede.endpoint.messages import Packet
from antecede.replicas import Answer, Replica, replica
from tests.replicas.explorer import Explorer
from tests.support.replica_oracle import NotCausalError
from tests.support.replica_rig import random_run

NAMES = ("a", "b", "c")
WHERE = {"x": ("a", "c"), "y": ("a", "b"), "z": ("b", "c")}
Patch = Callable[[pytest.MonkeyPatch], None]


def three() -> dict[str, Replica]:
    return {name: Replica(name, NAMES, WHERE) for name in NAMES}


def test_a_write_waits_for_what_its_writer_has_read() -> None:
    ones = three()
    (to_c,) = ones["a"].write("x", b"1").packets
    (to_b,) = ones["a"].write("y", b"2").packets
    ones["b"].receive(to_b)
    assert ones["b"].read("y") == b"2"
    (late,) = ones["b"].write("z", b"3").packets
    assert late.control == (("a", 1, ("c",)), ("a", 2, ()))
    assert not ones["c"].receive(late).applied
    assert [str(need) for needs in ones["c"].waiting().values() for need in needs] == [
        "message 1 of a"
    ]
    assert [write.key for write in ones["c"].receive(to_c).applied] == ["x", "z"]


def test_a_write_does_not_wait_for_what_its_writer_has_not_read() -> None:
    ones = three()
    ones["a"].write("x", b"1")
    (to_b,) = ones["a"].write("y", b"2").packets
    ones["b"].receive(to_b)
    (free,) = ones["b"].write("z", b"3").packets
    assert free.control == ()
    assert [write.key for write in ones["c"].receive(free).applied] == ["z"]


def test_a_fetch_waits_at_both_ends() -> None:
    ones = three()
    (x_to_c,) = ones["a"].write("x", b"1").packets
    (y_to_b,) = ones["a"].write("y", b"2").packets
    ones["b"].receive(y_to_b)
    ones["b"].read("y")
    (request,) = ones["b"].fetch("x", "c").packets
    assert not ones["c"].receive(request).packets, "it lacks a write that b depends on"
    (answer,) = ones["c"].receive(x_to_c).packets
    assert ones["b"].receive(answer).answer == Answer("x", b"1")
    assert not ones["b"].dependencies(), "c has it, and b does not keep it"


def test_a_fetch_that_is_repeated_elsewhere_is_answered_once() -> None:
    ones = three()
    (first,) = ones["b"].fetch("x", "a").packets
    (second,) = ones["b"].fetch("x", "c").packets
    (late,) = ones["a"].receive(first).packets
    (answer,) = ones["c"].receive(second).packets
    assert ones["b"].receive(answer).answer == Answer("x", None)
    assert ones["b"].receive(late).answer is None


def test_concurrent_writes_end_the_same_everywhere() -> None:
    ones = {name: Replica(name, NAMES) for name in NAMES}
    packets = [p for name in NAMES for p in ones[name].write("x", name.encode()).packets]
    for packet in reversed(packets):
        ones[packet.dest].receive(packet)
    assert {one.read("x") for one in ones.values()} == {b"c"}


@pytest.mark.parametrize("full", [False, True])
def test_random_scripts_are_causal_and_keep_exactly_what_is_required(full: bool) -> None:
    for seed in range(150):
        random_run(seed, full=full)


@pytest.mark.parametrize(
    ("processes", "writes", "fetches", "full"),
    [(2, 2, 1, False), (3, 2, 0, False), (3, 1, 1, False), (3, 3, 0, True)],
)
def test_every_computation_is_causal(
    processes: int, writes: int, fetches: int, *, full: bool
) -> None:
    explorer = Explorer(processes, writes, fetches, full=full)
    explorer.run()
    assert explorer.situations > 50


# Broken on purpose.


def _wait_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.Memory, "needs", lambda self, packet: [])


def _ask_without_needs(patch: pytest.MonkeyPatch) -> None:
    asked = replica.Memory.say

    def say(self: replica.Memory, dest: int, word: object) -> None:
        asked(self, dest, word._replace(needs=[]) if isinstance(word, replica.Fetch) else word)

    patch.setattr(replica.Memory, "say", say)


def _take_answers_at_once(patch: pytest.MonkeyPatch) -> None:
    needs = replica.Memory.needs

    def fewer(self: replica.Memory, packet: Packet) -> list[int]:
        is_answer = packet.content.seq and packet.dest not in packet.dests
        return [] if is_answer else needs(self, packet)

    patch.setattr(replica.Memory, "needs", fewer)


def _forget_reads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.Memory, "merge", lambda self, message, key, source: None)


def _forget_the_log(patch: pytest.MonkeyPatch) -> None:
    entered = logs.entered

    def only_last(tops: list[int], log: object, key: int, dests: int, low: int) -> object:
        return entered(tops, {}, key, dests, low)

    patch.setattr(logs, "entered", only_last)


def _show_the_last_that_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica, "_rank", lambda message: (0, 0))


def _read_without_waiting_in_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.FullMemory, "needs", lambda self, packet: [])


def _forget_reads_in_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.FullMemory, "merge", lambda self, message, key, source: None)


def run_many(count: int, *, full: bool) -> None:
    for seed in range(count):
        random_run(seed, full=full, compared=False)


@pytest.mark.parametrize(
    ("broken", "full"),
    [
        (_wait_for_nothing, False),
        (_ask_without_needs, False),
        (_take_answers_at_once, False),
        (_forget_reads, False),
        (_forget_the_log, False),
        (_show_the_last_that_came, False),
        (_read_without_waiting_in_full, True),
        (_forget_reads_in_full, True),
    ],
)
def test_a_broken_store_is_caught(
    broken: Patch, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        run_many(2000, full=full)
    if broken is not _show_the_last_that_came:  # that one is causal, but replicas differ
        assert isinstance(caught.value, NotCausalError)


# Bytes, and refusals.


def is_refused(data: bytes, codec: Codec) -> bool:
    """Return whether bytes are refused, by the Codec or by b, which then has not changed."""
    one = Replica("b", NAMES, WHERE)
    try:
        packet = codec.decode(data)
        if packet.dest == "b" != packet.source:
            one.receive(packet)
    except PeerError:
        return one.kept() == () and not one.held
    return False


def test_damaged_packets_are_refused_and_change_nothing() -> None:
    ones = three()
    ones["a"].write("x", b"1")
    packets = [*ones["a"].write("y", b"2").packets, *ones["c"].fetch("y", "b").packets]
    codec = Codec(ones["b"].view)
    tried = [
        data[:place] + bytes([value]) + data[place + 1 :]
        for data in map(codec.encode, packets)
        for place in range(len(data))
        for value in (0, 1, 127, 255)
    ]
    assert sum(is_refused(data, codec) for data in tried) > len(tried) / 2


def test_another_placement_is_another_store() -> None:
    one, other = Replica("a", NAMES, WHERE), Replica("c", NAMES, {**WHERE, "x": ("b", "c")})
    (packet,) = one.write("x", b"1").packets
    with pytest.raises(PeerError, match="same members"):
        other.receive(packet)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda one: one.read("z"), "'z' is kept by b, c, not by 'a'; fetch it"),
        (lambda one: one.fetch("x"), "'x' is kept by 'a' itself; read it"),
        (lambda one: one.fetch("z", "a"), "'a' does not keep 'z'; expected one of b, c"),
        (lambda one: one.write("x", "text"), "the value of 'x' is str; expected bytes"),
        (lambda one: one.write("", b""), "key '' is not a text of 1 to 1024 bytes"),
        (lambda one: Replica("d", NAMES), "process 'd' is not a member"),
        (lambda one: Replica("a", NAMES, {"x": ("a", "d")}), "where['x'] is ('a', 'd'); expected"),
        (lambda one: Replica("a", NAMES, {"x": ()}), "where['x'] is (); expected members"),
    ],
)
def test_a_wrong_call_says_what_to_do(call: Callable[[Replica], object], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(Replica("a", NAMES, WHERE))
    assert told in str(caught.value)


def test_operations_go_one_after_the_other() -> None:
    one = Replica("a", NAMES, WHERE)
    one.fetch("z")
    for call in (lambda: one.read("x"), lambda: one.write("x", b"")):
        with pytest.raises(UsageError, match="while the fetch of 'z' is under way"):
            call()
