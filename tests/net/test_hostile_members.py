"""Members that break the protocol: turned away, logged once, and the node keeps serving."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

import antecede
from antecede.net import Limits, Node, frames
from antecede.net.parcels import ALONE
from antecede.net.peers import GAP_MAX
from antecede.net.settings import Setup
from antecede.testing import Network, NetworkTransport, run
from tests.net.test_node import NAMES, take

SETUP = Setup("c", NAMES, "optimal", {})
HEAD = frames.Head(SETUP.digest, b"identity")
CODEC = antecede.Codec(antecede.endpoint("optimal", process="a", members=NAMES))


class Deaf:
    """A receiver that ignores everything."""

    def connected(self, peer: str) -> None: ...

    def refused(self, peer: str, view: int) -> None: ...

    def received(self, peer: str, frame: bytes) -> None: ...


def packet(source: str = "c", text: bytes = b"x") -> bytes:
    """Return the first packet from ``source`` to a."""
    end = antecede.endpoint("optimal", process=source, members=NAMES)
    return ALONE + CODEC.encode(end.send(["a"], text).packets[0])


def poisoned(**known: int) -> bytes:
    """Return a well-formed first packet from c to a that knows of messages never sent."""
    ends = {name: antecede.endpoint("optimal", process=name, members=NAMES) for name in NAMES}
    for name, count in known.items():
        record = json.loads(CODEC.snapshot(ends[name]))
        record["endpoint"] |= {"seq": count - 1, "events": count - 1}
        ends[name] = CODEC.restore(json.dumps(record).encode(), resumed=True)
        ends["c"].receive(ends[name].send(["c"], b"x").packets[0])
    return ALONE + CODEC.encode(ends["c"].send(["a"], b"x").packets[0])


def garbage(count: int) -> list[bytes]:
    chance = random.Random(1)
    return [chance.randbytes(chance.randrange(200)) for _ in range(count)]


def frame(*packets: tuple[int, bytes], prefix: int = 0, above: tuple[int, ...] = ()) -> bytes:
    return frames.encode(HEAD, prefix, above, packets)


@pytest.mark.parametrize(
    "attack",
    [
        lambda: garbage(300),
        lambda: [frame((1, data)) for data in garbage(300)],
        lambda: [frame((1, packet("b")))] * 3,
        lambda: [frame((7, packet()))] * 3,
        lambda: [frame((GAP_MAX + n, packet())) for n in range(1, 4)],
        lambda: [frame((2**62, packet()))] * 3,
        lambda: [frame()[:-1], frame()[:10], b"", frame() + b"\xff" * 50],
        lambda: [bytes([9]) + frame()[1:]] * 3,
        lambda: [frame((1, poisoned(a=5)))] * 3,
        lambda: [frame((1, poisoned(b=1, a=2**46)))] * 3,
        lambda: [frames.encode(frames.Head(b"another!", b"identity"), 0, (), [])] * 3,
        lambda: [frames.encode(frames.Head(SETUP.digest, b"identity", b"somebody"), 0, (), [])] * 3,
    ],
    ids=[
        "garbage",
        "garbage as packets",
        "packets of another process",
        "a packet under another number",
        "far ahead",
        "absurdly far ahead",
        "damaged frames",
        "another version",
        "a clock that knows more of us than we do",
        "a clock far in the future",
        "another setup",
        "meant for another store",
    ],
)
def test_a_member_that_breaks_the_protocol_is_turned_away(
    attack: Callable[[], list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(linger_seconds=1)
        async with (
            Node("a", peers=NAMES, transport=network.transport("a"), limits=limits) as a,
            Node("b", peers=NAMES, transport=network.transport("b"), limits=limits) as b,
        ):
            mallory: NetworkTransport = network.transport("c")
            await mallory.start(Deaf())
            await b.send(["a"], b"before")
            for data in attack():
                mallory.send("a", data)
            assert await take(a, 1) == [b"before"]
            await a.send(["b"], b"question")
            assert await take(b, 1) == [b"question"]
            await b.send(["a"], b"answer")
            assert await take(a, 1) == [b"answer"]

    run(main())
    told = [text for text in caplog.messages if "what c sent" in text]
    assert len(told) == 1, caplog.messages
    assert "\n" not in told[0]


def test_acknowledgements_that_lie_lose_only_the_liar_its_messages() -> None:
    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(linger_seconds=1)
        async with (
            Node("a", peers=NAMES, transport=network.transport("a"), limits=limits) as a,
            Node("b", peers=NAMES, transport=network.transport("b"), limits=limits) as b,
        ):
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("a", frame(prefix=2**60, above=(2**61,)))
            await a.send(["b", "c"], b"to both")
            assert await take(b, 1) == [b"to both"]
            mallory.send("a", frame(prefix=2**60))
            await a.flush()

    run(main())
