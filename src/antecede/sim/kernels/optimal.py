"""The kernel of `optimal` [KS98]_ and of `pruned` [JCY98]_.

Both keep the same information after every event and differ only in how a copy carries it, so
one kernel runs both and counts in two ways. For `pruned` it notes how many destinations a send
(just replaced) or a delivery (already delivered or replaced) removed.

How the log is kept
-------------------
A log is a *slab*: an int32 vector with the newest clock known of every sender, and the entries
that still name a destination, as elements (sender, clock, word of the set, 64 destinations),
sorted by one packed integer. An entry without destinations is worth its clock alone: it is the
newest of its sender and stands in the vector, or [KS98]_ PURGE_NULL_ENTRIES has removed it. So

* an element found on one side of a merge only survives iff its clock exceeds the newest clock
  the other side knows of that sender (both loops of RCV(4) in one comparison);
* sets may be of any width: an entry takes as many elements as its set has non-empty words.

A slab is never changed once written. After a send the sender's new log is what all copies
carry, up to the constraints on the one destination, so copies share it by a reference count.
Those constraints (at most one per sender and destination, [KS98]_ lemma 1) are put into a
linked list per copy, and taken off as they are found satisfied.

References
----------
.. [KS98] A. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing 11, 1998.
.. [JCY98] G. Jang, Y. Cho and S. Yoon. "An efficient causal order algorithm" (papers/000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.bits import lowest, ones
from antecede.sim.kernels.common import (
    DONE,
    EVENT,
    FREE,
    GROW,
    HEAP,
    LIMIT,
    NODE,
    NODES,
    NOTHING,
    ORDER,
    PAUSE,
    READY,
    WIDEST,
    Floats,
    Heap,
    Holding,
    Int,
    Ints,
    Plan,
    Small,
    Trace,
    Words,
    arrive,
    at,
    entry,
    helper,
    hold,
    int64,
    make_ready,
    next_event,
    post_all,
    record,
    set_off,
    take_ready,
)

# An element's key: sender, clock, word. The largest key ends a slab.
WORD_BITS, CLOCK_BITS = 10, 37
SENDER_SHIFT = WORD_BITS + CLOCK_BITS
CLOCK_MASK = (1 << CLOCK_BITS) - 1
WORD_MASK = (1 << WORD_BITS) - 1
END = np.iinfo(np.int64).max


class Logs(NamedTuple):
    """All slabs, and who owns which."""

    keys: Ints  # slab x capacity
    words: Words  # slab x capacity
    newest: Small  # slab x n
    count: Small  # per slab: elements
    known: Small  # per slab: senders with a newest clock
    refs: Small  # per slab: owners
    free: Small  # a stack of slabs without owner; FREE counts them
    own: Small  # per process: its log
    clock: Small  # per process: messages sent
    slab: Small  # per message: the log its copies carry


class Constraints(NamedTuple):
    """The linked lists of what each copy waits for."""

    sender: Small
    clock: Small
    following: Small
    first: Small  # per copy


class Scratch(NamedTuple):
    """Reused at every send."""

    mask: Words  # destinations of the message
    slot: Small  # per destination: its copy


@helper
def key_of(sender: Int, clock: Int, word: Int) -> Int:
    """Pack an element's key."""
    return (int64(sender) << SENDER_SHIFT) | (int64(clock) << WORD_BITS) | int64(word)


@helper
def release(logs: Logs, reg: Ints, slab: Int) -> None:
    """Drop one owner of a slab, and the slab with its last one."""
    logs.refs[at(slab)] -= 1
    if logs.refs[at(slab)] == 0:
        logs.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def constrain(cons: Constraints, reg: Ints, copy: Int, sender: Int, clock: Int) -> None:
    """Let a copy wait for a message."""
    node = reg[NODE]
    reg[NODE] = int64(cons.following[at(node)])
    reg[NODES] -= 1
    cons.sender[at(node)] = sender
    cons.clock[at(node)] = clock
    cons.following[at(node)] = cons.first[at(copy)]
    cons.first[at(copy)] = node


@helper
def advance(cons: Constraints, holding: Holding, reg: Ints, n: Int, dest: Int, copy: Int) -> Int:
    """Take off what is satisfied; hold the copy for the first that is not. RCV(1)."""
    node = int64(cons.first[at(copy)])
    while node >= 0:
        pair = dest * n + int64(cons.sender[at(node)])
        clock = cons.clock[at(node)]
        if clock > holding.reached[at(pair)]:
            cons.first[at(copy)] = node
            hold(holding, pair, copy, clock)
            return False
        following = int64(cons.following[at(node)])
        cons.following[at(node)] = reg[NODE]
        reg[NODE] = node
        reg[NODES] += 1
        node = following
    cons.first[at(copy)] = NOTHING
    return True


@helper
def wake(
    cons: Constraints, holding: Holding, reg: Ints, n: Int, dest: Int, sender: Int, clock: Int
) -> None:
    """Look again at the copies that waited for a message of `sender`."""
    pair = dest * n + sender
    copy = int64(holding.heads[at(pair)])
    holding.heads[at(pair)] = NOTHING
    while copy >= 0:
        following = int64(holding.link[at(copy)])
        if holding.need[at(copy)] > clock:
            holding.link[at(copy)] = holding.heads[at(pair)]
            holding.heads[at(pair)] = copy
        elif advance(cons, holding, reg, n, dest, copy):
            make_ready(holding, reg, copy)
        copy = following


@helper
def send(
    plan: Plan, logs: Logs, cons: Constraints, scratch: Scratch, trace: Trace, reg: Ints,
    n: Int, size: Int, pruned: Int, message: Int,
) -> None:  # fmt: skip
    """SND: one pass over the log writes the new one and the constraints of every copy."""
    me = int64(plan.sender[at(message)])
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    words = len(scratch.mask)
    for w in range(words):
        scratch.mask[at(w)] = np.uint64(0)
    for copy in range(start, stop):
        dest = int64(plan.dests[at(copy)])
        scratch.mask[at(dest >> 6)] |= np.uint64(1) << np.uint64(dest & 63)
        scratch.slot[at(dest)] = copy
        cons.first[at(copy)] = NOTHING
    clock = int64(logs.clock[at(me)]) + 1
    logs.clock[at(me)] = clock
    trace.number[at(message)] = clock
    old = int64(logs.own[at(me)])
    reg[FREE] -= 1
    new = int64(logs.free[at(reg[FREE])])
    for s in range(n):
        logs.newest[at(new * n + s)] = logs.newest[at(old * n + s)]
    source = old * size
    target = new * size
    own_key = key_of(me, clock, 0)
    inserted = False
    alive = 0  # entries with destinations left
    alive_newest = 0  # those of them that are the newest of their sender
    own_newest = 0
    left = 0  # destinations left
    replaced = 0
    i = source
    while True:
        key = logs.keys[at(i)]
        if not inserted and key > own_key:
            for w in range(words):  # SND(4)
                if scratch.mask[at(w)] != np.uint64(0):
                    logs.keys[at(target)] = own_key + w
                    logs.words[at(target)] = scratch.mask[at(w)]
                    target += 1
            inserted = True
        if key == END:
            break
        # One entry: the elements of one sender and clock.
        group = key >> WORD_BITS
        begin = i
        before = target
        found = np.uint64(0)
        while key >> WORD_BITS == group:
            word = logs.words[at(i)]
            mask = scratch.mask[at(key & WORD_MASK)]
            rest = word & ~mask  # SND(3), S2
            found |= word & mask
            if rest != np.uint64(0):
                logs.keys[at(target)] = key
                logs.words[at(target)] = rest
                target += 1
                left += ones(rest)
            i += 1
            key = logs.keys[at(i)]
        sender = group >> CLOCK_BITS
        when = group & CLOCK_MASK
        is_newest = when == int64(logs.newest[at(old * n + sender)])
        if target > before:
            alive += 1
            if is_newest:
                alive_newest += 1
                if sender == me:
                    own_newest = 1
        if found != np.uint64(0):
            # SND(2): the copy to d keeps d. An entry that is otherwise empty goes along with d
            # alone, unless it is counted as the newest anyway. `pruned` writes a DC tuple.
            extra = pruned or (target == before and not is_newest)
            for e in range(begin, i):
                k = logs.keys[at(e)] & WORD_MASK
                both = logs.words[at(e)] & scratch.mask[at(k)]
                while both != np.uint64(0):
                    dest = (k << 6) + lowest(both)
                    both &= both - np.uint64(1)
                    copy = int64(scratch.slot[at(dest)])
                    constrain(cons, reg, copy, sender, when)
                    trace.destinations[at(copy)] += 1
                    replaced += 1
                    if extra:
                        trace.entries[at(copy)] += 1
    logs.keys[at(target)] = END
    logs.count[at(new)] = target - new * size
    known = int64(logs.known[at(old)])
    base = alive + known - alive_newest
    for copy in range(start, stop):
        trace.entries[at(copy)] += base
        if pruned:
            trace.destinations[at(copy)] = left
        else:
            trace.destinations[at(copy)] += left
    if logs.newest[at(new * n + me)] == 0:
        known += 1
    logs.newest[at(new * n + me)] = clock
    logs.known[at(new)] = known
    logs.refs[at(new)] = 1 + stop - start
    logs.slab[at(message)] = new
    logs.own[at(me)] = new
    release(logs, reg, old)
    if pruned:  # S5 comes after S3: the sender's last entry, if empty, stays until the next step
        trace.noted[at(reg[ORDER])] = replaced
        record(trace, reg, message, base + 1)
    else:
        record(trace, reg, message, alive + known - alive_newest + own_newest)


@helper
def merge(
    logs: Logs, trace: Trace, reg: Ints, n: Int, size: Int, pruned: Int, me: Int, other: Int,
    own_key: Int,
) -> Int:  # fmt: skip
    """RCV(3) to RCV(5): write the merged log, return how many entries it has."""
    mine = int64(logs.own[at(me)])
    reg[FREE] -= 1
    new = int64(logs.free[at(reg[FREE])])
    known = 0
    a0 = mine * n
    b0 = other * n
    c0 = new * n
    if logs.known[at(mine)] == n:
        known = n
        for s in range(n):
            logs.newest[at(c0 + s)] = max(logs.newest[at(a0 + s)], logs.newest[at(b0 + s)])
    else:
        for s in range(n):
            v = max(logs.newest[at(a0 + s)], logs.newest[at(b0 + s)])
            logs.newest[at(c0 + s)] = v
            known += int64(v > 0)
    me_key = own_key + (me >> 6)
    me_bit = np.uint64(1) << np.uint64(me & 63)
    a = mine * size
    b = other * size
    target = new * size
    entries = known
    already = 0  # destinations papers/000 calls already delivered or already replaced
    last = int64(NOTHING)
    ka = logs.keys[at(a)]
    kb = logs.keys[at(b)]
    while True:
        if ka == kb:
            if ka == END:
                break
            word = logs.words[at(a)] & logs.words[at(b)]  # RCV(4), second loop
            key = ka
            if pruned:  # R6
                already += ones(logs.words[at(a)] ^ logs.words[at(b)])
                already -= int64(key == me_key)
            a += 1
            b += 1
            ka = logs.keys[at(a)]
            kb = logs.keys[at(b)]
            if word == np.uint64(0):
                continue
        elif ka < kb:
            key = ka
            word = logs.words[at(a)]
            a += 1
            ka = logs.keys[at(a)]
            if (key >> WORD_BITS) & CLOCK_MASK <= logs.newest[at(b0 + (key >> SENDER_SHIFT))]:
                if pruned:  # R5
                    already += ones(word)
                continue  # RCV(4), first loop: gone in the causal past of the message
        else:
            key = kb
            word = logs.words[at(b)]
            b += 1
            kb = logs.keys[at(b)]
            if (key >> WORD_BITS) & CLOCK_MASK <= logs.newest[at(a0 + (key >> SENDER_SHIFT))]:
                if pruned:
                    already += ones(word) - int64(key == me_key)
                continue
            if key == me_key:
                word &= ~me_bit  # RCV(3): only the message's own entry can name the receiver
                if word == np.uint64(0):
                    continue
        logs.keys[at(target)] = key
        logs.words[at(target)] = word
        target += 1
        if key >> WORD_BITS != last:
            last = key >> WORD_BITS
            # The newest of a sender is among `known` already.
            entries += int64(
                (last & CLOCK_MASK) != int64(logs.newest[at(c0 + (last >> CLOCK_BITS))])
            )
    logs.keys[at(target)] = END
    logs.count[at(new)] = target - new * size
    logs.known[at(new)] = known
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)
    if pruned:
        trace.noted[at(reg[ORDER])] = already
    return entries


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, logs: Logs, cons: Constraints,
    scratch: Scratch, reg: Ints, now: Floats, n: Int, size: Int, pruned: Int,
) -> Int:  # fmt: skip
    """Run until the end, or until an array must grow."""
    messages = len(plan.time)
    words = len(scratch.mask)
    while True:
        if reg[HEAP] + reg[WIDEST] > len(heap.when) or reg[FREE] < 2:
            return GROW
        if reg[ORDER] >= reg[LIMIT]:
            return PAUSE
        if reg[READY] >= 0:
            copy = reg[READY]
            dest = int64(plan.dests[at(copy)])
            message = int64(plan.message[at(copy)])
            other = int64(logs.slab[at(message)])
            need = logs.count[at(logs.own[at(dest)])] + logs.count[at(other)] + 1
            if need > size:
                return GROW
            take_ready(holding, reg)
            sender = int64(plan.sender[at(message)])
            clock = int64(trace.number[at(message)])
            holding.reached[at(dest * n + sender)] = clock  # RCV(2)
            trace.delivered[at(copy)] = now[0]
            kept = merge(logs, trace, reg, n, size, pruned, dest, other, key_of(sender, clock, 0))
            release(logs, reg, other)
            record(trace, reg, messages + copy, kept)
            wake(cons, holding, reg, n, dest, sender, clock)
            set_off(plan, heap, reg, now[0], copy)
            continue
        if reg[EVENT] < 0:
            reg[EVENT] = next_event(plan, heap, reg, now)
            if reg[EVENT] < 0:
                return DONE
        event = reg[EVENT]
        if event < messages:
            me = int64(plan.sender[at(event)])
            many = plan.offsets[at(event + 1)] - plan.offsets[at(event)]
            have = int64(logs.count[at(logs.own[at(me)])])
            if have + words + 1 > size or reg[NODES] < min(many * n, have * 64):
                return GROW
            trace.sent[at(event)] = now[0]
            send(plan, logs, cons, scratch, trace, reg, n, size, pruned, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
        else:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(cons, holding, reg, n, int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        reg[EVENT] = NOTHING
