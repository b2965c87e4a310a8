"""A short form of ``make soak``, and that it notices what grows."""

from __future__ import annotations

import pytest

import antecede
from tests.protocols.soak import Soak, is_flat, soak


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_the_state_stays_flat(protocol: str) -> None:
    sizes, _ = soak(protocol, 600)
    assert is_flat(sizes[1], sizes[-1]), sizes


def test_what_accumulates_is_noticed() -> None:
    group = Soak("matrix")
    first = group.run(60)
    for end in group.ends.values():
        vars(end)["_kept"] = [(i, i) for i in range(1000)]
    assert not is_flat(first, group.run(540))
