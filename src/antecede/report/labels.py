"""Place the labels of a diagram's arrows so that none covers another or an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

#: The greatest width of a letter, how far a label reaches above and below its baseline, and the
#: room left around it.
LETTER, ABOVE, BELOW, ROOM = 7.0, 11.0, 3.0, 2.0
#: The most letters of a label.
LABEL_MAX = 24
#: Where along its arrow a label may be, and how far its baseline is from the arrow.
_SHARES = (0.42, 0.55, 0.3, 0.68, 0.2, 0.8, 0.1, 0.9)
_OFFSETS = (-5.0, 14.0, -19.0, 28.0)
#: The best share for a late message: near its end, away from what overtook it.
LATE_SHARE = 0.8

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that is covered."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Return whether two rectangles share a point."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_crossed_by(self, start: Point, end: Point) -> bool:
        """Return whether a straight line goes through the rectangle."""
        low, high = 0.0, 1.0
        sides = (
            (start[0], end[0], self.left, self.right),
            (start[1], end[1], self.top, self.bottom),
        )
        for a, b, least, most in sides:
            if a == b:
                if not least < a < most:
                    return False
                continue
            first, last = sorted(((least - a) / (b - a), (most - a) / (b - a)))
            low, high = max(low, first), min(high, last)
        return low < high


@dataclass(frozen=True, slots=True)
class Wanted:
    """A label for an arrow: its text, and the arrow's ends."""

    text: str
    start: Point
    end: Point
    is_late: bool = False
    bend: Point | None = None
    """The control point of an arrow that is a curve."""


def on_curve(start: Point, bend: Point | None, end: Point, share: float) -> Point:
    """Return the point at a share of a line, or of a quadratic curve with a control point."""
    (x1, y1), (x2, y2) = start, end
    x, y = bend or ((x1 + x2) / 2, (y1 + y2) / 2)
    a, b, c = (1 - share) ** 2, 2 * share * (1 - share), share**2
    return a * x1 + b * x + c * x2, a * y1 + b * y + c * y2


def box_at(text: str, place: Point) -> Box:
    """Return the rectangle that a label covers if its baseline is centred at a place."""
    half = LETTER * len(text) / 2
    x, y = place
    return Box(x - half, y - ABOVE, x + half, y + BELOW)


def place_labels(
    wanted: Sequence[Wanted],
    covered: Iterable[Box],
    view: Box,
    lines: Sequence[tuple[Point, Point]] = (),
) -> list[Point | None]:
    """Return the place of each label, or None where there is no room.

    Earlier labels choose first. All stay inside ``view``, avoid what is covered, and cross as few
    of the ``lines`` as possible.
    """
    taken = list(covered)
    places: list[Point | None] = []
    for label in wanted:
        place = _place(label, taken, view, lines)
        places.append(place)
        if place is not None:
            taken.append(_roomy(box_at(label.text, place)))
    return places


def _place(
    label: Wanted, taken: Sequence[Box], view: Box, lines: Sequence[tuple[Point, Point]]
) -> Point | None:
    best: tuple[int, Point] | None = None
    for place in _candidates(label, view):
        box = box_at(label.text, place)
        inside = (
            box.left >= view.left
            and box.right <= view.right
            and box.top >= view.top
            and box.bottom <= view.bottom
        )
        if inside and not any(box.meets(other) for other in taken):
            crossed = sum(box.is_crossed_by(*line) for line in lines)
            if best is None or crossed < best[0]:
                best = crossed, place
    return None if best is None else best[1]


def _candidates(label: Wanted, view: Box) -> Iterator[Point]:
    """Yield the possible places of a label, nearest to its arrow first."""
    half = LETTER * len(label.text) / 2
    late = sorted(_SHARES, key=lambda share: abs(share - LATE_SHARE))
    for offset in _OFFSETS:
        for share in late if label.is_late else _SHARES:
            middle, y = on_curve(label.start, label.bend, label.end, share)
            for x in (middle, middle + half + ROOM, middle - half - ROOM):
                yield min(max(x, view.left + half), view.right - half), y + offset


def _roomy(box: Box) -> Box:
    return Box(box.left - ROOM, box.top - ROOM, box.right + ROOM, box.bottom + ROOM)
