"""What the tests of single protocols share: scripts in bulk, snapshots, refusals, mutants.

Mutants are rules with one wrong step, so they depend on the internals of the rules they change.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from antecede.check import BrokenPromiseError, Script, World, random_script, run_script
from antecede.check.scripts import run_step
from antecede.endpoint.registry import restored
from antecede.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from antecede.endpoint.endpoint import Endpoint
    from antecede.endpoint.info import Cast
    from antecede.endpoint.messages import Packet
    from antecede.endpoint.rules import Rules


def scripts(
    count: int,
    casts: Sequence[Cast],
    *,
    first: int = 0,
    steps: int = 60,
    ranks: bool = False,
    pull: bool = False,
    self_share: float = 0.05,
) -> Iterator[Script]:
    """Yield scripts of 2 to 8 processes, every third on a FIFO network."""
    for seed in range(first, first + count):
        yield random_script(
            seed,
            members=2 + seed % 7,
            casts=casts,
            steps=steps,
            ranks=ranks,
            fifo=seed % 3 == 0,
            pull=pull,
            self_share=self_share,
        )


def run(
    script: Script,
    protocol: str,
    *,
    options: Mapping[str, object] | None = None,
    rules: type[Rules] | None = None,
    promises: Iterable[str] | None = None,
) -> World:
    """Run a script to its end and judge it."""
    return run_script(
        script,
        protocol,
        options=options,
        rules=rules,
        promises=promises,
        drain=Random(len(script.steps)),
    )


def promise_broken_by(
    mutant: type[Rules],
    casts: Sequence[Cast] = ("unicast", "multicast"),
    *,
    count: int = 150,
    ranks: bool = False,
    pull: bool = False,
    options: Mapping[str, object] | None = None,
    promises: Iterable[str] | None = None,
) -> str:
    """Return the first promise that a broken protocol breaks; fail if it breaks none."""
    for script in scripts(count, casts, ranks=ranks, pull=pull):
        try:
            run(
                script,
                mutant.INFO.name,
                options=options,
                rules=mutant,
                promises=promises,
            )
        except BrokenPromiseError as error:
            return error.promise
    return pytest.fail(f"nobody noticed {mutant.__name__}")


def assert_goes_on_equal(
    script: Script, protocol: str, *, options: Mapping[str, object] | None = None
) -> None:
    """Check that endpoints restored from their state before every step behave as if unstopped."""
    plain = World(protocol, script.members, options=options, pull=script.pull, fifo=script.fifo)
    saved = World(protocol, script.members, options=options, pull=script.pull, fifo=script.fifo)
    for step in script.steps:
        saved.endpoints = {
            name: restored(ep.view, ep.state(), resumed=True)
            for name, ep in saved.endpoints.items()
        }
        run_step(plain, step)
        run_step(saved, step)
        for name, ep in plain.endpoints.items():
            assert saved.endpoints[name].state() == ep.state()
            waiting = {message: {*needs} for message, needs in ep.waiting().items()}
            again = saved.endpoints[name].waiting()
            assert {message: {*needs} for message, needs in again.items()} == waiting
    plain.drain(Random(1))
    saved.drain(Random(1))
    assert saved.packets == plain.packets
    assert saved.history.events == plain.history.events


def assert_refused(ep: Endpoint, packet: Packet, *, match: str = "") -> None:
    """Check that a packet is refused in one line, and leaves no trace."""
    before = ep.state()
    with pytest.raises(PeerError, match=match) as caught:
        ep.receive(packet)
    assert "\n" not in str(caught.value)
    assert ep.state() == before
