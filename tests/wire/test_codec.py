"""Every protocol's packets and snapshots go to bytes and back, and each has one encoding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede.wire import Codec
from tests.wire.runs import Run, names

seeds = st.integers(0, 2**32)


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
@settings(max_examples=10)
@given(seed=seeds, count=st.integers(2, 9))
def test_packets_come_back_equal(protocol: str, seed: int, count: int) -> None:
    codec = Codec(names(count))
    run = Run(protocol, codec.members, seed).go(60)
    assert run.packets, "the run sent nothing"
    for packet in run.packets:
        data = codec.encode(packet)
        again = codec.decode(data)
        assert again == packet
        assert codec.encode(again) == data


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
@settings(max_examples=5)
@given(seed=seeds, count=st.integers(2, 6))
def test_going_on_from_a_snapshot_equals_never_having_stopped(
    protocol: str, seed: int, count: int
) -> None:
    codec = Codec(names(count))
    plain = Run(protocol, codec.members, seed).go(60)
    stopped = Run(
        protocol, codec.members, seed, swap=lambda ep: codec.restore(codec.snapshot(ep))
    ).go(60)
    assert stopped.packets == plain.packets
    assert stopped.deliveries == plain.deliveries
