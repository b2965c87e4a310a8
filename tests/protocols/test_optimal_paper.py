"""[KS98]: its worked examples, its lemmas as invariants, and necessity."""

from random import Random
from typing import cast

import pytest

import antecede
from antecede import MessageId, Packet
from antecede.check import World, random_script, run_script
from antecede.check.promises import Script
from antecede.check.scripts import run_step
from antecede.endpoint.logs import Entries, merged
from antecede.endpoint.messages import Message
from antecede.endpoint.registry import restored, view_of

Entry = tuple[str, int, tuple[str, ...]]
Log = dict[str, dict[int, frozenset[str]]]

FORMS = [{"hardware_multicast": False}, {"hardware_multicast": True}]
NAMES = tuple(f"{i:02}" for i in range(1, 17))


def named(*numbers: int) -> frozenset[str]:
    return frozenset(f"{number:02}" for number in numbers)


def parts(log: Log) -> tuple[list[int], dict[int, int]]:
    """Return a log by names as tops and entries by numbers."""
    view = view_of("optimal", NAMES)
    tops, found = list(range(view.n)), {}
    for sender, entries in log.items():
        for clock, dests in entries.items():
            key = clock << view.shift | view.numbers[sender]
            tops[key & view.low] = max(key, tops[key & view.low])
            if dests:
                found[key] = view.mask(dests)
    return tops, found


def with_log(process: str, log: Log, seq: int = 0) -> antecede.Endpoint:
    """Return an endpoint that knows this log."""
    state = antecede.endpoint("optimal", process=process, members=NAMES).state()
    tops, found = parts(log)
    state["rules"] = {"tops": tops, "log": [[k, format(mask, "x")] for k, mask in found.items()]}
    state["seq"] = state["events"] = seq
    return restored(view_of("optimal", NAMES), state, resumed=True)


def packet_with(sender: str, clock: int, dests: frozenset[str], log: Log, dest: str) -> Packet:
    """Return a message with this log, as it goes to one destination."""
    view = view_of("optimal", NAMES)
    tops, found = parts(log)
    bit = 1 << view.numbers[dest]
    needs = [key for key, mask in found.items() if mask & bit]
    rest = {key: mask & ~bit for key, mask in found.items() if mask & ~bit}
    message = Message(view, view.numbers[sender], clock, view.mask(dests), b"", (tops, rest))
    return Packet(message, view.numbers[sender], view.numbers[dest], 1, needs)


def kept(one: antecede.Endpoint) -> Log:
    return log_of(list(cast("Entries", one.kept())))


# Section 4.4: the running examples. Processes are 01 to 16; i is 01, j is 05.


def test_example_snd() -> None:
    j = with_log("05", {"01": {4: named(2, 3, 4, 6, 8)}}, seq=6)
    effects = j.send(sorted(named(3, 4, 7, 8, 11)))
    carried = {packet.dest: packet.control for packet in effects.packets}
    assert carried == {
        "03": (("01", 4, ("02", "03", "06")),),
        "04": (("01", 4, ("02", "04", "06")),),
        "08": (("01", 4, ("02", "06", "08")),),
        "07": (("01", 4, ("02", "06")),),
        "11": (("01", 4, ("02", "06")),),
    }
    assert kept(j) == {"01": {4: named(2, 6)}, "05": {7: named(3, 4, 7, 8, 11)}}


def test_example_snd_drops_older_empty_entries_from_what_it_sends() -> None:
    j = with_log("05", {"01": {4: named(3), 6: named(9)}}, seq=6)
    effects = j.send(["03", "07"])
    carried = {packet.dest: packet.control for packet in effects.packets}
    assert carried["07"] == (("01", 6, ("09",)),)
    assert carried["03"] == (("01", 4, ("03",)), ("01", 6, ("09",)))
    assert j.dependencies() == {
        MessageId("01", 6): frozenset({"09"}),
        MessageId("05", 7): named(3, 7),
    }


LOG_J: dict[int, frozenset[str]] = {
    9: named(2, 7, 13),
    10: named(4),
    14: named(6),
    20: named(3),
    21: named(8),
}
CARRIED: dict[int, frozenset[str]] = {
    7: named(12),
    9: named(7, 11),
    12: named(9),
    20: named(15, 16),
}


def test_example_rcv_merge_and_purge() -> None:
    low, shift = view_of("optimal", NAMES).low, view_of("optimal", NAMES).shift
    tops, log = merged(*parts({"01": LOG_J}), *parts({"01": CARRIED}), low)
    view = view_of("optimal", NAMES)
    assert log == parts({"01": {9: named(7), 21: named(8)}})[1]
    assert tops[view.numbers["01"]] >> shift == 21


def test_example_rcv_as_a_delivery() -> None:
    j = with_log("05", {"01": dict(LOG_J)})
    packet = packet_with("02", 3, named(5, 10), {"01": CARRIED}, "05")
    (delivery,) = j.receive(packet).deliveries
    assert delivery.message == MessageId("02", 3)
    assert kept(j) == {"01": {9: named(7), 21: named(8)}, "02": {3: named(10)}}


def test_example_delivery_condition() -> None:
    """RCV(1): the message waits for what it names as sent to this process, and for nothing else."""
    j = with_log("05", {})
    log = {"01": {4: named(5, 7)}, "03": {2: named(7)}}
    assert not j.receive(packet_with("02", 3, named(5), log, "05")).deliveries
    assert j.waiting() == {MessageId("02", 3): (antecede.Need("01", 4),)}
    first = packet_with("01", 4, named(5, 7), {}, "05")
    assert [d.message for d in j.receive(first).deliveries] == [
        MessageId("01", 4),
        MessageId("02", 3),
    ]


# Section 5.1: lemmas 1 to 5 and 7, watched on every log and message of random runs.


def entries(log: Log) -> list[Entry]:
    return [
        (sender, clock, tuple(sorted(dests)))
        for sender, found in sorted(log.items())
        for clock, dests in sorted(found.items())
    ]


def lemma_1(found: list[Entry]) -> None:
    pairs = [(sender, dest) for sender, _, dests in found for dest in dests]
    assert len(pairs) == len(set(pairs)), f"a destination is named twice for a sender: {found}"


def lemma_7(found: list[Entry]) -> None:
    for sender, clock, dests in found:
        if not dests:
            assert clock == newest(found, sender), f"an older entry is empty: {found}"


def newest(found: list[Entry], sender: str) -> int:
    return max((clock for name, clock, _ in found if name == sender), default=0)


def dests_of(found: list[Entry], message: MessageId) -> frozenset[str] | None:
    """Return a message's destinations in a log: None if unknown, none if that is implied."""
    for sender, clock, dests in found:
        if (sender, clock) == message:
            return frozenset(dests)
    return frozenset() if newest(found, message.sender) > message.seq else None


def never_more(before: list[Entry], after: list[Entry], members: tuple[str, ...]) -> None:
    """Lemmas 2 to 5 on one edge of the computation graph: stamps grow, destination sets shrink."""
    for sender in members:
        assert newest(before, sender) <= newest(after, sender)
    for sender, clock, dests in after:
        said = dests_of(before, MessageId(sender, clock))
        assert said is None or said >= set(dests), f"{before} -> {after}"


class Watched:
    """A world that checks every edge of the computation graph against the lemmas."""

    def __init__(self, script: Script, options: dict[str, object]) -> None:
        self.world = World("optimal", script.members, options=options, fifo=script.fifo)
        self.logs = {name: self.log(name) for name in script.members}
        self.edges = 0
        for step in script.steps:
            run_step(self.world, step)
            self.look()
        while self.world.in_flight:
            self.world.arrive(-1)
            self.look()
        self.world.check()

    def log(self, name: str) -> list[Entry]:
        return list(cast("Entries", self.world.endpoints[name].kept()))

    def look(self) -> None:
        for name, before in self.logs.items():
            now = self.log(name)
            if now != before:
                self.edges += 1
                lemma_1(now)
                lemma_7(now)
                never_more(before, now, self.world.history.members)
                self.logs[name] = now


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize("seed", range(25))
def test_lemmas_1_2_4_and_7_hold_of_every_log(seed: int, options: dict[str, object]) -> None:
    script = random_script(
        seed, members=2 + seed % 6, casts=("unicast", "multicast"), steps=60, fifo=seed % 2 == 1
    )
    assert Watched(script, options).edges > 20


@pytest.mark.parametrize("seed", range(25))
def test_lemmas_1_3_5_and_7_hold_of_every_message(seed: int) -> None:
    """The sender's log before, the message, the receiver's log after: along every path."""
    script = random_script(seed, members=2 + seed % 6, casts=("multicast",), steps=60)
    world = World("optimal", script.members)
    sent_with: dict[MessageId, list[Entry]] = {}
    seen = 0

    def log(name: str) -> list[Entry]:
        return list(cast("Entries", world.endpoints[name].kept()))

    for step in (*script.steps, *[("arrive", -1, False)] * 400):
        before = {name: log(name) for name in world.endpoints}
        counted = len(world.history.events)
        run_step(world, step)
        new = world.history.events[counted:]
        for event in new:
            if event.kind == "send":
                sent_with[event.message] = before[event.process]
        if len(new) != 1 or new[0].kind != "deliver" or new[0].process == new[0].message.sender:
            continue
        event = new[0]
        packet = next(
            p for p in world.packets if (p.message, p.dest) == (event.message, event.process)
        )
        carried = list(packet.control)  # type: ignore[call-overload]
        lemma_1(carried)
        lemma_7(carried)
        never_more(sent_with[event.message], carried, world.history.members)
        with_itself = log_of(carried)  # RCV(3)
        mine = with_itself.setdefault(event.message.sender, {})
        mine[event.message.seq] = frozenset(packet.dests)
        never_more(entries(with_itself), log(event.process), world.history.members)
        seen += 1
    assert not world.in_flight
    assert seen > 5


def log_of(found: list[Entry]) -> Log:
    log: Log = {}
    for sender, clock, dests in found:
        log.setdefault(sender, {})[clock] = frozenset(dests)
    return log


@pytest.mark.parametrize("seed", range(25))
def test_lemma_6_what_a_process_stops_telling_it_knew(seed: int) -> None:
    """Only a process that has the information can be the first to drop it.

    So: wherever something that the Propagation Constraints required before a send is required no
    more after it, the log named it just before. Necessity after every step says both at once.
    """
    script = random_script(seed, members=2 + seed % 5, casts=("multicast",), steps=50)
    world = World("optimal", script.members)
    dropped = 0
    for step in script.steps:
        sender = str(step[1]) if step[0] == "send" else None
        before = world.history.required(sender) if sender else {}
        knew = world.endpoints[sender].dependencies() if sender else {}
        run_step(world, step)
        if sender is not None:
            now = world.history.required(sender)
            for message, dests in before.items():
                gone = dests - now.get(message, frozenset())
                assert gone <= knew.get(message, frozenset())
                dropped += len(gone)
    assert dropped


# Theorems 3 and 6: necessity and sufficiency, of logs and of messages, in both packet forms.


def explicit(packet: Packet, form: dict[str, bool]) -> dict[MessageId, frozenset[str]]:
    """Return what a packet says explicitly, as its receiver reads it."""
    found: dict[MessageId, frozenset[str]] = {}
    elsewhere = set(packet.dests) - {packet.dest, packet.source}
    for sender, clock, dests in packet.control:  # type: ignore[attr-defined]
        rest = set(dests) - elsewhere if form["hardware_multicast"] else set(dests)
        if rest:
            found[MessageId(sender, clock)] = frozenset(rest)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_fifo", [False, True])
@pytest.mark.parametrize("cast", ["unicast", "multicast"])
def test_logs_and_messages_hold_exactly_what_is_necessary(
    cast: str, is_fifo: bool, form: dict[str, bool]
) -> None:
    for seed in range(25):
        script = random_script(
            seed,
            members=2 + seed % 7,
            casts=(cast,),  # type: ignore[arg-type]
            steps=60,
            fifo=is_fifo,
        )
        world = run_script(script, "optimal", options=form, drain=Random(seed))
        for packet in world.packets:
            assert packet.message is not None
            due = world.history.carried(packet.message, packet.dest)
            assert explicit(packet, form) == due


def test_with_hardware_multicast_all_copies_are_identical() -> None:
    world = World("optimal", "abcd", options={"hardware_multicast": True})
    world.send("a", ["b", "c"])
    world.send("a", ["b", "c", "d"])
    second = [p for p in world.packets if p.message == MessageId("a", 2)]
    assert len({p.control for p in second}) == 1
    assert len(second) == 3
