"""Numbers as bytes: readers refuse forms that no writer produces."""

import random

import pytest

from antecede import PeerError, view_of
from antecede.endpoint.numbers import get_block, get_clocks, put_block, put_clocks

VIEW = view_of("optimal", ("a", "b", "c", "d", "e"))


def test_clocks_that_begin_below_zero_are_refused() -> None:
    keys = [5 << VIEW.shift | place for place in range(4)] + [4]
    base, width, column = put_clocks(keys, VIEW, 8)
    assert get_clocks(base + column, 0, width, VIEW, 8) == (keys, len(base + column))
    with pytest.raises(PeerError, match="has clocks from -1"):
        get_clocks(b"\x12" + column, 0, width, VIEW, 8)


@pytest.mark.parametrize("most", [0, 1, 2, 4, 9, 20, 70, 300, 1 << 40])
def test_a_block_has_one_form(most: int) -> None:
    rng = random.Random(most)
    for count in (1, 2, 3, 4, 9, 50):
        values = [rng.randint(0, most) for _ in range(count)]
        data = put_block(values)
        found, at = get_block(data + b"rest", 0, count)
        assert (list(found), at) == (values, len(data))
        for place in range(len(data)):
            for bit in range(8):
                damaged = bytearray(data)
                damaged[place] ^= 1 << bit
                try:
                    other, end = get_block(bytes(damaged), 0, count)
                except (PeerError, ValueError, IndexError):
                    continue
                assert put_block(list(other)) == bytes(damaged[:end])
