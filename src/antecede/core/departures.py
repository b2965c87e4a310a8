"""What an endpoint keeps about processes that were removed.

A removed process sends nothing more. Its messages that are held here are still delivered, in the
order of its channel; the others are *lost*. A message that rests on a lost one may overtake others
that only the lost one knew about. So its delivery names the lost one in ``unmet``, and so do the
deliveries of all messages that rest on it: those whose sender knew of it, directly or not. Tops
tell that, because they are the newest message of each process in the causal past.
"""

from __future__ import annotations

from bisect import insort
from operator import neg

from antecede.core.messages import MessageId, Packet
from antecede.core.roster import UNKNOWN, Roster
from antecede.core.stamps import Translation

Doubts = dict[str, list[tuple[int, MessageId]]]


class Departures:
    """The messages of removed processes: delivered since, still held, or lost."""

    __slots__ = ("doubts", "gone", "held", "late", "order")

    def __init__(self, gone: int) -> None:
        self.gone = gone
        """The removed processes, as a mask."""
        self.late: set[int] = set()
        """The keys of their messages that were delivered after they were removed."""
        self.held: set[int] = set()
        """The keys of their messages that are still held."""
        self.order: dict[int, list[int]] = {}
        """The numbers of their packets that are held, newest first."""
        self.doubts: dict[int, dict[int, int]] = {}
        """For each process, the lost messages that its messages rest on: from which key on."""

    def note_held(self, packet: Packet, key: int) -> None:
        """Note a packet that is held and whose source was removed."""
        self.held.add(key)
        insort(self.order.setdefault(packet.source_no, []), packet.n, key=neg)

    def note_delivery(self, packet: Packet, key: int) -> int:
        """Note that such a packet is delivered; return the number before the next one's."""
        self.held.discard(key)
        self.late.add(key)
        numbers = self.order.get(packet.source_no, [packet.n])
        numbers.pop()
        if numbers:
            return numbers[-1] - 1
        self.order.pop(packet.source_no, None)
        return packet.n

    def lost(self, packet: Packet, key: int, missing: list[int]) -> list[int]:
        """Return the lost messages that a message rests on, directly (``missing``) or not."""
        found = dict.fromkeys(missing)
        tops = packet.stamp.tops
        for number, doubts in self.doubts.items():
            top = key if number == packet.source_no else tops[number]
            found |= dict.fromkeys([gone for gone, since in doubts.items() if since <= top])
        return list(found)

    def doubt(self, number: int, since: int, lost: list[int]) -> None:
        """Note that a process's messages from this key on rest on lost ones."""
        doubts = self.doubts.setdefault(number, {})
        for key in lost:
            doubts[key] = min(since, doubts.get(key, since))

    def forget(self, gone: int, low: int) -> None:
        """Forget a removed process, and everything about its messages."""
        self.gone &= ~(1 << gone)
        self.late = {key for key in self.late if key & low != gone}
        for number, doubts in list(self.doubts.items()):
            rest = {key: since for key, since in doubts.items() if key & low != gone}
            if rest and number != gone:
                self.doubts[number] = rest
            else:
                del self.doubts[number]

    def move(self, by: Translation) -> None:
        """Count by another roster from now on."""
        table = by.before.table_to(by.after)
        self.gone = by.mask(self.gone)
        self.late = set(by.keys(list(self.late)))
        self.held = set(by.keys(list(self.held)))
        self.order = {table[k]: v for k, v in self.order.items() if table[k] != UNKNOWN}
        moved: dict[int, dict[int, int]] = {}
        for number, doubts in self.doubts.items():
            if table[number] != UNKNOWN:
                moved[table[number]] = {by.key(k): by.key(since) for k, since in doubts.items()}
        self.doubts = moved

    # By names, for states.

    def late_ids(self, roster: Roster) -> set[MessageId]:
        """Return the messages delivered after their senders were removed."""
        return {_id(key, roster) for key in self.late}

    def named_doubts(self, roster: Roster) -> Doubts:
        """Return the doubts by names, in order."""
        shift = roster.shift
        return {
            roster.names[number]: sorted(
                (since >> shift, _id(key, roster)) for key, since in doubts.items()
            )
            for number, doubts in sorted(self.doubts.items())
        }

    def read(self, roster: Roster, late: set[MessageId], named: Doubts) -> None:
        """Take over what :meth:`late_ids` and :meth:`named_doubts` return."""
        self.late = {_key(message, roster) for message in late}
        for name, pairs in named.items():
            for since, message in pairs:
                self.doubt(
                    roster.numbers[name],
                    _key(MessageId(name, since), roster),
                    [_key(message, roster)],
                )


def _id(key: int, roster: Roster) -> MessageId:
    return MessageId(roster.names[key & roster.low], key >> roster.shift)


def _key(message: MessageId, roster: Roster) -> int:
    return message.seq << roster.shift | roster.numbers[message.sender]
