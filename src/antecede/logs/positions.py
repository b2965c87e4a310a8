"""Positions: how far a record's sender had read each log, as a header, and collected in a context.

A log is a totally ordered sequence of records: a partition of a topic, or a stream of JetStream. A
position in it is the offset of the next record: everything below it is in the past. ``Positions``
has one per log and travels in a header. A ``Context`` collects them while a handler runs, and
enforces rule W: its writes to other logs are acknowledged before it writes again. There is no I/O,
no clock and no thread here.

The header
----------
One byte: the version, 1, plus 16 if ages follow. Then the topics in the order of their names as
UTF-8 bytes, each: how many bytes its name shares with the name before it; twice the length of the
rest, plus 1 if a tag follows; the rest; the tag (3 bytes); the number of partitions; and for each
partition in order its number (minus the previous one and 1), its offset and, with ages, its age in
seconds. All numbers are varints of 7 bits, low bits first. Every set of positions has exactly one
such form, and any other is refused. Where headers are text, the same bytes travel as URL-safe
base64 without padding; it begins with A or E, so that readers can distinguish the two.

A tag distinguishes a topic from a deleted one of the same name: 3 bytes of a hash of the id that
the broker gave it. It is left out if the broker reports no id, and then names alone decide.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, urlsafe_b64encode
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, Self

from antecede.endpoint.numbers import read_varint, varint
from antecede.errors import ContextEndedError, HeaderError, PeerError, UsageError

HEADER: Final = "antecede-positions"
"""The name of the header."""
VERSION: Final = 1
WITH_AGES: Final = 16
ENTRIES_MAX: Final = 4096
BYTES_MAX: Final = 1 << 16
NAME_BYTES_MAX: Final = 255
PARTITION_MAX: Final = (1 << 31) - 1
OFFSET_MAX: Final = (1 << 63) - 1
TAG_BYTES: Final = 3
_KNOWN_MAX: Final = 1 << 10

_TEXT_BEGINS: Final = frozenset(b"AE")

#: The logs in headers read so far, by topic and tag, so that each is created only once.
_known: dict[tuple[bytes, bytes], dict[int, Log]] = {}
#: How many more logs are kept there: headers of strangers must not fill the memory.
_room = [1 << 16]


def as_text(header: bytes) -> str:
    """Return a header in the form for systems whose headers are text."""
    return urlsafe_b64encode(header).decode().rstrip("=")


def _from_text(data: bytes) -> bytes:
    try:
        return b64decode(data + b"=" * (-len(data) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise HeaderError(_fault(data, "it is torn")) from None


class Log(NamedTuple):
    """A totally ordered sequence of records; ``tag`` is empty if the broker reports no id."""

    topic: str
    partition: int = 0
    tag: bytes = b""

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def tag_of(identity: object) -> bytes:
    """Return the tag for the broker's id of a topic or stream; empty without an id."""
    if not identity:
        return b""
    return hashlib.blake2b(str(identity).encode(), digest_size=TAG_BYTES).digest()


class Positions(dict[Log, int]):
    """For each log the offset of the next record: everything below it is in the past.

    ``ages``, if the header had them, are seconds: the record below each position was written at
    least that long before the header.
    """

    ages: dict[Log, int] | None = None

    def merge(self, other: Mapping[Log, int]) -> None:
        """Raise each log's position to the greater of the two."""
        for log, offset in other.items():
            if offset > self.get(log, 0):
                self[log] = offset

    def encode(self) -> bytes:
        """Return the header's bytes; refuse more than a header may contain."""
        if len(self) > ENTRIES_MAX:
            raise UsageError(_too_many(len(self)))
        ages = self.ages
        topics: dict[tuple[bytes, bytes], list[tuple[int, int, int]]] = {}
        for log, offset in self.items():
            age = 0 if ages is None else ages.get(log, 0)
            entry = (log.partition, offset, age)
            topics.setdefault((log.topic.encode(), log.tag), []).append(entry)
        out = bytearray([VERSION if ages is None else VERSION | WITH_AGES])
        before = b""
        for name, tag in sorted(topics):
            shared = _shared(before, name)
            out += varint(shared)
            out += varint((len(name) - shared) << 1 | bool(tag))
            out += name[shared:] + tag
            entries = topics[name, tag]
            out += varint(len(entries))
            last = -1
            for partition, offset, age in sorted(entries):
                out += varint(partition - last - 1)
                out += varint(offset)
                if ages is not None:
                    out += varint(age)
                last = partition
            before = name
        if len(out) > BYTES_MAX:
            raise UsageError(
                f"positions of {len(out):,} bytes do not fit into a header of {BYTES_MAX:,}"
            )
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Return the positions of a header; none if there is no header.

        Raises
        ------
        HeaderError
            The bytes are incomplete, too many, of another version, or not in the one right form.
        """
        found = cls()
        if data is None:
            return found
        size = len(data)
        if size > 2 * BYTES_MAX:
            raise HeaderError(_fault(data, f"it has more than {BYTES_MAX:,} bytes"))
        if size and data[0] in _TEXT_BEGINS:
            data = _from_text(data)
            size = len(data)
        if not size:
            raise HeaderError(_fault(data, "it is empty"))
        version = data[0] & ~WITH_AGES
        if version != VERSION:
            reason = f"its version is {version}, not {VERSION}"
            if version > WITH_AGES:
                reason = f"its first byte is {data[0]:#x}, which no version begins with"
            raise HeaderError(_fault(data, reason))
        if size > BYTES_MAX:
            raise HeaderError(_fault(data, f"it has more than {BYTES_MAX:,} bytes"))
        if data[0] & WITH_AGES:
            found.ages = {}
        try:
            _read(data, found)
        except IndexError:
            raise HeaderError(_fault(data, "it is torn")) from None
        except PeerError as error:  # a number that is not in its shortest form
            raise HeaderError(_fault(data, f"it {error}")) from None
        except ValueError as error:  # also UnicodeDecodeError
            reason = "a name is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            raise HeaderError(_fault(data, reason)) from None
        return found


def _read(data: bytes, found: Positions) -> None:
    """Read topics and their positions; one-byte numbers, the most frequent, are read in place."""
    at, size, before = 1, len(data), (b"", b"")
    ages = found.ages
    while at < size:
        logs, at, before = _read_name(data, at, before)
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_varint(data, at - 1)
        if not 0 < count <= ENTRIES_MAX - len(found):
            raise ValueError(
                "a topic has no positions" if not count else f"it has more than {ENTRIES_MAX:,}"
            )
        partition = -1
        for _ in range(count):
            step = data[at]
            at += 1
            if step > 127:
                step, at = read_varint(data, at - 1)
            partition += step + 1
            offset, at = read_varint(data, at)
            if not 0 < offset <= OFFSET_MAX or partition > PARTITION_MAX:
                raise ValueError(f"offset {offset} of partition {partition} is impossible")
            log = logs.get(partition)
            if log is None:
                log = Log(before[0].decode(), partition, before[1])
                if _room[0] and before in _known:
                    _room[0] -= 1
                    logs[partition] = log
            found[log] = offset
            if ages is not None:
                ages[log], at = read_varint(data, at)


def _read_name(
    data: bytes, at: int, before: tuple[bytes, bytes]
) -> tuple[dict[int, Log], int, tuple[bytes, bytes]]:
    """Return a topic's known logs, the offset of its entries, and its name and tag as bytes."""
    shared, rest = data[at], data[at + 1]
    at += 2
    if shared > 127 or rest > 127:
        shared, at = read_varint(data, at - 2)
        rest, at = read_varint(data, at)
    end = at + (rest >> 1)
    last = before[0]
    name = last[:shared] + data[at:end]
    tag = b""
    if rest & 1:
        tag, end = data[end : end + TAG_BYTES], end + TAG_BYTES
    if end > len(data) or shared > len(last):
        raise IndexError
    key = (name, tag)
    if shared < len(last) and shared < len(name) and name[shared] == last[shared]:
        raise ValueError("names share more than it says")
    if not name or key <= before:
        raise ValueError("its topics are not in order")
    logs = _known.get(key)
    if logs is None:
        if len(name) > NAME_BYTES_MAX:
            raise ValueError(f"a name has more than {NAME_BYTES_MAX} bytes")
        name.decode()
        logs = {}
        if len(_known) < _KNOWN_MAX:
            _known[key] = logs
    return logs, end, key


def _shared(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two names."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _too_many(count: int) -> str:
    return (
        f"{count:,} positions do not fit into a header, which has room for {ENTRIES_MAX:,}; handle "
        "each request in a context of its own, or give the producer a horizon"
    )


def _fault(data: bytes, reason: str) -> str:
    shown = data[:24].hex() + ("..." if len(data) > 24 else "")
    return (
        f"a header {HEADER!r} of {len(data):,} bytes cannot be read: {reason}; it begins {shown}; "
        "look for a producer of another version, or for something that changes headers"
    )


class Context:
    """What a handler has seen and written so far, for the headers of what it writes next."""

    __slots__ = ("_in_flight", "_reports", "_settle", "ended", "seen", "times")

    def __init__(self) -> None:
        self.seen = Positions()
        #: The latest time at which the record below each position was written, where known.
        self.times: dict[Log, float] = {}
        #: Why nothing more may be written in this context, or None.
        self.ended: str | None = None
        self._in_flight: Counter[Log] = Counter()
        # Clients report from the thread that polls them; the owner processes the reports.
        self._reports: deque[tuple[Log, Log, int | None, float, str]] = deque()
        #: Waits for the writes in flight, which are all of one producer.
        self._settle: Callable[[Context], None] | None = None

    @property
    def context(self) -> Context:
        """The context itself, as :class:`Scope` requires."""
        return self

    def read(
        self, log: Log, offset: int, needs: Mapping[Log, int], time: float | None = None
    ) -> None:
        """Add the record at ``offset``, which was written at ``time``, to what was read.

        Its own needs are added too: positions are transitive (rule T).
        """
        ages = needs.ages if isinstance(needs, Positions) else None
        seen, times = self.seen, self.times
        for other, position in needs.items():
            if position > seen.get(other, 0):
                seen[other] = position
                if time is not None:
                    times[other] = time - (ages.get(other, 0) if ages else 0)
        if offset >= seen.get(log, 0):
            seen[log] = offset + 1
            if time is not None:
                times[log] = time

    def merge(self, stored: Mapping[Log, int] | bytes | bytearray | memoryview | None) -> None:
        """Add the positions stored with shared state, as an object or as bytes."""
        if isinstance(stored, bytes | bytearray | memoryview | None):
            stored = Positions.decode(None if stored is None else bytes(stored))
        elif not isinstance(stored, Mapping):
            raise UsageError(f"positions are of type {type(stored).__name__}; give them as bytes")
        for log, position in stored.items():
            if position > self.seen.get(log, 0):
                self.seen[log] = position
                self.times.pop(log, None)

    def encode(self) -> bytes:
        """Return everything seen and written so far, to be stored with shared state.

        It waits for writes that are not acknowledged: whoever reads the state follows from them
        too. It raises if one failed.
        """
        self.settle()
        return self.seen.encode()

    def must_wait(self, log: Log | None) -> bool:
        """Return whether a write to ``log`` must wait for acknowledgements (rule W).

        None, or partition -1, stands for a log that the client chooses only when it writes.
        """
        self.take_reports()
        unknown = log is None or log.partition < 0
        return any(unknown or other != log for other in self._in_flight)

    def begin(self, log: Log, *, own: bool = False, **age: float | None) -> bytes:
        """Return the header of a write to ``log``, which is in flight from now on.

        A log that one instance at a time processes in order implies its own position, which is
        added only with ``own``. With ``horizon`` and ``now``, positions older than the horizon are
        left out, and the others have an age.
        """
        if self.must_wait(log):
            raise UsageError(
                f"a write to {log} would overtake one that is not acknowledged; wait for it first"
            )
        if self.ended is not None:
            raise ContextEndedError(
                f"nothing can be written after a write whose outcome is unknown: {self.ended}; "
                "let the handler fail, and the record is handled again"
            )
        header = self._chosen(None if own else log, **age).encode()
        self._in_flight[log] += 1
        return header

    def _chosen(
        self, without: Log | None, *, horizon: float | None = None, now: float | None = None
    ) -> Positions:
        """Return the positions for a header."""
        if horizon is None or now is None:
            return Positions({k: v for k, v in self.seen.items() if k != without})
        times = self.times
        chosen = Positions()
        chosen.ages = {}
        for log, position in self.seen.items():
            age = max(0, int(now - times.get(log, now)))
            if log != without and age <= horizon:
                chosen[log] = position
                chosen.ages[log] = age
        return chosen

    def report(
        self, log: Log, offset: int | None, time: float, error: str = "", at: Log | None = None
    ) -> None:
        """Report the result of a write, from any thread; without an offset it is unknown.

        ``at`` is the log written to, if that differs from what was known at the beginning.
        """
        self._reports.append((log, at or log, offset, time, error))

    def take_reports(self) -> None:
        """Process the reports of clients."""
        while self._reports:
            log, at, offset, time, error = self._reports.popleft()
            self._in_flight[log] -= 1
            if self._in_flight[log] <= 0:
                del self._in_flight[log]
            if offset is None:
                self.ended = self.ended or f"{at}: {error}"
            elif offset >= self.seen.get(at, 0):
                self.seen[at] = offset + 1
                self.times[at] = time

    def settled_by(self, settle: Callable[[Context], None]) -> None:
        """Make ``settle`` wait for the writes that follow, by the producer that it belongs to.

        First wait for those of another producer: two keep no order between them, not even in one
        log, and each only learns of its own.
        """
        before, self._settle = self._settle, settle
        if before is not None and before != settle and self.must_wait(None):
            before(self)

    def settle(self) -> None:
        """Wait until every write is acknowledged; raise if one failed."""
        if self._settle is not None:
            self._settle(self)
        self.take_reports()
        if self.ended is not None:
            raise ContextEndedError(
                f"the handler's writes are not all there: {self.ended}; its record is not completed"
            )
        if self._in_flight:
            raise UsageError(
                f"a write to {next(iter(self._in_flight)).topic} is not acknowledged; await it "
                "before the handler ends"
            )


class Scope(Protocol):
    """Anything that can be current: a context, or a record, which has one."""

    @property
    def context(self) -> Context:
        """The context."""


SCOPE: ContextVar[Scope | None] = ContextVar("antecede-scope", default=None)


def current() -> Context:
    """Return the context of the running handler, or else that of the task or thread."""
    found = SCOPE.get()
    if found is None:
        found = Context()
        SCOPE.set(found)
    return found.context


@contextmanager
def context() -> Iterator[Context]:
    """Begin with an empty past: for a request, a job, or anything that no record caused."""
    found = Context()
    token = SCOPE.set(found)
    try:
        yield found
        found.settle()
    finally:
        SCOPE.reset(token)


@contextmanager
def handling(record: Any, store: Mapping[Log, int] | bytes | None = None) -> Iterator[Context]:
    """Handle a record together with shared state that has positions of its own.

    ``store`` are the positions stored with a row, a key or a table, or their bytes. What the
    handler writes then comes after everything that the writers of that state had seen. Store
    ``context.encode()`` with the state in the same transaction. The record is completed at the end
    unless an outer block handles it.
    """
    is_entered = SCOPE.get() is record
    if is_entered:
        found: Context = record.context
        found.merge(store)
        yield found
        return
    with record:
        found = record.context
        found.merge(store)
        yield found
