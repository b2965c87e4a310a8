"""Make the page docs/benchmarks.md from the tables of a run, so that no figure is typed by hand.

python -m benchmarks --out docs/measured
make docs
"""

from __future__ import annotations

import csv
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from antecede import __version__

MEASURED = Path(__file__).resolve().parents[1] / "docs" / "measured"
Row = dict[str, str]
#: The input of each engine of Spark.
_ARRANGED = {"slices": "Parquet in the order of time", "blobs": "any DataFrame"}
COLUMNS = 100


class Column(NamedTuple):
    """A column of a table: its title, and its text for a row."""

    title: str
    show: Callable[[Row], str]


def count(name: str, title: str = "", *, scale: float = 1.0, digits: int | None = None) -> Column:
    """Return a column of figures; large figures have no digits after the point."""

    def show(row: Row) -> str:
        text = row.get(name, "")
        if text in ("", "None"):
            return "-"
        value = float(text) * scale
        places = digits if digits is not None else 0 if abs(value) >= 100 else 1
        return f"{value:,.{places}f}"

    return Column(title or name.replace("_", " "), show)


def word(name: str, title: str = "") -> Column:
    """Return a column of words or whole numbers."""
    return Column(title or name, lambda row: row.get(name, "") or "-")


def benchmarks_page(folder: Path = MEASURED) -> str:
    """Return the page."""
    runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    page = Page(folder, runs)
    lines = ["# Benchmarks", *page.answers(), *page.head()]
    for section in (kernels, endpoints, sizes, audit, reorder, nodes, logs, inbox):
        title, *rest = section(page)
        lines += ["", title, *page.caution(), *rest]
    return "\n".join(lines) + "\n"


class Page:
    """The tables of a folder."""

    def __init__(self, folder: Path, runs: dict[str, dict[str, Any]]) -> None:
        self.folder, self.runs = folder, runs
        self._used: set[str] = set()

    def answers(self) -> Iterator[str]:
        """Yield the five figures that people ask for, each with its comparison."""
        yield from ("", "| what people ask | answer | compared with |", "| --- | --- | --- |")
        sizes = [
            f"{float(row['bytes']):.0f} at n = {n}"
            for n in ("3", "10", "50")
            for row in self.rows(
                "endpoints", protocol="optimal", n=n, cast="unicast", version="now"
            )
        ]
        matrix = self.rows("endpoints", protocol="matrix", n="50", cast="unicast", version="now")
        other = [f"`matrix` at n = 50: {float(row['bytes']):,.0f}" for row in matrix]
        yield _answer("Bytes of a packet of `optimal`, one destination", sizes, other)
        echo = self.rows("brokers", window="256")
        yield _answer(
            "Echoes per second of a node over TCP, in memory",
            [f"{float(row['node_tcp']):,.0f}" for row in echo],
            [f"core NATS in the same run: {float(row['core']):,.0f}" for row in echo],
        )
        kafka, late = (
            self.rows("logs_rates", order="enforce"),
            self.rows("logs_latency", order="enforce"),
        )
        yield _answer(
            "Order over Kafka: rate, and delay added (median, 99%)",
            [f"{float(row['of_off']):.0%}" for row in kafka]
            + [
                f"{max(float(row['added_p50_ms']), 0):.1f} ms, {float(row['added_p99_ms']):.0f} ms"
                for row in late
            ],
            ["the same consumer without order"],
        )
        stores = self.rows("inbox")
        yield _answer(
            "Inbox: messages handled per second",
            [f"{float(row['inbox']):,.0f} ({row['store']})" for row in stores[:2]],
            [f"a plain queue in the same store: {float(row['plain']):,.0f}" for row in stores[:2]],
        )
        log = self.rows("audit", events="20000000")
        yield _answer(
            "Audit on Spark: events per second of 20 million, two cores",
            [
                f"{float(row['rate']):,.0f} ({_ARRANGED[row['engine']]})"
                for row in log
                if row["engine"] in _ARRANGED
            ],
            ["600,000 of any DataFrame, the bound"],
        )

    def head(self) -> Iterator[str]:
        """Yield the origin of the figures: machine, commit, time."""
        yield from ("", "## Where the figures come from", "")
        yield wrapped(
            "Everything on this page comes from the tables in `docs/measured`, which one command "
            "writes, and `make docs` makes the page of them:"
        )
        yield from ("", "```console", "$ python -m benchmarks --out docs/measured")
        yield from ("$ make docs", "```", "")
        yield wrapped(
            "Absolute figures depend on the machine, and on what else it does. So every section "
            "compares with something that was measured in the same run. The name of a "
            "benchmark after the command runs that one alone and renews only its tables; `--quick` "
            "uses tiny inputs, to see that it works."
        )
        quick = sorted(name for name, run in self.runs.items() if run["quick"])
        if quick:
            yield ""
            yield wrapped(
                f"**The figures of {', '.join(quick)} are from a run with `--quick`: they show "
                "that it works, and say nothing about speed.**"
            )
        if old := sorted(n for n, run in self.runs.items() if run["version"] != __version__):
            yield ""
            yield wrapped(
                f"**Not measured on {__version__}: {', '.join(old)}.** Tables of different commits "
                "must not be compared with each other. A commit below is the one that was "
                "measured, or the next, which brought the tables."
            )
        yield from (
            "",
            "| benchmark | antecede | commit | ended (UTC) | seconds | bounds | machine |",
        )
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for name, run in self.runs.items():
            machine = f"{run['cores']} x {run['processor']}, Python {run['python']}"
            ended = run["ended"][:16].replace("T", " ")
            which = f"{run['version']} | {run.get('commit', '-')} | {ended} | {run['seconds']}"
            yield f"| {name} | {which} | {bounds(run)} | {machine} |"

    def is_quick(self, table: str) -> bool:
        """Return whether a table is from a run with tiny inputs."""
        return any(run["quick"] for run in self.runs.values() if table in run["tables"])

    def caution(self) -> Iterator[str]:
        """Yield a warning if tables used since the last call say nothing about speed."""
        used = [
            name
            for name, run in self.runs.items()
            if run["quick"] and not self._used.isdisjoint(run["tables"])
        ]
        self._used.clear()
        if used:
            yield ""
            yield wrapped(
                f"**From a run with `--quick`, so not to be compared: {', '.join(used)}.**"
            )

    def rows(self, table: str, **wanted: str) -> list[Row]:
        """Return the rows of a table with these values."""
        path = self.folder / f"{table}.csv"
        if not path.exists():
            return []
        self._used.add(table)
        with path.open(newline="", encoding="utf-8") as file:
            every = list(csv.DictReader(file))
        return [row for row in every if all(row[key] == value for key, value in wanted.items())]

    def table(self, rows: Iterable[Row], *columns: Column) -> Iterator[str]:
        """Yield rows as a Markdown table."""
        shown = [[column.show(row) for column in columns] for row in rows]
        if not shown:
            yield "Not measured on that machine."
            return
        used = [at for at in range(len(columns)) if any(row[at] != "-" for row in shown)]
        yield "| " + " | ".join(columns[at].title for at in used) + " |"
        yield "|" + " --- |" * len(used)
        for row in shown:
            yield "| " + " | ".join(row[at] for at in used) + " |"

    def where(self, begin: str) -> Iterator[str]:
        """Yield a line on where the time goes for each kind of work."""
        found: dict[str, list[str]] = {}
        for row in self.rows("where"):
            if row["what"].startswith(begin):
                share = f"{row['part']} {float(row['share']):.0%}"
                found.setdefault(row["what"], []).append(share)
        for what, parts in found.items():
            yield ""
            yield wrapped(f"Where the time goes, {what}: {', '.join(parts)}.")


def _answer(question: str, *cells: list[str]) -> str:
    """Return a row of the table at the top."""
    return f"| {' | '.join([question, *('; '.join(cell) or 'not measured' for cell in cells)])} |"


def bounds(run: dict[str, Any]) -> str:
    """Return whether a run met its bounds, and which it missed."""
    if run["quick"]:
        return "not checked"
    if run["bounds_met"]:
        return "met"
    return ": ".join(["missed", *filter(None, [", ".join(run.get("missed", []))])])


def wrapped(text: str) -> str:
    """Return text broken into lines."""
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def pivot(rows: Iterable[Row], key: str, value: str) -> tuple[list[Row], list[str]]:
    """Return a row per protocol with a column for each value of ``key``, and these values."""
    found: dict[str, Row] = {}
    seen: dict[str, None] = {}
    for row in rows:
        found.setdefault(row["protocol"], {"protocol": row["protocol"]})[row[key]] = row[value]
        seen[row[key]] = None
    return list(found.values()), list(seen)


def kernels(page: Page) -> Iterator[str]:
    """Yield the section on kernels."""
    yield from ("## Kernels against C", "")
    yield wrapped(
        "`optimal` on the workload of [[JPCY97]](../src/antecede/protocols/pruned.py), in million "
        "deliveries per processor second: the plain engine, which drives real endpoints; the "
        "compiled kernel, alone and with its schedule made first; and a C program of the same "
        "simulation (`benchmarks/yardstick.c`), compiled with `-O3 -march=native` and run in turn "
        "with the kernel."
    )
    yield ""
    million = partial(count, scale=1e-6, digits=3)
    yield from page.table(
        page.rows("kernels_c"), word("n"), word("cast"), million("plain"),
        million("kernel"), million("with_schedule"), million("c", "C"),
        count("of_c", "kernel : C", digits=1), count("of_plain", "kernel : plain", digits=0),
    )  # fmt: skip
    for cast in ("unicast", "multicast"):
        rows, sizes = pivot(page.rows("growth", cast=cast), "n", "us")
        if rows:
            yield from ("", f"How it grows: microseconds per delivery by n, {cast}.", "")
            yield from page.table(
                rows, word("protocol"), *(count(n, f"n={n}", digits=2) for n in sizes)
            )
    yield from page.where("kernel")


VERSIONS = {
    "base": "`base` is the commit before endpoints were rebuilt from one class and small rules. ",
    "now": "`now` are the present sources. ",
}


def endpoints(page: Page) -> Iterator[str]:
    """Yield the section on endpoints."""
    yield from ("## Endpoints", "")
    yield wrapped(
        "Deliveries of `optimal` per processor second, without and with the codec, and bytes of a "
        "packet without its payload. "
        + "".join(
            text for version, text in VERSIONS.items() if page.rows("endpoints", version=version)
        )
        + "All run the same traffic in turn. [All protocols](measured/endpoints.csv) are in the "
        "table of the run."
    )
    yield ""
    versions: dict[tuple[str, str], Row] = {}
    for row in page.rows("endpoints", protocol="optimal"):
        one = versions.setdefault((row["n"], row["cast"]), {"n": row["n"], "cast": row["cast"]})
        one |= {f"{row['version']}_{name}": row[name] for name in ("bare", "coded", "bytes")}
    columns = [
        count(f"{version}_{name}", f"{version}{' with codec' if name == 'coded' else ''}", digits=0)
        for version in VERSIONS
        for name in ("bare", "coded")
    ]
    yield from page.table(
        versions.values(), word("n"), word("cast"), *columns, count("now_bytes", "bytes", digits=1)
    )
    yield from page.where("endpoints")


def sizes(page: Page) -> Iterator[str]:
    """Yield the section on sizes."""
    yield from ("## Sizes on the wire", "")
    yield wrapped(
        "Bytes of control per copy as the codec encodes them, against the model of [JPCY97] (2 "
        "bytes an id, 4 a clock), late in a long run."
    )
    yield ""
    rows = [row for row in page.rows("wire_sizes") if float(row["model"])]
    ratio = Column("wire : model", lambda row: f"{float(row['wire']) / float(row['model']):.2f}")
    yield from page.table(
        rows, word("protocol"), word("n"), word("cast"), count("wire", digits=1),
        count("model", digits=1), ratio,
    )  # fmt: skip
    yield ""
    yield wrapped(
        "How it grows: bytes of control per message on the wire, all its copies together, at load "
        "0.5: packets take half as long as a process waits between its sends. "
        "Packets that a protocol adds (acknowledgements, permits, relays) are counted apart. "
        "Where there is no figure, no message was left to measure. "
        "[All n, casts and loads](measured/control_bytes.csv) are in one table, which `python -m "
        "benchmarks control_bytes --out FOLDER` writes."
    )
    for cast in ("unicast", "multicast", "broadcast"):
        chosen = page.rows("control_bytes", cast=cast, load="0.5")
        found, numbers = pivot(map(per_message, chosen), "n", "wire_per_message")
        extras, _ = pivot(chosen, "n", "extra_packets_per_message")
        last = numbers[-1] if numbers else ""
        for row, more in zip(found, extras, strict=True):
            row["extras"] = more.get(last, "")
        yield from ("", f"{cast.capitalize()}:", "")
        yield from page.table(
            found, word("protocol"), *(count(n, f"n={n}", digits=1) for n in numbers),
            count("extras", f"packets added per message at n={last}", digits=2),
        )  # fmt: skip


def per_message(row: Row) -> Row:
    """Return a row with the wire bytes of all copies of a message, if any was measured."""
    if row["model_bytes_per_message"] in ("", "None"):
        return row | {"wire_per_message": ""}
    copy, model, message = (
        float(row[name] or 0)
        for name in ("wire_bytes_per_copy", "model_bytes_per_copy", "model_bytes_per_message")
    )
    return row | {"wire_per_message": str(copy * message / model if model else copy)}


def audit(page: Page) -> Iterator[str]:
    """Yield the section on the audit."""
    yield from ("## Audit", "")
    yield wrapped(
        "Million events per second by the clock, on two cores with Spark embedded: `slices` from "
        "Parquet in the order of time, `blobs` from any DataFrame, `local` in one process without "
        "Spark, `single pass` a yardstick of 60 lines that only counts late deliveries. `slices` "
        "and `local` include tables and page. The npm package `causal-order` puts events with "
        "declared parents in order; it does not look for violations."
    )
    yield ""
    npm = [row | {"engine": "npm causal-order"} for row in page.rows("audit_npm")]
    yield from page.table(
        page.rows("audit") + npm, word("engine"), count("events", digits=0), word("n", "processes"),
        count("seconds", digits=2), count("rate", "million events/s", scale=1e-6, digits=2),
    )  # fmt: skip
    memory = [
        row | {"where": f"{row['engine']} ({int(row['events']):,} events)"}
        for row in page.rows("audit")
        if row.get("gib")
    ]
    if memory:
        told = ", ".join(f"{row['where']} {float(row['gib']):.2f} GiB" for row in memory)
        yield from ("", wrapped(f"Memory at its peak: {told}."))
    yield from page.where("local audit")


def reorder(page: Page) -> Iterator[str]:
    """Yield the section on reordering."""
    yield from ("## Reorder", "")
    yield wrapped(
        "Rows per second of a stream from Parquet to Parquet on Spark, without and with "
        "`reorder`. With small disorder a row is at most some twenty places away from where it "
        "belongs, with large disorder a fifth of a batch."
    )
    yield ""
    yield from page.table(
        page.rows("reorder"), word("destinations"), word("disorder"),
        count("plain", "rows/s without", digits=0), count("ours", "rows/s with", digits=0),
        count("share", "share", digits=2),
    )  # fmt: skip
    for row in page.rows("reorder_packets"):
        yield ""
        yield wrapped(
            f"Rows that carry packets: {float(row['spark']):,.0f} rows/s on Spark, where the codec "
            f"and an endpoint alone take {float(row['alone']):,.0f} in one process."
        )
    linear = page.rows("reorder_linear")
    if linear:
        told = ", ".join(
            f"{float(row['us_per_row']):.1f} us a row in batches of {int(row['batch_rows']):,}"
            for row in linear
        )
        yield from ("", wrapped(f"How it grows: {told}."))
    phases = page.rows("reorder_phases", case="10-small")
    if phases:
        yield from ("", "Where the time of a batch goes, in milliseconds, by Spark's own phases:")
        yield ""
        names = [name for name in phases[0] if name not in ("case", "reorders")]
        yield from page.table(
            phases[-2:],
            word("reorders", "reorder"),
            *(count(name, name, digits=0) for name in names),
        )


def logs(page: Page) -> Iterator[str]:
    """Yield the section on order over Kafka."""
    yield from ("## Order over Kafka", "")
    yield wrapped(
        "Records per second that one instance handles from a backlog, order to payment to shipment "
        "over 3 topics of 4 partitions, with a handler that does nothing, on the mock cluster of "
        "librdkafka in the same process; and as a share of the rate without order."
    )
    yield ""
    yield from page.table(
        page.rows("logs_rates"), word("order"), count("rate", "records/s", digits=0),
        count("of_off", "of off", digits=2),
    )  # fmt: skip
    yield ""
    yield wrapped(
        "Milliseconds from the acknowledged write to the start of the handler, two instances, at "
        "an easy pace; look-ups of the group's progress, commits, and records that came early, "
        "each per record."
    )
    yield ""
    yield from page.table(
        page.rows("logs_latency"), word("order"), count("p50_ms", "p50", digits=1),
        count("p99_ms", "p99", digits=1), count("added_p50_ms", "added p50", digits=1),
        count("added_p99_ms", "added p99", digits=1), count("look_ups", "look-ups", digits=2),
        count("commits", digits=2), count("early", digits=2),
    )  # fmt: skip
    yield ""
    yield wrapped(
        "Headers of simulated traffic: ten services, 20 topics of 12 partitions. In the first "
        "three a handler's own context is stamped; in the last, positions are kept with "
        "long-lived rows."
    )
    yield ""
    yield from page.table(
        page.rows("logs_bytes"), word("traffic"), count("entries", digits=1),
        count("bytes", "bytes, mean", digits=0), count("p99", "bytes, p99", digits=0),
    )  # fmt: skip


def inbox(page: Page) -> Iterator[str]:
    """Yield the section on inboxes."""
    yield from ("## Inboxes", "")
    yield wrapped(
        "Messages of 200 bytes per second, each naming the one before it of its order, handled in "
        "the order of their causes with a row written for each; against the same program with a "
        "plain queue in the same store, which inserts, takes the oldest and deletes. In memory "
        "and in groups per processor second, else by the clock; instances are processes."
    )
    yield ""
    yield from page.table(
        page.rows("inbox"), word("store"), count("messages", digits=0),
        count("inbox", "inbox, messages/s", digits=0),
        count("plain", "plain queue, messages/s", digits=0),
        count("ratio", "inbox : plain", digits=2),
    )  # fmt: skip
    yield ""
    yield wrapped("SQLite in groups, with so many ids remembered:")
    yield ""
    yield from page.table(
        page.rows("inbox_remembered"), count("ids", digits=0),
        count("rate", "messages/s", digits=0),
    )  # fmt: skip


def nodes(page: Page) -> Iterator[str]:
    """Yield the section on nodes."""
    yield from ("## Nodes", "")
    yield wrapped(
        "Echoes of 256-byte messages between one process and two others per processor second of "
        "the sender, against the same frames echoed by asyncio streams and by an asyncio protocol "
        "that writes once per read."
    )
    yield ""
    yield from page.table(
        page.rows("node_echo"), word("window"), count("streams", "asyncio streams", digits=0),
        count("batched", "asyncio protocol", digits=0), count("node", digits=0),
        count("of_streams", "node : streams", digits=2),
    )  # fmt: skip
    for row in page.rows("node_durable"):
        yield ""
        yield wrapped(
            f"Durable nodes: {float(row['messages']):,.0f} messages/s, "
            f"{float(row['to_a_commit']):.0f} to a commit. SQLite alone commits "
            f"{float(row['sqlite']):,.0f} records a second in such batches."
        )
    for row in page.rows("node_heartbeat"):
        yield ""
        yield wrapped(
            f"With heartbeats {row['times']} times as often as usual there are "
            f"{float(row['share']):.2f} of the echoes without any, in a window of {row['window']}."
        )
    for row in page.rows("node_latency"):
        yield ""
        yield wrapped(
            f"Round trip at 1,000 messages/s, {row['mode']}: p50 {float(row['p50_ms']):.1f} ms, "
            f"p99 {float(row['p99_ms']):.1f} ms."
        )
    if page.is_quick("brokers"):  # it would contradict the tables above
        yield from page.where("a node")
        return
    yield ""
    yield wrapped(
        "Beside NATS itself, echoes per second by the clock: core NATS keeps and acknowledges "
        "nothing; JetStream acknowledges each message, from a stream in memory; nodes order, "
        "acknowledge and send again, over NATS and over TCP."
    )
    yield ""
    yield from page.table(
        page.rows("brokers"), word("window"), count("core", "core NATS", digits=0),
        count("jetstream", "JetStream", digits=0), count("node_nats", "node over NATS", digits=0),
        count("node_tcp", "node over TCP", digits=0),
    )  # fmt: skip
    yield from page.where("a node")
