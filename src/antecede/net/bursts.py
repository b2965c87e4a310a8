"""Messages in a row between two processes, with nothing learnt in between: a short cut.

For a message that follows another in a run (see :mod:`antecede.net.runs`), ``optimal`` does nearly
nothing: it counts, and its newest message takes the place of the one before. These functions do the
same without making a packet, a stamp and effects for each message. They look inside the endpoint,
and do nothing where anything else could matter; then the caller goes the long way, with the same
result.
"""

from __future__ import annotations

from antecede.core.endpoint import Endpoint
from antecede.core.messages import Packet, incarnation_of
from antecede.core.stamps import Stamp, new_stamp
from antecede.net.channels import Channel
from antecede.net.runs import later_packet
from antecede.protocols.optimal import Optimal, OptimalStamp


class Burst:
    """Our own messages to one peer in a row, after one that was sent the long way.

    ``first`` is the packet that began the run on its channel.
    """

    __slots__ = ("_end", "_me", "_number", "_roster", "_stamp", "channel", "first", "name")

    def __init__(self, end: Optimal, last: Packet, name: str, channel: Channel) -> None:
        self.name = name
        self.channel = channel
        self.first = last if channel.base is None else channel.base
        self._end = end
        self._roster = end._roster
        self._me, self._number = last.source_no, last.dest_no
        before = last.stamp
        self._stamp = new_stamp(OptimalStamp, before.tops.copy(), before.log, before.is_plain)
        """What the newest message carries. Nobody else has it, so it can be changed."""
        noted = _noted(end)
        if len(noted) == 1 and noted[0][0] is before:
            noted[0] = (self._stamp, noted[0][1], noted[0][2])

    def add(self) -> int:
        """Send one more message; return the number of its packet, or 0 if the run is over."""
        end = self._end
        noted = _noted(end)
        if len(noted) != 1 or noted[0][0] is not self._stamp:
            return 0
        if end._rough or end._roster is not self._roster:
            return 0
        _, last, dests = noted[0]
        end._seq = seq = end._seq + 1
        end._events += 1
        self._stamp.tops[self._me] = last
        noted[0] = (self._stamp, seq << self._roster.shift | self._me, dests)
        sent = end._links.sent
        n = sent[self._number] = sent[self._number] + 1
        return n


def burst_after(endpoint: Endpoint, last: Packet, name: str, channel: Channel) -> Burst | None:
    """Return what messages like the last one can go on with; None for what is unusual."""
    if (
        type(endpoint) is not Optimal
        or last.roster is not endpoint._roster
        or type(last.stamp) is not OptimalStamp
        or not last.stamp.is_plain
        or endpoint._hardware
        or endpoint._looks_ahead
    ):
        return None
    return Burst(endpoint, last, name, channel)


def received(endpoint: Endpoint, last: Packet | None, count: int) -> int:
    """Deliver messages that follow ``last`` in a run; return the event of the first.

    0 means that nothing was done: they have to be received one by one.
    """
    if type(endpoint) is not Optimal or last is None or last.roster is not endpoint._roster:
        return 0
    source, stamp, links, roster = last.source_no, last.stamp, endpoint._links, last.roster
    n, seq = last.n, last.seq
    if (
        endpoint._rough
        or endpoint.pull
        or endpoint._hardware
        or endpoint._looks_ahead
        or type(stamp) is not OptimalStamp
        or not stamp.is_plain
        or incarnation_of(seq + count)
        or incarnation_of(n + count)
    ):
        return 0
    if (
        links.prefix.get(source, 0) != n
        or source in links.ahead
        or source in endpoint._hold.waiting
        or endpoint._turns[source] != n
        or endpoint._reached[source] != seq << roster.shift | source
    ):
        return 0
    event = endpoint._events + 1
    endpoint._events += count
    links.prefix[source] = endpoint._turns[source] = n + count
    endpoint._reached[source] = key = (seq + count) << roster.shift | source
    # The others of the run are known to whoever knows the last: that is all that has to be merged.
    endpoint._merge(later_packet(last, n + count, b""), key)
    return event


def _noted(end: Optimal) -> list[tuple[Stamp, int, int]]:
    """Return the messages that are not merged into the log yet: stamps, keys and destinations."""
    return end._known.noted
