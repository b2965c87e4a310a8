"""How a view ends: everything sent in it arrives, or is known to be lost, everywhere.

After a change is decided nobody sends in the old view any more, except for packets that the
protocol sends because something arrived. The members that stay report to each other how many
packets they have sent to and got from each other. If all these figures agree, nothing is in flight,
and nothing will be: whoever could still send would have to get a packet first. If processes were
removed, this happens in stages:

0. Each member accepts nothing more from the removed, and the others pass on copies that it lacks.
1. It has everything that anyone has from the removed. Once all members do, and the figures agree,
2. it declares lost what nobody has, which may release messages. Once all members have done so, and
   the figures agree again,
3. the view is over: everything in it is delivered, and deliveries of the next view may begin.

A member at the last stage has seen everybody's figures and forgotten the view. So nothing more is
asked of it; but the figures of the others must still agree, since one member alone may lie. If
further processes are removed meanwhile, the stages begin anew with fewer members that stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from antecede.net.fields import Fields, put_bytes, put_number, put_numbers, put_text

PASSING, COUNTING, ENDING, OVER = range(4)
"""The stages."""
REPORT, ANSWER, UNSTABLE = b"FNU"
"""The notes of a flush; and the note, before it, that names messages of ours that someone lacks."""
UNSTABLE_MAX: Final = 1 << 14
"""How many messages that someone lacks one note may name."""
ANSWER_BYTES: Final = 1 << 18
COPIES_MAX: Final = 1 << 12
"""How many copies one answer may have, and how many bytes."""
COUNTS_MAX: Final = 1 << 12
ABOVE_MAX: Final = 1 << 10
"""How many processes a report may name, and how many packets of each after a gap."""

Has = dict[str, tuple[int, list[int]]]
"""By removed process, the packets that have arrived: all up to a number, and single ones."""


@dataclass(slots=True)
class Report:
    """What a member says about a view that ends: its stage, and its packets by peer.

    ``upto`` is the newest view that it knows: only reports with the same one are compared.
    """

    view: int
    upto: int
    stage: int
    sent: dict[str, int] = field(default_factory=dict)
    got: dict[str, int] = field(default_factory=dict)
    has: Has = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the note as bytes."""
        out = bytearray((REPORT,))
        for value in (self.view, self.upto, self.stage):
            put_number(out, value)
        for counts in (self.sent, self.got):
            put_number(out, len(counts))
            for name, count in counts.items():
                put_text(out, name)
                put_number(out, count)
        put_number(out, len(self.has))
        for name, (prefix, above) in self.has.items():
            put_text(out, name)
            put_number(out, prefix)
            put_numbers(out, above)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Report:
        """Return a note from its bytes; raise PeerError for anything else."""
        fields = Fields(data, 1)
        made = cls(fields.number(), fields.number(), fields.number())
        made.sent, made.got = (
            {fields.text(): fields.number() for _ in range(fields.count("counts", COUNTS_MAX))}
            for _ in range(2)
        )
        for _ in range(fields.count("processes", COUNTS_MAX)):
            name = fields.text()
            made.has[name] = fields.number(), fields.numbers(ABOVE_MAX)
        if fields.left or made.stage > OVER:
            fields.fail("are not a report")
        return made


@dataclass(slots=True)
class Answer:
    """Copies that a member lacked; ``is_whole`` means that there are no more."""

    view: int
    upto: int
    is_whole: bool
    copies: list[tuple[str, int, bytes]]
    """For each, the process that sent it, the number of the packet, and the parcel."""

    def encoded(self) -> bytes:
        """Return the note as bytes."""
        out = bytearray((ANSWER,))
        put_number(out, self.view)
        put_number(out, self.upto)
        out.append(self.is_whole)
        put_number(out, len(self.copies))
        for name, n, parcel in self.copies:
            put_text(out, name)
            put_number(out, n)
            put_bytes(out, parcel)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Answer:
        """Return a note from its bytes; raise PeerError for anything else."""
        fields = Fields(data, 1)
        made = cls(fields.number(), fields.number(), bool(fields.byte()), [])
        for _ in range(fields.count("copies", COPIES_MAX)):
            made.copies.append((fields.text(), fields.number(), fields.bytes()))
        if fields.left:
            fields.fail("go on behind an answer")
        return made


class Flush:
    """How far a view has come to its end, as seen by a member that stays."""

    def __init__(
        self, view: int, upto: int, stayers: Collection[str], removed: Collection[str]
    ) -> None:
        self.view = view
        self.upto = upto
        self.stayers = tuple(stayers)
        """The other members that stay."""
        self.removed = tuple(removed)
        self.stage = PASSING if removed else ENDING
        self.reports: dict[str, Report] = {}
        """The latest report of each member."""
        self.answered: set[str] = set()
        """Members that have passed on everything that we lacked."""

    def takes(self, name: str, report: Report) -> bool:
        """Return whether a report says something new."""
        if name not in self.stayers or report.view != self.view:
            return False
        if report.stage == OVER:
            return True
        known = self.reports.get(name)
        return report.upto == self.upto and report != known

    def missing(self) -> list[str]:
        """Return the members that stay and, as far as we know, hold up the next stage."""
        stages = {name: report.stage for name, report in self.reports.items()}
        return [
            name
            for name in self.stayers
            if stages.get(name, -1) < self.stage
            or (self.stage == PASSING and stages[name] < OVER and name not in self.answered)
        ]

    def next_stage(self, process: str, own: Report) -> int:
        """Return the stage that we may enter; ``own`` is our present report."""
        if self.stage == OVER:
            return OVER
        under_way = {name: one for name, one in self.reports.items() if one.stage < OVER}
        if self.stage == COUNTING and any(one.stage == ENDING for one in under_way.values()):
            return ENDING  # that member has seen the figures of all
        is_done = not self.missing()
        if is_done and self.stage != PASSING:
            is_done = agree({**under_way, process: own})
        return self.stage + is_done

    def is_level(self, process: str, own: Report) -> bool:
        """Return whether all packets have arrived that others reported as sent to us."""
        return all(
            own.got.get(name, 0) >= report.sent.get(process, 0)
            for name, report in self.reports.items()
        )


def agree(reports: Mapping[str, Report]) -> bool:
    """Return whether everyone has got everything that the others sent."""
    return all(
        report.sent.get(other, 0) == reports[other].got.get(name, 0)
        for name, report in reports.items()
        for other in reports
        if other != name
    )
