"""Concurrency within a service: its spans in lanes, each of which does one thing at a time.

Spans of a service that overlap are concurrent, unless one is an ancestor of the other or linked to
it. A span lasts until the last span below it ends. Spans that do not overlap are ordered by their
times, unless spans above them are concurrent: then they are parts of concurrent tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

#: A moment of a span: the span's number, and whether it is the end.
Moment = tuple[int, bool]
#: The last moment in each lane, by the lane's index.
Front = dict[int, int]

#: Deeper spans, which do not occur in real services, count as those at this depth.
_DEPTH_MAX = 200


@dataclass
class Task:
    """A span of a service, or its end, with the tasks below it."""

    number: int
    start: int
    end: int
    is_end: bool = False
    below: list[Task] = field(default_factory=list)
    lasts: int = 0
    """When the last of these ends."""
    counts: bool = False
    """Whether the order of any of its parts matters."""


@dataclass
class _Track:
    """Lanes for tasks that follow one another."""

    lanes: list[int]
    free: int = 0


class Lanes:
    """The moments of one service in lanes, and the order between lanes."""

    def __init__(
        self,
        times: Mapping[int, tuple[int, int]],
        above: Mapping[int, int | None],
        moments: Collection[Moment],
        quiet: Collection[Moment],
    ) -> None:
        """Arrange the moments of spans.

        ``times`` has the start and end of each span of the service, ``above`` its parent in the
        service. The order of ``quiet`` moments does not matter.
        """
        self.lanes: list[list[Moment]] = []
        self.after: list[tuple[Moment, Moment]] = []
        """Pairs (earlier, later) of moments in different lanes."""
        self._moments = moments
        self._quiet = quiet
        self._known: list[Front] = []
        self._visit(_tree(times, above, moments, quiet), [self._new_lane()], {})

    def _new_lane(self) -> int:
        self.lanes.append([])
        self._known.append({})
        return len(self.lanes) - 1

    def _visit(self, tasks: list[Task], lanes: list[int], before: Front) -> Front:
        """Arrange tasks that are side by side; return the moments after ``before`` and all of them.

        ``lanes`` are those that they may use, to which new ones are added.
        """
        tracks = [_Track([lane]) for lane in lanes]
        running: list[tuple[int, int, Front]] = []
        for place, task in enumerate(sorted(tasks, key=lambda t: (t.start, t.lasts, t.is_end))):
            while running and running[0][0] <= task.start:
                _add(before, heappop(running)[2])
            if not task.counts:
                self._visit_one(task, lanes[:1], {})
                continue
            track = next((one for one in tracks if one.free <= task.start), None)
            if track is None:
                track = _Track([self._new_lane()])
                tracks.append(track)
            done = self._visit_one(task, track.lanes, before.copy())
            track.free = task.lasts
            heappush(running, (task.lasts, place, done))
        lanes[:] = [lane for track in tracks for lane in track.lanes]
        for _, _, done in running:
            _add(before, done)
        return before

    def _visit_one(self, task: Task, lanes: list[int], before: Front) -> Front:
        moment = task.number, task.is_end
        if moment in self._moments:
            self._put(moment, lanes[0], before)
        return self._visit(task.below, lanes, before) if task.below else before

    def _put(self, moment: Moment, lane: int, before: Front) -> None:
        known = self._known[lane]
        if moment not in self._quiet:
            for other, place in before.items():
                if other != lane and place > known.get(other, -1):
                    known[other] = place
                    self.after.append((self.lanes[other][place], moment))
            before[lane] = len(self.lanes[lane])
        self.lanes[lane].append(moment)


def _add(front: Front, other: Front) -> None:
    for lane, place in other.items():
        front[lane] = max(place, front.get(lane, -1))


def _tree(
    times: Mapping[int, tuple[int, int]],
    above: Mapping[int, int | None],
    moments: Collection[Moment],
    quiet: Collection[Moment],
) -> list[Task]:
    """Return the top-level spans, with the spans below them."""
    tasks = {n: Task(n, start, end, lasts=end) for n, (start, end) in times.items()}
    roots: list[Task] = []
    depths: dict[int, int] = {}
    parents: dict[int, int | None] = {}
    for number in tasks:
        path: dict[int, None] = {}
        at: int | None = number
        while at is not None and at not in depths and at not in path:
            path[at] = None
            at = above[at]
        for one in reversed(path):  # If a span is its own ancestor, by mistake, cut there.
            parent = above[one] if above[one] in depths else None
            while parent is not None and depths[parent] >= _DEPTH_MAX:
                parent = parents[parent]
            parents[one] = parent
            depths[one] = 0 if parent is None else depths[parent] + 1
    for number in sorted(tasks, key=lambda n: -depths[n]):
        task, parent = tasks[number], parents[number]
        if (number, True) in moments:
            end = Task(number, task.end, task.end, is_end=True, lasts=task.end)
            end.counts = (number, True) not in quiet
            task.below.append(end)
        task.counts |= (number, False) in moments and (number, False) not in quiet
        for inner in task.below:
            task.lasts = max(task.lasts, inner.lasts if inner.counts else 0)
            task.counts |= inner.counts
        (roots if parent is None else tasks[parent].below).append(task)
    return roots
