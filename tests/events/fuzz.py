"""Feeds damaged logs to every reader: ``python -m tests.events.fuzz --seconds 600``.

The samples are small logs of each format, and real ones if available. They are damaged, read,
audited, drawn, and turned into traffic. The rules: only our own errors are raised, each in one
line, and nothing takes long.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecede import events as eventlog
from antecede.advise.api import costs_on
from antecede.advise.results import write as write_advice
from antecede.advise.traffic import schedule_of_log
from antecede.audit.api import draw
from antecede.audit.files import audit_here
from antecede.audit.results import allowance, write_results
from antecede.errors import AntecedeError
from antecede.events import Event
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.formats import FORMATS
from antecede.events.sources import Log, Source, read
from antecede.report.audit_page import report_page
from antecede.runs import RunFolder
from tests.support import campaigns
from tests.support.damage import damaged_bytes, damaged_json, damaged_lines, damaged_table
from tests.support.traces import REVERSED, S, flat, jaeger, otlp, zipkin

SECONDS_MAX = 30.0
"""How long one log may take; the samples have a few kilobytes."""
SHARED = Path(__file__).parents[3] / "shared" / "data"
STORY = [
    Event("a", 1, "send", "m1", ("b", "c"), 0.0),
    Event("a", 2, "send", "m2", ("b",), 1.0),
    Event("b", 1, "deliver", "m2", None, 2.0),
    Event("b", 2, "send", "m3", ("c",), 3.0),
    Event("c", 1, "deliver", "m3", None, 4.0),
    Event("c", 2, "local", "note", None, 4.5),
    Event("c", 3, "deliver", "m1", None, 5.0),
    Event("b", 3, "deliver", "m1", None, 5.5),
]
CLOCKED = """a {"a":1}
Sending m1 to b
a {"a":2}
Sending m2 to c
b {"b":1, "a":1}
Received m1 from a
b {"b":2, "a":1}
Sending m3 to c
c {"c":1, "b":2, "a":1}
Received m3 from b
c {"c":2, "b":2, "a":2}
Received m2 from a
"""
PATTERNS = {
    "send": r"Sending (?<message>\S+) to (?<to>\w+)",
    "deliver": r"Received (?<message>\S+) from (?<from>\w+)",
}
OPERATION = "messaging.operation.type"
POLLED = (
    S("shop", "PRODUCER", "a1", 1, 2, "create", attributes={OPERATION: "create"}),
    S("shop", "CLIENT", "a2", 3, 4, "send", links=("a1",), attributes={OPERATION: "send"}),
    S("mail", "CONSUMER", "b1", 0, 5, "receive orders", links=("a1",)),
    S("mail", "CONSUMER", "b2", 6, 7, "process orders", "b1", instance="10.0.0.1"),
)
_JSON = ("bytes", "lines", "json", "json", "json")
#: How to damage logs of a format, if not only by bytes and lines.
WAYS = {
    "parquet": ("bytes", "table", "table", "table"),
    **dict.fromkeys(("jsonl", "otlp", "jaeger", "zipkin", "spans", "records"), _JSON),
}

#: A log and how to read it.
Sample = tuple[bytes, dict[str, Any]]


def samples(form: str) -> list[Sample]:
    """Return whole logs of a format."""
    return [(data, {}) for data in _plain(form)] + _with_options(form)


def _plain(form: str) -> list[bytes]:
    traces = {"otlp": otlp, "jaeger": jaeger, "zipkin": zipkin, "spans": flat}
    if form in traces:
        return [traces[form](spans).encode() for spans in (REVERSED, POLLED)]
    if form == "parquet":
        return [_parquet(clocks=clocks) for clocks in (True, False)]
    if form == "edges":
        real = _shared("collegemsg.txt", 1500)
        return [b"source,destination,time\na,b,1\na,c,1\nb,c,2.5\n# end\nc c 3\n", *real]
    if form in {"csv", "jsonl"}:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"log.{form}"
            eventlog.write(path, STORY)
            return [path.read_bytes()]
    return []


def _with_options(form: str) -> list[Sample]:
    if form == "shiviz":
        logs = [CLOCKED.encode()]
        for name in ("reliable-broadcast", "chord", "simpledb", "voldemort"):
            logs += _shared(f"shiviz/{name}.log", 3000)
        return [(log, options) for log in logs for options in (PATTERNS, {})]
    if form == "text":
        frame = {"pattern": r"(?<time>\S+) (?<process>\w+) (?<kind>\w+) (?<message>\w+)"}
        timed = b"2026-03-02T10:00:00Z a sent m1\n5 b got m1\n7,5 b sent m2\n8 c got m2\n"
        numbered = {
            "send": r"(?<process>\w)(?<seq>\d+) > (?<to>\w+): (?<message>.*)",
            "deliver": r"(?<process>\w)(?<seq>\d+) < (?<from>\w+): (?<message>.*)",
        }
        return [(timed, frame), (b"a1 > b: hi\na2 > b: hi\nb1 < a: hi\nb2 < a: hi\n", numbered)]
    if form == "records":
        fields = {"process": "svc.name", "kind": "event.action", "message": "labels.id"}
        rows = [
            {"svc": {"name": p}, "event.action": k, "labels": json.dumps({"id": m}), "time": t}
            for t, (p, k, m) in enumerate([("a", "sent", "m1"), ("b", "got", "m1")])
        ]
        listed = json.dumps({"hits": {"hits": [{"_source": row} for row in rows]}})
        lines = "\n".join(map(json.dumps, rows))
        return [(text.encode(), {"fields": fields}) for text in (listed, lines)]
    return []


def _shared(name: str, size: int) -> list[bytes]:
    """Return the beginning of a real log, if it is at hand."""
    path = SHARED / name
    if not path.exists():
        return []
    return [path.read_bytes()[:size].rpartition(b"\n")[0] + b"\n"]


def _parquet(*, clocks: bool) -> bytes:
    from antecede.events.sources import table_of

    table = table_of(STORY)
    if clocks:
        column = pa.array([[("a", k)] for k in range(len(STORY))], CLOCKS)
        table = table.append_column("clock", column)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none")
    return sink.getvalue()


@dataclass
class Campaign:
    """A seeded series of damaged logs of one format; ``findings`` are the rules broken."""

    form: str
    seed: int
    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.form} {self.seed}")
        self.samples = samples(self.form)
        self.path = self.folder / "damaged.log"

    def step(self) -> None:
        """Damage one sample and check the outcome."""
        data, options = self.chance.choice(self.samples)
        data = self.damaged(data)
        self.path.write_bytes(data)
        form = None if self.chance.random() < 0.1 else self.form
        source = Source(self.path, form, **options)
        self.counts["logs"] += 1
        start = time.process_time()
        try:
            self.use(source)
        except AntecedeError as error:
            self.counts[f"refused: {type(error).__name__}"] += 1
            if "\n" in str(error) or not str(error):
                self.found(data, f"an error is not one line: {error!r}")
        except Exception as error:  # noqa: BLE001  (any other exception is what we look for)
            self.found(data, f"{type(error).__name__}: {error}")
        if time.process_time() - start > SECONDS_MAX:
            self.found(data, f"took more than {SECONDS_MAX} s")

    def damaged(self, data: bytes) -> bytes:
        match self.chance.choice(WAYS.get(self.form, ("bytes", "lines"))):
            case "bytes":
                return damaged_bytes(self.chance, data, [other for other, _ in self.samples])
            case "lines":
                return damaged_lines(self.chance, data)
            case "table":
                return damaged_table(self.chance, data)
            case _:
                return damaged_json(self.chance, data)

    def use(self, source: Source) -> None:
        """Use a log as the verbs do."""
        log = self.read(source)
        audited = audit_here([source])
        for one in audited.values():
            self.counts[f"verdict {one.audit.verdict}"] += 1
        drawing = draw(log, None)
        if self.chance.random() < 0.1:
            report_page("log", drawing.text, drawing.illustrations, {})
            with RunFolder.open(self.folder / "out", "audit", options={}) as folder:
                allowed = {name: allowance(one.audit, 0, []) for name, one in audited.items()}
                write_results(folder, audited, allowed)
            self.counts["pages"] += 1
        schedule = schedule_of_log(log, "log")
        self.counts["logs replayed"] += 1
        if self.chance.random() < 0.05:
            costs = costs_on(schedule, ["optimal", "central"])
            with RunFolder.open(self.folder / "advice", "advise", options={}) as folder:
                write_advice(folder, schedule, costs, log, "log")
            self.counts["logs advised"] += 1

    def read(self, source: Source) -> Log:
        log = read(source)
        self.counts["logs read"] += 1
        self.counts["rows rejected"] += log.bad
        return log

    def found(self, data: bytes, what: str) -> None:
        name = self.folder / f"finding-{self.form}-{self.seed}-{len(self.findings)}"
        name.write_bytes(data)
        self.findings.append(f"{self.form}: {what} (see {name})")


def fuzz(form: str, seconds: float, seed: int, folder: Path) -> list[str]:
    """Run campaigns on one reader for some seconds, print a summary, and return findings."""
    Campaign(form, seed, folder).step()  # compile before the clock starts
    return campaigns.run(
        lambda each: Campaign(form, each, folder), seconds, seed, steps=1000, label=f"{form}: "
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed damaged logs to every reader.")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", default=[], choices=FORMATS)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=f"antecede-fuzz-{os.getpid()}-"))
    findings: list[str] = []
    for form in chosen.format or FORMATS:
        findings += fuzz(form, chosen.seconds, chosen.seed, folder)
    return campaigns.conclude(findings)


if __name__ == "__main__":
    raise SystemExit(main())
