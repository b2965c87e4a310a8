"""What `differential` of `optimal` adds to the logs of `logs` ([KS98] 3.5).

Every channel keeps the control that was sent last, with each sender's newest entry even if it is
empty. The next copy carries the difference from that control, or the whole control if that is
smaller. The copies of a channel take effect in the order they were sent; an early one waits for
its turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from antecede.endpoint.messages import ID_BYTES, PAIR_BYTES
from antecede.sim.kernels.bits import ones
from antecede.sim.kernels.common import Copy, Core
from antecede.sim.kernels.compiling import Int, Ints, Small, Words, at, helper, int64
from antecede.sim.kernels.keys import (
    CLOCK_BITS,
    CLOCK_MASK,
    END,
    SENDER_SHIFT,
    WORD_BITS,
    WORD_MASK,
    key_of,
)
from antecede.sim.kernels.loop import widened
from antecede.sim.trace import NOTHING


class Differences(NamedTuple):
    """The controls sent last, and which copy of each channel is next."""

    keys: Ints  # channel x room; one channel more is scratch
    words: Words  # channel x room
    sent: Small  # per channel: copies sent
    number: Small  # per copy: its number on its channel
    turn: Small  # per (receiver, sender): copies that took effect
    early: Small  # per (receiver, sender): a copy that waits for its turn, or NOTHING
    room: Int  # elements of a control


def no_differences(channels: int = 0, copies: int = 0, room: int = 1) -> Differences:
    """Return arrays in which nothing has been sent."""
    size = (channels + 1) * room if channels else 0
    return Differences(
        keys=np.full(size, END, np.int64),
        words=np.zeros(size, np.uint64),
        sent=np.zeros(channels, np.int32),
        number=np.zeros(copies, np.int32),
        turn=np.zeros(channels, np.int32),
        early=np.full(channels, NOTHING, np.int32),
        room=room,
    )


def roomier(old: Differences, room: int) -> Differences:
    """Return a copy with room for longer controls."""
    if room <= old.room or not len(old.sent):
        return old
    slots = len(old.sent) + 1
    keys, words = widened(old.keys, slots, room, END), widened(old.words, slots, room)
    return old._replace(keys=keys, words=words, room=room)


@helper
def put(diffs: Differences, target: Int, key: Int, word: Any) -> Int:
    """Append an element; return where the next one goes."""
    diffs.keys[at(target)] = key
    diffs.words[at(target)] = word
    return target + 1


@helper
def write_control(own: Any, n: Int, old: Int, dest: Int, slot: Int) -> None:
    """SND(2): write what the copy to `dest` carries, from the log before the send."""
    logs, diffs, mask = own.logs, own.diffs, own.scratch.mask
    bit = np.uint64(1) << np.uint64(dest & 63)
    target = slot * diffs.room
    i = old * own.size
    for sender in range(n):
        newest = int64(logs.newest[at(old * n + sender)])
        seen = False
        while logs.keys[at(i)] >> SENDER_SHIFT == sender:
            key = logs.keys[at(i)]
            k = key & WORD_MASK
            word = logs.words[at(i)] & ~mask[at(k)]
            if k == dest >> 6:
                word |= logs.words[at(i)] & bit
            if word != np.uint64(0):
                target = put(diffs, target, key, word)
                seen |= (key >> WORD_BITS) & CLOCK_MASK == newest
            i += 1
        if newest > 0 and not seen:
            target = put(diffs, target, key_of(sender, newest, 0), np.uint64(0))
    diffs.keys[at(target)] = END


@helper
def difference(own: Any, n: Int, old: Int, before: Int, after: Int) -> tuple[Int, Int]:
    """Count entries and destinations of the difference, or of the whole control if smaller."""
    diffs = own.diffs
    a, b = before * diffs.room, after * diffs.room
    changed = changed_dests = every = every_dests = 0
    while diffs.keys[at(a)] != END or diffs.keys[at(b)] != END:
        entry = min(diffs.keys[at(a)], diffs.keys[at(b)]) >> WORD_BITS
        is_old = diffs.keys[at(a)] >> WORD_BITS == entry
        is_new = diffs.keys[at(b)] >> WORD_BITS == entry
        differs = is_old != is_new
        dests = old_dests = 0
        while diffs.keys[at(b)] >> WORD_BITS == entry:
            if diffs.keys[at(a)] != diffs.keys[at(b)] or diffs.words[at(a)] != diffs.words[at(b)]:
                differs = True
            if diffs.keys[at(a)] == diffs.keys[at(b)]:
                a += 1
            dests += ones(diffs.words[at(b)])
            b += 1
        while diffs.keys[at(a)] >> WORD_BITS == entry:
            differs = True
            old_dests += ones(diffs.words[at(a)])
            a += 1
        if is_new:
            every += 1
            every_dests += dests
            if differs:
                changed += 1
                changed_dests += dests
        elif (
            old_dests > 0
            or (entry & CLOCK_MASK) > own.logs.newest[at(old * n + (entry >> CLOCK_BITS))]
        ):
            changed += 1
    if (
        PAIR_BYTES * changed + ID_BYTES * changed_dests
        < PAIR_BYTES * every + ID_BYTES * every_dests
    ):
        return changed, changed_dests
    return every, every_dests


@helper
def count_differences(core: Core, own: Any, message: Int, old: Int) -> None:
    """Count what each copy carries, given the log before the send, and keep it for the next."""
    plan, diffs, n = core.plan, own.diffs, core.n
    me = int64(plan.sender[at(message)])
    fresh = n * n
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        dest = int64(plan.dests[at(row)])
        channel = me * n + dest
        write_control(own, n, old, dest, fresh)
        entries, dests = difference(own, n, old, channel, fresh)
        core.trace.entries[at(row)] = entries
        core.trace.destinations[at(row)] = dests
        for i in range(diffs.room):
            diffs.keys[at(channel * diffs.room + i)] = diffs.keys[at(fresh * diffs.room + i)]
            diffs.words[at(channel * diffs.room + i)] = diffs.words[at(fresh * diffs.room + i)]
        diffs.sent[at(channel)] += 1
        diffs.number[at(row)] = diffs.sent[at(channel)]


@helper
def is_early(core: Core, diffs: Differences, copy: Copy) -> Int:
    """Return whether a copy waits for others of its channel to arrive."""
    return diffs.number[at(copy.row)] > diffs.turn[at(copy.dest * core.n + copy.sender)]


@helper
def take_turn(core: Core, diffs: Differences, pair: Int) -> Int:
    """Remove and return the early copy whose turn has come, or NOTHING."""
    holding = core.holding
    previous = int64(NOTHING)
    row = int64(diffs.early[at(pair)])
    while row >= 0 and diffs.number[at(row)] != diffs.turn[at(pair)] + 1:
        previous = row
        row = int64(holding.link[at(row)])
    if row < 0:
        return row
    if previous < 0:
        diffs.early[at(pair)] = holding.link[at(row)]
    else:
        holding.link[at(previous)] = holding.link[at(row)]
    diffs.turn[at(pair)] += 1
    return row
