"""What an inbox handled, as an event log that ``antecede audit`` judges.

An inbox knows declared causes, but not who ran where. So the log has one process per inbox, which
delivers, and for each message a sender that first gets its causes and then sends it: the log orders
sends exactly as the causes do. A sender is named after its message; messages that form a chain
share a sender, so that there are few.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from antecede.errors import StoreError, UsageError, shown
from antecede.inbox.records import Store


def write_events(path: str | os.PathLike[str], stores: Iterable[Store]) -> int:
    """Write the log, completely or not at all; return its number of events."""
    if not isinstance(path, str | os.PathLike) or not Path(path).name:
        raise UsageError(f"the path of the event log is {shown(path)}; give a file")
    path = Path(path)
    part = path.with_name(path.name + ".part")
    count = 0
    try:
        with part.open("w", encoding="utf-8") as file:
            for event in events(list(stores)):
                file.write(json.dumps(event, ensure_ascii=False) + "\n")
                count += 1
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write the event log {str(path)!r}: {error.strerror}; choose another path"
        ) from error
    return count


def events(stores: list[Store]) -> Iterator[dict[str, Any]]:
    """Yield the events: the senders' first, then each inbox's deliveries."""
    causes: dict[str, tuple[str, ...]] = {}
    handled: list[list[tuple[str, float]]] = []
    for store in stores:
        mine = []
        for one in store.handled():
            mine.append((one.key, one.at))
            causes.setdefault(one.key, one.causes)
        for out in store.sent():
            causes.setdefault(out.key, out.causes)
        handled.append(mine)
    got = [{key for key, _ in mine} for mine in handled]
    yield from _sends(causes, [store.name for store in stores], got)
    names: dict[str, int] = {}
    for store, mine in zip(stores, handled, strict=True):
        for key, at in mine:
            names[store.name] = names.get(store.name, 0) + 1
            yield _event(store.name, names[store.name], "deliver", key, at)


def _sends(
    causes: dict[str, tuple[str, ...]], names: list[str], got: list[set[str]]
) -> Iterator[dict[str, Any]]:
    """Yield the events of the senders, each message after its causes."""
    last: dict[str, str] = {}  # the last message of each sender
    sender_of: dict[str, str] = {}
    numbers: dict[str, int] = {}
    place: dict[str, int] = {}
    for at, key in enumerate(_in_order(causes)):
        place[key] = at
        known = sorted(
            (cause for cause in causes[key] if cause in sender_of), key=place.__getitem__
        )
        mine = next((c for c in known if last[sender_of[c]] == c), None)
        sender = f"sender of {key}" if mine is None else sender_of[mine]
        sender_of[key], last[sender] = sender, key
        for cause in known:
            if sender_of[cause] != sender:
                numbers[sender] = numbers.get(sender, 0) + 1
                yield _event(sender, numbers[sender], "deliver", cause, None)
        numbers[sender] = numbers.get(sender, 0) + 1
        dests = [name for name, keys in zip(names, got, strict=True) if key in keys]
        yield {**_event(sender, numbers[sender], "send", key, None), "dests": dests}


def _in_order(causes: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the keys, each after its known causes; a cycle is cut."""
    done: set[str] = set()
    for first, own in causes.items():
        stack = [(first, iter(own))]
        opened = {first}
        while stack:
            key, rest = stack[-1]
            for cause in rest:
                if cause in causes and cause not in done and cause not in opened:
                    opened.add(cause)
                    stack.append((cause, iter(causes[cause])))
                    break
            else:
                stack.pop()
                if key not in done:
                    done.add(key)
                    yield key


def _event(process: str, seq: int, kind: str, message: str, time: float | None) -> dict[str, Any]:
    event: dict[str, Any] = {"process": process, "seq": seq, "kind": kind, "message": message}
    return event if time is None else {**event, "time": time}
