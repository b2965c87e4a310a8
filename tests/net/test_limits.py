"""Limits of a node: impossible sends are refused at once, and change nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.net import Limits, Node, SqliteStore, journal
from antecede.testing import Disk, Network, NetworkTransport, run
from tests.net.test_node import NAMES, node_on, take


class Narrow(NetworkTransport):
    """A transport that carries frames of at most 300 kB; NATS and TCP have limits too."""

    packet_bytes_max = 300_000

    def send(self, peer: str, frame: bytes) -> bool:
        return len(frame) <= self.packet_bytes_max + 10_000 and super().send(peer, frame)


def narrow_node(network: Network, name: str, **given: Any) -> Node:
    return Node(name, peers=NAMES, transport=Narrow(network, name), seed=1, **given)


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_message_whose_past_no_frame_can_carry_is_refused_and_changes_nothing(
    is_durable: bool,
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        given: Any = {"protocol": "history", "limits": Limits(linger_seconds=0)}
        disk = Disk(network)
        stored = {"store": disk.view()} if is_durable else {}
        async with narrow_node(network, "c", **given) as c:
            async with narrow_node(network, "a", **given, **stored) as a:
                await a.send(["b"], b"x" * 100_000)  # b is down
                await a.send(["b"], b"x" * 100_000)
                for _ in range(3):
                    with pytest.raises(
                        UsageError, match=r"at most 300000 bytes .*another protocol"
                    ):
                        await a.send(["b"], b"x" * 100_000)
                last = await a.send(["c"], b"small")
                assert last.seq == 3
                assert await take(c, 1) == [b"small"]
            if is_durable:
                async with narrow_node(network, "a", **given, store=disk.view()) as a:
                    assert (await a.send(["c"], b"again")).seq == 4
                    assert await take(c, 1) == [b"again"]
                    async with narrow_node(network, "b", **given) as b:
                        assert len(await take(b, 2)) == 2

    run(main())


def test_limits_that_cannot_work_are_refused_when_the_node_is_made() -> None:
    network = Network(seed=1)
    wrongs: list[Any] = [{"inbox_count": 1e3}, {"outbox_bytes": 0.5}, {"journal_bytes": "1"}]
    for wrong in wrongs:
        with pytest.raises(UsageError, match="expected a positive whole number"):
            Limits(**wrong)
    with pytest.raises(UsageError, match=r"payload_bytes=67108865 .* at most 67108864 .* in parts"):
        node_on(network, "a", limits=Limits(payload_bytes=(64 << 20) + 1))
    with pytest.raises(UsageError, match=r"held_bytes_max=1000 .* expected at least 2097152"):
        node_on(network, "a", options={"held_bytes_max": 1000})
    node_on(network, "a", options={"held_bytes_max": 1000}, limits=Limits(payload_bytes=500))
    node_on(network, "a", limits=Limits(payload_bytes=64 << 20))


def test_a_checkpoint_larger_than_sqlite_takes_in_a_row_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "ROW_BYTES", 1000)

    async def main() -> None:
        store = SqliteStore(tmp_path / "a.db")
        await store.open()
        await store.replace(b"0123456789" * 250)
        await store.append(b"entry")
        await store.close()
        again = SqliteStore(tmp_path / "a.db")
        assert await again.open() == (b"0123456789" * 250, [b"entry"])
        await again.replace(b"short")
        await again.close()
        last = SqliteStore(tmp_path / "a.db")
        assert await last.open() == (b"short", [])
        await last.close()

    asyncio.run(main())
