"""[KS98] theorem 2: every single unit of information is necessary.

A unit says that d is a destination of M. The generator takes any computation, any unit that a
process keeps or a message carries, drops that one unit, and constructs the schedule of the proof:
only what is in the causal past happens; M stays in flight to d; the process that lacks the unit
sends to d; d delivers all else it was sent, and then that message, although M comes before it.
"""

from typing import Any, cast

import pytest

from antecede import MessageId, Packet
from antecede.check import World, causal_violations, random_script, run_script
from antecede.check.history import Event, History
from antecede.check.promises import Script
from antecede.endpoint.logs import Control
from antecede.endpoint.registry import restored
from tests.protocols.rig import forged

Unit = tuple[MessageId, str]


def causal_past(history: History, process: str) -> list[Event]:
    """Return the events in the past of a process's present, in the order they happened."""
    by_process: dict[str, list[Event]] = {}
    for event in history.events:
        by_process.setdefault(event.process, []).append(event)
    past: set[int] = set()

    def include(name: str, upto: Event | None) -> None:
        for event in by_process.get(name, []):
            if id(event) not in past:
                past.add(id(event))
                if event.kind == "deliver" and event.message.sender != name:
                    sent = next(
                        e
                        for e in by_process[event.message.sender]
                        if e.kind == "send" and e.message == event.message
                    )
                    include(event.message.sender, sent)
            if event is upto:
                return

    include(process, None)
    return [event for event in history.events if id(event) in past]


def replayed(members: tuple[str, ...], past: list[Event]) -> World:
    """Return a world in which exactly these events have happened."""
    world = World("optimal", members, promises=())
    for event in past:
        if event.kind == "send":
            world.send(event.process, event.dests)
        elif event.message.sender != event.process:
            packet = copy_in_flight(world, event.message, event.process)
            assert world.arrive_packet(packet.source, packet.dest, packet.n)
    assert [str(event) for event in world.history.events] == [str(event) for event in past]
    return world


def copy_in_flight(world: World, message: MessageId, dest: str) -> Packet:
    return next(p for p in world.in_flight if p.message == message and p.dest == dest)


def drop(world: World, process: str, unit: Unit) -> None:
    """Make a process forget one unit, and nothing else."""
    message, dest = unit
    view, state = world.view, cast("Any", world.endpoints[process].state())
    key, bit = message.seq << view.shift | view.numbers[message.sender], 1 << view.numbers[dest]
    log = {entry: int(mask, 16) for entry, mask in state["rules"]["log"]}
    assert log[key] & bit
    log[key] ^= bit
    state["rules"]["log"] = [[entry, format(mask, "x")] for entry, mask in log.items() if mask]
    world.endpoints[process] = restored(view, state, resumed=True)


def overtakes(world: World, process: str, unit: Unit) -> bool:
    """Let the process send to the unit's destination; return whether that overtakes the message."""
    message, dest = unit
    last = world.send(process, [dest])
    for packet in [p for p in world.in_flight if p.dest == dest and p.message != message]:
        world.arrive_packet(packet.source, packet.dest, packet.n)
    found = {(v.message, v.overtaker) for v in causal_violations(world.history)}
    world.arrive_packet(message.sender, dest, copy_in_flight(world, message, dest).n)
    found |= {(v.message, v.overtaker) for v in causal_violations(world.history)}
    return (message, last) in found


@pytest.mark.parametrize("seed", range(24))
def test_without_any_one_unit_of_a_log_some_schedule_breaks_order(seed: int) -> None:
    script = random_script(
        seed,
        members=3 + seed % 4,
        casts=("unicast", "multicast"),
        steps=24 + seed,
        duplicate_share=0.0,
        self_share=0.0,
    )
    world = run_script(script, "optimal")
    units = 0
    for process, endpoint in world.endpoints.items():
        past = causal_past(world.history, process)
        for message, dests in endpoint.dependencies().items():
            for dest in dests - {process}:
                units += 1
                broken = replayed(script.members, past)
                assert broken.endpoints[process].dependencies() == endpoint.dependencies()
                drop(broken, process, (message, dest))
                assert overtakes(broken, process, (message, dest)), (process, message, dest)
                if units % 5 == 0:  # with the unit, the same schedule keeps order
                    assert not overtakes(replayed(script.members, past), process, (message, dest))
    assert units


def thin(world: World, packet: Packet, unit: Unit) -> None:
    """Remove one unit, and nothing else, from a message in flight."""
    message, dest = unit
    view, (tops, log) = world.view, cast("Control", packet.content.control)
    key, bit = message.seq << view.shift | view.numbers[message.sender], 1 << view.numbers[dest]
    assert log[key] & bit
    rest = {entry: mask & ~bit if entry == key else mask for entry, mask in log.items()}
    control = tops, {entry: mask for entry, mask in rest.items() if mask}
    world.in_flight[world.in_flight.index(packet)] = forged(packet, control=control)


def last_units(script: Script) -> list[tuple[list[Event], Unit]]:
    """Return units that a process learnt only by its last delivery, with that delivery's past."""
    world = run_script(script, "optimal")
    found = []
    for place, event in enumerate(world.history.events):
        if event.kind == "send":
            continue
        history = History(script.members, world.history.events[: place + 1])
        past = causal_past(history, event.process)
        known = replayed(script.members, past[:-1]).endpoints[event.process].dependencies()
        needed = history.required(event.process)
        for message, dests in history.carried(event.message, event.process).items():
            units = dests & needed.get(message, frozenset()) - known.get(message, frozenset())
            found += [(past, (message, dest)) for dest in sorted(units - {event.process})]
    return found


def test_without_any_one_unit_of_a_message_some_schedule_breaks_order() -> None:
    tried = 0
    for seed in range(24):
        script = random_script(
            seed,
            members=4,
            casts=("unicast", "multicast"),
            steps=30,
            duplicate_share=0.0,
            self_share=0.0,
        )
        for past, unit in last_units(script):
            last = past[-1]
            broken = replayed(script.members, past[:-1])
            thin(broken, copy_in_flight(broken, last.message, last.process), unit)
            packet = copy_in_flight(broken, last.message, last.process)
            assert broken.arrive_packet(packet.source, packet.dest, packet.n)
            assert unit[1] not in broken.endpoints[last.process].dependencies().get(unit[0], ())
            assert overtakes(broken, last.process, unit), (seed, unit)
            tried += 1
    assert tried > 50
