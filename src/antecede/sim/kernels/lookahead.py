"""What `lookahead` of `optimal` does with the logs of `logs` ([KS98] 4.5).

A copy's log is merged when it arrives: RCV(4) and RCV(5) with the message's own entry and with the
messages that the copy waits for. Its delivery only drops the receiver from the entries.
"""

from __future__ import annotations

import numpy as np

from antecede.sim.kernels.common import FREE, Copy, Core
from antecede.sim.kernels.compiling import Int, Ints, at, helper, int64
from antecede.sim.kernels.keys import (
    CLOCK_BITS,
    CLOCK_MASK,
    END,
    SENDER_SHIFT,
    WORD_BITS,
    WORD_MASK,
    key_of,
)
from antecede.sim.kernels.logs import (
    LogKernel,
    Logs,
    release,
)
from antecede.sim.trace import NOTHING


@helper
def take_slab(logs: Logs, reg: Ints) -> Int:
    """Take a slab without owner."""
    reg[FREE] -= 1
    return int64(logs.free[at(reg[FREE])])


@helper
def merge_newest(logs: Logs, n: Int, mine: Int, other: Int, new: Int) -> Int:
    """Write the newest clocks of both logs; return how many senders have one."""
    a0 = mine * n
    b0 = other * n
    c0 = new * n
    if logs.known[at(mine)] == n:
        for s in range(n):
            logs.newest[at(c0 + s)] = max(logs.newest[at(a0 + s)], logs.newest[at(b0 + s)])
        return n
    known = 0
    for s in range(n):
        v = max(logs.newest[at(a0 + s)], logs.newest[at(b0 + s)])
        logs.newest[at(c0 + s)] = v
        known += int64(v > 0)
    return known


@helper
def with_needs(own: LogKernel, copy: Copy, spare: Int) -> Int:
    """Write what a copy carries to the end of a spare slab; return where it begins.

    That is the log that all copies share, and the messages that this copy waits for, last first.
    """
    logs, cons = own.logs, own.cons
    word = copy.dest >> 6
    bit = np.uint64(1) << np.uint64(copy.dest & 63)
    start = int64(logs.slab[at(copy.message)]) * own.size
    i = start + int64(logs.count[at(logs.slab[at(copy.message)])]) - 1
    node = int64(cons.first[at(copy.row)])
    target = (spare + 1) * own.size - 1
    logs.keys[at(target)] = END
    while i >= start or node >= 0:
        key = logs.keys[at(i)] if i >= start else int64(NOTHING)
        need = int64(NOTHING)
        if node >= 0:
            need = key_of(cons.sender[at(node)], cons.clock[at(node)], word)
        target -= 1
        logs.keys[at(target)] = max(key, need)
        logs.words[at(target)] = np.uint64(0)
        if key >= need:
            logs.words[at(target)] = logs.words[at(i)]
            i -= 1
        if need >= key:
            logs.words[at(target)] |= bit
            node = int64(cons.following[at(node)])
    return target


@helper
def undelivered(core: Core, me: Int, key: Int, word: Int) -> Int:
    """Return an element's destinations, without a receiver that has delivered the message."""
    sender = key >> SENDER_SHIFT
    reached = int64(core.holding.reached[at(me * core.n + sender)])
    if (key & WORD_MASK) == me >> 6 and (key >> WORD_BITS) & CLOCK_MASK <= reached:
        word &= ~(np.uint64(1) << np.uint64(me & 63))
    return word


@helper
def merge_early(core: Core, own: LogKernel, copy: Copy) -> None:
    """RCV(4) and RCV(5) for a copy that has just arrived."""
    logs, reg, n, me = own.logs, core.reg, core.n, copy.dest
    mine = int64(logs.own[at(me)])
    other = int64(logs.slab[at(copy.message)])
    new = take_slab(logs, reg)
    spare = int64(logs.free[at(reg[FREE] - 1)])  # used here only
    logs.known[at(new)] = merge_newest(logs, n, mine, other, new)
    a = mine * own.size
    b = with_needs(own, copy, spare)
    target = new * own.size
    while logs.keys[at(a)] != END or logs.keys[at(b)] != END:
        ka = logs.keys[at(a)]
        kb = logs.keys[at(b)]
        key = min(ka, kb)
        clock = (key >> WORD_BITS) & CLOCK_MASK
        sender = key >> SENDER_SHIFT
        if ka == kb:
            word = logs.words[at(a)] & logs.words[at(b)]
        elif ka < kb:
            word = logs.words[at(a)]
            if clock <= logs.newest[at(other * n + sender)]:
                word = np.uint64(0)
        else:
            word = logs.words[at(b)]
            if clock <= logs.newest[at(mine * n + sender)]:
                word = np.uint64(0)
        a += int64(ka == key)
        b += int64(kb == key)
        word = undelivered(core, me, key, word)
        if word != np.uint64(0):
            logs.keys[at(target)] = key
            logs.words[at(target)] = word
            target += 1
    logs.keys[at(target)] = END
    logs.count[at(new)] = target - new * own.size
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)


@helper
def drop_delivered(core: Core, own: LogKernel, me: Int) -> Int:
    """Drop the receiver from entries that it has delivered; return how many entries are left."""
    logs, reg, n = own.logs, core.reg, core.n
    mine = int64(logs.own[at(me)])
    new = take_slab(logs, reg)
    for s in range(n):
        logs.newest[at(new * n + s)] = logs.newest[at(mine * n + s)]
    i = mine * own.size
    target = new * own.size
    older = 0
    last = int64(NOTHING)
    while logs.keys[at(i)] != END:
        key = logs.keys[at(i)]
        word = undelivered(core, me, key, logs.words[at(i)])
        i += 1
        if word == np.uint64(0):
            continue
        logs.keys[at(target)] = key
        logs.words[at(target)] = word
        target += 1
        if key >> WORD_BITS != last:
            last = key >> WORD_BITS
            newest = int64(logs.newest[at(new * n + (last >> CLOCK_BITS))])
            older += int64((last & CLOCK_MASK) != newest)
    logs.keys[at(target)] = END
    logs.count[at(new)] = target - new * own.size
    logs.known[at(new)] = logs.known[at(mine)]
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)
    return int64(logs.known[at(new)]) + older
