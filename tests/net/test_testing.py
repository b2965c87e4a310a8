"""The test tools: virtual time, the seeded network, hosts that crash."""

from __future__ import annotations

import asyncio
import time

import pytest

from antecede.errors import StoreError, UsageError
from antecede.testing import DeadlockError, Host, Network, VirtualLoop, run


class Inbox:
    """A receiver that writes down what it hears, and when."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, str, bytes]] = []
        self.met: list[str] = []

    def connected(self, peer: str) -> None:
        self.met.append(peer)

    def refused(self, peer: str, view: int) -> None: ...

    def received(self, peer: str, frame: bytes) -> None:
        self.heard.append((asyncio.get_running_loop().time(), peer, frame))

    @property
    def frames(self) -> list[bytes]:
        return [frame for _, _, frame in self.heard]


async def chatter(network: Network, count: int = 50) -> Inbox:
    inbox, a, b = Inbox(), network.transport("a"), network.transport("b")
    await a.start(Inbox())
    await b.start(inbox)
    for number in range(count):
        assert a.send("b", b"%d" % number)
        await asyncio.sleep(0.01)
    await asyncio.sleep(10)
    return inbox


def test_hours_pass_in_no_time_and_timers_keep_their_order() -> None:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        for delay in (7200, 3600, 3600):
            loop.call_later(delay, order.append, delay)
        await asyncio.sleep(10_000)
        assert loop.time() == 10_000
        return order

    begin = time.monotonic()
    assert run(main()) == [3600, 3600, 7200]
    assert time.monotonic() - begin < 60


def test_a_program_that_waits_for_ever_is_told_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="every task waits"):
        run(main())


def test_executors_run_in_the_same_thread_and_pass_errors_on() -> None:
    async def main() -> str:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(str, 5)

    assert run(main()) == "5"


def test_a_seed_gives_the_same_run_and_another_seed_another() -> None:
    def heard(seed: int) -> list[tuple[float, str, bytes]]:
        return run(chatter(Network(seed=seed, delay=(0.001, 2.0), loss=0.2, duplication=0.2))).heard

    runs = [heard(seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_faults_are_what_they_are_called() -> None:
    sent = [b"%d" % number for number in range(50)]
    assert run(chatter(Network())).frames == sent
    lost = run(chatter(Network(loss=0.5))).frames
    assert 5 < len(lost) < 45
    twice = run(chatter(Network(duplication=0.5))).frames
    assert 55 < len(twice) < 95
    assert set(twice) == set(sent)
    mixed = run(chatter(Network(delay=(0, 5)))).frames
    assert sorted(mixed) == sorted(sent) != mixed
    assert run(chatter(Network(delay=(0, 5), fifo=True))).frames == sent


def test_a_partition_separates_its_groups_only_until_it_heals() -> None:
    async def main() -> None:
        network = Network(loss=0.0)
        boxes = {name: Inbox() for name in "abc"}
        ends = {name: network.transport(name) for name in "abc"}
        for name, end in ends.items():
            await end.start(boxes[name])
        network.partition(["a"], ["b"])
        ends["a"].send("b", b"no")
        ends["a"].send("c", b"yes")
        await asyncio.sleep(1)
        network.heal()
        ends["a"].send("b", b"now")
        await asyncio.sleep(1)
        assert boxes["b"].frames == [b"now"]
        assert boxes["c"].frames == [b"yes"]
        assert sorted(boxes["a"].met) == ["b", "c"]
        await ends["b"].close()
        ends["a"].send("b", b"late")
        assert not ends["b"].send("a", b"closed")
        await asyncio.sleep(1)
        assert boxes["b"].frames == [b"now"]
        with pytest.raises(UsageError, match="started already"):
            await ends["a"].start(boxes["a"])

    run(main())


def test_a_crash_takes_everything_but_the_disk() -> None:
    async def program(host: Host) -> None:
        saved = await host.store.open()
        for number in range(len(saved.journal), 1000):
            await host.store.append(b"%d" % number)

    async def main(seed: int) -> tuple[int, int]:
        host = Host(Network(seed=seed), "a", disk_delay=(0.01, 0.02))
        host.start(program)
        with pytest.raises(UsageError, match="is running"):
            host.start(program)
        await asyncio.sleep(1)
        old = host.store
        host.crash()
        assert not host.is_running
        await host.wait()
        kept = len(host.disk.journal)
        with pytest.raises(StoreError, match="crashed"):
            await old.append(b"ghost")
        host.start(program)
        await host.wait()
        assert host.disk.journal == [b"%d" % number for number in range(1000)]
        return kept, host.disk.writes

    outcomes = {run(main(seed)) for seed in range(20)}
    under_way = {writes - 1000 for _, writes in outcomes}
    assert under_way == {0, 1}, "a write during the crash is kept whole or lost whole"


def test_an_action_can_strike_at_every_step() -> None:
    async def count(reached: list[int]) -> None:
        for number in range(10):
            reached.append(number)
            await asyncio.sleep(0)

    def struck_at(step: int) -> int:
        loop, reached = VirtualLoop(), list[int]()

        async def main() -> None:
            task = asyncio.get_running_loop().create_task(count(reached))
            loop.at_step(loop.steps + step, task.cancel)
            await asyncio.gather(task, return_exceptions=True)

        run(main(), loop=loop)
        return len(reached)

    assert {struck_at(step) for step in range(1, 12)} == set(range(1, 11))
