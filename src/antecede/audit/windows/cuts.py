"""Where to cut a log: times propose a cut, and the events around it make it consistent.

A cut is one seq per process; events up to it come before the cut. It is consistent if no message is
delivered before it and sent after it. A proposal is corrected here as far as the events around it
are known. The join finds any remaining errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Ints, jit
from antecede.audit.windows.edges import OBSERVE, SIGNAL
from antecede.audit.windows.matching import DELIVER, SEND, Events

#: The seq in a cut for a process whose events are cut by time.
NO_SEQ = -(2**63)
#: Rows of sends and, at the same places, of their deliveries.
Pairs: TypeAlias = tuple[Ints, Ints]
#: Rounds of averaging when clock offsets are estimated.
_ROUNDS = 30


@jit
def _lower(cut: Ints, sender: Ints, sent: Ints, receiver: Ints, delivered: Ints) -> int:
    """Lower ``cut`` until every message delivered before it is sent before it."""
    moved = 0
    changed = True
    while changed:
        changed = False
        for m in range(sent.size):
            if delivered[m] <= cut[receiver[m]] and sent[m] > cut[sender[m]]:
                cut[receiver[m]] = delivered[m] - 1
                changed = True
                moved += 1
    return moved


def pairs_of(events: Events) -> Pairs:
    """Return (send rows, delivery rows) of the messages with both among ``events``.

    The ends of edges are like sends and deliveries.
    """
    sends = np.flatnonzero(((events.kind & 3) == SEND) | (events.kind == SIGNAL))
    sends = sends[np.argsort(events.key[sends], kind="stable")]
    deliveries = np.flatnonzero((events.kind == DELIVER) | (events.kind == OBSERVE))
    if not sends.size:
        return sends, sends
    at = np.minimum(np.searchsorted(events.key[sends], events.key[deliveries]), sends.size - 1)
    found = events.key[sends[at]] == events.key[deliveries]
    return sends[at[found]], deliveries[found]


def lower(proposal: Ints, events: Events, pairs: Pairs) -> Ints:
    """Return ``proposal``, lowered as far as the surrounding events and their pairs require."""
    sends, deliveries = pairs
    cut = proposal.copy()
    cut[cut == NO_SEQ] = 2**63 - 1
    _lower(
        cut,
        events.process[sends].astype(np.int64),
        events.seq[sends],
        events.process[deliveries].astype(np.int64),
        events.seq[deliveries],
    )
    cut[cut == 2**63 - 1] = NO_SEQ
    return cut


def offsets(events: Events, pairs: Pairs, time: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Estimate how far each process's clock is ahead, from the delays of ``pairs``.

    The delay seen from i to j is the true one plus j's offset minus i's. Each offset is set to the
    median of what its neighbours show, assuming that true delays are the same both ways. It is only
    a hint: a bad estimate costs time, never exactness.
    """
    sends, deliveries = pairs
    found = np.zeros(n)
    seen = time[deliveries] - time[sends]
    usable = np.isfinite(seen)
    if not usable.any():
        return found
    source, target = events.process[sends][usable], events.process[deliveries][usable]
    seen = seen[usable] - np.median(seen[usable])
    both = np.concatenate((target, source)).astype(np.int64)
    other = np.concatenate((source, target)).astype(np.int64)
    shift = np.concatenate((seen, -seen))
    count = np.maximum(np.bincount(both, minlength=n), 1)
    for _ in range(_ROUNDS):
        seen_offset = np.bincount(both, weights=shift + found[other], minlength=n) / count
        found = 0.5 * (found + seen_offset)
    return np.asarray(found - np.median(found))


def propose(events: Events, time: NDArray[np.float64], when: NDArray[np.float64]) -> Ints:
    """Return, per process, its last seq at or before ``when[process]`` among ``events``.

    A process whose events are all later is cut before the first of them. One without events gets
    ``NO_SEQ``.
    """
    n = when.size
    first, last = np.full(n, 2**63 - 1, np.int64), np.full(n, NO_SEQ, np.int64)
    early = time <= when[events.process]
    np.maximum.at(last, events.process[early], events.seq[early])
    np.minimum.at(first, events.process[~early], events.seq[~early])
    # If a clock runs backwards, an early event may follow a late one; cut before the late one.
    before = np.maximum(first, NO_SEQ + 2) - 1
    cut = np.where(first != 2**63 - 1, np.minimum(last, before), last)
    cut = np.where((last == NO_SEQ) & (first != 2**63 - 1), before, cut)
    return np.asarray(cut)


def rising(cuts: list[Ints]) -> list[Ints]:
    """Return running maxima, so that no cut recedes; unions of consistent cuts are consistent."""
    found: list[Ints] = []
    for cut in cuts:
        found.append(
            cut if not found else np.where(cut == NO_SEQ, NO_SEQ, np.maximum(found[-1], cut))
        )
    return found


def windows_of(process: NDArray[Any], seq: Ints, cuts: Iterable[Ints]) -> Ints:
    """Return how many cuts are before each event; ``cuts`` is (cuts, processes)."""
    found = np.zeros(process.size, np.int64)
    for cut in cuts:
        found += seq > cut[process]
    return found
