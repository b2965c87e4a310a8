"""Every completion of a small log, and whether one of them is broken: the truth about doubt.

A completion adds the missing sends and deliveries of the messages that a log mentions; see
``antecede.audit.doubt``. Each id must have been sent at most once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from antecede.events import Event
from tests.support.oracles import Order, Stamped, Truth, judge, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A process that the log does not have.
OUTSIDE = "outside"
Lines = dict[str, list[Event]]


def lines_of(log: list[Event]) -> Lines:
    found: Lines = defaultdict(list)
    for event in sorted(log, key=lambda e: (e.process, e.seq)):
        found[event.process].append(event)
    return dict(found)


def choices(log: list[Event], *, until_end: bool) -> list[list[tuple[Event, str, int] | None]]:
    """Return the places of each event that may be missing: nowhere, or before some event."""
    lines = lines_of(log)
    sent = {e.message: e for e in log if e.kind == "send"}
    got = {(e.process, e.message) for e in log if e.kind == "deliver"}
    found: list[list[tuple[Event, str, int] | None]] = []
    for message in sorted({m for _, m in got if m and m not in sent}):
        new = Event("", 0, "send", message)
        found.append([(new, p, at) for p in lines for at in places(lines[p], until_end=until_end)])
        found[-1] += [(new, OUTSIDE, 0), (new, OUTSIDE, 99)]
    for name, send in sent.items():
        dests = send.dests
        if dests is None:
            delivered = any(m == name for _, m in got)
            dests = () if delivered else tuple(p for p in lines if p != send.process)
        for p in dests:
            if p in lines and (p, name) not in got:
                new = Event(p, 0, "deliver", name)
                ends = places(lines[p], until_end=until_end)
                found.append([None, *((new, p, at) for at in ends)])
    return found


def places(line: list[Event], *, until_end: bool) -> list[int]:
    return [len(line)] if until_end else list(range(len(line) + 1))


def completions(log: list[Event], *, until_end: bool) -> Iterator[list[tuple[Event, bool]]]:
    """Yield every completion: its events in order, and whether the log has each."""
    lines = lines_of(log)
    for chosen in product(*choices(log, until_end=until_end)):
        added: dict[str, list[tuple[int, Event]]] = defaultdict(list)
        for one in chosen:
            if one is not None:
                event, p, at = one
                added[p].append((at, replace(event, process=p)))
        for turned in product(*([False, True] for rows in added.values() if len(rows) > 1)):
            turns = iter(turned)
            found: list[tuple[Event, bool]] = []
            for p in sorted({*lines, *added}):
                rows = added.get(p, [])
                rows = rows[::-1] if len(rows) > 1 and next(turns) else rows
                old = lines.get(p, [])
                line: list[tuple[Event, bool]] = []
                for at in range(len(old) + 1):
                    line += [(e, False) for place, e in rows if min(place, len(old)) == at]
                    line += [(old[at], True)] if at < len(old) else []
                found += [(replace(e, seq=seq), is_old) for seq, (e, is_old) in enumerate(line, 1)]
            yield found


def pasts(order: Order, old: set[tuple[str, int]]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """Return, for each old event, which old events of other processes happened before it."""
    names = [(e.process, e.seq) for e in order.log]
    found: dict[tuple[str, int], set[tuple[str, int]]] = {
        names[i]: set() for i in range(len(names))
    }
    for i, after in enumerate(order.after):
        for j in after:
            if names[i] in old and names[i][0] != names[j][0]:
                found[names[j]].add(names[i])
    return found


def hides(log: list[Event], *, until_end: bool) -> bool:
    """Return whether some completion of a log without violations has one."""
    lines = lines_of(log)
    log = [replace(e, seq=seq) for line in lines.values() for seq, e in enumerate(line, 1)]
    before = pasts(order_of(log), {(e.process, e.seq) for e in log})
    for found in completions(log, until_end=until_end):
        if _is_broken(found, before, until_end=until_end):
            return True
    return False


def _is_broken(
    found: list[tuple[Event, bool]],
    before: dict[tuple[str, int], set[tuple[str, int]]],
    *,
    until_end: bool,
) -> bool:
    old = {(e.process, e.seq) for e, is_old in found if is_old}
    rank: dict[str, list[int]] = defaultdict(list)
    name: dict[tuple[str, int], tuple[str, int]] = {}
    for e, is_old in found:
        if is_old:
            rank[e.process].append(e.seq)
            name[e.process, e.seq] = e.process, len(rank[e.process])
    log = [_counted(e, rank) for e, _ in found]
    order = order_of(log)
    if order.cyclic:
        return False
    for place, past in pasts(order, old).items():
        event = next(e for e in log if (e.process, e.seq) == place)
        if place in old and _states_all(event) and {name[q] for q in past} != before[name[place]]:
            return False
    truth = Truth()
    judge(order, truth)
    return any(
        not until_end or (late[0], seq) in old for late, (_, seq, _) in truth.violations.items()
    )


def _counted(event: Event, rank: dict[str, list[int]]) -> Event:
    """Return an event whose clock counts the events of a completion."""
    clock = getattr(event, "clock", None)
    if clock is None:
        return event
    new = tuple((q, rank[q][r - 1] if 0 < r <= len(rank.get(q, ())) else 0) for q, r in clock)
    assert isinstance(event, Stamped)
    return replace(event, clock=tuple((q, r) for q, r in new if q != event.process))


def _states_all(event: Event) -> bool:
    return getattr(event, "clock", None) is not None
