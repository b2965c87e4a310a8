"""Differences between two controls of sorted entries, for channels that keep order.

[KS98] section 3.5 asks that nothing be sent twice over a channel. In its logs absence is
information, so a difference names what is gone as well as what is new. One absence need not be
named: an entry without destinations is gone as soon as its sender has a newer one.
"""

from typing import TypeGuard, cast

from antecede.core.entries import Entries, size_of
from antecede.core.messages import ControlSize
from antecede.core.validation import is_count

Difference = tuple[str, tuple[tuple[str, int], ...], Entries]
"""A mark that no plain control starts with, the entries gone, and those new or changed."""
MARK = "diff"


def difference(before: Entries, after: Entries) -> Entries | Difference:
    """Return what turns ``before`` into ``after``, or ``after`` itself where that is smaller.

    In ``after``, only the newest entry of a sender may have no destinations.
    """
    old, new = _by_id(before), _by_id(after)
    newest = _newest(new)
    gone = tuple(
        key
        for key, dests in old.items()
        if key not in new and (dests or key[1] > newest.get(key[0], 0))
    )
    fresh = tuple(entry for entry in after if old.get(entry[:2]) != entry[2])
    result: Difference = (MARK, gone, fresh)
    return result if measured(result).model_bytes < measured(after).model_bytes else after


def applied(before: Entries, control: Entries | Difference) -> Entries:
    """Return the control from which :func:`difference` was made; any difference can be applied."""
    if not is_difference(control):
        return cast("Entries", control)
    entries = _by_id(before)
    for key in control[1]:
        entries.pop(key, None)
    entries.update(_by_id(control[2]))
    newest = _newest(entries)
    return tuple(
        (sender, clock, dests)
        for (sender, clock), dests in sorted(entries.items())
        if dests or clock == newest[sender]
    )


def is_difference(control: object) -> TypeGuard[Difference]:
    """Tell a difference from a plain control, without looking at its entries."""
    if type(control) is not tuple or len(control) != 3 or control[0] != MARK:
        return False
    return type(control[1]) is tuple and all(map(_is_key, control[1]))


def measured(control: Entries | Difference) -> ControlSize:
    """Return the size by the model of [JPCY97]; an entry that is gone counts too."""
    if is_difference(control):
        return size_of(control[2], len(control[1]))
    return size_of(cast("Entries", control))


def _by_id(entries: Entries) -> dict[tuple[str, int], tuple[str, ...]]:
    return {(sender, clock): dests for sender, clock, dests in entries}


def _newest(entries: dict[tuple[str, int], tuple[str, ...]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for sender, clock in entries:
        result[sender] = max(clock, result.get(sender, 0))
    return result


def _is_key(key: object) -> bool:
    return type(key) is tuple and len(key) == 2 and type(key[0]) is str and is_count(key[1], 1)
