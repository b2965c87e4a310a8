"""Whether a violation is certain although events of one process have the same seq.

The order of such events is unknown. A violation is certain if it shows without it: each of these
events follows what came before all of them, and nothing of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence


class Ties:
    """The events of a log in groups of the same seq; other events are alone in their group."""

    def __init__(
        self, who: Sequence[int], seq: Sequence[int], what: Sequence[object], matters: list[bool]
    ) -> None:
        """Group events, sorted by process and seq; ``what`` they are, and whether that matters."""
        self.groups: list[list[list[int]]] = [[] for _ in range(who[-1] + 1 if who else 0)]
        self.tied: set[int] = set()
        first = 0
        for i in range(1, len(who) + 1):
            if i < len(who) and (who[i], seq[i]) == (who[first], seq[first]):
                continue
            same = range(first, i)
            if len({what[k] for k in same if matters[k]}) > 1:
                self.tied.update(same)
                self.groups[who[first]].append(list(same))
            else:
                self.groups[who[first]] += [[k] for k in same]
            first = i

    def is_certain(
        self,
        link: Sequence[int],
        edges: Mapping[int, Sequence[int]],
        unsure: Collection[int],
        absent: Collection[tuple[int, int]] = (),
    ) -> bool:
        """Return whether some delivery is late, whatever the order inside groups.

        ``link`` has the send of each delivery (below 0: none), ``edges`` what events follow
        besides. The deliveries in ``unsure`` may belong to other sends. ``absent`` are (send,
        process) where a message never came: it is late there if an effect came.
        """
        rank = {i: r for line in self.groups for r, group in enumerate(line, 1) for i in group}
        who = {i: p for p, line in enumerate(self.groups) for group in line for i in group}
        n = len(self.groups)
        past, seen = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
        done: dict[int, list[int]] = {}
        at, waiting = [0] * n, defaultdict[int, set[int]](set)
        ready = list(range(n))
        while ready:
            p = ready.pop()
            while at[p] < len(self.groups[p]):
                group = self.groups[p][at[p]]
                for i in group:
                    send = -1 if i in unsure else link[i]
                    follows = [*edges.get(i, ()), *([send] if send >= 0 else [])]
                    missing = next((s for s in follows if s not in done), None)
                    if i in done or missing is not None:
                        if i not in done and missing is not None:
                            waiting[missing].add(p)
                        continue
                    if send >= 0 and seen[p][who[send]] >= rank[send]:
                        return True
                    mine = past[p]
                    for source in follows:
                        mine = list(map(max, mine, done[source]))
                    if len(group) == 1:
                        mine = mine.copy()
                        mine[p] = rank[i]
                    done[i] = mine
                    ready += waiting.pop(i, ())
                if not all(i in done for i in group):
                    break
                for i in group:
                    past[p] = list(map(max, past[p], done[i]))
                    if link[i] >= 0 and i not in unsure:
                        seen[p] = list(map(max, seen[p], done[link[i]]))
                past[p][p] = rank[group[0]]
                at[p] += 1
        return any(seen[p][who[send]] >= rank[send] for send, p in absent)
