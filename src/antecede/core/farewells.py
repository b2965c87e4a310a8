"""When a removed process can be forgotten.

As long as packets under way may name a removed process, an endpoint must know it. So packets carry
*news*: which processes their sender has removed (*left*), and of which of them nothing can turn up
at the sender any more (*done*). That is so once all other members have said on their channels, up
to a packet before which none is missing, that they removed the process too, and once everything
held has been delivered. When all members are known to be done, and have been told, the process is
forgotten: its name, its number, and all that is kept about its messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.core.roster import UNKNOWN, Roster
from antecede.core.stamps import Translation

if TYPE_CHECKING:
    from antecede.core.messages import Packet

News = tuple[int, int]
"""The processes that left and those that are done, as masks."""
Heard = dict[int, int]
"""By the number of a member, the first packet on its channel that says so."""
Named = dict[str, tuple[bool, set[str], dict[str, int], dict[str, int], set[str]]]


class Farewell:
    """How far the members have come with the removal of one process."""

    __slots__ = ("done", "is_done", "later", "left", "told")

    def __init__(self) -> None:
        self.is_done = False
        self.told = 0  # the members that were told that we are done
        self.left: Heard = {}
        self.done: Heard = {}
        self.later = 0  # members that joined later and may not know the process at all


class Farewells:
    """The removals under way, by the number of the process that left."""

    __slots__ = ("known", "unaware")

    def __init__(self) -> None:
        self.known: dict[int, Farewell] = {}
        self.unaware: tuple[Packet | None, list[int]] = (None, [])
        """The packet translated last, and those who left whom its sender does not know."""

    def news(self, gone: int) -> News:
        """Return what packets say now."""
        done = sum([1 << number for number, one in self.known.items() if one.is_done])
        return gone, done & gone

    def hear(self, source: int, n: int, news: News) -> None:
        """Note what a packet says."""
        left, done = news
        number = 0
        while left >> number:
            if left >> number & 1:
                one = self.known.setdefault(number, Farewell())
                one.left[source] = min(n, one.left.get(source, n))
                if done >> number & 1:
                    one.done[source] = min(n, one.done.get(source, n))
            number += 1

    def tell(self, targets: int) -> None:
        """Note that packets were sent to these members."""
        for one in self.known.values():
            if one.is_done:
                one.told |= targets

    def joined(self, member: int, gone: int) -> None:
        """Note a new member: it may never have known who left before."""
        for number, one in self.known.items():
            if gone >> number & 1:
                one.later |= 1 << member

    def restarted(self, member: int) -> None:
        """Note that a member went on from an old state: it must say and be told all again.

        Or it has forgotten the process already, and what said so is lost.
        """
        for one in self.known.values():
            one.left.pop(member, None)
            one.done.pop(member, None)
            one.told &= ~(1 << member)
            one.later |= 1 << member

    def excuse(self, number: int, member: int) -> None:
        """Note that a member that joined later does not know the process."""
        one = self.known.get(number)
        if one is not None and one.later >> member & 1:
            one.left[member] = one.done[member] = 0
            one.told |= 1 << member

    def excuse_sender(self, packet: Packet) -> None:
        """Excuse the sender of a packet that has arrived, if it was found to be unaware."""
        translated, numbers = self.unaware
        if translated is packet:
            for number in numbers:
                self.excuse(number, packet.source_no)
        self.unaware = None, []

    def advance(
        self, gone: int, peers: list[int], prefix: dict[int, int], *, is_quiet: bool
    ) -> list[int]:
        """Take the next steps; return the processes that can be forgotten."""
        finished = []
        everyone = sum([1 << peer for peer in peers])
        for number, one in self.known.items():
            if not gone >> number & 1:
                continue
            if not one.is_done:
                one.is_done = is_quiet and _is_said(one.left, peers, prefix)
            if one.is_done and not everyone & ~one.told and _is_said(one.done, peers, prefix):
                finished.append(number)
        return finished

    def forget(self, number: int) -> None:
        """Forget a process, also as one that says something."""
        self.known.pop(number, None)

    def move(self, by: Translation) -> None:
        """Count by another roster from now on."""
        table = by.before.table_to(by.after)
        moved: dict[int, Farewell] = {}
        for number, one in self.known.items():
            if table[number] != UNKNOWN:
                one.told, one.later = by.mask(one.told), by.mask(one.later)
                one.left, one.done = _moved(one.left, table), _moved(one.done, table)
                moved[table[number]] = one
        self.known = moved

    def named(self, roster: Roster) -> Named:
        """Return all of it by names, for states."""
        names = roster.names
        return {
            names[number]: (
                one.is_done,
                set(roster.sorted_names(one.told)),
                {names[k]: n for k, n in sorted(one.left.items())},
                {names[k]: n for k, n in sorted(one.done.items())},
                set(roster.sorted_names(one.later)),
            )
            for number, one in sorted(self.known.items())
        }

    def read(self, named: Named, roster: Roster) -> None:
        """Take over what :meth:`named` returns."""
        self.known = {}
        numbers = roster.numbers
        for name, (is_done, told, left, done, later) in named.items():
            one = self.known[numbers[name]] = Farewell()
            one.is_done = is_done
            one.told, one.later = roster.mask_of(tuple(told)), roster.mask_of(tuple(later))
            one.left = {numbers[k]: n for k, n in left.items()}
            one.done = {numbers[k]: n for k, n in done.items()}


def _is_said(heard: Heard, peers: list[int], prefix: dict[int, int]) -> bool:
    """Tell whether all have said it, and all their packets up to that one have arrived."""
    return all(peer in heard and prefix.get(peer, 0) >= heard[peer] for peer in peers)


def _moved(heard: Heard, table: list[int]) -> Heard:
    return {table[k]: n for k, n in heard.items() if table[k] != UNKNOWN}
