"""How an element of a log is packed into one integer; see `logs`."""

from __future__ import annotations

import numpy as np

from antecede.sim.kernels.compiling import Int, helper, int64

# An element's key: sender, clock, word. The largest key ends a slab.
WORD_BITS, CLOCK_BITS = 10, 37
SENDER_SHIFT = WORD_BITS + CLOCK_BITS
CLOCK_MASK = (1 << CLOCK_BITS) - 1
WORD_MASK = (1 << WORD_BITS) - 1
END = np.iinfo(np.int64).max


@helper
def key_of(sender: Int, clock: Int, word: Int) -> Int:
    """Pack an element's key."""
    return (int64(sender) << SENDER_SHIFT) | (int64(clock) << WORD_BITS) | int64(word)
