"""Packets that count, by numbers: :mod:`antecede.wire.quick` for another kind of stamps.

While members join and leave, a packet may count fewer processes than the Codec has, and say who
left. Then it also tells whom it counts, and has *news*; it is read as a packet by names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from antecede.core.counts import NO_NEEDS, Counts
from antecede.core.messages import MessageId, Packet, numbered_packet
from antecede.core.registry import PROTOCOLS, protocol_class, protocol_of_number
from antecede.core.roster import Roster
from antecede.core.validation import COUNT_MAX, are_keyed, are_names, is_count
from antecede.wire.counts import get_counts, put_counts
from antecede.wire.lanes import ColumnError, read_varint, varint
from antecede.wire.packets import STAMPED, TAGS
from antecede.wire.roster import PAIR_MAX
from antecede.wire.stream import CONTROL_BYTES_MAX

if TYPE_CHECKING:
    from antecede.core.stamps import Stamp
    from antecede.wire.quick import Quick

STARTS_MAX: Final = 4096
ALONE: Final = 0
LIST: Final = 1
BITS: Final = 2
DESTS: Final = 3
"""The destinations of a packet with a stamp: one, a list or bits; and how many kinds there are."""
SOME: Final = DESTS
NEWS: Final = 2 * DESTS
"""What is added to the form of a packet that does not count all members, or has news."""
OTHERS: Final = (LIST, b"\0")
"""All but the sender, where that is shorter: a list of nobody."""


def has_stamps(protocol: str) -> bool:
    """Tell whether packets of a protocol usually have the form that is read here."""
    return kind_of(protocol) is not None


def kind_of(protocol: str) -> type[Stamp] | None:
    """Return the stamps of a protocol whose control is a log or counts."""
    if protocol not in PROTOCOLS:
        return None
    kind: type[Stamp] | None = getattr(protocol_class(protocol), "STAMP", None)
    if kind is None or not PROTOCOLS[protocol].wire_number:
        return None
    return kind if kind.IS_LOG or issubclass(kind, Counts) else None


def kind_of_tag(tag: int) -> type[Stamp] | None:
    """Return the same for the tag of a packet that carries a stamp."""
    number, form = divmod(tag, TAGS)
    name = protocol_of_number(number)
    return None if form < STAMPED or name is None else kind_of(name)


def counted_body(quick: Quick, stamp: Stamp) -> bytes | None:
    """Return what all copies of a message that counts carry, if it has the usual form."""
    if not isinstance(stamp, Counts):
        return None
    body = stamp.body
    if body is not None and body[0] is quick.roster:
        return body[1]
    made = put_counts(stamp, len(quick.roster))
    if made is not None:
        stamp.body = quick.roster, made
    return made


def counted_head(quick: Quick, packet: Packet, payload: bytes) -> bytes | None:
    """Return a packet that counts, with this payload, or None if it has to go by names."""
    control = counted_body(quick, packet.stamp)
    if control is None:
        return None
    dest, dests = packet.dest_no, packet.dest_set
    how, listed = ALONE, b""
    if dests != quick.roster.bits[dest]:
        how, listed = quick.listed(dests, packet.source_no)
    place = packet.stamp.PROTOCOL, (how << 16 | packet.source_no) << 16 | dest
    start = quick.counted_starts.get(place)
    if start is None:
        if len(quick.counted_starts) >= STARTS_MAX:
            quick.counted_starts.clear()
        start = quick.counted_starts[place] = quick.start(packet, how)
    n, seq = packet.n, packet.seq
    numbers = bytes((n, seq)) if n < 0x80 and seq < 0x80 else varint(n) + varint(seq)
    return b"".join((start, numbers, listed, control, payload))


def counting_packet(
    quick: Quick, packet: Packet, channel: tuple[int, int], counts: Counts
) -> Packet | None:
    """Return a packet by the numbers of a Codec, if an endpoint would send it."""
    roster, message, dests = quick.roster, packet.message, packet.dests
    source, dest = channel
    if message is None or packet.kind != "data" or not are_names(dests):
        return None
    if not roster.numbers.keys() >= set(dests) or packet.dest not in dests or source == dest:
        return None
    if not is_count(packet.n, 1) or not is_count(message.seq, 1):
        return None
    targets = roster.mask_of(dests)
    return numbered_packet(
        roster, source, dest, packet.n, message.seq, targets, packet.payload, counts, NO_NEEDS
    )


def counted_packet(quick: Quick, data: bytes, at: int, kind: type[Counts], form: int) -> Packet:
    """Read a packet that counts, from behind its tag on."""
    roster, how = quick.roster, form % DESTS
    form -= how
    if quick.wire.is_paired:
        source, dest = data[at] // PAIR_MAX, data[at] % PAIR_MAX
        at += 1
    else:
        source, at = read_varint(data, at)
        dest, at = read_varint(data, at)
    n, at = read_varint(data, at)
    seq, at = read_varint(data, at)
    dests = only = roster.bits[dest]
    if how != ALONE:
        dests, at = quick.get_dests(data, at, how, source)
    control: object = None
    counts: Counts | None = None
    if form:
        control, counted, at = _get_odd(quick, data, at, kind, form)
    else:
        counted = (1 << len(roster)) - 1
        counts, at = get_counts(kind, data, at, roster)
    is_fine = source != dest and dests & only and source < len(roster)
    is_fine = is_fine and (dests == only) == (how == ALONE) and at <= CONTROL_BYTES_MAX
    is_fine = is_fine and not (dests | 1 << source) & ~counted
    if not is_fine or not 0 < n <= COUNT_MAX or not 0 < seq <= COUNT_MAX:
        msg = "says what no endpoint sends"
        raise ColumnError(msg)
    if counts is not None:
        return numbered_packet(roster, source, dest, n, seq, dests, data[at:], counts, NO_NEEDS)
    names, to = roster.names, roster.sorted_names(dests)
    message = MessageId(names[source], seq)
    protocol, payload = kind.PROTOCOL, data[at:]
    return Packet(names[source], names[dest], n, "data", message, to, payload, control, protocol)


# While members join and leave.


class Odd:
    """A control that does not count all members, or has news: its form, and as bytes."""

    __slots__ = ("body", "counted", "counts", "form")

    def __init__(self, form: int, counted: int, counts: Counts, body: bytes) -> None:
        self.form = form
        self.counted = counted
        self.counts = counts
        self.body = body


def odd_control(quick: Quick, kind: type[Stamp], control: object) -> Odd | None:
    """Return a control that is not about exactly the members, if an endpoint would send it."""
    if not issubclass(kind, Counts):
        return None
    last = quick.odd
    if last is None or last[0] is not kind or last[1] is not control:
        last = quick.odd = kind, control, _odd(quick, kind, control)
    return last[2]


def _odd(quick: Quick, kind: type[Counts], control: object) -> Odd | None:
    roster, form, body = quick.roster, 0, b""
    if type(control) is tuple and len(control) == 4 and control[0] is None:
        news = _news(roster, control[1], control[2])
        if news is None:
            return None
        form, body, control = NEWS, quick.put_news(news), control[3]
    pairs = control[0] if kind.FORM == "rows" and type(control) is tuple and control else control
    if not are_keyed(pairs, ()):
        return None
    names = {name for name, _ in cast("tuple[tuple[str, object], ...]", pairs)}
    if not roster.numbers.keys() >= names:
        return None
    counted = roster.mask_of(tuple(names))
    if len(names) < len(roster):
        roster = Roster(tuple([name for name in roster.names if name in names]))
        form += SOME
        body += quick.put_set(counted)
    counts = kind.read(control, roster) if form else None
    made = None if counts is None else put_counts(counts, len(roster))
    return None if counts is None or made is None else Odd(form, counted, counts, body + made)


def _news(roster: Roster, left: object, done: object) -> tuple[int, int] | None:
    """Return who left and who is done as masks, if an endpoint would say so."""
    if not are_names(left) or not left or not are_names(done):
        return None
    names = cast("tuple[str, ...]", left), cast("tuple[str, ...]", done)
    if not roster.numbers.keys() >= set(names[0]) or not set(names[0]) >= set(names[1]):
        return None
    return roster.mask_of(names[0]), roster.mask_of(names[1])


def odd_head(quick: Quick, packet: Packet, kind: type[Stamp], payload: bytes) -> bytes | None:
    """Return such a packet with this payload, or None if it has to go by names."""
    odd, numbers = odd_control(quick, kind, packet.control), quick.roster.numbers
    message = packet.message
    source, dest = numbers.get(packet.source), numbers.get(packet.dest)
    if odd is None or source is None or dest is None or message is None:
        return None
    if message.sender != packet.source:
        return None
    made = counting_packet(quick, packet, (source, dest), odd.counts)
    if made is None or (made.dest_set | 1 << made.source_no) & ~odd.counted:
        return None
    how, listed = ALONE, b""
    if made.dest_set != quick.roster.bits[made.dest_no]:
        how, listed = quick.listed(made.dest_set, made.source_no)
    start = quick.start(made, how + odd.form)
    return b"".join((start, varint(made.n), varint(made.seq), listed, odd.body, payload))


def _get_odd(
    quick: Quick, data: bytes, at: int, kind: type[Counts], form: int
) -> tuple[object, int, int]:
    """Read news, whom a packet counts, and the counts; return the control and the last two."""
    roster, news = quick.roster, None
    counted = (1 << len(roster)) - 1
    if form >= NEWS:
        form -= NEWS
        news, at = quick.get_news(data, at)
    if form:
        counted, at = quick.get_set(data, at)
        if not counted or counted >> len(roster) or counted == (1 << len(roster)) - 1:
            msg = "does not count some of the members, or counts all although it says who"
            raise ColumnError(msg)
        roster = Roster(tuple([roster.names[number] for number in roster.members(counted)]))
    counts, at = get_counts(kind, data, at, roster)
    control = counts.spell(roster)
    if news is not None:
        left, done = map(quick.roster.sorted_names, news)
        control = (None, left, done, control)
    return control, counted, at
