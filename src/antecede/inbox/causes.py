"""The rule of declared causes: what is ready, what a send carries, and a machine that applies it.

A message is a key, ``topic/id``, and the keys of its causes. An inbox subscribes to some topics. It
hands a message over when all of its causes in those topics are done. Nothing here does I/O, reads a
clock or uses randomness: times are numbers that the caller gives.

:func:`carried` is what a handler's sends carry; :class:`Causes` is the rule with indexes, so that
each step touches only what it changes. Tests compare it, every store and ``reorder`` with plain
definitions of the rule (``tests/inbox/specification.py``).

Guarantee
---------
A message is handed over once, after each of its subscribed causes that is not waived. A cause is
waived if a person or the patience released the message without it (``unmet`` then names it), or if
it is so old that its id would be forgotten. A message that waits for itself, directly or through
others, is parked with the reason, and so is everything on that cycle.

What a send carries
-------------------
A message that is sent while ``m`` is handled carries ``m`` and, of the causes of ``m``, those of
other topics than that of ``m``. Let ``a`` happen before ``b`` by a chain of such sends. Then every
inbox that subscribes to the topics of both hands over ``a`` first, whatever else it subscribes to.
This holds because each message along the chain carries some ``x`` of the topic of ``a`` such that
every subscriber of that topic has handed over ``a`` when it hands over ``x``. The first message
after ``a`` carries ``a`` itself. A message ``m`` of another topic passes ``x`` on. A message ``m``
of the topic of ``a`` replaces ``x`` by itself, and waits for ``x`` wherever it is handed over. So
ids do not accumulate: a chain carries at most one id per topic, as in the second constraint of
[KS98]_ with topics as destinations. Several parents carry the union.

Differences from the paper
--------------------------
The order is that of declared causes, not of happened before: handling two messages one after the
other in the same service does not order them.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing 11(2):91-111,
   1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal

from antecede.errors import UsageError, shown

Then = Literal["wait", "release", "park"]
Mode = Literal["enforce", "shadow"]

WAITING: Final = 0
READY: Final = 1
PARKED: Final = 2
DONE: Final = 3
#: The names of the states, by number.
STATES: Final = ("waiting", "ready", "parked", "done")

ID_CHARS_MAX: Final = 1024
TOPIC_CHARS_MAX: Final = 255
CAUSES_MAX: Final = 1000


def topic_of(key: str) -> str:
    """Return the topic of a key."""
    return key.partition("/")[0]


def carried(key: str, causes: Iterable[str]) -> tuple[str, ...]:
    """Return the causes of a send that is made while ``key``, with its causes, is handled."""
    topic = topic_of(key) + "/"
    return (key, *(cause for cause in causes if not cause.startswith(topic)))


def joined(*parts: Iterable[str]) -> tuple[str, ...]:
    """Return the union of causes, each once, in the order of their first mention."""
    return tuple(dict.fromkeys(cause for part in parts for cause in part))


def needed(causes: Iterable[str], topics: Collection[str]) -> list[str]:
    """Return the causes that are in the topics that an inbox subscribes to."""
    return [cause for cause in causes if cause.partition("/")[0] in topics]


def check_topic(topic: object, what: str = "topic") -> str:
    """Return a topic's name; refuse an invalid one."""
    if (
        isinstance(topic, str)
        and topic.isprintable()
        and 0 < len(topic) <= TOPIC_CHARS_MAX
        and "/" not in topic
    ):
        return topic
    raise UsageError(
        f"{what} is {shown(topic)}; "
        f"give 1 to {TOPIC_CHARS_MAX} printable characters without a slash"
    )


def check_id(name: object) -> str:
    """Return a message's id; refuse an invalid one."""
    if isinstance(name, str) and 0 < len(name) <= ID_CHARS_MAX and name.isprintable():
        return name
    length = f" of {len(name):,} characters" if isinstance(name, str) else ""
    raise UsageError(
        f"id is {shown(name)}{length}; give text of 1 to {ID_CHARS_MAX:,} printable characters"
    )


def check_causes(causes: object, topic: str, most: int = CAUSES_MAX) -> tuple[str, ...]:
    """Return causes as keys, each once; ``topic`` is that of the message that names them.

    A cause is ``"topic/id"``, a pair of both, or an id alone, which means the same topic.
    """
    if not isinstance(causes, (list, tuple)):
        if causes is None:
            return ()
        if isinstance(causes, (str, bytes)) or not isinstance(causes, Iterable):
            raise UsageError(
                f"causes is {shown(causes)}; give a list of ids such as ['orders/order-17']"
            )
        causes = list(islice(causes, most + 1))
    if len(causes) > most:
        raise UsageError(
            f"a message names more than {most:,} causes; name the latest ones, or raise causes_max"
        )
    if len(causes) == 1:
        return (_cause(causes[0], topic),)
    return tuple(dict.fromkeys(_cause(cause, topic) for cause in causes)) if causes else ()


def _cause(cause: object, topic: str) -> str:
    """Return the key of one cause."""
    if isinstance(cause, str):
        before, slash, after = cause.partition("/")
        if (
            slash
            and cause.isprintable()
            and 0 < len(before) <= TOPIC_CHARS_MAX
            and 0 < len(after) <= ID_CHARS_MAX
        ):
            return cause
        topic, name = (before, after) if slash else (topic, cause)
    elif isinstance(cause, (tuple, list)) and len(cause) == 2:
        topic, name = cause
    else:
        raise UsageError(
            f"a cause is {shown(cause)}; give 'topic/id', or an id of the message's own topic"
        )
    return f"{check_topic(topic)}/{check_id(name)}"


class Entry:
    """A message in an inbox, from its offer to its handler.

    In a database the message has a ``number``, ``needs``, which are its causes in the inbox's
    topics, and a ``form`` of its body. ``link`` is the connection of its handler's transaction.
    """

    __slots__ = (
        "asked", "body", "came", "causes", "early", "failures", "form", "is_old", "is_shadow",
        "key", "lacks", "late", "link", "needs", "number", "reason", "sent", "state", "unmet",
    )  # fmt: skip

    def __init__(
        self,
        key: str,
        causes: tuple[str, ...],
        came: float,
        sent: float,
        form: int = -1,
        body: Any = None,
    ) -> None:
        self.key, self.causes, self.came, self.sent = key, causes, came, sent
        self.form, self.body = form, body
        self.needs: Sequence[str]
        #: Whether it was sent so long ago that missing causes count as done.
        self.is_old = False
        self.is_shadow = False
        self.lacks = _NOTHING
        self.unmet: tuple[str, ...] = ()
        self.state: int = READY
        self.early = self.late = False
        self.reason = ""
        self.failures = self.asked = 0
        self.number = -1
        self.link: Any = None


#: What most messages lack; never modified.
_NOTHING: Final[set[str]] = set()
#: What is remembered of a message that is done: its causes, when it was done, the causes without
#: which it was released, and whether it was early. Tuples spare the garbage collector.
Past = tuple[tuple[str, ...], float, tuple[str, ...], bool]


class Causes:
    """The machine of one inbox in memory: offers, readiness, completion, patience, forgetting.

    ``shadow`` hands everything over at once, and records what would have waited and for how long.
    """

    def __init__(self, topics: Collection[str], *, shadow: bool = False) -> None:
        self.topics = frozenset(topics)
        self.shadow = shadow
        self.entries: dict[str, Entry] = {}
        #: Entries are often removed from the front, which is slow in a plain dictionary.
        self.ready: OrderedDict[str, Entry] = OrderedDict()
        self.waiting: dict[str, Entry] = {}  # in the order of arrival
        self.parked: dict[str, Entry] = {}
        self.past: dict[str, Past] = {}  # in the order of handling
        self.missed: dict[str, float] = {}
        #: Shadow mode: messages that were handled before their causes.
        self.early: dict[str, Entry] = {}
        #: Shadow mode: how long each early message would have waited, once known.
        self.waits: list[float] = []
        self._awaited: dict[str, dict[str, Entry]] = {}
        self._latest = float("-inf")

    def offer(
        self, key: str, causes: tuple[str, ...], now: float, sent: float | None = None
    ) -> Entry | None:
        """Take a message; return it, or None if it is a duplicate."""
        entry = Entry(key, causes, now, now if sent is None else sent)
        entry.is_shadow = self.shadow
        return entry if self.add(entry) else None

    def add(self, entry: Entry) -> bool:
        """Take a message; return whether it is new."""
        key, past = entry.key, self.past
        if key in self.entries or key in past:
            return False
        self.entries[key] = entry
        for cause in entry.causes:
            if cause not in past or cause in self.early:
                needs = needed(entry.causes, self.topics)
                entry.lacks = {c for c in needs if c not in past or c in self.early}
                break
        if self.missed and key in self.missed:
            entry.late = True
        if not entry.lacks:
            self.ready[key] = entry
        else:
            self._hold(entry)
            if entry.is_old and not entry.is_shadow:
                self.outdate_one(entry)
        return True

    def is_known(self, key: str) -> bool:
        """Return whether a message would be a duplicate."""
        return key in self.entries or key in self.past

    def take(self, left: Collection[str] = ()) -> Entry | None:
        """Take out the message that became ready first, except those ``left``."""
        ready = self.ready
        if not left:
            return ready.popitem(last=False)[1] if ready else None
        for key in ready:
            if key not in left:
                return ready.pop(key)
        return None

    def take_one(self, key: str) -> Entry | None:
        """Take out a message that is ready."""
        return self.ready.pop(key, None)

    def put_back(self, key: str) -> None:
        """Make a message that was taken ready again, behind the others."""
        self.ready[key] = self.entries[key]

    def done(self, entry: Entry, now: float) -> None:
        """Mark a taken message as handled; what waited only for it becomes ready."""
        key = entry.key
        del self.entries[key]
        entry.state = DONE
        self.past[key] = (entry.causes, now, entry.unmet, entry.early)
        if entry.lacks:  # only in shadow mode
            self.early[key] = entry
        elif key in self._awaited:
            self._wake(key, now)

    def release(self, key: str, now: float) -> list[str]:
        """Release a message without its missing causes, after the causes that wait here.

        Return the keys of all messages released without a cause.
        """
        entry = self._held(key)
        self.parked.pop(key, None)
        released = []
        for each in self._ancestry(entry):
            entries = self.entries
            gone = {c for c in each.lacks if c not in entries or entries[c].state == PARKED}
            for cause in sorted(gone):
                self._drop(each, cause)
                if cause != each.key:
                    self.missed[cause] = now
                    if cause in entries:
                        entries[cause].late = True
            each.unmet = joined(each.unmet, sorted(gone))
            if gone:
                released.append(each.key)
            each.reason = ""
            self._settle(each)
        return released

    def park(self, key: str, reason: str) -> None:
        """Keep a message for a person."""
        self._park(self.ready[key] if key in self.ready else self._held(key), reason)

    def retry(self, key: str, now: float) -> None:
        """Treat a parked message as if it arrived now."""
        entry = self._held(key)
        if entry.state != PARKED:
            raise UsageError(
                f"{key} is {STATES[entry.state]}, not parked; only what is parked can be retried"
            )
        del self.parked[key]
        entry.came, entry.reason, entry.failures = now, "", 0
        if entry.lacks:
            self._hold(entry)
        else:
            self._settle(entry)

    def expire(self, before: float, then: Then, now: float) -> list[str]:
        """Release or park what has waited since ``before`` or longer; return its keys."""
        found = []
        for entry in list(self._since(before)):
            if entry.state != WAITING:
                continue
            if then == "release":
                found += self.release(entry.key, now)
            elif then == "park":
                lacks = ", ".join(sorted(entry.lacks)[:3])
                self._park(entry, f"waited {now - entry.came:.0f} s for {lacks}")
                found.append(entry.key)
        return found

    def outdate(self, before: float) -> None:
        """Count missing causes as done, for messages that were sent or came before a time."""
        for entry in [e for e in self.waiting.values() if min(e.sent, e.came) < before]:
            self.outdate_one(entry)

    def outdate_one(self, entry: Entry) -> None:
        """Count a message's missing causes as done, because they are too old."""
        for cause in sorted(entry.lacks):
            if cause not in self.entries:
                self._drop(entry, cause)
        if entry.state == WAITING:
            self._settle(entry)

    def forget(self, before: float) -> int:
        """Forget what was done before a time; return how many ids were forgotten."""
        gone = []
        for key, (_, at, _, _) in self.past.items():
            if at >= before:
                break
            gone.append(key)
        for key in gone:
            del self.past[key]
            self.early.pop(key, None)
        for key in [key for key, at in self.missed.items() if at < before]:
            del self.missed[key]
        return len(gone)

    def clock(self, now: float) -> None:
        """Handle a clock that was set back, by counting what waits as arriving now."""
        if now < self._latest:
            for entry in self.entries.values():
                entry.came = min(entry.came, now)
        self._latest = now

    def state_of(self, key: str) -> str:
        """Return a key's state, or ``"not here"``."""
        entry = self.entries.get(key)
        if entry is not None:
            return STATES[entry.state]
        return "done" if key in self.past else "not here"

    def _held(self, key: str) -> Entry:
        entry = self.entries.get(key)
        if entry is not None and entry.state in (WAITING, PARKED):
            return entry
        raise UsageError(not_held(key, self.state_of(key)))

    def _hold(self, entry: Entry) -> None:
        key = entry.key
        for cause in entry.lacks:
            self._awaited.setdefault(cause, {})[key] = entry
        if entry.is_shadow:
            entry.early = True
            entry.state = READY
            self.ready[key] = entry
            return
        entry.state = WAITING
        self.waiting[key] = entry
        if key in self._awaited:
            cycle = self._cycle(entry)
            for each in cycle:
                if each.state != PARKED:
                    self._park(each, cycle_reason(each.key, [one.key for one in cycle]))

    def _park(self, entry: Entry, reason: str) -> None:
        self.waiting.pop(entry.key, None)
        self.ready.pop(entry.key, None)
        entry.state, entry.reason = PARKED, reason
        self.parked[entry.key] = entry

    def _settle(self, entry: Entry) -> None:
        """Mark a message as waiting or ready, unless it is parked."""
        if entry.lacks:
            entry.state = WAITING
            self.waiting[entry.key] = entry
        else:
            self.waiting.pop(entry.key, None)
            entry.state = READY
            self.ready[entry.key] = entry

    def _drop(self, entry: Entry, cause: str) -> None:
        """Remove a cause from those that a message waits for."""
        entry.lacks.discard(cause)
        waiters = self._awaited[cause]
        del waiters[entry.key]
        if not waiters:
            del self._awaited[cause]

    def _wake(self, key: str, now: float) -> None:
        """Wake what waited only for a message; in shadow mode, also what was handled early."""
        queue = [key]
        while queue:
            cause = queue.pop()
            for waiter in self._awaited.pop(cause, {}).values():
                waiter.lacks.discard(cause)
                if waiter.lacks:
                    continue
                if waiter.early:
                    self.waits.append(max(0.0, now - waiter.came))
                if waiter.state == DONE:
                    self.early.pop(waiter.key, None)
                    queue.append(waiter.key)
                elif waiter.state == WAITING:
                    self._settle(waiter)

    def _since(self, before: float) -> Iterator[Entry]:
        for entry in self.waiting.values():
            if entry.came > before:
                return
            yield entry

    def _ancestry(self, entry: Entry) -> list[Entry]:
        """Return a message and the waiting messages that it waits for, also indirectly."""
        found = {entry.key: entry}
        stack = [entry]
        while stack:
            for cause in stack.pop().lacks:
                one = self.entries.get(cause)
                if one is not None and cause not in found and one.state == WAITING:
                    found[cause] = one
                    stack.append(one)
        return list(found.values())

    def _cycle(self, entry: Entry) -> list[Entry]:
        """Return all messages that wait for this one and that it waits for, also indirectly."""
        causes = self._reach(entry, lambda one: one.lacks)
        if entry.key not in causes:
            return []
        effects = self._reach(entry, lambda one: self._awaited.get(one.key, {}))
        return [self.entries[key] for key in sorted(causes & effects)]

    def _reach(self, entry: Entry, following: Callable[[Entry], Iterable[str]]) -> set[str]:
        """Return the keys of known messages reachable from a message; its own only on a cycle."""
        found: set[str] = set()
        stack = [entry]
        while stack:
            for key in following(stack.pop()):
                one = self.entries.get(key)
                if one is not None and key not in found:
                    found.add(key)
                    stack.append(one)
        return found


def cycle_reason(key: str, cycle: list[str]) -> str:
    """Return why a message on a cycle is parked."""
    if cycle == [key]:
        return "it names itself as a cause"
    others = [each for each in cycle if each != key]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"it waits for itself, through {', '.join(others[:3])}{more}"


def not_held(key: str, state: str) -> str:
    """Return the error message for a message that is not held."""
    if state == "not here":
        return f"{key} is not in the inbox; `antecede inbox` lists what waits or is parked"
    return f"{key} is {state}; only what waits or is parked can be released, parked or retried"
