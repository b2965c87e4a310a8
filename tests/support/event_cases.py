"""Rows and whether they are events: one table of cases for every reader of the event log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
GOOD: dict[str, Any] = {
    "process": "a",
    "seq": 1,
    "kind": "send",
    "message": "m",
    "dests": ["b", "c"],
    "time": 0.5,
}


@dataclass(frozen=True)
class Case:
    """A row that differs from ``GOOD`` in ``changed``, and the expected result of reading it.

    ``reason`` is why it is rejected (None: it is an event, and reads as ``GOOD`` with ``changed``
    and then ``read``). ``types`` are the Arrow types of columns that do not have the plain ones;
    ``csv`` and ``json`` say whether these formats can hold the row.
    """

    name: str
    changed: dict[str, Any]
    reason: str | None = None
    read: dict[str, Any] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    csv: bool = True
    json: bool = True

    def expected(self) -> dict[str, Any]:
        """Return the columns of the event that readers should find."""
        return GOOD | self.changed | self.read


CASES = [
    Case("send", {}),
    Case("deliver", {"kind": "deliver", "dests": None}),
    Case("local without a message", {"kind": "local", "message": None, "dests": None}),
    Case("local with a message", {"kind": "local", "dests": None}),
    Case("no process", {"process": None}, "process is missing"),
    Case("empty process", {"process": ""}, "process is missing"),
    Case("no seq", {"seq": None}, "seq is missing"),
    Case("no kind", {"kind": None}, "kind is missing"),
    Case("unknown kind", {"kind": "sned"}, "kind is 'sned'; expected one of send, deliver, local"),
    Case("kind in capitals", {"kind": "SEND"}, "kind is 'SEND'; expected"),
    Case("send without a message", {"message": None}, "a send event needs a message"),
    Case("send with an empty message", {"message": ""}, "a send event needs a message"),
    Case(
        "deliver without a message",
        {"kind": "deliver", "message": None},
        "a deliver event needs a message",
    ),
    Case("no dests", {"dests": None}),
    Case("dests to nobody", {"dests": []}, csv=False),
    Case("one dest", {"dests": ["b"]}),
    Case("a null among dests", {"dests": ["b", None]}, "dests is not a list", csv=False),
    Case("an empty name among dests", {"dests": ["", "b"]}, "dests contains an empty", csv=False),
    Case("an empty name among a local event's dests", {"kind": "local", "dests": [""]}, "dests",
         csv=False),
    Case("names with spaces", {"process": " a b ", "message": "m 1"}),
    Case("names that are not ASCII", {"process": "é", "message": "日本", "dests": ["ü"]}),
    Case("negative seq", {"seq": -5}),
    Case("the lowest seq", {"seq": -(2**63)}),
    Case("the highest seq", {"seq": 2**63 - 1}),
    Case("seq too high", {"seq": 2**63}, "seq is not a 64-bit", types={"seq": pa.uint64()}),
    Case("seq too high as a decimal", {"seq": 2**63}, "seq is not a 64-bit",
         types={"seq": pa.decimal128(30, 0)}),
    Case("negative seq as a decimal", {"seq": -7}, types={"seq": pa.decimal128(5, 0)}),
    Case("seq too low", {"seq": -(2**63) - 1}, "seq is not a 64-bit",
         types={"seq": pa.decimal128(20, 0)}),
    Case("small seq", {"seq": 3}, types={"seq": pa.int8()}),
    Case("no time", {"time": None}),
    Case("time that is not a number", {"time": NAN}, read={"time": None}),
    Case("infinite time", {"time": INF}, read={"time": None}),
    Case("infinite time in the past", {"time": -INF}, read={"time": None}),
    Case("whole time", {"time": 3}, types={"time": pa.int64()}),
    Case("unsigned time", {"time": 3}, types={"time": pa.uint64()}),
    Case("a time with a zone", {"time": datetime(2024, 1, 1, tzinfo=UTC)},
         read={"time": 1704067200.0}, types={"time": pa.timestamp("us", "UTC")}, json=False),
    Case("a time without a zone", {"time": datetime(2024, 1, 1, 0, 0, 0, 500_000)},  # noqa: DTZ001
         read={"time": 1704067200.5}, types={"time": pa.timestamp("ns")}, json=False),
    Case("a date as text", {"time": "2024-01-01T00:00:00.5Z"}, read={"time": 1704067200.5},
         types={"time": pa.string()}),
    Case("a number as text", {"time": "17.5"}, read={"time": 17.5}, types={"time": pa.string()}),
    Case("text that is no time", {"time": "soon"}, read={"time": None},
         types={"time": pa.string()}),
    Case("dests as text", {"dests": "b; c"}, read={"dests": ["b", "c"]},
         types={"dests": pa.string()}, csv=False),
    Case("dests as text of one name", {"dests": "b"}, read={"dests": ["b"]},
         types={"dests": pa.large_string()}, csv=False),
    Case("no dests in the text", {"dests": " ;"}, read={"dests": None},
         types={"dests": pa.string()}, csv=False),
    Case("seq in floating point", {"seq": 3.0}, types={"seq": pa.float64()}, json=False, csv=False),
    Case("seq with a fraction", {"seq": 3.5}, "seq is not a 64-bit",
         types={"seq": pa.float64()}),
    Case("negative time", {"time": -1e300}),
    Case(
        "numbers as names",
        {"process": 1, "message": 17, "dests": [2, 3]},
        read={"process": "1", "message": "17", "dests": ["2", "3"]},
        types={"process": pa.int64(), "message": pa.uint64(), "dests": pa.list_(pa.int32())},
    ),
    Case("bytes as names", {"process": b"a", "kind": b"send", "message": b"m", "dests": [b"b"]},
         read={"process": "a", "kind": "send", "message": "m", "dests": ["b"]},
         types={"process": pa.binary(), "kind": pa.binary(), "message": pa.large_binary(),
                "dests": pa.list_(pa.binary())}, csv=False, json=False),
    Case("dictionaries", {}, types={"process": pa.dictionary(pa.int32(), pa.string()),
                                    "message": pa.dictionary(pa.int32(), pa.string())}),
    Case("process is not UTF-8", {"process": b"a\xff"}, "not UTF-8"),
    Case("message is not UTF-8", {"message": b"\xe9"}, "not UTF-8"),
    Case("half a surrogate pair", {"message": b"\xed\xa0\x80"}, "not UTF-8"),
    Case("a dest is not UTF-8", {"dests": ["b", b"\xff"]}, "not UTF-8"),
    Case("bytes that are not UTF-8", {"process": b"a\xff"}, "not UTF-8",
         types={"process": pa.binary()}, csv=False, json=False),
]  # fmt: skip
