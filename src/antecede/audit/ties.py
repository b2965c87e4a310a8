"""Whether a violation is certain although events of one process have the same seq.

When such events happened is unknown: a process that began anew numbers its events from 1 again. So
a violation is certain if it shows without them: they follow nothing, nothing follows them, and
neither a delivery nor a send among them is judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence


def tied_events(
    who: Sequence[int], seq: Sequence[int], what: Sequence[object], matters: Sequence[bool]
) -> set[int]:
    """Return the events that have one seq with different ones of their process.

    Events are sorted by process and seq; ``what`` they are, and whether they matter.
    """
    tied: set[int] = set()
    first = 0
    for i in range(1, len(who) + 1):
        if i < len(who) and seq[i] == seq[first] and who[i] == who[first]:
            continue
        if i - first > 1 and len({what[k] for k in range(first, i) if matters[k]}) > 1:
            tied.update(range(first, i))
        first = i
    return tied


def is_certain(
    start: Sequence[int],
    link: Sequence[int],
    edges: Mapping[int, Sequence[int]],
    left_out: Collection[int],
    absent: Collection[tuple[int, int]] = (),
) -> bool:
    """Return whether some delivery is late without the events that are left out.

    The events of process p are ``start[p]`` to ``start[p + 1]``; ``link`` has the send of each
    delivery (below 0: none), and ``edges`` what events follow besides. ``absent`` are (send,
    process) where a message never came: it is late there if an effect came.
    """
    n = len(start) - 1
    who = {i: p for p in range(n) for i in range(start[p], start[p + 1])}
    past, seen = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
    done: dict[int, list[int]] = {}
    at, waiting = list(start[:n]), defaultdict[int, list[int]](list)
    ready = list(range(n))
    while ready:
        p = ready.pop()
        for i in range(at[p], start[p + 1]):
            if i not in left_out:
                send = -1 if link[i] in left_out else link[i]
                follows = [source for source in edges.get(i, ()) if source not in left_out]
                follows += [send] if send >= 0 else []
                if blocked := [source for source in follows if source not in done]:
                    waiting[blocked[0]].append(p)
                    break
                for source in follows:
                    past[p] = list(map(max, past[p], done[source]))
                if send >= 0:
                    if seen[p][who[send]] > send - start[who[send]]:
                        return True
                    seen[p] = list(map(max, seen[p], done[send]))
                past[p][p] = i - start[p] + 1
                done[i] = past[p].copy()
                ready += waiting.pop(i, ())
            at[p] = i + 1
    return any(
        seen[p][who[send]] > send - start[who[send]] for send, p in absent if send not in left_out
    )
