"""Check one window, and describe what crosses its borders in small tables of plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.arrays import Flags, Ints, Vectors
from antecede.audit.windows.chains import Chains, find_cycles
from antecede.audit.windows.clocks import Run, sweep
from antecede.audit.windows.matching import (
    ALONE,
    DELIVER,
    LOCAL,
    NO_PATCH,
    SEND,
    Events,
    Matched,
    Patch,
    match,
)

#: How many violations of a window get their chain at once.
WORST = 100
#: The most incoming messages of unknown sender, each of which needs a bit; or this per process.
BITS_MAX = 4096
BITS_PER_PROCESS = 32
#: With more open (message, process) pairs, only the wanted ones are described in full.
DETAILED_MAX = 8_000_000

#: The message key of an event that has no message.
NO_KEY = 0
_NO_KEYS = np.empty(0, np.int64)
_none = np.empty((0, 9), np.int64).copy  # a table without rows


@dataclass(frozen=True)
class Request:
    """What the driver gives a window besides its events.

    ``wanted`` are the keys that later windows ask for. ``patch`` settles messages that were sent
    several times. ``senders`` maps the keys that enter the window to the process that sent them and
    the place of the send in that process's order; they are given when there are too many keys for a
    bit each.
    """

    closed: bool = False
    wanted: Ints = field(default_factory=_NO_KEYS.copy)
    patch: Patch = NO_PATCH
    senders: Mapping[int, tuple[int, int]] | None = None


@dataclass(kw_only=True)
class Window:
    """The result of one window; positions count a process's events in it from 1."""

    events: int
    count: Ints  # process -> its events here
    low: Ints  # process -> least and greatest seq here
    high: Ints
    paired: tuple[int, int]  # sends with deliveries here, and deliveries with their send here
    sends: Ints  # the key of every send, and of every edge that starts here, sorted
    incoming: Ints  # b -> key
    needs_senders: bool
    arrivals: Ints  # rows (b, process, position, seq), in order
    open_key: Ints  # u -> key, sender, position and seq of a send not delivered everywhere, or edge
    open_sender: Ints
    open_position: Ints
    open_seq: Ints
    open_left: Ints  # exclusive or of the destinations still to come
    open_known: Flags
    open_sends: int  # how many of these are sends; edges come after them
    open_detailed: Ints  # the u that the next two tables describe, sorted
    open_vector: Vectors = field(default_factory=_none)  # one row for each of these
    open_first: Ints = field(
        default_factory=_none
    )  # rows (u, process, effect's key, sender, position, seq)
    open_got: Ints  # rows (u, process): it has delivered u here
    rises: Ints = field(
        default_factory=_none
    )  # rows (process, position, seq, key, sender or -1, symbol), in order
    state: Vectors = field(default_factory=_none)
    delivered: Vectors = field(default_factory=_none)
    late: Ints = field(
        default_factory=_none
    )  # rows (process, position, seq, key, sender; effect's key, sender, position, seq)
    chains: dict[int, list[int]] = field(default_factory=dict)  # row of ``late`` -> keys
    redelivered: Ints  # rows (process, seq, key)
    cycles: Ints = field(default_factory=_none)
    edge_cycles: Ints = field(default_factory=_none)
    clashes: Ints  # rows (process, seq, key, comparison with the event of the same seq)
    resent: Ints
    cross: Ints  # b -> sender, where the driver gave senders; else -1
    rows: Ints = field(
        default_factory=_NO_KEYS.copy
    )  # rows of the input that name the messages mentioned above
    owns: Flags = field(
        default_factory=_none
    )  # row of these -> it is the send that owns its message
    row_keys: Ints = field(default_factory=_NO_KEYS.copy)  # row of these -> key
    kinds: Ints  # sends, deliveries, local events, sends without stated destinations
    names: dict[int, str] = field(default_factory=dict)
    dests: dict[int, tuple[str, ...] | None] = field(default_factory=dict)
    collision: bool = False  # two names have the same hash
    rejected: int = 0  # rows that are not events, if the window read them itself


class _Work:
    """The steps of checking one window, with their shared data."""

    def __init__(self, events: Events, names: Ints, request: Request) -> None:
        self.n = names.size
        self.request = request
        self.m = match(events, names, request.wanted, request.patch)
        self.cycles = self.edge_cycles = _NO_KEYS
        self.senders = self._senders()
        self.sends = np.flatnonzero(self.m.open)  # open sends; open edges come after them
        self.opens = np.concatenate((self.sends, self.m.edges.open_at))
        self.open_keys = np.concatenate((self.m.key[self.sends], self.m.edges.open_key))
        self.detailed = np.arange(self.opens.size)
        if self.opens.size * self.n > DETAILED_MAX:
            self.detailed = np.flatnonzero(np.isin(self.open_keys, request.wanted))

    def _senders(self) -> Ints:
        """Return the sender of each incoming key, or -1, keys of one sender in send order.

        If the senders are given, a key without one was never sent, and its deliveries stand alone.
        """
        m, given = self.m, self.request.senders
        senders = np.full(m.incoming.size, -1, np.int64)
        self.crossing = np.flatnonzero(m.link < ALONE)
        if given is not None:
            owner = [given.get(int(key), (-1, 0)) for key in m.incoming]
            order = sorted(range(len(owner)), key=lambda b: (owner[b], b))
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            m.link[self.crossing] = -2 - place[-2 - m.link[self.crossing]]
            outside = m.edges.source < ALONE
            m.edges.source[outside] = -2 - place[-2 - m.edges.source[outside]]
            m.incoming = m.incoming[order]
            senders = np.array([owner[b][0] for b in order], np.int64)
        self.entering = -2 - m.link[self.crossing]
        if given is not None or self.request.closed:
            m.link[self.crossing[senders[self.entering] < 0]] = ALONE
            outside = np.flatnonzero(m.edges.source < ALONE)
            m.edges = m.edges.without(outside[senders[-2 - m.edges.source[outside]] < 0])
        return senders

    @property
    def needs_senders(self) -> bool:
        unknown = not self.request.closed and self.request.senders is None
        return unknown and self.m.incoming.size > max(BITS_MAX, BITS_PER_PROCESS * self.n)

    @property
    def symbols(self) -> Ints:
        """The senders for a sweep; if they are given, a key without one stands alone: no bit."""
        return self.senders if self.request.senders is None else np.maximum(self.senders, 0)

    def run(self, keep: Ints) -> Run:
        """Run the vectors; if there are cycles, remove them and run again."""
        found = sweep(self.m, self.symbols, keep=keep)
        if found.stalled:
            m = self.m
            self.cycles, edges = find_cycles(m, found.place)
            np.subtract.at(m.uses, m.link[self.cycles], 1)
            m.link[self.cycles] = ALONE
            np.subtract.at(m.uses, m.edges.source[edges], 1)
            self.edge_cycles = np.unique(m.edges.target[edges])
            m.edges = m.edges.without(edges)
            found = sweep(self.m, self.symbols, keep=keep)
            assert not found.stalled
        return found

    def position(self, i: Ints) -> Ints:
        return np.asarray(i - self.m.start[self.m.who[i]] + 1)


def run_window(events: Events, names: Ints, request: Request) -> Window:
    """Check the messages that stay inside the window and describe those that cross its borders.

    ``names`` are the hashes of all processes' names, in the order of the names.
    """
    work = _Work(events, names, request)
    m = work.m
    window = _describe(work)
    if work.needs_senders:
        return window
    run = work.run(work.opens[work.detailed])
    window.state, window.delivered = run.state, run.delivered
    window.rises = _rises(work, run.rises)
    window.cycles = _rows(m, work.cycles)
    window.edge_cycles = _rows(m, work.edge_cycles)
    window.edge_cycles[events.kind[m.row[work.edge_cycles]] == LOCAL, 2] = NO_KEY
    window.open_vector = run.kept[: work.detailed.size]
    late, effect = run.overtakers.T
    pairs = _open_pairs(work, run)
    unknown = np.flatnonzero(effect < 0)
    asked = np.concatenate((late_queries(m, late[unknown]), pairs[:, 1:]))
    order = np.lexsort((asked[:, 2], asked[:, 1], asked[:, 0]))
    found = np.full(len(asked), -1, np.int64)
    if len(asked):
        found[order] = sweep(m, work.symbols, asked=asked[order]).first
    effect[unknown] = found[: unknown.size]
    first = np.concatenate((effect, found[unknown.size :]))
    window.late = _late(m, work, late, first[: late.size])
    window.open_first = _first_effects(m, work, pairs, first[late.size :])
    paths = _worst_paths(work, late, effect, run.bounds, unknown)
    window.chains = {row: m.key[path].tolist() for row, path in paths.items()}
    strange = (work.crossing, work.cycles, work.edge_cycles, m.redelivered)
    named = (late, first, run.rises[:, 0], *strange, *paths.values())
    events_named = _named_events(work, np.concatenate(named))
    window.rows, window.row_keys = m.row[events_named], m.key[events_named]
    window.owns = m.kind[events_named] == SEND
    return window


def _describe(work: _Work) -> Window:
    """Return the parts of the result that need no vectors."""
    m, n = work.m, work.n
    count = np.diff(m.start)
    some = count > 0
    low, high = np.zeros(n, np.int64), np.zeros(n, np.int64)
    low[some], high[some] = m.seq[m.start[:-1][some]], m.seq[m.start[1:][some] - 1]
    crossing = work.crossing
    arrivals = np.stack(
        (work.entering, m.who[crossing], work.position(crossing), m.seq[crossing]), axis=1
    )
    opens, sends, size = work.opens, work.sends, m.kind.size
    number = np.full(size, -1, np.int64)
    number[sends] = np.arange(sends.size)
    inside = np.flatnonzero(m.link >= 0)
    paired = m.paired, inside.size
    inside = inside[number[m.link[inside]] >= 0]
    got = np.stack((number[m.link[inside]], m.who[inside].astype(np.int64)), axis=1)
    sent = m.key[(m.kind == SEND)]
    count_sent = sent.size + m.resent.size
    sent = np.sort(np.concatenate((sent, m.key[m.resent], m.edges.keys)))
    deliveries = int((m.kind == DELIVER).sum())
    unaddressed = int(np.count_nonzero((m.kind == SEND) & ~m.known))
    more = opens.size - sends.size
    return Window(
        events=size,
        paired=paired,
        count=count,
        low=low,
        high=high,
        sends=sent,
        incoming=m.incoming,
        needs_senders=work.needs_senders,
        arrivals=arrivals.astype(np.int64),
        open_key=work.open_keys,
        open_sender=m.who[opens].astype(np.int64),
        open_position=work.position(opens),
        open_seq=m.seq[opens],
        open_left=np.concatenate((m.left[sends], np.zeros(more, np.int64))),
        open_known=np.concatenate((m.known[sends], np.zeros(more, np.bool_))),
        open_sends=sends.size,
        open_detailed=work.detailed,
        open_got=got,
        redelivered=_rows(m, m.redelivered),
        clashes=np.column_stack((_rows(m, m.clash), m.tie)),
        resent=_rows(m, m.resent),
        cross=work.senders,
        kinds=np.array([count_sent, deliveries, size - count_sent - deliveries, unaddressed]),
    )


def _rows(m: Matched, i: Ints) -> Ints:
    return np.stack((m.who[i].astype(np.int64), m.seq[i], m.key[i]), axis=1)


def _rises(work: _Work, found: Ints) -> Ints:
    """Return the rises by process, with what the driver needs to know of each."""
    m, i = work.m, found[:, 0]
    link = m.link[i]
    sender = np.where(link >= 0, m.who[np.maximum(link, 0)], -1)
    rows = np.stack((m.who[i], work.position(i), m.seq[i], m.key[i], sender, found[:, 1]), axis=1)
    return rows[np.argsort(i, kind="stable")]


def late_queries(m: Matched, late: Ints) -> Ints:
    """Return queries (process, sender, rank) for the first effect before each late delivery."""
    send = m.link[late]
    sender = m.who[send].astype(np.int64)
    return np.stack((m.who[late].astype(np.int64), sender, send - m.start[sender] + 1), axis=1)


def _open_pairs(work: _Work, run: Run) -> Ints:
    """Return rows (u, process, sender, rank) where an effect of u, but not u, was delivered."""
    detailed = work.detailed[work.detailed < work.sends.size]
    m, opens = work.m, work.opens[detailed]
    sender = m.who[opens].astype(np.int64)
    rank = opens - m.start[sender] + 1
    found = []
    for p in range(work.n):
        u = np.flatnonzero(run.delivered[p, sender] >= rank)
        found.append(np.stack((detailed[u], np.full(u.size, p), sender[u], rank[u]), axis=1))
    return np.concatenate(found) if found else np.empty((0, 4), np.int64)


def _late(m: Matched, work: _Work, late: Ints, first: Ints) -> Ints:
    send, effect = m.link[late], m.link[first]
    columns = (
        m.who[late],
        work.position(late),
        m.seq[late],
        m.key[late],
        m.who[send],
        m.key[first],
        m.who[effect],
        work.position(first),
        m.seq[first],
    )
    return np.stack([column.astype(np.int64) for column in columns], axis=1)


def _first_effects(m: Matched, work: _Work, pairs: Ints, first: Ints) -> Ints:
    sender = m.who[m.link[first]].astype(np.int64)
    columns = (pairs[:, 0], pairs[:, 1], m.key[first], sender, work.position(first), m.seq[first])
    return np.stack(columns, axis=1)


def _worst_paths(
    work: _Work, late: Ints, first: Ints, bounds: Vectors, unknown: Ints
) -> dict[int, Ints]:
    """Return the chains of the window's worst violations, each as a list of sends.

    Ties with the last of these are included, unless there are many.
    """
    if not late.size:
        return {}
    worst = np.argsort(first - late, kind="stable")[: 4 * WORST]
    lateness = (late - first)[worst]
    worst = worst[lateness >= lateness[min(WORST, worst.size) - 1]]
    link = work.m.link
    pairs = np.stack((link[late[worst]], link[first[worst]]), axis=1)
    if np.isin(worst, unknown).any():
        past = sweep(work.m, work.symbols, keep=pairs[:, 1]).kept
    else:
        past = bounds[worst]
    return dict(zip(worst.tolist(), _between(work, pairs, past), strict=True))


def _between(work: _Work, pairs: Ints, past: Vectors) -> list[Ints]:
    """Return a shortest chain for each (cause, effect), all as sends; ``past`` bounds them."""
    search = Chains(work.m) if len(pairs) else None
    found = zip(pairs.tolist(), past, strict=True)
    return [search.shortest(a, b, bound) for (a, b), bound in found] if search else []


def find_chains(
    events: Events, names: Ints, patch: Patch, pairs: Sequence[tuple[int, int]]
) -> list[list[int]]:
    """Return a shortest chain for each (cause, effect), given as keys sent in ``events``.

    ``events`` are whole windows, from the one of the cause to the one of the effect.
    """
    work = _Work(events, names, Request(closed=True, patch=patch))
    sends = np.flatnonzero(work.m.kind == SEND)
    order = sends[np.argsort(work.m.key[sends], kind="stable")]
    wanted = np.array(pairs, np.int64).reshape(-1, 2)
    found = order[np.searchsorted(work.m.key[order], wanted)]
    paths = _between(work, found, work.run(found[:, 1]).kept)
    return [work.m.key[path].tolist() for path in paths]


def _named_events(work: _Work, found: Ints) -> Ints:
    """Return an event for every message in the window's tables.

    ``found`` are events of such messages. Messages that are open, or were sent several times, get
    all their sends, which show whether they are one message and what its destinations are.
    """
    m = work.m
    _, once = np.unique(m.key[found], return_index=True)
    named = [found[once], work.sends, m.clash, m.resent]
    if m.resent.size:
        several = np.isin(m.key, np.unique(m.key[m.resent]))
        named.append(np.flatnonzero(several & (m.kind == SEND)))
    return np.unique(np.concatenate(named))
