"""A snapshot continues as if nothing had stopped; a damaged one is refused in one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede import PeerError, UsageError
from antecede.errors import SnapshotError
from antecede.wire import Codec
from tests.wire.runs import Run, names, variants


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize(("protocol", "options"), variants())
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 6))
def test_going_on_equals_never_having_stopped(
    protocol: str, options: dict[str, object], pull: bool, seed: int, count: int
) -> None:
    codec = Codec(names(count))
    options = {**options, "pull": pull}

    def reborn(endpoint: antecede.Endpoint) -> antecede.Endpoint:
        data = codec.snapshot(endpoint)
        again = codec.restore(data, resumed=True)
        assert again is not endpoint
        assert codec.snapshot(again) == data
        return again

    plain = Run(protocol, codec.members, seed, options).go(50)
    stopped = Run(protocol, codec.members, seed, options, swap=reborn).go(50)
    assert plain.packets, "the run sent nothing"
    assert stopped.packets == plain.packets
    assert stopped.deliveries == plain.deliveries
    for name, endpoint in plain.endpoints.items():
        assert stopped.endpoints[name].state() == endpoint.state()


def some_snapshot(members: int = 4) -> tuple[Codec, bytes]:
    codec = Codec(names(members))
    run = Run("optimal", codec.members, 5).go(60)
    return codec, codec.snapshot(run.endpoints[codec.members[1]])


def refusal(codec: Codec, data: bytes) -> str:
    with pytest.raises(SnapshotError) as caught:
        codec.restore(data, resumed=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_flipped_bit_is_noticed() -> None:
    codec, data = some_snapshot()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        refusal(codec, bytes(flipped))


def test_every_cut_is_noticed() -> None:
    codec, data = some_snapshot()
    for length in range(len(data)):
        refusal(codec, data[:length])
    refusal(codec, data + b"\0")


def test_a_damaged_snapshot_says_what_to_do() -> None:
    codec, data = some_snapshot()
    assert "does not match its checksum" in refusal(codec, data[:40] + b"!" + data[41:])
    assert "starts with 0xa1, so it is not a snapshot" in refusal(codec, b"\xa1" + data[1:])
    assert "version 1 of the format" in refusal(codec, b"\xb1" + data[1:])


def test_a_snapshot_is_not_taken_up_under_other_names() -> None:
    _, data = some_snapshot(4)
    fewer, other = Codec(names(4)[:3]), Codec(("w", "x", "y", "z"))
    assert "assumes 4 members, this Codec has 3" in refusal(fewer, data)
    assert "in the same order everywhere" in refusal(other, data)


def test_a_codec_that_grew_still_reads_its_snapshots() -> None:
    codec, data = some_snapshot()
    before = codec.restore(data, resumed=True).state()
    codec.add("newcomer")
    assert codec.restore(data, resumed=True).state() == before


def test_members_that_joined_and_left_are_in_the_snapshot() -> None:
    codec = Codec(("a", "b", "c"))
    endpoint = antecede.endpoint("optimal", process="a", members=codec.members)
    endpoint.send(["b", "c"], b"1")
    endpoint.remove("c")
    endpoint.add("d")
    with pytest.raises(UsageError, match="'d' is not a member of this Codec"):
        codec.snapshot(endpoint)
    codec.add("d")
    again = codec.restore(codec.snapshot(endpoint), resumed=True)
    assert again.members == ("a", "b", "d")
    assert again.state() == endpoint.state()
    with pytest.raises(UsageError, match="was removed"):
        again.add("c")


def test_restore_takes_bytes_only() -> None:
    with pytest.raises(UsageError, match="cannot decode str; expected bytes"):
        Codec(("a",)).restore("text")  # type: ignore[arg-type]
    with pytest.raises(PeerError):
        Codec(("a",)).restore(b"")
