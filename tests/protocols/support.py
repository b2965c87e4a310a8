"""What the tests of single protocols share: scripts in bulk, snapshots, refusals, mutants."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from antecede.check import BrokenPromiseError, Script, World, random_script, run_script
from antecede.check.scripts import run_step
from antecede.core.registry import restore
from antecede.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from antecede.core.endpoint import Endpoint
    from antecede.core.info import Cast
    from antecede.core.messages import Packet


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
    endpoint_class: type[Endpoint] | None = None,
    promises: Iterable[str] | None = None,
) -> World:
    """Run a script to its end and judge it."""
    return run_script(
        script,
        protocol,
        options=options,
        endpoint_class=endpoint_class,
        promises=promises,
        drain=Random(len(script.steps)),
    )


def promise_broken_by(
    mutant: type[Endpoint],
    casts: Sequence[Cast] = ("unicast", "multicast"),
    *,
    count: int = 150,
    ranks: bool = False,
    pull: bool = False,
    options: Mapping[str, object] | None = None,
    promises: Iterable[str] | None = None,
) -> str:
    """Return the first promise that a broken protocol breaks; fail if nothing shows."""
    for script in scripts(count, casts, ranks=ranks, pull=pull):
        try:
            run(
                script,
                mutant.INFO.name,
                options=options,
                endpoint_class=mutant,
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
        saved.endpoints = {name: restore(ep.state()) for name, ep in saved.endpoints.items()}
        run_step(plain, step)
        run_step(saved, step)
        for name, ep in plain.endpoints.items():
            assert saved.endpoints[name].state() == ep.state()
            assert saved.endpoints[name].waiting() == ep.waiting()
    plain.drain(Random(1))
    saved.drain(Random(1))
    assert saved.packets == plain.packets
    assert saved.history.events == plain.history.events


def assert_refused(
    ep: Endpoint,
    packet: Packet,
    controls: Iterable[object],
    error: type[PeerError] = PeerError,
) -> None:
    """Check that the packet is refused with each of these controls, and leaves no trace."""
    before = ep.state()
    for control in controls:
        with pytest.raises(error) as caught:
            ep.receive(replace(packet, control=control))
        assert "\n" not in str(caught.value)
        assert ep.state() == before
    ep.receive(packet)
    assert ep.state() != before
