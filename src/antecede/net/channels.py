"""What must survive about the packets to and from one peer."""

from __future__ import annotations

from collections.abc import Iterable

from antecede.core.messages import Packet
from antecede.net.copies import ALONE
from antecede.net.fields import Fields, put_bytes, put_number, put_numbers, put_text
from antecede.net.runs import NEXT, later_packet
from antecede.wire.codec import Codec


class Channel:
    """What is known about the packets to and from one peer, which ``label`` names in packets.

    A *parcel* is a packet with what it takes to make the other copies of its message: see
    :mod:`antecede.net.copies`. ``kept`` has the parcels of messages that other destinations may
    lack, by the number of the message.
    """

    __slots__ = (
        "above",
        "base",
        "identity",
        "joined",
        "kept",
        "label",
        "last_in",
        "last_out",
        "outbox",
        "outbox_bytes",
        "prefix",
        "runs",
        "sent",
        "seqs",
    )

    def __init__(self, label: str, joined: int = 0, identity: bytes = b"") -> None:
        self.label = label
        self.joined = joined
        self.identity = identity
        self.outbox: dict[int, bytes] = {}
        self.outbox_bytes = 0
        self.sent = 0
        self.prefix = 0
        self.above: set[int] = set()
        self.kept: dict[int, bytes] = {}
        self.seqs: dict[int, int] = {}
        """The messages in the outbox that have other copies, by the numbers of their packets."""
        self.runs: dict[int, Packet] = {}
        """Those in the outbox whose parcels say only that they follow: what began the run."""
        self.base: Packet | None = None
        """The packet that began the latest run."""
        self.last_out: Packet | None = None
        """The packet sent last, if the next one may follow it in a run."""
        self.last_in: Packet | None = None
        """The packet accepted last, of those in the frame that is being read."""

    def has(self, n: int) -> bool:
        """Tell whether the peer's packet of this number has arrived."""
        return n <= self.prefix or n in self.above

    def accept(self, n: int) -> None:
        """Note that a packet has arrived."""
        self.above.add(n)
        while self.prefix + 1 in self.above:
            self.prefix += 1
            self.above.remove(self.prefix)

    def put(self, n: int, parcel: bytes) -> None:
        """Keep a parcel until the peer has acknowledged it."""
        self.outbox[n] = parcel
        self.outbox_bytes += len(parcel)
        self.sent = n

    def drop(self, numbers: Iterable[int]) -> list[int]:
        """Forget acknowledged packets; return the numbers that were still here."""
        gone, outbox, runs, size = [], self.outbox, self.runs, 0
        for n in numbers:
            parcel = outbox.pop(n, None)
            if parcel is not None:
                size += len(parcel)
                gone.append(n)
                if runs:
                    runs.pop(n, None)
        self.outbox_bytes -= size
        return gone

    def spell_out(self, codec: Codec) -> None:
        """Make every parcel in the outbox one that can be read without the others."""
        for n, first in self.runs.items():
            payload = self.outbox[n][len(NEXT) :]
            parcel = ALONE + codec.encode(later_packet(first, n, payload))
            self.outbox_bytes += len(parcel) - len(self.outbox[n])
            self.outbox[n] = parcel
        self.runs.clear()

    def acknowledged(self, prefix: int, above: Iterable[int]) -> list[int]:
        """Forget the packets up to ``prefix`` and those ``above``; return their numbers."""
        low = []
        for n in self.outbox:
            if n > prefix:
                break
            low.append(n)
        low += above
        return self.drop(low) if low else low

    def settle(self, stable: int) -> None:
        """Keep no messages that all their destinations have: those up to number ``stable``."""
        for seq in [seq for seq in self.kept if seq <= stable]:
            del self.kept[seq]

    def write(self, out: bytearray) -> None:
        """Append the whole channel; its parcels are to be spelt out before."""
        put_text(out, self.label)
        put_number(out, self.joined)
        put_bytes(out, self.identity)
        put_number(out, self.sent)
        put_number(out, self.prefix)
        put_numbers(out, sorted(self.above))
        put_numbers(out, self.outbox)
        for parcel in self.outbox.values():
            put_bytes(out, parcel)
        put_numbers(out, self.seqs)
        for seq in self.seqs.values():
            put_number(out, seq)
        put_number(out, len(self.kept))
        for seq, parcel in self.kept.items():
            put_number(out, seq)
            put_bytes(out, parcel)

    @classmethod
    def read(cls, reader: Fields) -> Channel:
        """Read what :meth:`write` wrote."""
        made = cls(reader.text(), reader.number(), reader.bytes())
        sent, made.prefix = reader.number(), reader.number()
        made.above = set(reader.numbers())
        for n in reader.numbers():
            made.put(n, reader.bytes())
        made.sent = sent
        made.seqs = {n: reader.number() for n in reader.numbers()}
        for _ in range(reader.count("messages")):
            seq = reader.number()
            made.kept[seq] = reader.bytes()
        return made
