"""Small controls on the workload of [JPCY97]: exponential gaps (0.1 s) and delays (0.05 s)."""

import heapq
import random

import pytest

import antecede
from antecede import Packet, PeerError
from antecede.wire import Codec
from antecede.wire.quick import Quick
from antecede.wire.roster import WireRoster


def copies(protocol: str, count: int, *, multicast: bool, sends: int) -> list[Packet]:
    """Return the packets of the run's second half."""
    chance = random.Random(4)
    members = tuple(f"p{number:02}" for number in range(count))
    endpoints = {m: antecede.endpoint(protocol, process=m, members=members) for m in members}
    agenda: list[tuple[float, int, str, Packet | None]] = []
    for number, name in enumerate(members):
        heapq.heappush(agenda, (chance.expovariate(10), number, name, None))
    result: list[Packet] = []
    ties, sent = count, 0
    while sent < sends:
        now, _, name, packet = heapq.heappop(agenda)
        if packet is not None:
            packets = endpoints[name].receive(packet).packets
        else:
            others = [other for other in members if other != name]
            size = chance.randint(1, count - 1) if multicast else 1
            packets = endpoints[name].send(chance.sample(others, size)).packets
            sent += 1
            ties += 1
            heapq.heappush(agenda, (now + chance.expovariate(10), ties, name, None))
        if 2 * sent > sends:
            result.extend(packets)
        for new in packets:
            ties += 1
            heapq.heappush(agenda, (now + chance.expovariate(20), ties, new.dest, new))
    return result


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize(("count", "sends", "most"), [(10, 200, 0.75), (30, 300, 0.60)])
@pytest.mark.parametrize("protocol", ["optimal", "pruned"])
def test_controls_are_far_smaller_than_the_model(
    protocol: str, count: int, sends: int, most: float, multicast: bool
) -> None:
    packets = copies(protocol, count, multicast=multicast, sends=sends)
    codec = Codec(tuple(f"p{number:02}" for number in range(count)))
    sample = random.Random(1).sample(packets, min(200, len(packets)))
    model_bytes = sum(antecede.size(packet).model_bytes for packet in sample)
    wire_bytes = sum(map(codec.wire_bytes, sample))
    assert wire_bytes <= most * model_bytes


def test_a_matrix_takes_far_less_than_four_bytes_a_cell() -> None:
    packets = copies("matrix", 10, multicast=False, sends=400)
    codec = Codec(tuple(f"p{number:02}" for number in range(10)))
    assert max(map(codec.wire_bytes, packets)) < 0.3 * 4 * 100


@pytest.mark.parametrize("protocol", ["optimal", "pruned", "broadcast", "matrix", "vectors"])
@pytest.mark.parametrize("count", [8, 9, 50])
def test_a_packet_to_everyone_takes_one_byte_to_say_so(protocol: str, count: int) -> None:
    members = tuple(f"p{number:02}" for number in range(count))
    codec = Codec(members)
    one, two = (antecede.endpoint(protocol, process=name, members=members) for name in members[:2])
    packet = one.send(members[1:], b"hi").packets[0]
    data = codec.encode(packet)
    assert codec.decode(data) == packet
    assert two.receive(codec.decode(data)).deliveries[0].dests == members[1:]
    spelling = Quick(WireRoster(members))
    spelling.others = [0] * count
    spelt = spelling.head(packet, b"hi")
    assert spelt is not None
    assert len(spelt) == len(data) - 1 + (count + 7) // 8
    if count > 8:
        with pytest.raises(PeerError, match="not the shortest"):
            codec.decode(spelt)
