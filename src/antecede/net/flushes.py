"""The flush before a removal takes effect.

When a member learns that a process is removed, it takes nothing more from that process and sends it
nothing more. It tells the others what it has received from it, and how many packets it has sent
them so far: its *cut*. They pass on copies that it lacks. Packets behind a cut are taken only by
those who know of the removal. So once a member has the packets up to the cuts of all others, and
all that they could pass on, it has everything that it will ever get of what happened before. Only
then does its endpoint let go of the removed process.

Further removals meanwhile join the flush, which begins anew with new cuts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from antecede.net.channels import Channel
from antecede.net.fields import Fields, put_bytes, put_names, put_number, put_numbers, put_text


@dataclass(slots=True)
class Flush:
    """How far a removal has come, as one survivor sees it; processes are named by label."""

    view: int
    removed: dict[str, Channel]
    cuts: dict[str, int]
    """How many packets we had sent to each survivor when we learnt of the removal."""
    reports: dict[str, int] = field(default_factory=dict)
    """The cuts of the survivors, as far as they have told us."""
    answered: set[str] = field(default_factory=set)
    """The survivors that have passed on everything we lacked."""
    finished: set[str] = field(default_factory=set)
    """The survivors for which the removal has taken effect."""
    is_done: bool = False
    """Whether it has taken effect for us."""
    left: set[str] = field(default_factory=set)
    """The processes that our endpoint has let go of already."""

    def missing(self) -> list[str]:
        """Return the survivors that have not told us all yet."""
        return [one for one in self.cuts if one not in self.reports or one not in self.answered]

    def lagging(self) -> list[str]:
        """Return the survivors for which the removal has not taken effect, as far as we know."""
        return [one for one in self.cuts if one not in self.finished]

    def write(self, out: bytearray) -> None:
        """Append the whole flush."""
        put_number(out, self.view)
        out.append(self.is_done)
        put_number(out, len(self.removed))
        for channel in self.removed.values():
            channel.write(out)
        for numbers in (self.cuts, self.reports):
            put_number(out, len(numbers))
            for label, n in numbers.items():
                put_text(out, label)
                put_number(out, n)
        for labels in (self.answered, self.finished, self.left):
            put_names(out, sorted(labels))

    @classmethod
    def read(cls, reader: Fields) -> Flush:
        """Read what :meth:`write` wrote."""
        view, is_done = reader.number(), bool(reader.byte())
        channels = [Channel.read(reader) for _ in range(reader.count("channels"))]
        cuts, reports = (
            {reader.text(): reader.number() for _ in range(reader.count("cuts"))} for _ in range(2)
        )
        answered, finished, left = (set(reader.names()) for _ in range(3))
        removed = {channel.label: channel for channel in channels}
        return cls(view, removed, cuts, reports, answered, finished, is_done, left)


@dataclass(slots=True)
class Report:
    """What a survivor tells another: its cut, and what it has from those who were removed."""

    view: int
    cut: int
    is_done: bool
    has: dict[str, tuple[int, list[int]]]

    def encoded(self, kind: int) -> bytes:
        """Return the note as bytes."""
        out = bytearray((kind,))
        put_number(out, self.view)
        put_number(out, self.cut)
        out.append(self.is_done)
        put_number(out, len(self.has))
        for label, (prefix, above) in self.has.items():
            put_text(out, label)
            put_number(out, prefix)
            put_numbers(out, above)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Report:
        """Return a note from its bytes; raise PeerError for anything else."""
        fields = Fields(data, 1)
        made = cls(fields.number(), fields.number(), bool(fields.byte()), {})
        for _ in range(fields.count("processes")):
            label = fields.text()
            made.has[label] = fields.number(), fields.numbers()
        if fields.left:
            fields.fail("go on behind a report")
        return made


@dataclass(slots=True)
class Answer:
    """Copies that a survivor lacked; ``is_whole`` if there are no more."""

    view: int
    is_whole: bool
    copies: list[tuple[str, int, bytes]]

    def encoded(self, kind: int) -> bytes:
        """Return the note as bytes."""
        out = bytearray((kind,))
        put_number(out, self.view)
        out.append(self.is_whole)
        put_number(out, len(self.copies))
        for label, n, parcel in self.copies:
            put_text(out, label)
            put_number(out, n)
            put_bytes(out, parcel)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Answer:
        """Return a note from its bytes; raise PeerError for anything else."""
        fields = Fields(data, 1)
        made = cls(fields.number(), bool(fields.byte()), [])
        for _ in range(fields.count("copies")):
            made.copies.append((fields.text(), fields.number(), fields.bytes()))
        if fields.left:
            fields.fail("go on behind an answer")
        return made


def has_of(channels: Iterable[Channel]) -> dict[str, tuple[int, list[int]]]:
    """Return what has arrived of each process."""
    return {one.label: (one.prefix, sorted(one.above)) for one in channels}
