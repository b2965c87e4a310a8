"""The steps of `optimal` [KS98] and `pruned` [JPCY97] on the logs of `logs`.

For `pruned` they note how many destinations a send (*just replaced*) or a delivery (*already
delivered* or *already replaced*) removed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.bits import lowest, ones
from antecede.sim.kernels.common import (
    FREE,
    NODES,
    ORDER,
    Copy,
    Core,
    copy_at,
    hold,
    make_ready,
    post_all,
)
from antecede.sim.kernels.compiling import Int, Ints, at, helper, int64
from antecede.sim.kernels.differences import count_differences, is_early, take_turn
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
    HARDWARE,
    PRUNED,
    SLABS,
    Constraints,
    LogKernel,
    Logs,
    Scratch,
    constrain,
    free_node,
    release,
)
from antecede.sim.kernels.lookahead import drop_delivered, merge_early, merge_newest, take_slab
from antecede.sim.kernels.loop import Steps, wake
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING, Trace


class Tally(NamedTuple):
    """What a send counted while it wrote the new log."""

    target: Int  # where the new log ends
    alive: Int  # entries that still have destinations
    alive_newest: Int  # those of them that are the newest of their sender
    own_newest: Int  # 1 if one of these is the sender's own
    left: Int  # destinations left
    replaced: Int
    entries: Int  # entries with destinations before the send
    entries_newest: Int  # those of them that are the newest of their sender


@helper
def is_ready(core: Core, own: LogKernel, copy: Copy) -> Int:
    """RCV(1): remove satisfied constraints; hold the copy for the first that is not."""
    cons, reg = own.cons, core.reg
    if own.differential and is_early(core, own.diffs, copy):
        return False
    node = int64(cons.first[at(copy.row)])
    while node >= 0:
        pair = copy.dest * core.n + int64(cons.sender[at(node)])
        clock = cons.clock[at(node)]
        if clock > core.holding.reached[at(pair)]:
            cons.first[at(copy.row)] = node
            hold(core.holding, pair, copy.row, clock)
            return False
        node = free_node(cons, reg, node)
    cons.first[at(copy.row)] = NOTHING
    return True


@helper
def has_room(core: Core, own: LogKernel, event: Int) -> Int:
    """Return whether there are slabs, elements and nodes for an event."""
    plan, logs, reg = core.plan, own.logs, core.reg
    messages = len(plan.time)
    if reg[FREE] < SLABS:
        return False
    if event < messages:
        have = int64(logs.count[at(logs.own[at(plan.sender[at(event)])])])
        many = plan.offsets[at(event + 1)] - plan.offsets[at(event)]
        need = have + len(own.scratch.mask) + 1
        return need <= own.size and reg[NODES] >= min(many * core.n, have * 64)
    row = event - messages
    mine = int64(logs.own[at(plan.dests[at(row)])])
    other = int64(logs.slab[at(plan.message[at(row)])])
    needs = core.n if own.lookahead else 0
    return logs.count[at(mine)] + logs.count[at(other)] + needs + 2 <= own.size


@helper
def mark_destinations(plan: Plan, cons: Constraints, scratch: Scratch, message: Int) -> None:
    """Write a message's destinations as a set, and the copy of each destination."""
    for w in range(len(scratch.mask)):
        scratch.mask[at(w)] = np.uint64(0)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        dest = int64(plan.dests[at(row)])
        scratch.mask[at(dest >> 6)] |= np.uint64(1) << np.uint64(dest & 63)
        scratch.slot[at(dest)] = row
        cons.first[at(row)] = NOTHING


@helper
def constrain_copies(
    own: LogKernel, trace: Trace, reg: Ints, sender: Int, clock: Int, begin: Int, end: Int,
    extra: Int,
) -> Int:  # fmt: skip
    """SND(2): make the copies to an entry's destinations wait for it; return how many there are.

    The entry is the elements from `begin` to `end`; with `extra`, each copy counts one more entry.
    """
    logs, cons, scratch = own.logs, own.cons, own.scratch
    found = 0
    for e in range(begin, end):
        k = logs.keys[at(e)] & WORD_MASK
        both = logs.words[at(e)] & scratch.mask[at(k)]
        while both != np.uint64(0):
            dest = (k << 6) + lowest(both)
            both &= both - np.uint64(1)
            row = int64(scratch.slot[at(dest)])
            constrain(cons, reg, row, sender, clock)
            trace.destinations[at(row)] += 1
            found += 1
            if extra:
                trace.entries[at(row)] += 1
    return found


@helper
def rewrite(
    own: LogKernel, trace: Trace, reg: Ints, n: Int, me: Int, clock: Int, new: Int, part: Int
) -> Tally:
    """SND(2) to SND(4): one pass over the log writes the new one and constrains every copy.

    The sender's own entries with keys from `part` on are not changed.
    """
    logs, scratch, size = own.logs, own.scratch, own.size
    old = int64(logs.own[at(me)])
    target = new * size
    own_key = key_of(me, clock, 0)
    inserted = False
    alive = 0
    alive_newest = 0
    own_newest = 0
    left = 0
    replaced = 0
    entries = 0
    entries_newest = 0
    i = old * size
    while True:
        key = logs.keys[at(i)]
        if not inserted and key > own_key:
            for w in range(len(scratch.mask)):  # SND(4)
                if scratch.mask[at(w)] != np.uint64(0):
                    logs.keys[at(target)] = own_key + w
                    logs.words[at(target)] = scratch.mask[at(w)]
                    target += 1
            inserted = True
        if key == END:
            break
        # One entry: the elements of one sender and clock.
        group = key >> WORD_BITS
        stays = part <= key < own_key
        begin = i
        before = target
        found = np.uint64(0)
        while key >> WORD_BITS == group:
            word = logs.words[at(i)]
            mask = np.uint64(0) if stays else scratch.mask[at(key & WORD_MASK)]
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
        entries += 1
        entries_newest += int64(is_newest)
        if target > before:
            alive += 1
            if is_newest:
                alive_newest += 1
                if sender == me:
                    own_newest = 1
        if found != np.uint64(0):
            # The copy to d keeps d. An entry that is otherwise empty goes along with d alone,
            # unless it is counted as the newest anyway. `pruned` writes a DC tuple.
            extra = own.mode == PRUNED or (target == before and not is_newest)
            replaced += constrain_copies(own, trace, reg, sender, when, begin, i, extra)
    logs.keys[at(target)] = END
    return Tally(target, alive, alive_newest, own_newest, left, replaced, entries, entries_newest)


@helper
def take_over(
    core: Core, own: LogKernel, message: Int, me: Int, clock: Int, old: Int, new: Int,
    tally: Tally,
) -> Int:  # fmt: skip
    """Give the sender and the copies the log that `rewrite` wrote; return its entry count."""
    plan, logs, trace, n = core.plan, own.logs, core.trace, core.n
    logs.count[at(new)] = tally.target - new * own.size
    known = int64(logs.known[at(old)])
    base = tally.alive + known - tally.alive_newest
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for row in range(start, stop):
        if own.mode == HARDWARE:
            trace.entries[at(row)] = tally.entries + known - tally.entries_newest
            trace.destinations[at(row)] = tally.left + tally.replaced
            continue
        trace.entries[at(row)] += base
        if own.mode == PRUNED:
            trace.destinations[at(row)] = tally.left
        else:
            trace.destinations[at(row)] += tally.left
    for s in range(n):
        logs.newest[at(new * n + s)] = logs.newest[at(old * n + s)]
    if logs.newest[at(new * n + me)] == 0:
        known += 1
    logs.newest[at(new * n + me)] = clock
    logs.known[at(new)] = known
    logs.refs[at(new)] = 1 + stop - start
    logs.slab[at(message)] = new
    logs.own[at(me)] = new
    if own.mode == PRUNED:  # S5 follows S3: an empty last own entry stays until the next step
        return base + 1
    return tally.alive + known - tally.alive_newest + tally.own_newest


@helper
def send(core: Core, own: LogKernel, message: Int) -> Int:
    """SND: write the sender's new log, which all copies share."""
    plan, logs, trace, reg, n = core.plan, own.logs, core.trace, core.reg, core.n
    me = int64(plan.sender[at(message)])
    mark_destinations(plan, own.cons, own.scratch, message)
    clock = int64(logs.clock[at(me)]) + 1
    logs.clock[at(me)] = clock
    trace.number[at(message)] = clock
    old = int64(logs.own[at(me)])
    new = take_slab(logs, reg)
    tally = rewrite(own, trace, reg, n, me, clock, new, key_of(me, clock, 0))
    kept = take_over(core, own, message, me, clock, old, new, tally)
    if own.differential:
        count_differences(core, own, message, old)
    release(logs, reg, old)
    post_all(core, message)
    if own.mode == PRUNED:
        trace.noted[at(reg[ORDER])] = tally.replaced
    return kept


@helper
def merge(
    logs: Logs, trace: Trace, reg: Ints, n: Int, size: Int, pruned: Int, me: Int, own_key: Int,
    mine: Int, other: Int, new: Int,
) -> Int:  # fmt: skip
    """RCV(3) to RCV(5): write the merged entries; return how many are not their sender's newest.

    For `pruned`, note the destinations that [JPCY97] calls already delivered or replaced.
    """
    a0 = mine * n
    b0 = other * n
    c0 = new * n
    me_key = own_key + (me >> 6)
    me_bit = np.uint64(1) << np.uint64(me & 63)
    a = mine * size
    b = other * size
    target = new * size
    entries = 0
    already = 0
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
            newest = int64(logs.newest[at(c0 + (last >> CLOCK_BITS))])
            entries += int64((last & CLOCK_MASK) != newest)
    logs.keys[at(target)] = END
    logs.count[at(new)] = target - new * size
    if pruned:
        trace.noted[at(reg[ORDER])] = already
    return entries


@helper
def deliver(core: Core, own: LogKernel, copy: Copy) -> Int:
    """RCV(2) to RCV(5)."""
    logs, trace, reg, n, me = own.logs, core.trace, core.reg, core.n, copy.dest
    clock = int64(trace.number[at(copy.message)])
    core.holding.reached[at(me * n + copy.sender)] = clock  # RCV(2)
    if own.lookahead:
        release(logs, reg, int64(logs.slab[at(copy.message)]))
        return drop_delivered(core, own, me)
    mine = int64(logs.own[at(me)])
    other = int64(logs.slab[at(copy.message)])
    new = take_slab(logs, reg)
    known = merge_newest(logs, n, mine, other, new)
    own_key = key_of(copy.sender, clock, 0)
    entries = merge(
        logs, trace, reg, n, own.size, own.mode == PRUNED, me, own_key, mine, other, new
    )
    logs.known[at(new)] = known
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)
    release(logs, reg, other)
    return known + entries


@helper
def arrive(core: Core, own: LogKernel, copy: Copy) -> None:
    """With lookahead, merge the log that a copy carries; with differences, await its turn."""
    if own.lookahead:
        merge_early(core, own, copy)
    if own.differential:
        take_in(core, own, copy)


@helper
def take_in(core: Core, own: LogKernel, copy: Copy) -> None:
    """Queue a copy for its turn, then take in all copies whose turn has come."""
    diffs, holding, reg = own.diffs, core.holding, core.reg
    pair = copy.dest * core.n + copy.sender
    holding.link[at(copy.row)] = diffs.early[at(pair)]
    diffs.early[at(pair)] = copy.row
    row = take_turn(core, diffs, pair)
    while row >= 0:
        if row != copy.row and is_ready(core, own, copy_at(core.plan, row)):
            make_ready(holding, reg, row)
        row = take_turn(core, diffs, pair)


STEPS = Steps(
    send=send, deliver=deliver, arrive=arrive, is_ready=is_ready, after=wake, has_room=has_room
)
