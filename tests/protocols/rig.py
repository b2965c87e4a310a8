"""What the tests of single protocols share: campaigns, restarts, mutants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from antecede.check import World, random_script, run_script
from antecede.check.promises import BrokenPromiseError, Script
from antecede.check.scripts import run_step
from antecede.endpoint.messages import Message, Packet
from antecede.endpoint.registry import PROTOCOLS, restored
from antecede.errors import HoldFullError, PeerError
from antecede.wire import Codec
from tests.support.rounds import some

if TYPE_CHECKING:
    from antecede.endpoint.endpoint import Endpoint
    from antecede.endpoint.info import Cast
    from antecede.endpoint.rules import Rules

Options = Mapping[str, object]
Groups = Mapping[str, tuple[str, ...]]

RING: Groups = {"A": ("a", "b"), "B": ("a", "c"), "C": ("b", "c", "d"), "D": ("a", "d", "e")}
"""Overlapping groups that form rings: the hard case for the control that travels along."""


def scripts(
    casts: Sequence[Cast],
    count: int,
    *,
    sizes: Sequence[int] = (2, 3, 4, 5),
    steps: int = 60,
    pull: bool = False,
    groups: Groups | None = None,
    send_share: float = 0.4,
) -> Iterator[Script]:
    """Yield random scripts that reorder and duplicate, one cast at a time."""
    for cast in casts:
        for seed in range(count):
            members = sizes[seed % len(sizes)]
            yield random_script(
                seed,
                members=5 if groups else members,
                casts=(cast,),
                steps=steps,
                pull=pull,
                groups=groups,
                send_share=send_share,
            )


def chosen_casts(
    protocol: str, casts: Sequence[Cast] | None = None, groups: Groups | None = None
) -> Sequence[Cast]:
    """Return the requested casts; by default groups if there are any, else all others."""
    if casts is not None:
        return casts
    if groups:
        return ("groups",)
    return [cast for cast in PROTOCOLS[protocol].casts if cast != "groups"]


def campaign(
    protocol: str,
    count: int,
    *,
    casts: Sequence[Cast] | None = None,
    options: Options | None = None,
    pull: bool = False,
    groups: Groups | None = None,
    sizes: Sequence[int] = (2, 3, 4, 5),
    steps: int = 60,
) -> list[World]:
    """Run random scripts under the oracle; return the worlds for further checks."""
    chosen = chosen_casts(protocol, casts, groups)
    return [
        run_script(script, protocol, options=options, drain=Random(7))
        for script in scripts(
            chosen, some(count), pull=pull, groups=groups, sizes=sizes, steps=steps
        )
    ]


def forged(packet: Packet, **changes: object) -> Packet:
    """Return a packet with some parts changed: no endpoint makes it, but a liar may."""
    content = packet.content
    names = ("sender", "seq", "dests", "payload", "control")
    parts = {name: changes.pop(name, getattr(content, name)) for name in names}
    made = Message(content.view, **parts)  # type: ignore[arg-type]
    places = {name: getattr(packet, name) for name in ("source_no", "dest_no", "n", "own")}
    return Packet(made, **(places | changes))


def assert_refused(endpoint: Endpoint, packets: Iterable[Packet], match: str = ".") -> None:
    """Check that each of these packets raises PeerError and changes nothing."""
    before = endpoint.state()
    for packet in packets:
        with pytest.raises(PeerError, match=match) as caught:
            endpoint.receive(packet)
        assert "\n" not in str(caught.value)
        assert endpoint.state() == before, f"{packet!r} left a trace"


def assert_damage_is_harmless(world: World, count: int = 40) -> None:
    """Check that packets with changed bytes are refused, or are other valid packets."""
    codec, rng, refused = Codec(world.view), Random(world.protocol), 0
    for packet in world.packets[:count]:
        data = codec.encode(packet)
        for _ in range(25):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 2)):
                broken[rng.randrange(len(data))] = rng.randrange(256)
            damaged = bytes(broken[: rng.randint(1, 2 * len(data))])
            try:
                made = codec.decode(damaged)
            except PeerError:
                refused += 1
                continue
            assert codec.encode(made) == damaged, "one packet, one form"
            one = world.endpoints[made.dest]
            again = codec.restore(codec.snapshot(one), resumed=True)
            with suppress(PeerError, HoldFullError):
                again.receive(made)
            codec.snapshot(again)
    assert refused > count


def assert_restarts(
    protocol: str, options: Options | None = None, sizes: Sequence[int] = (4, 5)
) -> None:
    """Check that constantly saved and restored endpoints behave as if never stopped."""
    for pull in (False, True):
        for script in scripts(chosen_casts(protocol), 3, sizes=sizes, pull=pull):
            plain = run_script(script, protocol, options=options)
            again = World(protocol, script.members, options=options, pull=pull)
            codec = Codec(again.view)
            for place, step in enumerate(script.steps):
                name = script.members[place % len(script.members)]
                state = again.endpoints[name].state()
                again.endpoints[name] = codec.restore(
                    codec.snapshot(again.endpoints[name]), resumed=True
                )
                assert again.endpoints[name].state() == state
                assert restored(again.view, state, resumed=True).state() == state
                run_step(again, step)
            assert again.history.events == plain.history.events
            assert again.packets == plain.packets


def caught(
    protocol: str,
    mutant: type[Rules],
    *,
    count: int = 300,
    casts: Sequence[Cast] | None = None,
    options: Options | None = None,
    groups: Groups | None = None,
    sizes: Sequence[int] = (2, 3, 4, 5),
    promises: Iterable[str] | None = None,
) -> str:
    """Return the promise that a mutant breaks on the first random script that shows it."""
    for script in scripts(chosen_casts(protocol, casts, groups), count, groups=groups, sizes=sizes):
        try:
            run_script(
                script,
                protocol,
                options=options,
                rules=mutant,
                promises=promises,
                drain=Random(7),
            )
        except BrokenPromiseError as broken:
            return broken.promise
    pytest.fail(f"no script shows that {mutant.__name__} is wrong")


def control_of(world: World, sender: str, seq: int, dest: str) -> object:
    """Return the control that a message carried to one destination."""
    return next(
        packet.control
        for packet in world.packets
        if packet.message == (sender, seq) and packet.dest == dest
    )


def delivered(world: World, process: str) -> list[tuple[str, int]]:
    """Return the messages that a process delivered, in order."""
    return [tuple(message) for message in world.history.deliveries(process)]  # type: ignore[misc]
