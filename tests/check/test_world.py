"""The world that runs protocols: its networks, its judgement, and what it says when one fails."""

import re
from random import Random

import pytest

from antecede import Effects, MessageId, Packet, UsageError
from antecede.check import BrokenPromiseError, Script, World, random_script, run_script, shrunk
from antecede.core.endpoint import Endpoint
from antecede.protocols.matrix import Matrix
from antecede.protocols.optimal import Optimal
from tests.check.mutants import MUTANTS, NoMerge, Unordered


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_random_scripts_find_every_mutant(mutant: type[Endpoint]) -> None:
    protocol, promises = MUTANTS[mutant]
    for seed in range(60):
        script = random_script(seed, members=3 + seed % 3, casts=("multicast",), steps=45)
        try:
            run_script(script, protocol, endpoint_class=mutant, drain=Random(seed))
        except BrokenPromiseError as error:
            found = error.promise
            break
    else:
        pytest.fail(f"no script out of 60 noticed {mutant.__name__}")
    assert found in promises | {"quiescence", "liveness"}


@pytest.mark.parametrize("seed", range(20))
def test_a_missing_prune_is_no_breach_of_order(seed: int) -> None:
    """KeepsAll keeps too much, which only necessity notices."""
    keeps_all = next(one for one in MUTANTS if one.__name__ == "KeepsAll")
    script = random_script(seed, members=4, casts=("multicast",), steps=45)
    promises = {"safety", "liveness", "quiescence", "no_overblocking"}
    run_script(script, "optimal", endpoint_class=keeps_all, promises=promises, drain=0)


class Forgetful(Matrix):
    """Forgets on which channel numbers it has sent: harm done in the base, not in the rules."""

    def send(self, dests: object, payload: bytes = b"", *, after: int | None = None) -> Effects:
        self._channels.sent.clear()
        return super().send(dests, payload, after=after)  # type: ignore[arg-type]


class Miscounts(Matrix):
    """Numbers its events wrongly."""

    def receive(self, packet: Packet) -> Effects:
        self._events += 1
        return super().receive(packet)


class Garbles(Matrix):
    """Loses payloads on the way to the application."""

    def _deliver(self, packet: Packet) -> None:
        super()._deliver(packet)
        from dataclasses import replace

        self._delivered[-1] = replace(self._delivered[-1], payload=b"?")


def test_channel_numbers_that_repeat_lose_messages() -> None:
    world = World("matrix", "ab", endpoint_class=Forgetful)
    world.send("a", ["b"])
    world.send("a", ["b"])
    with pytest.raises(BrokenPromiseError, match="b holds a:2, although every cause"):
        world.drain()
    world = World("matrix", "ab", endpoint_class=Forgetful, promises={"liveness"})
    world.send("a", ["b"])
    world.send("a", ["b"])
    world.drain()
    with pytest.raises(BrokenPromiseError, match="b never delivers a:2; it is not held"):
        world.check()


def test_wrong_event_numbers_are_noticed() -> None:
    world = World("matrix", "ab", endpoint_class=Miscounts)
    world.send("a", ["b"])
    with pytest.raises(BrokenPromiseError, match="as event 2, but it is event 1"):
        world.drain()


def test_a_changed_payload_is_noticed() -> None:
    world = World("matrix", "ab", endpoint_class=Garbles)
    world.send("a", ["b"], b"hello")
    with pytest.raises(BrokenPromiseError, match="with another payload"):
        world.drain()


def test_a_failure_prints_a_script_that_shows_it_again() -> None:
    world = World("matrix", "abc", endpoint_class=NoMerge)
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    with pytest.raises(BrokenPromiseError) as caught:
        world.arrive_packet("b", "c")
    text = str(caught.value)
    assert "matrix broke safety: a:1 comes before b:1: because a sent a:1" in text
    printed = re.search(r"run_script\((Script\(.*\)), 'matrix'", text)
    assert printed is not None
    script = eval(printed.group(1), {"Script": Script})
    with pytest.raises(BrokenPromiseError, match="a:1 comes before b:1"):
        run_script(script, "matrix", endpoint_class=NoMerge)


def test_a_failing_script_shrinks_to_what_matters() -> None:
    def run(script: Script) -> None:
        run_script(script, "matrix", endpoint_class=Unordered, drain=-1)

    long = random_script(3, members=5, casts=("multicast",), steps=80)
    error = shrunk(long, run)
    assert len(error.script.steps) <= 4
    with pytest.raises(UsageError, match="breaks no promise"):
        shrunk(Script(("a", "b"), ()), run)


def test_a_fifo_network_keeps_each_channel_in_order() -> None:
    world = World("matrix", "ab", fifo=True, endpoint_class=Unordered)
    sent = [world.send("a", ["b"]) for _ in range(4)]
    while world.in_flight:
        world.arrive(-1, keep=True)
    assert world.history.deliveries("b") == sent


def test_a_full_holding_buffer_refuses_and_later_accepts() -> None:
    world = World("optimal", "ab", held_max=1)
    sent = [world.send("a", ["b"]) for _ in range(3)]
    assert world.arrive_packet("a", "b", 3)
    assert not world.arrive_packet("a", "b", 2)
    assert [p.n for p in world.in_flight] == [1, 2]
    assert world.drain(-1)
    world.check()
    assert world.history.deliveries("b") == sent


@pytest.mark.parametrize("seed", range(20))
def test_small_holding_buffers_never_lose_or_block(seed: int) -> None:
    script = random_script(seed, members=4, casts=("multicast",), steps=60)
    run_script(script, "optimal", held_max=seed % 3, drain=Random(seed))


def test_pull_mode_judges_what_could_be_taken() -> None:
    class Stubborn(Optimal):
        def waiting(self) -> dict[MessageId, tuple[object, ...]]:  # type: ignore[override]
            return dict.fromkeys(super().waiting(), ("nothing",))

    world = World("optimal", "ab", pull=True, endpoint_class=Stubborn)
    world.send("a", ["b"])
    with pytest.raises(BrokenPromiseError, match="b holds a:1, although"):
        world.drain()


def test_the_same_seed_gives_the_same_script_and_another_another() -> None:
    scripts = [random_script(seed, members=3, casts=("multicast",), steps=30) for seed in (1, 1, 2)]
    assert scripts[0] == scripts[1]
    assert scripts[0] != scripts[2]


def test_random_scripts_reorder_and_duplicate() -> None:
    kept = late = 0
    for seed in range(30):
        script = random_script(seed, members=3, casts=("unicast",), steps=60)
        world = run_script(script, "matrix")
        arrivals = [step for step in world.steps if step[0] == "packet"]
        kept += sum(bool(step[4]) for step in arrivals)
        numbers: dict[object, int] = {}
        for _, source, dest, n, _ in arrivals:
            late += isinstance(n, int) and n < numbers.get((source, dest), 0)
            numbers[source, dest] = max(int(str(n)), numbers.get((source, dest), 0))
    assert kept > 100
    assert late > 50
